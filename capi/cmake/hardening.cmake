# SPDX-License-Identifier: MIT OR Apache-2.0
# Hardens every library and program of the folder that calls cachalot_harden, and of those below it: the flags of
# hardening.txt that the compiler knows, and programs that are loaded at any address. Sanitizers go without: they look
# for the same and more.

include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)
include(CheckPIESupported)

option(CACHALOT_HARDENING "Compile and link with the flags of capi/cmake/hardening.txt" ON)

# Sets a variable to the flags of one kind for the machine that is compiled for.
function(cachalot_read_hardening kind variable)
  set(table ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/hardening.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(STRINGS ${table} lines REGEX "^${kind} +(any|${CMAKE_SYSTEM_PROCESSOR}) ")
  list(TRANSFORM lines REPLACE "^[a-z]+ +[a-z0-9_]+ +" "")
  set(${variable} ${lines} PARENT_SCOPE)
endfunction()

# nvcc hands them to the compiler of the host.
function(cachalot_compile_hardened)
  foreach(flag IN LISTS ARGN)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${flag}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
  endforeach()
endfunction()

function(cachalot_harden_compilation)
  cachalot_read_hardening(compile flags)
  foreach(flag IN LISTS flags)
    string(MAKE_C_IDENTIFIER "CACHALOT_COMPILES${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      cachalot_compile_hardened(${flag})
    endif()
  endforeach()
  # The C library's headers warn of these where the build type does not optimize.
  cachalot_read_hardening(optimized flags)
  list(JOIN flags " " CMAKE_REQUIRED_FLAGS)
  string(APPEND CMAKE_REQUIRED_FLAGS " -Werror")
  set(CMAKE_TRY_COMPILE_CONFIGURATION ${CMAKE_BUILD_TYPE})
  set(known CACHALOT_COMPILES_FORTIFIED_${CMAKE_BUILD_TYPE})
  check_cxx_source_compiles("#include <stdlib.h>\nint main() {}" ${known})
  if(${known})
    cachalot_compile_hardened(${flags})
  endif()
endfunction()

function(cachalot_harden_linking)
  cachalot_read_hardening(link flags)
  foreach(flag IN LISTS flags)
    string(MAKE_C_IDENTIFIER "CACHALOT_LINKS${flag}" known)
    check_linker_flag(CXX ${flag} ${known})
    if(${known})
      add_link_options(${flag})
    endif()
  endforeach()
endfunction()

macro(cachalot_harden)
  if(CACHALOT_HARDENING AND NOT CACHALOT_SANITIZE)
    cachalot_harden_compilation()
    cachalot_harden_linking()
    check_pie_supported(LANGUAGES C CXX)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  endif()
endmacro()
