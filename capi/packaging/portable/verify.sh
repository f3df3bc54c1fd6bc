#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Compares the library that build.sh has made with expected files of PyTorch's. The program that does it is built
# against the prefix as a user would; for another machine it runs under QEMU.
#
#   capi/packaging/portable/verify.sh [--quick] ARCH RELEASE FILE...   ARCH: x86_64 or aarch64; RELEASE: 2.11 or 2.15
set -eu
cd "$(dirname "$0")/../../.."
. tests/need.sh
. capi/packaging/portable/debian.sh
. capi/packaging/portable/folder.sh
arch=$1 release=$2
shift 2
prefix=$PWD/$folder/$arch
work=$PWD/$folder/work/$arch/verify
program=$work/cachalot_verify
mkdir -p "$work"

run=
case $arch in
  x86_64) need g++ ;;
  aarch64)
    need g++-aarch64-linux-gnu qemu-user
    run='qemu-aarch64 -L /usr/aarch64-linux-gnu'
    ;;
  *) echo "There is no machine $arch: x86_64 or aarch64" >&2; exit 2 ;;
esac
fetch_debian "$arch"
if [ ! -e "$program" ] || [ -n "$(find tests/differential "$prefix/lib" -newer "$program" -name '*.[ch]*')" ]; then
  # As one file, since the headers are most of the work.
  find tests/differential -maxdepth 1 -name '*.cpp' ! -name '*_test.cpp' ! -name faults.cpp -printf '#include "%p"\n' |
    sort |
    "$arch-linux-gnu-g++" -std=c++20 -O1 -w -I. -I"$prefix/include" -Itests/differential -I"$debian/usr/include" \
      -x c++ - -x none -o "$program" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lcachalot \
      "$debian/usr/lib/$arch-linux-gnu/libz.a" "$debian/usr/lib/$arch-linux-gnu/liblzma.a" -pthread
fi
$run "$program" --torch "$release" "$@"
