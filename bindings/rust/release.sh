#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Puts into the crates what a published crate has and git has not: the amalgamation and the licences' texts. Runs Cargo
# on both crates, and takes it away again.
#
#   bindings/rust/release.sh COMMAND [OPTION...]   COMMAND: publish or package
set -eu
cd "$(dirname "$0")"
command=$1
shift
trap 'rm -rf cachalot-sys/amalgamation cachalot*/LICENSE-*' EXIT
../../capi/amalgamation/amalgamate.py cachalot-sys/amalgamation
for crate in cachalot-sys cachalot; do
  cp ../../LICENSE-MIT ../../LICENSE-APACHE "$crate"
done
"${CARGO:-cargo}" "$command" --locked --allow-dirty -p cachalot-sys -p cachalot "$@"
