#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Packs the tests with a small Java of their own, for machines that have none.
#
#   bindings/java/image.sh FOLDER OUT
#
# FOLDER has what Maven has built (bindings/java/target, BUILD/java). OUT gets image (at most 40 MiB), the classes,
# JUnit's console, the golden files, and run.sh. JAVA_HOME chooses the Java.
set -eu
built=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")"
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
junit=$(sed -n 's,.*<junit.version>\(.*\)</junit.version>.*,\1,p' pom.xml)

rm -rf "$out/image" "$out/classes" "$out/test-classes" "$out/golden"
case $("$home/bin/javac" -version 2>&1) in "javac 17"*) zip=2 ;; *) zip=zip-6 ;; esac
"$home/bin/jlink" --add-modules java.base,java.logging,jdk.jfr,jdk.zipfs --strip-debug --no-header-files --no-man-pages \
  --compress "$zip" --output "$out/image"
strip --strip-unneeded "$out/image/lib/server/libjvm.so" 2>/dev/null || true
size=$(du -sm "$out/image" | cut -f 1)
echo "the image has $size MiB"
[ "$size" -le 40 ]
cp -r "$built/classes" "$built/test-classes" "$out"
cp -r ../../tests/golden "$out"
mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy -DoutputDirectory="$out" \
  -Dartifact="org.junit.platform:junit-platform-console-standalone:$junit"
cat >"$out/run.sh" <<'END'
#!/bin/sh
# With a GPU: CACHALOT_GPU_TESTS=1 ./run.sh
cd "$(dirname "$0")"
export CACHALOT_GOLDEN_DIR="$PWD/golden" CACHALOT_LIB_DIR=
access=--enable-native-access=ALL-UNNAMED
exec image/bin/java -Xcheck:jni -ea $access -cp "classes:test-classes:$(ls junit-platform-console-*.jar)" \
  org.junit.platform.console.ConsoleLauncher execute --scan-classpath test-classes --disable-banner "$@"
END
chmod +x "$out/run.sh"
