#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fetches the CUDA Toolkit's compiler and headers (packages of PyPI, 130 MB, pinned in requirements.txt)
# into build/toolkit, where CMake finds them. Does nothing where a toolkit is fetched, or one of 12.3 or
# newer is installed.
#
#   tests/toolkit/fetch.sh           only if there is none
#   tests/toolkit/fetch.sh --always  also beside an installed one, which it then stands before
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh

requirements=tests/toolkit/requirements.txt
target=build/toolkit

case ${1-} in
  '') always= ;;
  --always) always=yes ;;
  *)
    echo "usage: tests/toolkit/fetch.sh [--always]" >&2
    exit 2
    ;;
esac

if cmp -s "$requirements" "$target/requirements.txt"; then
  exit 0
fi
installed=$(PATH="$PATH:/usr/local/cuda/bin" command -v nvcc || true)
is_new_enough() {
  release=$("$1" --version | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')
  at_least 12.3 "$release"
}
if [ -n "$installed" ] && [ -z "$always" ] && is_new_enough "$installed"; then
  echo "CUDA Toolkit: $installed"
  exit 0
fi

need python3 python3-pip unzip
# Unpacked beside its place and moved there last, so that what was cut off is not taken for whole.
part=$target.part
rm -rf "$part"
mkdir -p "$part/wheels"
echo "CUDA Toolkit: fetching it from PyPI"
python3 -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
  -r "$requirements" -d "$part/wheels"
for wheel in "$part"/wheels/*.whl; do
  unzip -qo "$wheel" 'nvidia/*' -d "$part"
done
rm -r "$part/wheels"
# CMake looks for the name without a number.
ln -s libcudart.so.13 "$part/nvidia/cu13/lib/libcudart.so"
cp "$requirements" "$part/requirements.txt"
rm -rf "$target"
mv "$part" "$target"
echo "CUDA Toolkit: $target/nvidia/cu13"
