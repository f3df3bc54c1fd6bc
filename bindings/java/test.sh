#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The checks of the Java binding, with the library of a build tree.
#
#   bindings/java/test.sh [BUILD] [PART...]   BUILD: build/release; without a PART: test examples
#
#   test      builds the jars and their Javadoc without a warning; all tests, with -Xcheck:jni
#   newest    the tests once more on the newest JDK of JAVA_NEWEST or /usr/lib/jvm, if it is newer
#   examples  the programs of examples/java print what they should
#   consumer  a Maven project of its own uses the jar, from a local repository that was empty
#   release   release.sh is rehearsed, and the project takes what would be published; needs build/portable
#
# Exit status: 0 all is well, 77 there is no JDK that is new enough, or no Maven (an error where CI is set).
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
. "$root/tests/need.sh"
build=$(cd "$root" && cd "${1:-build/release}" && pwd)
[ $# -eq 0 ] || shift
out=$build/java
export MAVEN_OPTS="${MAVEN_OPTS-} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

found=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
at_least 17 "$found" ||
  leave_out "A JDK of 17 or newer is missing (Debian: default-jdk-headless; found: ${found:-none}): Java is not tested"
command -v mvn >/dev/null || leave_out "Maven is missing (Debian: maven): Java is not tested"

maven() {
  CACHALOT_LIB_DIR=$build mvn -B -q -Dbuild.folder="$out" "$@"
}

# Says what happened in the tests, and looks at what the virtual machine has written.
say() {
  sed -n 's/.*<testsuite .* name="\([^"]*\)".* tests="\([0-9]*\)" errors="\([0-9]*\)" skipped="\([0-9]*\)" failures="\([0-9]*\)".*/\1: \2 tests, \4 skipped/p' \
    "$out"/surefire-reports/TEST-*.xml $(ls "$out"/micrometer/surefire-reports/TEST-*.xml 2>/dev/null)
  sed -n 's/.*<skipped message="\([^"]*\)".*/a skipped test says: \1/p' "$out"/surefire-reports/TEST-*.xml
  if grep -l "WARNING in native method\|FATAL ERROR in native method\|local refs over capacity" -r "$out/surefire-reports" "$1"; then
    echo "-Xcheck:jni has found something" >&2
    return 1
  fi
}

# Each jar has the texts of the licences.
check_licences() {
  for jar in "$out"/cachalot-[0-9]*.jar "$out"/micrometer/cachalot-*.jar; do
    case $jar in *-javadoc.jar) continue ;; esac
    for licence in LICENSE LICENSE-APACHE LICENSE-MIT; do
      unzip -p "$jar" "META-INF/$licence" | cmp - "$root/$licence" || { echo "$jar has no $licence" >&2; return 1; }
    done
  done
}

run_test() {
  rm -rf "$out/surefire-reports" "$out/micrometer/surefire-reports"
  # Optimized code takes longer to compile than it saves in a run of tests.
  maven -f parent/pom.xml -Ptests,release -Dgpg.skip verify \
    -Dtest.jvm="-Xcheck:jni -XX:TieredStopAtLevel=1 -XX:+UseSerialGC" >"$out/test.log" 2>&1 ||
    { cat "$out/test.log"; return 1; }
  check_licences
  say "$out/test.log"
}

run_newest() {
  newest=${JAVA_NEWEST-}
  if [ -z "$newest" ]; then
    for home in /usr/lib/jvm/*; do
      version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release" 2>/dev/null || true)
      if [ "${version:-0}" -gt "$found" ] && [ -x "$home/bin/java" ]; then newest=$home found=$version; fi
    done
  fi
  [ -n "$newest" ] || { echo "There is no JDK that is newer than $found"; return 0; }
  echo "Java $found"
  rm -rf "$out/surefire-reports" "$out/micrometer/surefire-reports"
  access=--enable-native-access=ALL-UNNAMED
  [ "$found" -lt 24 ] || access="$access --illegal-native-access=deny"
  maven -Ptests surefire:test -Djvm="$newest/bin/java" -Dtest.jvm="$access" \
    >"$out/newest.log" 2>&1 || { cat "$out/newest.log"; return 1; }
  say "$out/newest.log"
}

run_examples() {
  for example in "$root"/examples/java/*.java; do
    name=$(basename "$example" .java)
    CACHALOT_LIB_DIR='' CACHALOT_DRIVER=sim:1GiB java -XX:TieredStopAtLevel=1 -cp "$out"/cachalot-[0-9.]*[0-9].jar "$example" >"$out/$name.txt"
    cmp "$out/$name.txt" "$root/examples/java/expected/$name.txt"
    echo "examples/java/$name.java prints what it should"
  done
}

# consume REPOSITORY: as from a repository on a server.
consume() {
  rm -rf "$out/consumer"
  mkdir -p "$out/consumer"
  cp -r consumer/pom.xml consumer/src "$out/consumer"
  cat >"$out/consumer/settings.xml" <<END
<settings><profiles><profile><id>server</id><activation><activeByDefault>true</activeByDefault></activation>
<repositories><repository><id>server</id><url>file://$1</url></repository></repositories></profile></profiles></settings>
END
  (cd "$out/consumer" && mvn -B -q -C -s settings.xml -Dmaven.repo.local="$out/consumer/repository" package \
    exec:exec -Dexec.executable=java -Dexec.args="-cp %classpath consumer.Main") >"$out/consumer/output" 2>&1 ||
    { cat "$out/consumer/output"; return 1; }
  grep "from the jar: 42" "$out/consumer/output"
  grep "meters: cachalot" "$out/consumer/output"
}

run_consumer() {
  rm -rf "$out/server"
  maven -f parent/pom.xml deploy -DaltDeploymentRepository="server::file://$out/server"
  consume "$out/server"
}

run_release() {
  ./release.sh rehearse "$out/release"
  consume "$out/release/repository"
}

mkdir -p "$out"
[ $# -gt 0 ] || set -- test examples
for part; do
  case $part in
    test | newest | examples | consumer | release) "run_$part" ;;
    *) echo "There is no part $part" >&2; exit 2 ;;
  esac
done
