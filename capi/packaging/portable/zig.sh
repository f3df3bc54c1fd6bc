# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced from the project's root, after tests/need.sh: Zig's compiler of C and C++ (PyPI, 100 MB), which links
# against older C libraries and for other machines.

oldest_glibc=2.28  # Debian 10, RHEL 8, Ubuntu 20.04
zig=$PWD/build/zig
export ZIG_GLOBAL_CACHE_DIR="$zig/cache" ZIG_LOCAL_CACHE_DIR="$zig/cache"

# Makes $zig/ARCH/cc and $zig/ARCH/c++, the compilers for each machine.
fetch_zig() {
  requirements=capi/packaging/portable/requirements.txt
  ! cmp -s "$requirements" "$zig/requirements.txt" || return 0
  need python3 python3-pip unzip
  echo "Zig: fetching it from PyPI"
  rm -rf "$zig.part" "$zig"
  mkdir -p "$zig.part"
  python3 -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    -r "$requirements" -d "$zig.part/wheels"
  unzip -qo "$zig.part"/wheels/*.whl 'ziglang/*' -d "$zig.part"
  rm -r "$zig.part/wheels"
  chmod +x "$zig.part/ziglang/zig"
  for arch in x86_64 aarch64; do
    mkdir "$zig.part/$arch"
    for language in cc c++; do
      printf '#!/bin/sh\nexec "%s" %s -target %s-linux-gnu.%s "$@"\n' "$zig/ziglang/zig" $language $arch $oldest_glibc \
        >"$zig.part/$arch/$language"
      chmod +x "$zig.part/$arch/$language"
    done
  done
  cp "$requirements" "$zig.part/requirements.txt"
  mv "$zig.part" "$zig"
}
