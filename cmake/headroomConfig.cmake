# find_package(headroom 0.1 REQUIRED COMPONENTS eigen) gives headroom::headroom and headroom::eigen. For the
# component torch call find_package(Torch) before.
include("${CMAKE_CURRENT_LIST_DIR}/headroomTargets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/headroomAdapters.cmake")

foreach(headroom_component IN LISTS headroom_FIND_COMPONENTS)
  if(DEFINED headroom_${headroom_component}_library)
    headroom_add_adapter(${headroom_component})
  endif()
  if(TARGET headroom::${headroom_component})
    set(headroom_${headroom_component}_FOUND TRUE)
  elseif(headroom_FIND_REQUIRED_${headroom_component})
    set(headroom_FOUND FALSE)
    if(DEFINED headroom_${headroom_component}_library)
      set(headroom_NOT_FOUND_MESSAGE
          "the component ${headroom_component} needs ${headroom_${headroom_component}_library}, which was not found")
    else()
      set(headroom_NOT_FOUND_MESSAGE "there is no component ${headroom_component}")
    endif()
  endif()
endforeach()
