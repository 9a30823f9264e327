# test_support: what all test programs link, besides headroom: Catch2 and a main function. support/catch.hpp hides which version of
# Catch2 it is.

find_package(Catch2 3 QUIET)
if(NOT Catch2_FOUND)
  find_package(Catch2 2 QUIET) # as Debian 12 has it
endif()
if(NOT Catch2_FOUND)
  message(FATAL_ERROR "The tests need Catch2: apt-get install catch2, or let `bash tests/run.sh` install it. Without tests: -DHEADROOM_BUILD_TESTS=OFF")
endif()

add_library(test_support INTERFACE)
target_include_directories(test_support INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(test_support INTERFACE HEADROOM_TEST_DATA_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
if(TARGET Catch2::Catch2WithMain AND NOT CMAKE_CROSSCOMPILING) # the library is compiled for this machine
  target_link_libraries(test_support INTERFACE Catch2::Catch2WithMain)
else()
  add_library(test_main OBJECT support/main.cpp)
  target_link_libraries(test_main PUBLIC Catch2::Catch2)
  target_compile_options(test_main PRIVATE -O0)
  target_link_libraries(test_support INTERFACE Catch2::Catch2)
  target_sources(test_support INTERFACE $<TARGET_OBJECTS:test_main>)
endif()
