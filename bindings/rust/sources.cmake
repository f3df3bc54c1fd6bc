# SPDX-License-Identifier: MIT OR Apache-2.0
# The copy of the C++ sources inside the crate cachalot-sys, for those who have no installed library.
#
#   cmake -P sources.cmake                      writes it, and the licences into both crates
#   cmake -DCOMPARE=FOLDER -P sources.cmake     compares it with FOLDER (a crate that was unpacked)
#
# The copy is not in git: there would be two files to change for each change.

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH bindings)
cmake_path(GET bindings PARENT_PATH root)
file(GLOB_RECURSE files RELATIVE ${root}
  ${root}/core/*.cpp ${root}/core/*.h
  ${root}/capi/include/* ${root}/capi/src/* ${root}/capi/pluggable/* ${root}/capi/cmake/*)
file(GLOB maps RELATIVE ${root} ${root}/capi/*.map)
list(APPEND files ${maps} VERSION CMakeLists.txt LICENSE LICENSE-MIT LICENSE-APACHE
  core/CMakeLists.txt capi/CMakeLists.txt)

if(COMPARE)
  set(copy ${COMPARE}/source)
  file(GLOB_RECURSE copied RELATIVE ${copy} ${copy}/*)
  set(only_there ${copied})
  list(REMOVE_ITEM only_there ${files})
  if(only_there)
    message(FATAL_ERROR "the crate has what the sources do not: ${only_there}")
  endif()
  foreach(file IN LISTS files)
    execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${root}/${file} ${copy}/${file}
      RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
    if(differs)
      message(FATAL_ERROR "${file} is outdated in the crate; run: cmake -P bindings/rust/sources.cmake")
    endif()
  endforeach()
  list(LENGTH files count)
  message(STATUS "${count} files are the same")
  return()
endif()

set(crate ${CMAKE_CURRENT_LIST_DIR}/cachalot-sys)
file(REMOVE_RECURSE ${crate}/source)
foreach(file IN LISTS files)
  cmake_path(GET file PARENT_PATH folder)
  file(COPY ${root}/${file} DESTINATION ${crate}/source/${folder})
endforeach()
foreach(name cachalot-sys cachalot)
  file(COPY ${root}/LICENSE-MIT ${root}/LICENSE-APACHE DESTINATION ${CMAKE_CURRENT_LIST_DIR}/${name})
endforeach()
