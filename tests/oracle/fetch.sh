#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fetches what the oracle is built from (packages of PyPI with the hashes of requirements.txt, unpacked, not
# installed) into FOLDER, and builds it in FOLDER/build.
# Usage: ./fetch.sh FOLDER [RELEASE [pinned]]
# RELEASE: 2.15.0 (default), 2.14.1, 2.13.0, 2.12.1 or 2.11.0; each into a folder of its own.
# pinned: with the libraries that the allocator of pinned memory is in, 1 GB of the disk.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: fetch.sh FOLDER [RELEASE]}/wheels"
folder=$(cd "$1" && pwd)
release=${2:-2.15.0}
members=(torch/lib/libc10.so torch/lib/libc10_cuda.so 'torch/include/c10/*' 'torch/include/torch/headeronly/*'
         torch/cuda/_memory_viz.py torch/cuda/memory.py torch/version.py)
[ "${3:-}" != pinned ] || members+=(torch/lib/libtorch_cuda.so torch/lib/libtorch_cpu.so 'torch/lib/libgomp*'
                                    'torch/include/*')

grep -q "^torch==$release " "$here/requirements.txt" ||
  { echo "requirements.txt has no torch $release" >&2; exit 2; }
grep -v "^torch==" "$here/requirements.txt" >"$folder/requirements.txt"
grep "^torch==$release " "$here/requirements.txt" >>"$folder/requirements.txt"
machine=$(uname -m)
pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
  --python-version 311 --implementation cp --platform "manylinux_2_28_$machine" \
  --platform "manylinux2014_$machine" -r "$folder/requirements.txt" -d "$folder/wheels"
cd "$folder"
unzip -qo "wheels/torch-$release-*.whl" "${members[@]}"
for wheel in wheels/nvidia_*.whl; do unzip -qo "$wheel" 'nvidia/*'; done
TORCH="$folder/torch" CUDA_INC="$folder/nvidia/cu13/include" "$here/build.sh" "$folder/build"
echo "torch $release: oracle $folder/build/oracle, benchmark $folder/build/bench, plugin" \
  "$folder/build/libc10_plugin.so, CUDA headers $folder/nvidia/cu13/include"
