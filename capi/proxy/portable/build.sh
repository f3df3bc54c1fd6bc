#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the proxy for releases, in build/portable/proxy: it enters programs of other people's, on systems that are
# older than the one that builds, so it needs no C library newer than 2.28 (Debian 10, RHEL 8) and brings its own C++
# library. Zig's compiler does that; it is fetched from PyPI (100 MB).
#
#   capi/proxy/portable/build.sh
set -eu
cd "$(dirname "$0")/../../.."
. tests/need.sh

requirements=capi/proxy/portable/requirements.txt
folder=build/portable
zig=$PWD/build/zig
newest=2.28

fetch_zig() {
  cmp -s "$requirements" "$zig/requirements.txt" && return
  need python3 python3-pip unzip
  echo "Zig: fetching it from PyPI"
  rm -rf "$zig.part" "$zig"
  mkdir -p "$zig.part"
  python3 -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    -r "$requirements" -d "$zig.part/wheels"
  unzip -qo "$zig.part"/wheels/*.whl 'ziglang/*' -d "$zig.part"
  rm -r "$zig.part/wheels"
  chmod +x "$zig.part/ziglang/zig"
  for language in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target x86_64-linux-gnu.%s "$@"\n' "$zig/ziglang/zig" $language $newest \
      >"$zig.part/$language"
    chmod +x "$zig.part/$language"
  done
  cp "$requirements" "$zig.part/requirements.txt"
  mv "$zig.part" "$zig"
}

# check LIBRARY: it exports functions of the driver alone, and needs no C library that is too new.
check() {
  others=$(nm -D --defined-only "$1" | awk '{print $3}' | grep -v '^cu[A-Z]' || true)
  [ -z "$others" ] || { echo "$1 exports $others" >&2; exit 1; }
  needed=$(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
  at_least "$needed" "$newest" || { echo "$1 needs version $needed of the C library" >&2; exit 1; }
  if readelf -d "$1" | grep NEEDED | grep -E 'libstdc|libc\+\+|libgcc|libunwind'; then exit 1; fi
  echo "$1: needs version $needed of the C library"
}

need cmake ninja-build binutils
fetch_zig
export ZIG_GLOBAL_CACHE_DIR="$zig/cache" ZIG_LOCAL_CACHE_DIR="$zig/cache"
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_COMPILER="$zig/cc" -DCMAKE_CXX_COMPILER="$zig/c++" \
  -DCACHALOT_BUILD_TOOLS=OFF -DCACHALOT_BUILD_TESTS=OFF -DCACHALOT_BUILD_EXAMPLES=OFF >/dev/null
cmake --build "$folder" --target cachalot_cuda_proxy cachalot_audit
check "$folder/proxy/libcuda.so.1"
