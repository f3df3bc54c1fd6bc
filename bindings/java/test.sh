#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds Java's low layer with the library of a build tree, and tests it.
#
#   bindings/java/test.sh [BUILD]   BUILD: build/release
#
# Exit status 77: there is no JDK that is new enough; with CI set that is 1.
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
build=$(cd "$root" && cd "${1:-build/release}" && pwd)

needed=17
found=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
if [ -z "$found" ] || [ "$found" -lt "$needed" ]; then
  echo "A JDK of $needed or newer is missing (Debian: default-jdk-headless; found: ${found:-none}): Java is not tested" >&2
  [ -z "${CI+set}" ] || exit 1
  exit 77
fi

home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
out=$build/java
rm -rf "$out"
mkdir -p "$out"
find src -name '*.java' -exec javac -Xlint:all -Werror -encoding UTF-8 --release "$needed" -h "$out/include" -d "$out/classes" {} +
cc -std=c99 -O1 -Wall -Wextra -Wconversion -Werror -shared -fPIC \
  -I"$home/include" -I"$home/include/linux" -I"$out/include" -I"$root/capi/include" -I"$build/capi/include" \
  src/main/c/*.c -o "$out/libcachalot_jni.so" -L"$build" -lcachalot -Wl,-rpath,"$build" -Wl,-z,defs
output=$(java -Xcheck:jni -Dfile.encoding=UTF-8 -Djava.library.path="$out" -cp "$out/classes" \
  io.cachalot.raw.RawTest 2>&1) || { echo "$output"; exit 1; }
echo "$output"
case $output in *"WARNING in native method"*) exit 1 ;; esac
