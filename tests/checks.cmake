# The function headroom_add_check, and the checks. Most run both compilers.

set(compilers)
foreach(compiler IN ITEMS g++ clang++)
  find_program(headroom_test_${compiler} ${compiler})
  if(headroom_test_${compiler})
    list(APPEND compilers ${headroom_test_${compiler}})
  endif()
endforeach()

function(headroom_add_check name)
  add_test(NAME ${name} COMMAND ${ARGN})
  string(REPLACE ";" " " names "${compilers}")
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "COMPILERS=${names}")
endfunction()

# The include directories of the adapters' libraries, as compiler flags for the scripts.
set(adapter_flags)
set(libraries xtl) # xtensor's own
foreach(adapter IN LISTS headroom_adapters)
  if(TARGET headroom::${adapter})
    list(APPEND libraries ${headroom_${adapter}_library})
  endif()
endforeach()
foreach(library IN LISTS libraries)
  if(TARGET ${library})
    get_target_property(directories ${library} INTERFACE_INCLUDE_DIRECTORIES)
    list(REMOVE_ITEM directories ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES} /usr/include) # naming these again breaks include_next
    list(TRANSFORM directories PREPEND -isystem)
    list(APPEND adapter_flags ${directories})
  endif()
endforeach()

# What these test is not headroom, but programs that use it: once, with the checks, is enough.
foreach(name IN ITEMS compare_policies networks)
  if(name STREQUAL networks AND NOT TARGET headroom::eigen)
    continue()
  endif()
  add_executable(test_${name} evidence/${name}.cpp)
  target_compile_options(test_${name} PRIVATE -O0)
  target_link_libraries(test_${name} PRIVATE test_support headroom::compiled $<TARGET_NAME_IF_EXISTS:headroom::eigen>)
  add_test(NAME tests/evidence/${name} COMMAND test_${name})
endforeach()

headroom_add_check(fuzz bash ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/run.sh 5 ${CMAKE_CURRENT_BINARY_DIR}/fuzz state)
if(HEADROOM_C)
  headroom_add_check(c_interface bash ${CMAKE_CURRENT_SOURCE_DIR}/c/check.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
endif()

headroom_add_check(gpu/nvcc bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/nvcc.sh ${PROJECT_SOURCE_DIR}/include)
set_tests_properties(gpu/nvcc PROPERTIES COST 100) # the longest begin first
foreach(language IN ITEMS cuda hip)
  headroom_add_check(gpu/clang_${language} bash ${CMAKE_CURRENT_SOURCE_DIR}/gpu/clang.sh ${PROJECT_SOURCE_DIR}/include ${language})
endforeach()

add_subdirectory(build)
add_subdirectory(compile_fail)
add_subdirectory(consumer)
add_subdirectory(docs)
add_subdirectory(tools)
