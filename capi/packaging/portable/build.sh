#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds what is published as binaries, an installation prefix for each machine: build/portable/ARCH.
#
#   capi/packaging/portable/build.sh [--quick] [ARCH...]   ARCH: x86_64 aarch64; both without one
#
#   --quick   the libraries alone and little optimized, in build/portable/quick/ARCH: what the main tests look at
#
#   lib/libcachalot.so             needs a C library of 2.27 or newer, and no C++ library of the system's
#   lib/libcachalot.a              the same as one object, which any C linker takes
#   lib/libcachalot_pluggable.so   these speak the C++ of PyTorch and ONNX Runtime: they also need what their hosts
#   lib/libcachalot_libtorch.so    need, a C++ library of GCC 5 or newer
#   lib/libcachalot_onnxruntime.so
#   bin/cachalot                   the program, which loads libcachalot.so; a C library of 2.28 or newer
#   lib/cachalot                   what `cachalot record` and `cachalot run` put into programs
#   include, lib/cmake, lib/pkgconfig
#
# The core and the proxy are compiled by Zig's compiler (PyPI, 100 MB), with its C++ library inside. The core becomes
# one object in which all but the C interface is local, and Debian's GCC links the libraries for hosts from that object
# and their own sources. Two builds of one commit have equal bytes. The proxy of x86-64 needs Cargo (rustup.rs), since
# Debian's is too old for the unwinder.
set -eu
cd "$(dirname "$0")/../../.."
. tests/need.sh
. capi/packaging/portable/zig.sh
. capi/packaging/portable/debian.sh
. capi/packaging/portable/folder.sh

work=$folder/work
readonly common="-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_SYSTEM_NAME=Linux
  -DCACHALOT_BUILD_TESTS=OFF -DCACHALOT_BUILD_EXAMPLES=OFF"
# The folder of the sources is in no file. CMake's own trials have no other optimization than this one; without it Zig
# builds libraries for them that nothing else takes, such as a sanitizer's.
flags="-O2 -g0 -ffile-prefix-map=$PWD=."

# configure TREE OPTION...
configure() {
  tree=$1
  shift
  mkdir -p "$tree"
  # shellcheck disable=SC2086
  cmake -S . -B "$tree" $common -DCMAKE_SYSTEM_PROCESSOR="$arch" -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
    -DCMAKE_STRIP="$(command -v "$arch-linux-gnu-strip")" $optimization "$@" >"$tree/configure.log" ||
    { cat "$tree/configure.log" >&2; return 1; }
}

configure_core() {
  configure "$work/$arch/core" -DCMAKE_UNITY_BUILD=ON -DCMAKE_C_COMPILER="$zig/$arch/cc" \
    -DCMAKE_CXX_COMPILER="$zig/$arch/c++" -DCACHALOT_BUILD_LIBTORCH=OFF "$@"
}

# The core's objects, as an archive.
build_core_alone() {
  configure_core -DCACHALOT_BUILD_TOOLS=OFF -DCACHALOT_BUILD_PROXY=OFF
  cmake --build "$work/$arch/core" --target cachalot_static
}

# Besides, the proxy, and the program with the libraries of others inside.
build_core() {
  fetch_debian "$arch"
  PKG_CONFIG_LIBDIR="$debian/usr/lib/$arch-linux-gnu/pkgconfig" configure_core \
    -DCACHALOT_BUILD_TOOLS=ON -DCACHALOT_STACKS=ON \
    -DCMAKE_FIND_ROOT_PATH="$debian" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
    -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
    -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_LIBRARY_ARCHITECTURE="$arch-linux-gnu"
  cmake --build "$work/$arch/core" --target cachalot_static cachalot_cuda_proxy cachalot_audit cachalot_cli
}

# Sets what Zig links a program with: the archives of its C++ library, and the folder of its stand-ins for the C
# library.
find_runtime() {
  echo 'int main() { throw 1; }' >"$work/$arch/empty.cpp"
  "$zig/$arch/c++" -O2 -v "$work/$arch/empty.cpp" -o "$work/$arch/empty" >"$work/$arch/runtime.txt" 2>&1
  # Of a file that Zig has to build first the text speaks twice: the last time is the linker's.
  linked() { tr ' ' '\n' <"$work/$arch/runtime.txt" | grep "/$1$" | tail -n 1; }
  archives="$(linked 'libunwind\.a') $(linked 'libc++abi\.a') $(linked 'libc++\.a')"
  stand_ins=$(dirname "$(linked 'libc\.so\.6')")
  nonshared=$(linked 'libc_nonshared\.a')
}

join_core() {
  joined=$PWD/$work/$arch/cachalot.o
  # shellcheck disable=SC2086
  "$arch-linux-gnu-ld" -r --force-group-allocation -o "$joined.part" --whole-archive "$work/$arch/core/libcachalot.a" \
    --no-whole-archive --start-group $archives --end-group
  # The library for PyTorch also calls the functions of capi/src/cached.h.
  "$arch-linux-gnu-objcopy" --wildcard --keep-global-symbol='cachalot_*' \
    --keep-global-symbol='_ZN8cachalot4capi*_cached*' --strip-unneeded "$joined.part" "$joined"
  rm "$joined.part"
}

