# SPDX-License-Identifier: MIT OR Apache-2.0
# The CUDA Toolkit, 12.3 or newer, for tests and examples alone: the libraries are built without it.
# Looked for in CUDAToolkit_ROOT, then what tests/toolkit/fetch.sh has fetched, then what is installed.
#
#   cachalot_cuda_headers      target with the folder of cuda.h; there only if that was found
#   CACHALOT_NVCC              ON if there is a compiler for .cu files
#   cachalot_add_cuda_program  builds one, if there is

set(CACHALOT_CUDA_INCLUDE "" CACHE PATH
  "Folder of cuda.h and nvml.h, where headers are all there is of the CUDA Toolkit")

if(NOT CACHALOT_CUDA_INCLUDE)
  set(fetched_toolkit ${PROJECT_SOURCE_DIR}/build/toolkit/nvidia/cu13)
  if(NOT CUDAToolkit_ROOT AND NOT DEFINED ENV{CUDAToolkit_ROOT} AND EXISTS ${fetched_toolkit}/bin/nvcc)
    set(CUDAToolkit_ROOT ${fetched_toolkit})
  endif()
  # CMake 3.25's module sets a property of this target, which a toolkit of version 13 has no longer.
  if(NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit 12.3 QUIET)
endif()

# Both headers: cuda.h alone is not enough for the comparison of declarations.
find_path(CACHALOT_CUDA_HEADERS NAMES nvml.h NO_CACHE NO_DEFAULT_PATH
  PATHS ${CACHALOT_CUDA_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
if(CACHALOT_CUDA_HEADERS AND EXISTS ${CACHALOT_CUDA_HEADERS}/cudaTypedefs.h)
  message(STATUS "CUDA Toolkit: headers in ${CACHALOT_CUDA_HEADERS}")
  add_library(cachalot_cuda_headers INTERFACE)
  target_include_directories(cachalot_cuda_headers SYSTEM INTERFACE ${CACHALOT_CUDA_HEADERS})
endif()

set(CACHALOT_NVCC OFF)
if(TARGET cachalot_cuda_headers AND CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
  # An nvcc that does not take this C++ compiler must not stop the libraries from being built.
  include(CheckLanguage)
  set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90)  # and PTX, for all that come later
    endif()
    enable_language(CUDA)
    set(CACHALOT_NVCC ON)
  endif()
endif()

# What is left out, or why the configuration ends where CI wants everything.
if(NOT TARGET cachalot_cuda_headers)
  set(missing_part "The CUDA Toolkit's headers are missing: tests/toolkit is left out")
elseif(NOT CACHALOT_NVCC)
  set(missing_part "nvcc is missing or does not take ${CMAKE_CXX_COMPILER}: .cu files are left out")
endif()
if(missing_part)
  cachalot_leave_out("${missing_part} (tests/toolkit/fetch.sh fetches the toolkit)")
endif()

# cachalot_add_cuda_program(NAME SOURCE...): a program of .cu and .cpp files over the shared library.
# Without nvcc there is none: ask if(CACHALOT_NVCC), or if(TARGET NAME) afterwards.
function(cachalot_add_cuda_program name)
  if(NOT CACHALOT_NVCC)
    return()
  endif()
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE cachalot cachalot_flags cachalot_cuda_headers)
  target_compile_features(${name} PRIVATE cuda_std_17)
  set_target_properties(${name} PROPERTIES CUDA_EXTENSIONS OFF CXX_EXTENSIONS OFF)
endfunction()
