#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds two inference servers that know nothing of cachalot for GPUs of compute capability 9.0 (H100, H200), and a
# program of cudarc:
#
#   tests/gpu/servers/build.sh OUT
#
# OUT then has candle-server, cudarc_copies, llama-server and llama.cpp's libraries. Takes half an hour on two cores, and
# half a gigabyte of packages of PyPI (CUDA Toolkit 13.0, cuBLAS). Needs Rust and libclang.
set -eu
[ $# -eq 1 ] || { echo "usage: tests/gpu/servers/build.sh OUT" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
. tests/need.sh
need python3 python3-pip unzip cmake g++ libclang-14-dev patchelf

work=$PWD/build/servers
toolkit=$work/nvidia/cu13
if ! cmp -s "$here/requirements.txt" "$work/requirements.txt"; then
  rm -rf "$work"
  mkdir -p "$work/wheels"
  python3 -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    -r "$here/requirements.txt" -d "$work/wheels"
  for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" 'nvidia/*' -d "$work"; done
  rm -r "$work/wheels"
  ln -s lib "$toolkit/lib64"
  mkdir "$toolkit/lib/stubs"
  for library in cudart.so.13 cublas.so.13 cublasLt.so.13; do
    ln -s "lib$library" "$toolkit/lib/lib${library%.13}"
  done
  # Libraries that only the machine with the GPU has, or that no call of the servers needs.
  for library in cuda:1 nvrtc:13 curand:10; do
    gcc -shared -x c /dev/null -o "$toolkit/lib/stubs/lib${library%:*}.so" -Wl,-soname,"lib${library%:*}.so.${library#*:}"
  done
  cp "$here/requirements.txt" "$work/requirements.txt"
fi

export PATH="$HOME/.cargo/bin:$toolkit/bin:$PATH" CUDA_PATH="$toolkit" CUDA_HOME="$toolkit"
export CUDA_COMPUTE_CAP=90 CMAKE_CUDA_ARCHITECTURES=90 CMAKE_CUDA_COMPILER="$toolkit/bin/nvcc"
export LIBCLANG_PATH=/usr/lib/llvm-14/lib CARGO_TARGET_DIR="$work/target"
# Undefined: what the libraries without content above would have.
linked="-L native=$toolkit/lib -L native=$toolkit/lib/stubs -C link-arg=-Wl,--unresolved-symbols=ignore-all"
RUSTFLAGS="$linked" cargo build --locked --release --manifest-path "$here/candle/Cargo.toml"
LLAMA_BUILD_SHARED_LIBS=1 GGML_CUDA_FA=OFF CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
  RUSTFLAGS="$linked" cargo build --locked --release --manifest-path "$here/llama/Cargo.toml"
cp "$CARGO_TARGET_DIR"/release/candle-server "$CARGO_TARGET_DIR"/release/cudarc_copies \
  "$CARGO_TARGET_DIR"/release/llama-server "$out"
find "$CARGO_TARGET_DIR/release/build" -name 'lib*.so*' -path '*llama-cpp-sys*/out/lib*' -exec cp -P {} "$out" \;
strip "$out"/*.so* "$out"/*-server "$out"/cudarc_copies
# The linker leaves a library without content out of what a program needs.
patchelf --add-needed libcuda.so.1 "$(readlink -f "$out/libggml-cuda.so")"
for program in candle-server cudarc_copies; do
  patchelf --add-needed libcuda.so.1 --add-needed libnvrtc.so.13 --add-needed libcurand.so.10 "$out/$program"
done
