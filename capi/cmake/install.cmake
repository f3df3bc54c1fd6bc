# SPDX-License-Identifier: MIT OR Apache-2.0
# Install rules. Components: runtime (what a program needs to run), development (what is needed to build
# against it), pluggable (the library that PyTorch loads), tools (the program cachalot); bindings/libtorch adds libtorch
# (that of programs with libtorch and without Python).

include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cachalot)

install(TARGETS cachalot EXPORT cachalot-targets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS cachalot_static EXPORT cachalot-static-targets
  ARCHIVE COMPONENT development)
install(TARGETS cachalot_pluggable
  LIBRARY COMPONENT pluggable)
if(CACHALOT_BUILD_TOOLS)
  install(TARGETS cachalot_cli RUNTIME COMPONENT tools)
  install(FILES cli/shell/cachalot.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  install(FILES cli/shell/cachalot.bash RENAME cachalot
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
  install(FILES cli/shell/_cachalot DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools)
  install(FILES cli/shell/cachalot.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tools)
endif()
if(CACHALOT_BUILD_PROXY)
  # Where no linker and no loader looks for a driver.
  install(TARGETS cachalot_cuda_proxy cachalot_audit
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cachalot COMPONENT tools)
endif()
install(DIRECTORY ${CACHALOT_LICENCES}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/cachalot/licenses COMPONENT tools
  OPTIONAL)

install(DIRECTORY include/cachalot ${CMAKE_CURRENT_BINARY_DIR}/include/cachalot
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN *.h PATTERN *.hpp)

configure_package_config_file(cmake/cachalot-config.cmake.in cachalot-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(cachalot-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/cachalot-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/cachalot-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)
# Two files, since package managers of one kind of library remove the other.
foreach(targets cachalot-targets cachalot-static-targets)
  install(EXPORT ${targets} NAMESPACE cachalot:: DESTINATION ${package_folder} COMPONENT development)
endforeach()

# By its own place, so that `cmake --install --prefix` may choose another one.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
else()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
configure_file(cmake/cachalot.pc.in cachalot.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cachalot.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
