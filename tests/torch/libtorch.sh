#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# libtorch on cachalot without Python: libtorch_test.cpp, the example in C++ (examples/libtorch), and the test of that in
# Rust with the libtorch that its `tch` is for.
# Usage: [CUDA_HOME=/usr/local/cuda] libtorch.sh build|run BUILD TORCH OUT
#   build  compiles the programs; needs GoogleTest, the headers in CUDA_HOME and for Rust Cargo, no GPU
#   run    runs them, also on another machine: on its GPU, or with CACHALOT_DRIVER=host:1GiB over build.sh's runtime
#   BUILD  a build tree with libcachalot_libtorch.so
#   TORCH  the folder of PyTorch's package, with include and lib; its CUDA runtime lies beside it or in CUDA_HOME
#   OUT    where the programs are
set -euo pipefail

usage="usage: libtorch.sh build|run BUILD TORCH OUT"
root=$(cd "$(dirname "$0")/../.." && pwd)
action=${1:?$usage}
build=$(cd "${2:?$usage}" && pwd)
torch=$(cd "${3:?$usage}" && pwd)
mkdir -p "${4:?$usage}"
out=$(cd "$4" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
examples=$root/examples/libtorch
# The libtorch that tch in examples/libtorch/rust/Cargo.toml is for.
readonly tch_libtorch=2.11
# Libraries that PyTorch's are linked to may be here under no name that a linker looks for, or empty.
readonly unresolved=-Wl,--unresolved-symbols=ignore-in-shared-libs

# `find` fails where one of the folders is missing.
runtime=$(find "$torch/lib" "$torch/../nvidia" "$cuda/" -name 'libcudart.so.1?' 2>/dev/null | head -n 1) || true
[ -n "$runtime" ] || { echo "no libcudart.so beside $torch or in $cuda" >&2; exit 1; }

# build_cpp SOURCE
build_cpp() {
  g++ -std=c++20 -O1 -Wall -Wextra -isystem "$torch/include" -isystem "$cuda/include" \
    -I"$root/bindings/libtorch/include" -I"$root/bindings/libtorch/src" -I"$root/capi/pluggable" \
    -I"$root/capi/include" -I"$build/capi/include" "$1" -o "$out/$(basename "$1" .cpp)" \
    -L"$build" -lcachalot_libtorch -lcachalot -L"$torch/lib" -Wl,--no-as-needed -ltorch_cuda -ltorch_cpu -lc10_cuda \
    -lc10 "$runtime" -lgtest -pthread "$unresolved"
}

# is_for_tch: as `version.py` tells the release.
is_for_tch() { grep -q "^__version__ = '$tch_libtorch\." "$torch/version.py"; }

build_rust() {
  command -v cargo >/dev/null || { echo "Cargo is missing (rustup.rs), which the test in Rust needs" >&2; exit 1; }
  local program
  program=$(CACHALOT_LIB_DIR=$build LIBTORCH=$torch RUSTFLAGS="-C link-arg=$unresolved" CARGO_TARGET_DIR=$out/rust \
    cargo test --locked --quiet --no-run --message-format json --test tensors \
    --manifest-path "$examples/rust/Cargo.toml" | sed -n 's/.*"executable":"\([^"]*\/tensors-[^"]*\)".*/\1/p')
  cp "$program" "$out/tensors_rust"
}

case $action in
  build)
    rm -f "$out"/{libtorch_test,libtorch_cost,tensors,tensors_rust}
    build_cpp "$root/tests/torch/libtorch_test.cpp"
    build_cpp "$root/tests/torch/libtorch_cost.cpp"
    build_cpp "$examples/cpp/tensors.cpp"
    if is_for_tch; then build_rust; fi
    ;;
  run)
    export LD_LIBRARY_PATH=$build:$torch/lib:$(dirname "$runtime")
    "$out/libtorch_test" --gtest_brief=1
    "$out/tensors"
    if is_for_tch; then "$out/tensors_rust"; fi
    for way in native cachalot; do "$out/libtorch_cost" $way; done
    ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