# For GCC's linker: the C library as it was in that version.
write_stand_ins() {
  old=$PWD/$work/$arch/libc
  rm -rf "$old"
  mkdir -p "$old"
  for library in "$stand_ins"/lib*.so.?; do
    cp "$library" "$old"
    name=$(basename "$library")
    ln -s "$name" "$old/${name%.so.?}.so"
  done
  cp "$nonshared" "$old"
  # GCC's headers read it: whether a process has one thread only, so that counts need no atomic instruction.
  echo '__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;' >"$old/later.c"
  "$arch-linux-gnu-gcc" -O2 -fPIC -c "$old/later.c" -o "$old/later.o"
  "$arch-linux-gnu-ar" rcs "$old/libc_later.a" "$old/later.o"
  rm "$old/libc.so"
  echo "GROUP ( libc.so.6 libc_nonshared.a libc_later.a AS_NEEDED ( libld.so.2 ) )" >"$old/libc.so"
}

build_libraries() {
  configure "$work/$arch/libraries" -DCMAKE_C_COMPILER="$arch-linux-gnu-gcc" \
    -DCMAKE_CXX_COMPILER="$arch-linux-gnu-g++" -DCMAKE_SHARED_LINKER_FLAGS="-L$old -Wl,--gc-sections" \
    -DCMAKE_CXX_STANDARD_LIBRARIES="-Wl,--as-needed -lpthread -ldl -lm" -DCACHALOT_BUILD_TOOLS=OFF \
    -DCACHALOT_CORE_OBJECT="$joined" -DCACHALOT_CXX_RUNTIME=m -DCACHALOT_BUILD_PROXY=OFF -DCACHALOT_BUILD_ONNXRUNTIME=ON
  cmake --build "$work/$arch/libraries" --target cachalot cachalot_static cachalot_pluggable cachalot_libtorch \
    cachalot_onnxruntime
}

install_libraries() {
  prefix=$folder/$arch
  rm -rf "$prefix"
  cmake --install "$work/$arch/libraries" --prefix "$prefix" --strip >"$work/$arch/install.log"
  cmake --install "$work/$arch/libraries" --prefix "$prefix" --strip --component onnxruntime >>"$work/$arch/install.log"
}

install_program() {
  cmake --install "$work/$arch/core" --prefix "$prefix" --strip --component tools >>"$work/$arch/install.log"
  cp LICENSE LICENSE-APACHE LICENSE-MIT "$prefix"
  install_licences
}

# Of what is linked into these binaries and not into those of other builds, by the names of capi/packaging/parts.py.
install_licences() {
  while read -r name text; do
    install -m 644 "$text" "$prefix/share/doc/cachalot/licenses/$name"
  done <<END
zlib $debian/usr/share/doc/zlib1g-dev/copyright
liblzma $debian/usr/share/doc/liblzma-dev/copyright
sqlite3 $debian/usr/share/doc/libsqlite3-dev/copyright
libc++ $zig/ziglang/lib/libcxx/LICENSE.TXT
libc++abi $zig/ziglang/lib/libcxxabi/LICENSE.TXT
libunwind $zig/ziglang/lib/libunwind/LICENSE.TXT
zig-compiler-rt $zig/ziglang/LICENSE
END
}

packages='cmake ninja-build binutils g++ python3 pkgconf'
[ $# -gt 0 ] || set -- x86_64 aarch64
for arch; do
  case $arch in
    x86_64) ;;
    aarch64) packages="$packages g++-aarch64-linux-gnu" ;;
    *) echo "There is no machine $arch: x86_64 or aarch64" >&2; exit 2 ;;
  esac
done
# Before anything is fetched.
need_cargo() {
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' capi/proxy/unwinder/Cargo.toml)
  at_least "$wanted" "$(cargo --version 2>/dev/null | cut -d' ' -f2)" ||
    { echo "build.sh: the unwinder needs Cargo $wanted or newer, which https://rustup.rs installs" >&2; exit 1; }
}

# shellcheck disable=SC2086
need $packages
# The Cargo that CMake finds first.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
case "$quick $*" in " "*x86_64*) need_cargo ;; esac
fetch_zig
bindings/onnxruntime/fetch.sh
optimization='' without=''
if [ -n "$quick" ]; then
  # Bundles of a whole layer: the headers are most of the work.
  optimization='-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_UNITY_BUILD_BATCH_SIZE=0' without=--libraries
fi
for arch; do
  if [ -n "$quick" ]; then build_core_alone; else build_core; fi
  find_runtime
  join_core
  write_stand_ins
  build_libraries
  install_libraries
  [ -n "$quick" ] || install_program
  capi/packaging/portable/check.py "$prefix" $without
done
