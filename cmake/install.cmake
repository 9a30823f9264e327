include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Headers do not depend on the architecture; the library does.
set(headroom_targets headroom)
set(headroom_independent ARCH_INDEPENDENT)
set(headroom_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/headroom)
if(HEADROOM_COMPILED OR HEADROOM_C)
  list(APPEND headroom_targets headroom_compiled)
  set(headroom_independent)
  set(headroom_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headroom)
endif()
if(HEADROOM_C)
  list(APPEND headroom_targets headroom_c headroom_c_static)
  install(FILES include/headroom.h DESTINATION include)
endif()

install(TARGETS ${headroom_targets} EXPORT headroomTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT headroomTargets NAMESPACE headroom:: DESTINATION ${headroom_package_dir})
install(DIRECTORY include/headroom DESTINATION include FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl")
install(FILES CHANGELOG.md LICENSE README.md packaging/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(headroomConfigVersion.cmake COMPATIBILITY SameMinorVersion ${headroom_independent})
install(FILES cmake/headroomConfig.cmake cmake/headroomAdapters.cmake ${CMAKE_CURRENT_BINARY_DIR}/headroomConfigVersion.cmake
        DESTINATION ${headroom_package_dir})

# pkg-config files have paths relative to their own place, so the installation can be moved. Headers are always in include/.
function(headroom_install_pc name dir)
  file(RELATIVE_PATH headroom_prefix_from_pkgconfig /${dir}/pkgconfig /)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${dir}/pkgconfig)
endfunction()
headroom_install_pc(headroom ${CMAKE_INSTALL_DATADIR})
if(HEADROOM_COMPILED OR HEADROOM_C)
  headroom_install_pc(headroom-compiled ${CMAKE_INSTALL_LIBDIR})
endif()
if(HEADROOM_C)
  headroom_install_pc(headroom-c ${CMAKE_INSTALL_LIBDIR})
endif()

# `cpack` makes a .deb and a .tar.gz.
if(headroom_is_top_level)
  set(CPACK_GENERATOR DEB TGZ)
  set(CPACK_PACKAGE_CONTACT "headroom contributors")
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_NAME libheadroom-dev)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  if(HEADROOM_C)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  elseif(NOT HEADROOM_COMPILED)
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
  endif()
  include(CPack)
endif()
