#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes a PyTorch that runs without a GPU: the package itself, with a CUDA runtime over the host's memory
# (host_runtime.cpp) and empty libraries in the places of NVIDIA's others.
# Usage: ./build.sh FOLDER
#   FOLDER  of tests/oracle/fetch.sh, with the wheels. The package is in FOLDER/site afterwards, for PYTHONPATH.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
core=$here/../../core
folder=$(cd "${1:?usage: build.sh FOLDER}" && pwd)
site=$folder/site
libraries=$site/torch/lib
needs_runtime=("$libraries"/libtorch_{cuda,cpu,python}.so "$libraries/libc10_cuda.so")

# Functions of the runtime that PyTorch names, and that nothing here calls.
missing_functions() {
  comm -13 <(nm --defined-only "$1" | sed -n 's/.* T //p' | sort -u) \
    <(nm -D --undefined-only "${needs_runtime[@]}" | sed -n 's/.* U \(.*\)@libcudart.so.13$/\1/p' | sort -u) |
    sed 's/.*/int &(void) { return 801; }  \/\/ cudaErrorNotSupported/'
}

# The whole package is 1 GB; these two need libraries of NVIDIA's that are not here.
unzip -qo "$folder"/wheels/torch-*.whl -d "$site" -x torch/lib/libtorch_nvshmem.so torch/lib/libtorch_cuda_linalg.so
pip install -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: --upgrade --target "$site" \
  -r "$here/requirements.txt"
"$here/../oracle/stubs.sh" "$libraries" "$libraries"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile=(g++ -O2 -std=c++20 -fPIC -fvisibility=hidden -Wall -Wextra -I"$core" -isystem "$folder/nvidia/cu13/include")
"${compile[@]}" -c "$here/host_runtime.cpp" -o "$work/runtime.o"
missing_functions "$work/runtime.o" >"$work/missing.c"
gcc -fPIC -c "$work/missing.c" -o "$work/missing.o"
echo 'libcudart.so.13 { global: cuda*; __cuda*; local: *; };' >"$work/runtime.map"
"${compile[@]}" -shared "$work"/{runtime,missing}.o "$core"/{device/memory_file,base/descriptor}.cpp -Wl,--version-script="$work/runtime.map" -Wl,-soname,libcudart.so.13 \
  -o "$libraries/libcudart.so.13"

# The empty libraries have no functions, so that each must be looked for when it is called.
printf 'import os\nimport sys\n\nsys.setdlopenflags(os.RTLD_LAZY)\n' >"$site/sitecustomize.py"
PYTHONPATH=$site python3 -c 'import torch; torch.ones(4).cuda(); print("PyTorch", torch.__version__, "in", torch.__path__[0])'
