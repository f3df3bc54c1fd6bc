#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fetches what the generator needs: libclang from PyPI into build/libclang (24 MB, pinned in
# requirements.txt), and bindgen from crates.io into build/tools, which Cargo compiles (a minute).
# Does nothing where both are there. Without Cargo bindgen is left out, with a line that says so; with CI
# set that is an error.
#
#   bindings/generate/fetch.sh [libclang]   libclang: that alone
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh

requirements=bindings/generate/requirements.txt
target=build/libclang
bindgen_version=0.73.2
bindgen=build/tools/bin/bindgen

if ! cmp -s "$requirements" "$target/requirements.txt"; then
  need python3 python3-pip
  # Installed beside its place and moved there last, so that what was cut off is not taken for whole.
  part=$target.part
  rm -rf "$part"
  echo "libclang: fetching it from PyPI" >&2
  python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps \
    --only-binary=:all: --require-hashes -r "$requirements" --target "$part"
  cp "$requirements" "$part/requirements.txt"
  rm -rf "$target"
  mv "$part" "$target"
fi

[ "${1-}" != libclang ] || exit 0

if [ "$("$bindgen" --version 2>/dev/null)" != "bindgen $bindgen_version" ]; then
  if command -v cargo >/dev/null; then
    echo "bindgen: fetching it from crates.io" >&2  # unoptimized: quick to build, and quick enough
    cargo install -q --debug --locked --force --root build/tools "bindgen-cli@$bindgen_version"
  elif [ -n "${CI+set}" ]; then
    echo "Cargo is missing (rustup.rs), and CI is set" >&2
    exit 1
  else
    echo "Cargo is missing (rustup.rs): Rust's low layer is left out" >&2
  fi
fi
