include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(headroom_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/headroom)

install(TARGETS headroom EXPORT headroomTargets)
install(EXPORT headroomTargets NAMESPACE headroom:: DESTINATION ${headroom_package_dir})
install(DIRECTORY include/headroom DESTINATION include FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(headroomConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/headroomConfig.cmake cmake/headroomAdapters.cmake ${CMAKE_CURRENT_BINARY_DIR}/headroomConfigVersion.cmake
        DESTINATION ${headroom_package_dir})

# For pkg-config, relative to where it lies: the installation can be moved.
set(headroom_pkgconfig_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH headroom_prefix_from_pkgconfig /${headroom_pkgconfig_dir} /)
configure_file(cmake/headroom.pc.in headroom.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headroom.pc DESTINATION ${headroom_pkgconfig_dir})
