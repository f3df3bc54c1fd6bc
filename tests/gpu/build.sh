#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the GPU programs into the folder BUILD.
# Usage: [CUDA_HOME=/usr/local/cuda] [TORCH=FOLDER] build.sh BUILD LIBRARY
#   LIBRARY  the folder with libcachalot.so and include/cachalot/version.h: a build tree
#   TORCH    the installed torch package; without it the benchmark's plugin is left out, and said so
# Needs nvcc and a C++20 compiler, no GPU.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:?usage: build.sh BUILD LIBRARY}
library=$(cd "${2:?usage: build.sh BUILD LIBRARY}" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -x "$cuda/bin/nvcc" ] || { echo "no nvcc in $cuda/bin: set CUDA_HOME" >&2; exit 2; }
# The loader looks in these folders, wherever a program is started.
cuda=$(cd "$cuda" && pwd)
[ -z "${TORCH:-}" ] || TORCH=$(cd "$TORCH" && pwd)
nvcc=$cuda/bin/nvcc
mkdir -p "$build"
build=$(cd "$build" && pwd)

warnings=(-Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers)
include=(-I"$root/capi/include" -I"$library/capi/include")
compile=(g++ -std=c++20 -O2 -fPIC "${warnings[@]}" "${include[@]}" -isystem "$cuda/include")
# The line table lets compute-sanitizer name lines; Ampere, and Hopper for what is measured.
# shellcheck disable=SC2054
compile_cuda=("$nvcc" -std=c++20 -O2 -lineinfo "${include[@]}" -Xcompiler=-fPIC,-Wall
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code='[sm_90,compute_90]')
# shellcheck disable=SC2054
link=("$nvcc" -cudart static -L"$library" -lcachalot -Xlinker -rpath,"$library" -lpthread -ldl)
[ ! -d "$cuda/lib" ] || link+=(-L"$cuda/lib")

object() { echo "$build/$(basename "$1").o"; }

# compile_all SOURCE...
compile_all() {
  local source
  for source; do
    case $source in
      *.cu) "${compile_cuda[@]}" -c "$here/$source" -o "$(object "$source")" ;;
      *) "${compile[@]}" -c "$here/$source" -o "$(object "$source")" ;;
    esac
  done
}

# program NAME SOURCE...
program() {
  local name=$1 objects=() source
  shift
  for source; do objects+=("$(object "$source")"); done
  "${link[@]:0:1}" "${objects[@]}" "${link[@]:1}" -o "$build/$name"
}

# PyTorch's allocator behind four C functions. It uses the runtime that the package brings.
build_torch_plugin() {
  local runtime
  # `find` fails where one of the folders is missing.
  runtime=$(find "$(dirname "$TORCH")/nvidia" "$cuda" -name 'libcudart.so.13*' 2>/dev/null | head -n 1) || true
  if [ -z "$runtime" ]; then
    echo "warning: no libcudart.so.13 beside $TORCH: the benchmark will leave PyTorch out" >&2
    return
  fi
  g++ -std=c++20 -O2 -fPIC -shared -Wall -Wextra -isystem "$TORCH/include" -isystem "$cuda/include" \
    "$here/torch_plugin.cpp" -L"$TORCH/lib" -lc10 -lc10_cuda "$runtime" \
    -Wl,-rpath,"$TORCH/lib" -Wl,-rpath,"$(dirname "$runtime")" -o "$build/libtorch_plugin.so"
  # Its allocator of pinned memory is in a library of its own. Nothing here calls CUDA's other libraries.
  g++ -std=c++20 -O2 -fPIC -shared -Wall -Wextra -isystem "$TORCH/include" -isystem "$cuda/include" \
    "$here/torch_pinned_plugin.cpp" -L"$TORCH/lib" -Wl,--no-as-needed -ltorch_cuda -ltorch_cpu -lc10 \
    -Wl,--unresolved-symbols=ignore-in-shared-libs -Wl,-rpath,"$TORCH/lib" \
    -Wl,-rpath,"$(dirname "$runtime")" -o "$build/libtorch_pinned_plugin.so"
}

compile_all pattern_kernels.cu overrun.cu cub_contender.cu resources.cu \
  patterns.cpp function_driver.cpp ended_streams.cpp fill.cpp devices.cpp totals.cpp driver_costs.cpp static_runtime.cpp pinned.cpp sleep.cpp sharing.cpp \
  bench.cpp bench_report.cpp contenders.cpp driver_contenders.cpp \
  ../../examples/cuda/two_streams.cu
program patterns patterns.cpp function_driver.cpp pattern_kernels.cu
program ended_streams ended_streams.cpp function_driver.cpp pattern_kernels.cu
program fill fill.cpp contenders.cpp pattern_kernels.cu
program overrun overrun.cu
program devices devices.cpp pattern_kernels.cu
program totals totals.cpp
program two_streams two_streams.cu
program driver_costs driver_costs.cpp
program static_runtime static_runtime.cpp
program pinned pinned.cpp
program sleep sleep.cpp pattern_kernels.cu
program sharing sharing.cpp
program resources resources.cu
program bench bench.cpp bench_report.cpp contenders.cpp driver_contenders.cpp cub_contender.cu
rm -f "$build/libtorch_plugin.so" "$build/libtorch_pinned_plugin.so"
if [ -n "${TORCH:-}" ]; then
  build_torch_plugin
else
  echo "TORCH is not set: the benchmark will leave PyTorch out"
fi
