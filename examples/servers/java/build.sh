#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the server with the binding of this source tree, and prints the path of its start script.
#
#   examples/servers/java/build.sh BUILD [test]    BUILD: a build tree with libcachalot_onnxruntime.so
#
# `test` tries its own tests too.
#
# Exit status: 77 there is no JDK that is new enough, or no Maven (an error where CI is set).
set -eu
CACHALOT_LIB_DIR=$(cd "${1:?usage: build.sh BUILD [test]}" && pwd)
case ${2-} in
  '') skip=true ;;
  test) skip=false ;;
  *) echo "usage: build.sh BUILD [test]" >&2; exit 2 ;;
esac
export CACHALOT_LIB_DIR
cd "$(dirname "$0")"
. ../../../tests/need.sh

found=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
at_least 17 "$found" ||
  leave_out "A JDK of 17 or newer is missing (Debian: default-jdk-headless; found: ${found:-none}): the server in Java is left out"
command -v mvn >/dev/null || leave_out "Maven is missing (Debian: maven): the server in Java is left out"

out=$CACHALOT_LIB_DIR/servers
export MAVEN_OPTS="${MAVEN_OPTS-} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
mvn -B -q -f with-binding.xml -Dbuild.folder="$out/java-binding" -Dserver.folder="$out/java" \
  -Dmaven.test.skip=true -Dserver.test.skip=$skip -Dmaven.javadoc.skip=true -Dmaven.source.skip=true package >&2
echo "$out/java/server"
