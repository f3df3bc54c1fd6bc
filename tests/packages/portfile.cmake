# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a port of vcpkg without vcpkg, which no package registry carries: each function that the port calls is defined
# here by what its manual says of it, for one configuration.
#
#   cmake -D PORT_FOLDER=... -D WORK=... -D VCPKG_LIBRARY_LINKAGE=static|dynamic -P portfile.cmake

set(PORT cachalot)
set(CURRENT_PACKAGES_DIR ${WORK}/packages)
set(build ${WORK}/build)
set(downloads ${WORK}/downloads)
file(MAKE_DIRECTORY ${downloads} ${CURRENT_PACKAGES_DIR})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

function(vcpkg_download_distfile variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILENAME;SHA512" "URLS")
  file(DOWNLOAD ${arg_URLS} ${downloads}/${arg_FILENAME} EXPECTED_HASH SHA512=${arg_SHA512})
  set(${variable} ${downloads}/${arg_FILENAME} PARENT_SCOPE)
endfunction()

function(vcpkg_extract_source_archive variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
  file(ARCHIVE_EXTRACT INPUT ${arg_ARCHIVE} DESTINATION ${WORK}/source)
  file(GLOB folder ${WORK}/source/*)
  set(${variable} ${folder} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${build} -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_UNITY_BUILD=ON ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build ${build} --target install)
endfunction()

function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(MAKE_DIRECTORY ${CURRENT_PACKAGES_DIR}/share)
  file(RENAME ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH} ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(REMOVE ${CURRENT_PACKAGES_DIR}/lib/cmake)
  # From lib/cmake/cachalot to share/cachalot: one folder less to the top.
  file(GLOB files ${CURRENT_PACKAGES_DIR}/share/${PORT}/*.cmake)
  foreach(path IN LISTS files)
    file(READ ${path} text)
    string(REPLACE "/../../../" "/../../" text "${text}")
    string(REGEX REPLACE
      "(get_filename_component\\(_IMPORT_PREFIX \"\\\${_IMPORT_PREFIX}\" PATH\\)\n)(get_filename_component)" "\\2"
      text "${text}")
    file(WRITE ${path} "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_copy_pdbs)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  foreach(path IN LISTS arg_FILE_LIST)
    file(READ ${path} text)
    file(APPEND ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright "${text}")
  endforeach()
endfunction()

include(${PORT_FOLDER}/portfile.cmake)
