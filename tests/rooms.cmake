# headroom_add_test, and the programs of tests.

find_package(Catch2 3 QUIET)
if(NOT Catch2_FOUND)
  find_package(Catch2 2 REQUIRED) # as Debian 12 has it
endif()

option(HEADROOM_TEST_COMPILED "Link the tests with headroom::compiled" OFF)
set(headroom headroom::headroom)
if(HEADROOM_TEST_COMPILED)
  set(headroom headroom::compiled)
endif()

# The face of both: support/catch.hpp and a main function.
add_library(test_support INTERFACE)
target_include_directories(test_support INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(test_support INTERFACE HEADROOM_TEST_DATA_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
if(TARGET Catch2::Catch2WithMain AND NOT CMAKE_CROSSCOMPILING) # the library is one for this machine
  target_link_libraries(test_support INTERFACE ${headroom} Catch2::Catch2WithMain)
else()
  add_library(test_main OBJECT support/main.cpp)
  target_link_libraries(test_main PUBLIC Catch2::Catch2)
  target_link_libraries(test_support INTERFACE ${headroom} Catch2::Catch2)
  target_sources(test_support INTERFACE $<TARGET_OBJECTS:test_main>)
endif()

# Optimising takes longer than it saves, but where tests go through every number there is.
set(HEADROOM_EXHAUSTIVE_TEST_FLAGS "" CACHE STRING "Compiler flags of the rooms dtype and kernel and of headroom::compiled, after those of all")
separate_arguments(exhaustive_flags UNIX_COMMAND "${HEADROOM_EXHAUSTIVE_TEST_FLAGS}")
target_compile_options(headroom_compiled PRIVATE ${exhaustive_flags})

# Catch2 and the standard library are read once for all sources of the same flags, and so is headroom, but for dtype and kernel.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/nothing.cpp "")
function(headroom_precompile target headers)
  add_library(${target} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/nothing.cpp)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${headroom} Catch2::Catch2)
  target_compile_options(${target} PRIVATE ${ARGN})
  target_precompile_headers(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/precompiled.hpp ${headers})
endfunction()
headroom_precompile(test_precompiled <headroom/headroom.hpp>)
headroom_precompile(test_precompiled_exhaustive "" ${exhaustive_flags})

function(headroom_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EXHAUSTIVE" "" "SOURCES;LIBRARIES")
  string(REPLACE "/" "_" target test_${name})
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE test_support ${arg_LIBRARIES})
  if(arg_EXHAUSTIVE)
    target_compile_options(${target} PRIVATE ${exhaustive_flags})
    target_precompile_headers(${target} REUSE_FROM test_precompiled_exhaustive)
  elseif(NOT "headroom::torch" IN_LIST arg_LIBRARIES) # libtorch comes with a definition that the standard library knows
    target_precompile_headers(${target} REUSE_FROM test_precompiled)
  endif()
  add_test(NAME ${name} COMMAND ${target})
endfunction()

set_source_files_properties(detail/error_handler.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON) # it defines macros before

file(GLOB sources CONFIGURE_DEPENDS *.cpp)
if(sources)
  headroom_add_test(top SOURCES ${sources})
endif()
foreach(room IN ITEMS detail dtype kernel tree ops policy policy/systems training observe state)
  file(GLOB sources CONFIGURE_DEPENDS ${room}/*.cpp)
  set(exhaustive)
  if(room MATCHES "^(dtype|kernel)$")
    set(exhaustive EXHAUSTIVE)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room}/*.cpp) # kernel/isa is one with kernel
  endif()
  if(sources)
    headroom_add_test(${room} ${exhaustive} SOURCES ${sources})
  endif()
endforeach()
headroom_add_test(detail/thread_without_pthreads SOURCES detail/thread.cpp)
target_compile_definitions(test_detail_thread_without_pthreads PRIVATE HEADROOM_DETAIL_HAS_PTHREADS=0)
set_target_properties(test_detail_thread_without_pthreads PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
if(TARGET test_dtype AND TARGET headroom::eigen)
  target_link_libraries(test_dtype PRIVATE headroom::eigen) # its conversions are compared with ours
endif()

# One program for each file of adapters/, because each needs its own library: eigen.cpp and eigen_blocks.cpp need headroom::eigen.
file(GLOB adapters RELATIVE ${PROJECT_SOURCE_DIR}/include/headroom/adapters CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/headroom/adapters/*.hpp)
file(GLOB sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS adapters/*.cpp)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  set(adapter)
  foreach(header IN LISTS adapters)
    get_filename_component(stem ${header} NAME_WE)
    if(name MATCHES "^${stem}(_|$)")
      set(adapter ${stem})
    endif()
  endforeach()
  if(TARGET headroom::${adapter})
    headroom_add_test(adapters/${name} SOURCES ${source} LIBRARIES headroom::${adapter})
  else()
    message(STATUS "tests/${source} is skipped: the library of headroom::${adapter} was not found")
  endif()
endforeach()
