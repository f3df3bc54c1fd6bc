#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the oracle into the folder BUILD.
# Usage: TORCH=<folder of a torch package> CUDA_INC=<folder with cuda.h> ./build.sh BUILD
# TORCH is an installed or unpacked package of any release 2.11 to 2.15 (its lib/ and include/).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${1:?usage: build.sh BUILD}
mkdir -p "$build"
build=$(cd "$build" && pwd)
torch_include=${TORCH_INC:-${TORCH:?the folder of a torch package}/include}
torch_lib=$(cd "${TORCH_LIB:-$TORCH/lib}" && pwd)  # the loader looks there, wherever the oracle is started
cuda_include=${CUDA_INC:-/usr/local/cuda/include}

compile=(g++ -O2 -std=c++20 -fPIC -Wall -Wextra -isystem "$torch_include" -isystem "$cuda_include"
         -I"$here/fakecuda")
# The simulated libraries stand where the loader looks before it finds real ones.
link=(-L"$torch_lib" -lc10 -lc10_cuda -Wl,--no-as-needed "$build/libcudart.so.13"
      "$build/libnvidia-ml.so.1" -Wl,-rpath,"$build" -Wl,-rpath,"$torch_lib"
      -Wl,--disable-new-dtags)

"${compile[@]}" -shared \
  "$here"/fakecuda/{device_state,runtime_api,memory_pool_api,host_memory_api,driver_api}.cpp \
  -Wl,--version-script="$here/fakecuda/cudart.map" -Wl,-soname,libcudart.so.13 \
  -o "$build/libcudart.so.13"
"${compile[@]}" -shared "$here/fakecuda/fakenvml.cpp" "$build/libcudart.so.13" \
  -Wl,-soname,libnvidia-ml.so.1 -o "$build/libnvidia-ml.so.1"
oracle=("$here"/src/{main,run,operations}.cpp
        "$here"/src/{allocation,device,pool,settings,report}_operations.cpp
        "$here"/src/{arguments,context,errors,kept_objects,output,own_allocator,rejections,report,streams,verbosity}.cpp)
"${compile[@]}" "${oracle[@]}" "${link[@]}" -o "$build/oracle"
# The allocator of pinned memory is in the large library, which not everybody unpacks.
if [ -e "$torch_lib/libtorch_cuda.so" ]; then
  "$here/stubs.sh" "$torch_lib" "$build"
  "${compile[@]}" -DORACLE_PINNED "${oracle[@]}" "$here/src/pinned_operations.cpp" "${link[@]}" \
    -Wl,--allow-shlib-undefined -ltorch_cuda -ltorch_cpu -o "$build/oracle_pinned"
fi
"${compile[@]}" -shared "$here/src/c10_plugin.cpp" "${link[@]}" -o "$build/libc10_plugin.so"
g++ -O2 -std=c++20 -Wall -Wextra "$here/src/bench.cpp" -o "$build/bench" -ldl -lpthread
