#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the JNI glue, and puts it and the library into the classes, for the jar. Called by Maven.
#
#   bindings/java/native.sh TARGET JAVA_HOME [tests]
#
# The library is that of CACHALOT_LIB_DIR; without it, it is built in TARGET/library. `tests` builds what the tests
# have in C, into their classes.
set -eu
cd "$(dirname "$0")"
target=$1 home=$2
root=$(cd ../.. && pwd)
interface=$(sed -n 's/.*int INTERFACE = \([0-9]*\);/\1/p' src/main/java/io/cachalot/raw/Constants.java)
core=libcachalot.so.$((interface / 100)).$((interface % 100))
# As io.cachalot.Unpacked names it.
out=$target/classes/META-INF/native/linux-$(uname -m)
[ "$(uname -s)" = Linux ] || { echo "The native library is built on Linux only, not on $(uname -s)" >&2; exit 1; }

# As CMake, with an option of the same name.
hardening=
[ "${CACHALOT_HARDENING-ON}" = OFF ] ||
  hardening=$(sed -n "s/^[a-z]* *\(any\|$(uname -m)\) *-/-/p" "$root/capi/cmake/hardening.txt")

# To a library from sources, against that in $out.
compile() {
  to=$1
  shift
  # shellcheck disable=SC2086
  "${CC:-cc}" -std=c99 -O2 -Wall -Wextra -Wconversion -Werror -shared -fPIC -fvisibility=hidden $hardening \
    -I"$home/include" -I"$home/include/linux" -I"$target/headers" -I"$root/capi/include" -I"$target/version" \
    "$@" -o "$to" "$out/$core" -Wl,-z,defs -s
}

if [ "${3-}" = tests ]; then
  mkdir -p "$target/test-classes"
  compile "$target/test-classes/libforeign_thread.so" src/test/c/foreign_thread.c -pthread
  compile "$target/test-classes/libcustom_driver.so" src/test/c/custom_driver.c
  exit
fi

if [ -n "${CACHALOT_LIB_DIR-}" ]; then
  from=$CACHALOT_LIB_DIR
  [ -e "$from/$core" ] || { echo "CACHALOT_LIB_DIR, $from, has no $core" >&2; exit 1; }
else
  from=$target/library
  cmake -S "$root" -B "$from" -DCMAKE_BUILD_TYPE=Release -DCACHALOT_BUILD_TOOLS=OFF -DCACHALOT_BUILD_TESTS=OFF \
    -DCACHALOT_BUILD_EXAMPLES=OFF >"$target/library.log" 2>&1 &&
    cmake --build "$from" --target cachalot --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-2}" >>"$target/library.log" 2>&1 ||
    { cat "$target/library.log" >&2; exit 1; }
fi

mkdir -p "$out" "$target/version/cachalot"
IFS=. read -r major minor patch <"$root/VERSION"
sed "s/@PROJECT_VERSION_MAJOR@/$major/; s/@PROJECT_VERSION_MINOR@/$minor/; s/@PROJECT_VERSION_PATCH@/$patch/
     s/@PROJECT_VERSION@/$major.$minor.$patch/" "$root/capi/include/cachalot/version.h.in" >"$target/version/cachalot/version.h"
install -m 755 "$(readlink -f "$from/$core")" "$out/$core"
strip --strip-unneeded "$out/$core"
# The library lies beside the glue: that one is taken, whatever LD_LIBRARY_PATH says.
compile "$out/libcachalot_jni.so" src/main/c/*.c -Wl,--disable-new-dtags -Wl,-rpath,'$ORIGIN'
(cd "$out" && sha256sum "$core" libcachalot_jni.so >SHA256SUMS)
