# Used by the build and by the installed package alike, so that an adapter's target is the same in both.

set(headroom_eigen_package Eigen3)
set(headroom_eigen_library Eigen3::Eigen)
set(headroom_nlohmann_json_package nlohmann_json)
set(headroom_nlohmann_json_library nlohmann_json::nlohmann_json)
set(headroom_xtensor_package xtensor)
set(headroom_xtensor_library xtensor)
# Without a package: where libtorch is built for CUDA, looking for it is an error on a machine that has none. Whoever wants
# headroom::torch calls find_package(Torch) first.
set(headroom_torch_library torch)

# Makes headroom::<adapter>, which links headroom and the adapter's library; does nothing where that library is not found.
function(headroom_add_adapter adapter)
  set(library ${headroom_${adapter}_library})
  if(NOT TARGET ${library} AND DEFINED headroom_${adapter}_package)
    # Global, because whoever adds headroom as a subdirectory links the adapter from outside it.
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
    find_package(${headroom_${adapter}_package} QUIET)
  endif()
  if(TARGET ${library} AND NOT TARGET headroom::${adapter})
    add_library(headroom::${adapter} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(headroom::${adapter} INTERFACE headroom::headroom ${library})
  endif()
endfunction()
