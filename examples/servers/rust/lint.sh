#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# How the server is written: `lint.sh BUILD`, a build tree with libcachalot_onnxruntime.so.
set -eu
CACHALOT_LIB_DIR=$(cd "${1:?usage: lint.sh BUILD}" && pwd)
export CACHALOT_LIB_DIR
cd "$(dirname "$0")"
. ../../../tests/need.sh
export PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"

command -v cargo >/dev/null || leave_out "Cargo is missing (rustup.rs): the server in Rust is left out"
cargo fmt --check
cargo clippy --quiet --locked -- -D warnings
