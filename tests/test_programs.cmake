# SPDX-License-Identifier: MIT OR Apache-2.0
# How tests are compiled. Most of the build's time is theirs, so they are not optimized, and the test framework is parsed
# once for all of them.

# What takes long to compile and no time to run. The C library's headers warn of _FORTIFY_SOURCE without optimization.
set(CACHALOT_UNOPTIMIZED -O0 -U_FORTIFY_SOURCE ${CACHALOT_COLLECT_LATE})
if(CACHALOT_SANITIZE)
  # Texts of what is undefined are a third of what tests cost to compile. Here a check that fails executes an instruction
  # that the address sanitizer reports with the stack (ASAN_OPTIONS=handle_sigill=1). The check of dynamic types cannot do
  # without a text; the library itself has it.
  list(APPEND CACHALOT_UNOPTIMIZED -fsanitize-undefined-trap-on-error -fno-sanitize=vptr)
endif()

find_package(GTest QUIET)
if(GTest_FOUND)
  include(GoogleTest)
  add_library(cachalot_test_flags INTERFACE)
  target_link_libraries(cachalot_test_flags INTERFACE cachalot_flags GTest::gtest_main Threads::Threads)
  if(CACHALOT_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(cachalot_test_flags INTERFACE ${CACHALOT_UNOPTIMIZED})
  endif()

  file(CONFIGURE OUTPUT test_headers.cpp CONTENT "")
  add_library(cachalot_test_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(cachalot_test_headers PRIVATE cachalot_test_flags)
  set_target_properties(cachalot_test_headers PROPERTIES CXX_EXTENSIONS OFF)
  if(CMAKE_POSITION_INDEPENDENT_CODE)  # as the programs, or they could not use it
    set_target_properties(cachalot_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(cachalot_test_headers PRIVATE -fPIE)
  endif()
  target_precompile_headers(cachalot_test_headers PRIVATE
    <gtest/gtest.h> <algorithm> <fstream> <functional> <map> <random> <sstream> <string> <vector>)
endif()

# A program of GoogleTest's.
function(cachalot_use_gtest program)
  target_link_libraries(${program} PRIVATE cachalot_test_flags)
  set_target_properties(${program} PROPERTIES CXX_EXTENSIONS OFF)
  target_precompile_headers(${program} REUSE_FROM cachalot_test_headers)
endfunction()

set(CACHALOT_LINE_OF_A_TEST "^ *(TYPED_)?(TEST|INSTANTIATE_)")
set(CACHALOT_LINE_OF_A_THREAD_TEST "${CACHALOT_LINE_OF_A_TEST}.*[Tt]hread")
set(CACHALOT_LINE_OF_SANITIZERS "sanitizers\\.h|__SANITIZE_")

# Sets a variable to those of some sources that have a line like this, or no test at all.
function(cachalot_keep_tests variable line)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  set(kept)
  set(found OFF)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} tests REGEX "${CACHALOT_LINE_OF_A_TEST}")
    file(STRINGS ${source} lines REGEX "${line}")
    if(NOT tests OR lines)
      list(APPEND kept ${source})
    endif()
    if(tests AND lines)
      set(found ON)
    endif()
  endforeach()
  if(NOT found)
    message(FATAL_ERROR "No test in ${CMAKE_CURRENT_SOURCE_DIR} has a line like ${line}")
  endif()
  set(${variable} ${kept} PARENT_SCOPE)
endfunction()
