#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the JNI glue, and puts it and the library into the classes, for the jar. Called by Maven.
#
#   bindings/java/native.sh TARGET JAVA_HOME [tests]
#
# The library is that of CACHALOT_LIB_DIR, for this machine. Where CACHALOT_PORTABLE_DIR is set, it has an installation
# prefix for each machine, as capi/packaging/portable/build.sh makes them in build/portable: then the jar is for all of
# them, and Zig compiles the glue. Without either the library is built in TARGET/library. `tests` builds what the tests
# have in C, into their classes.
set -eu
cd "$(dirname "$0")"
target=$1 home=$2
root=$(cd ../.. && pwd)
interface=$(sed -n 's/.*int INTERFACE = \([0-9]*\);/\1/p' src/main/java/io/cachalot/raw/Constants.java)
core=libcachalot.so.$((interface / 100)).$((interface % 100))
# As io.cachalot.Unpacked names it.
machine=$(uname -m)
native=$target/classes/META-INF/native
[ "$(uname -s)" = Linux ] || { echo "The native library is built on Linux only, not on $(uname -s)" >&2; exit 1; }

# compile MACHINE COMPILER TO SOURCE... [OPTION...]: a library against that in the jar.
compile() {
  for_machine=$1 compiler=$2 to=$3
  shift 3
  # As CMake, with an option of the same name.
  hardening=
  [ "${CACHALOT_HARDENING-ON}" = OFF ] ||
    hardening=$(sed -n "s/^[a-z]* *\(any\|$for_machine\) *-/-/p" "$root/capi/cmake/hardening.txt")
  # Zig's linker does not know the mark, which it has no use for: its startup files have it.
  case $compiler in *zig*) hardening=$(echo "$hardening" | grep -v shstk) ;; esac
  # shellcheck disable=SC2086
  $compiler -std=c99 -O2 -Wall -Wextra -Wconversion -Werror -shared -fPIC -fvisibility=hidden $hardening \
    -I"$home/include" -I"$home/include/linux" -I"$target/headers" -I"$root/capi/include" -I"$target/version" \
    "$@" -o "$to" "$native/linux-$for_machine/$core" -Wl,-z,defs -s
}

if [ "${3-}" = tests ]; then
  mkdir -p "$target/test-classes"
  compile "$machine" "${CC:-cc}" "$target/test-classes/libforeign_thread.so" src/test/c/foreign_thread.c -pthread
  compile "$machine" "${CC:-cc}" "$target/test-classes/libcustom_driver.so" src/test/c/custom_driver.c
  exit
fi

# carry MACHINE COMPILER FOLDER: the library of a folder, and the glue for it.
carry() {
  out=$native/linux-$1
  mkdir -p "$out"
  install -m 755 "$(readlink -f "$3/$core")" "$out/$core"
  [ "$1" != "$machine" ] || strip --strip-unneeded "$out/$core"
  # The library lies beside the glue: that one is taken, whatever LD_LIBRARY_PATH says.
  compile "$1" "$2" "$out/libcachalot_jni.so" src/main/c/*.c -Wl,--disable-new-dtags -Wl,-rpath,'$ORIGIN'
  (cd "$out" && sha256sum "$core" libcachalot_jni.so >SHA256SUMS)
}

carry_portable() {
  cd "$root"
  . tests/need.sh
  . capi/packaging/portable/zig.sh
  fetch_zig
  cd "$root/bindings/java"
  for each in x86_64 aarch64; do
    [ -e "$CACHALOT_PORTABLE_DIR/$each/lib/$core" ] ||
      { echo "CACHALOT_PORTABLE_DIR, $CACHALOT_PORTABLE_DIR, has no $each/lib/$core" >&2; exit 1; }
    carry "$each" "$zig/$each/cc" "$CACHALOT_PORTABLE_DIR/$each/lib"
  done
}

build_library() {
  cmake -S "$root" -B "$target/library" -DCMAKE_BUILD_TYPE=Release -DCACHALOT_BUILD_TOOLS=OFF \
    -DCACHALOT_BUILD_TESTS=OFF -DCACHALOT_BUILD_EXAMPLES=OFF >"$target/library.log" 2>&1 &&
    cmake --build "$target/library" --target cachalot --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-2}" \
      >>"$target/library.log" 2>&1 ||
    { cat "$target/library.log" >&2; exit 1; }
}

rm -rf "$native"
"$root/capi/include/write_version.sh" "$target/version"
if [ -n "${CACHALOT_PORTABLE_DIR-}" ]; then
  carry_portable
elif [ -n "${CACHALOT_LIB_DIR-}" ]; then
  [ -e "$CACHALOT_LIB_DIR/$core" ] || { echo "CACHALOT_LIB_DIR, $CACHALOT_LIB_DIR, has no $core" >&2; exit 1; }
  carry "$machine" "${CC:-cc}" "$CACHALOT_LIB_DIR"
else
  build_library
  carry "$machine" "${CC:-cc}" "$target/library"
fi
