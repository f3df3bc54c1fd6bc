#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Compares the library that build.sh has made with expected files of PyTorch's. The program that does it is built
# against the prefix as a user would; for another machine it runs under QEMU.
#
#   capi/packaging/portable/verify.sh ARCH RELEASE FILE...   ARCH: x86_64 or aarch64; RELEASE: 2.11 or 2.15
set -eu
cd "$(dirname "$0")/../../.."
. tests/need.sh
arch=$1 release=$2
shift 2
prefix=$PWD/build/portable/$arch
work=$PWD/build/portable/work/$arch/verify
system=$work/system
program=$work/cachalot_verify
mkdir -p "$work"

# zlib and lzma of the other machine, from Debian's packages for it, without a change of this system.
fetch_libraries() {
  [ ! -e "$system/usr" ] || return 0
  rm -rf "$system"
  mkdir -p "$system/lists/partial" "$system/cache/archives/partial"
  : >"$system/status"
  set -- -qq -o Dir::State::Lists="$system/lists" -o Dir::Cache="$system/cache" -o Dir::State::status="$system/status" \
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
  apt-get "$@" update
  (cd "$system" && apt-get "$@" download zlib1g-dev liblzma-dev)
  for package in "$system"/*.deb; do dpkg-deb -x "$package" "$system"; done
}

case $arch in
  x86_64)
    need g++ zlib1g-dev liblzma-dev libcli11-dev
    libraries='-lz -llzma' run=
    ;;
  aarch64)
    need g++-aarch64-linux-gnu qemu-user zlib1g-dev liblzma-dev libcli11-dev
    fetch_libraries
    libraries="$system/usr/lib/aarch64-linux-gnu/libz.a $system/usr/lib/aarch64-linux-gnu/liblzma.a"
    run='qemu-aarch64 -L /usr/aarch64-linux-gnu'
    ;;
  *) echo "There is no machine $arch: x86_64 or aarch64" >&2; exit 2 ;;
esac
if [ ! -e "$program" ] || [ -n "$(find tests/differential "$prefix/lib" -newer "$program" -name '*.[ch]*')" ]; then
  # The headers of the compression libraries are the same on all machines.
  # shellcheck disable=SC2046,SC2086
  "$arch-linux-gnu-g++" -std=c++20 -O1 -w -I"$prefix/include" -Itests/differential -idirafter /usr/include \
    $(ls tests/differential/*.cpp | grep -v -e _test.cpp -e faults.cpp) -o "$program" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lcachalot $libraries -pthread
fi
$run "$program" --torch "$release" "$@"
