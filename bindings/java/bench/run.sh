#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The cost of a pair of allocation and free from Java, beside C and an empty native call.
#
#   bindings/java/bench/run.sh FOLDER [ARGUMENT...]
#
# FOLDER has the classes that Maven has built (bindings/java/target, BUILD/java); arguments are the JMH's.
set -eu
built=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")"
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
out=$built/bench
native=$built/classes/META-INF/native/linux-$(uname -m)
mkdir -p "$out/classes"
mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.9.0:build-classpath -Dmdep.outputFile="$out/jmh"
"$home/bin/javac" --release 17 -proc:full -cp "$(cat "$out/jmh"):$built/classes" -d "$out/classes" \
  src/io/cachalot/bench/*.java 2>/dev/null ||
  "$home/bin/javac" --release 17 -cp "$(cat "$out/jmh"):$built/classes" -d "$out/classes" src/io/cachalot/bench/*.java
"${CC:-cc}" -std=c99 -O2 -shared -fPIC -I"$home/include" -I"$home/include/linux" -I../../../capi/include \
  -I"$built/version" bench.c "$native"/libcachalot.so.* -o "$out/libbench.so"
exec "$home/bin/java" -cp "$(cat "$out/jmh"):$built/classes:$out/classes" org.openjdk.jmh.Main \
  -jvmArgsAppend "-Dbench.library=$out/libbench.so" "$@"
