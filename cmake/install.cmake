include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Headers are the same on every machine, the library is not.
set(headroom_targets headroom)
set(headroom_independent ARCH_INDEPENDENT)
set(headroom_shared_dir ${CMAKE_INSTALL_DATADIR})
if(HEADROOM_COMPILED)
  list(APPEND headroom_targets headroom_compiled)
  set(headroom_independent)
  set(headroom_shared_dir ${CMAKE_INSTALL_LIBDIR})
endif()
set(headroom_package_dir ${headroom_shared_dir}/cmake/headroom)

install(TARGETS ${headroom_targets} EXPORT headroomTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT headroomTargets NAMESPACE headroom:: DESTINATION ${headroom_package_dir})
install(DIRECTORY include/headroom DESTINATION include FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(headroomConfigVersion.cmake COMPATIBILITY SameMinorVersion ${headroom_independent})
install(FILES cmake/headroomConfig.cmake cmake/headroomAdapters.cmake ${CMAKE_CURRENT_BINARY_DIR}/headroomConfigVersion.cmake
        DESTINATION ${headroom_package_dir})

# For pkg-config, relative to where it lies: the installation can be moved.
set(headroom_pkgconfig_dir ${headroom_shared_dir}/pkgconfig)
file(RELATIVE_PATH headroom_prefix_from_pkgconfig /${headroom_pkgconfig_dir} /)
configure_file(cmake/headroom.pc.in headroom.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headroom.pc DESTINATION ${headroom_pkgconfig_dir})
if(HEADROOM_COMPILED)
  configure_file(cmake/headroom-compiled.pc.in headroom-compiled.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headroom-compiled.pc DESTINATION ${headroom_pkgconfig_dir})
endif()
