#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the wheel of cachalot-cuda with the library inside, for every Python from 3.9 on, and prints its path.
# auditwheel says which systems it is for: it reads what the library needs of the C and C++ libraries. That is what this system's
# compiler links against; Zig's compiler, which links against older ones, has another C++ library than PyTorch, whose
# exceptions the library throws.
#
#   bindings/python/wheel/build.sh FOLDER
#     FOLDER            where the wheel goes; tools are kept in FOLDER/tools (2 MB to fetch)
#     CACHALOT_LIB_DIR  with a libcachalot_pluggable.so, which is built in FOLDER/library without it
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
folder=${1:?usage: build.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tools=$folder/tools

if [ -n "${CACHALOT_LIB_DIR:-}" ]; then
  library=$CACHALOT_LIB_DIR
else
  library=$folder/library
  cmake -S "$root" -B "$library" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCACHALOT_BUILD_TOOLS=OFF \
    -DCACHALOT_BUILD_TESTS=OFF -DCACHALOT_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build "$library" --target cachalot_pluggable >/dev/null
fi

[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary=:all: \
  -r "$root/bindings/python/wheel/requirements.txt"

# A copy, since building writes beside the sources; the links in it are files then.
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
cp -rL "$root/bindings/python/." "$source"
rm -rf "$source/cachalot_cuda/lib"
mkdir "$source/cachalot_cuda/lib"
strip --strip-debug -o "$source/cachalot_cuda/lib/libcachalot_pluggable.so" "$library/libcachalot_pluggable.so"
"$tools/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings=--build-option=--plat-name=linux_x86_64 -w "$source/wheels" "$source"
rm -f "$folder"/cachalot_cuda-*.whl
PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --plat auto -w "$folder" "$source"/wheels/*.whl \
  >"$folder/auditwheel.txt" 2>&1 || {
  cat "$folder/auditwheel.txt" >&2
  exit 1
}
ls "$folder"/cachalot_cuda-*.whl
