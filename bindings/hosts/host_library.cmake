# SPDX-License-Identifier: MIT OR Apache-2.0
# A library that puts a host on cachalot.

# NAME exports what MAP says. The host keeps addresses of the library's functions for as long as the process lives.
function(cachalot_host_library name map)
  target_link_options(${name} PRIVATE LINKER:-z,nodelete)
  set_target_properties(${name} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH $ORIGIN
    BUILD_WITH_INSTALL_RPATH ON)  # capi/CMakeLists.txt says why
  cachalot_export_by_map(${name} ${map})
endfunction()
