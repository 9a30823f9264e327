# The build and the installed package both use this file, so an adapter's target is the same in both.

set(headroom_adapters c10d eigen gpu mpi nlohmann_json torch xtensor)
set(headroom_c10d_package Torch)
set(headroom_c10d_library torch)
set(headroom_eigen_package Eigen3)
set(headroom_eigen_library Eigen3::Eigen)
set(headroom_gpu_package CUDAToolkit)
set(headroom_gpu_library CUDA::cudart)
set(headroom_mpi_package MPI)
set(headroom_mpi_library MPI::MPI_CXX)
set(headroom_nlohmann_json_package nlohmann_json)
set(headroom_nlohmann_json_library nlohmann_json::nlohmann_json)
set(headroom_torch_package Torch)
set(headroom_torch_library torch)
set(headroom_xtensor_package xtensor)
set(headroom_xtensor_library xtensor)

# Looks for the adapter's library if it has no target yet. The targets it finds stay in the caller's directory: global ones could
# conflict with targets that a user creates later.
macro(headroom_find_library adapter)
  if(NOT TARGET ${headroom_${adapter}_library})
    find_package(${headroom_${adapter}_package} QUIET)
  endif()
endmacro()

# Makes headroom::<adapter>, which links headroom and the adapter's library, if that library has a target. GLOBAL as in
# add_library(IMPORTED).
function(headroom_add_adapter adapter)
  set(library ${headroom_${adapter}_library})
  if("${adapter}" STREQUAL "mpi" AND DEFINED MPI_CXX_FOUND AND NOT MPI_CXX_FOUND) # FindMPI makes its targets even if it has found nothing
    return()
  endif()
  if(TARGET ${library} AND NOT TARGET headroom::${adapter})
    add_library(headroom::${adapter} INTERFACE IMPORTED ${ARGN})
    target_link_libraries(headroom::${adapter} INTERFACE headroom::headroom ${library})
  endif()
endfunction()
