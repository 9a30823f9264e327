# find_package(headroom 0.2 REQUIRED COMPONENTS eigen) looks for Eigen and defines headroom::headroom and headroom::eigen. Without
# components it looks for no library. Libraries that were found before get their targets in any case. Before you ask for the
# components torch or c10d, call find_package(Torch).
include("${CMAKE_CURRENT_LIST_DIR}/headroomTargets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/headroomAdapters.cmake")

foreach(headroom_component IN LISTS headroom_FIND_COMPONENTS)
  # A libtorch built for CUDA makes find_package(Torch) fail on a machine without CUDA.
  if(headroom_component IN_LIST headroom_adapters AND NOT headroom_component MATCHES "^(c10d|torch)$")
    headroom_find_library(${headroom_component})
  endif()
endforeach()
foreach(headroom_component IN LISTS headroom_adapters)
  headroom_add_adapter(${headroom_component})
endforeach()

foreach(headroom_component IN LISTS headroom_FIND_COMPONENTS)
  if(TARGET headroom::${headroom_component})
    set(headroom_${headroom_component}_FOUND TRUE)
  elseif(headroom_FIND_REQUIRED_${headroom_component})
    set(headroom_FOUND FALSE)
    if(headroom_component IN_LIST headroom_adapters)
      set(headroom_NOT_FOUND_MESSAGE
          "the component ${headroom_component} needs ${headroom_${headroom_component}_library}, which was not found")
    elseif(headroom_component STREQUAL c)
      set(headroom_NOT_FOUND_MESSAGE "headroom was installed without the C library: configure it with -DHEADROOM_C=ON")
    else()
      set(headroom_NOT_FOUND_MESSAGE "there is no component ${headroom_component}")
    endif()
  endif()
endforeach()
