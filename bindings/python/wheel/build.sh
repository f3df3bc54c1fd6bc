#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the wheel of cachalot-cuda with the library inside, for every Python from 3.9 on, and prints its path.
# auditwheel says which systems it is for: it reads what the library needs of the C and C++ libraries.
#
#   bindings/python/wheel/build.sh FOLDER [ARCH]
#     FOLDER            where the wheel goes; tools are kept in FOLDER/tools (2 MB to fetch)
#     ARCH              x86_64 (the default) or aarch64
#     CACHALOT_LIB_DIR  with a libcachalot_pluggable.so; without it that of capi/packaging/portable, which is built if
#                       it is not there
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
folder=${1:?usage: build.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tools=$folder/tools
arch=${2:-x86_64}

library=${CACHALOT_LIB_DIR:-$root/build/portable/$arch/lib}
[ -e "$library/libcachalot_pluggable.so" ] || [ -n "${CACHALOT_LIB_DIR:-}" ] ||
  "$root/capi/packaging/portable/build.sh" "$arch" >&2

[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary=:all: \
  -r "$root/bindings/python/wheel/requirements.txt"

# A copy, since building writes beside the sources; the links in it are files then.
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
cp -rL "$root/bindings/python/." "$source"
"$tools/bin/python" "$root/bindings/python/wheel/page.py" >"$source/README.md"
rm -rf "$source/cachalot_cuda/lib"
mkdir "$source/cachalot_cuda/lib"
"$arch-linux-gnu-strip" --strip-debug -o "$source/cachalot_cuda/lib/libcachalot_pluggable.so" "$library/libcachalot_pluggable.so"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} "$tools/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings=--build-option=--plat-name=linux_$arch -w "$source/wheels" "$source"
rm -f "$folder"/cachalot_cuda-*"$arch".whl
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --plat auto -w "$folder" "$source"/wheels/*.whl \
  >"$folder/auditwheel.txt" 2>&1 || {
  cat "$folder/auditwheel.txt" >&2
  exit 1
}
ls "$folder"/cachalot_cuda-*"$arch".whl
