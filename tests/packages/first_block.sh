#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The first block of a new user: the commands of first/LANGUAGE.sh, in an empty home, over the packages of a release, by
# name. Of the compilers the PATH has only those that the language needs. Prints the commands, what they say, and the
# line `LANGUAGE: LINES lines, SECONDS s`. Fails where a language other than C needs more than ten lines.
#
#   tests/packages/first_block.sh LANGUAGE PACKAGES   LANGUAGE: c cpp rust java go python
#     PACKAGES   what run.sh makes: archives, pypi, go, maven, crates
set -eu
cd "$(dirname "$0")/../.."
. tests/readme_block.sh
language=$1
packages=$(cd "$2" && pwd)
version=$(cat VERSION)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/path" "$work/home" "$work/first"

case $language in
  c) compilers='cc' file=first.c readme=README.md ;;
  cpp) compilers='c++' file=first.cpp readme=README.md ;;
  rust) compilers='cc' file=main.rs readme=bindings/rust/cachalot/README.md ;;
  java) compilers='' file=First.java readme=bindings/java/README.md ;;
  go) compilers='gcc' file=main.go readme=bindings/go/README.md ;;
  python) compilers='' file=first.py readme=README.md ;;
  *) echo "There is no language $language: c cpp rust java go python" >&2; exit 2 ;;
esac
readme_block "$readme" "$language" >"$work/first/$file"
cp "tests/packages/first/$language.sh" "$work/commands.sh"

# The system's programs, of the compilers these only; and the tools of the languages, which have their own places.
for program in /usr/bin/* /bin/*; do
  name=$(basename "$program")
  case $name in
    *gcc* | *g++* | *clang* | c++* | cc | cpp* | c[89]9* | cargo | rustc | go | python3) continue ;;
  esac
  [ -e "$work/path/$name" ] || ln -s "$program" "$work/path/$name"
done
for name in $compilers; do ln -s "$(command -v "$name")" "$work/path/$name"; done
for name in cargo rustc; do
  ln -s "$(rustup which $name 2>/dev/null || command -v $name || echo /nowhere)" "$work/path/$name"
done
ln -s "$(go env GOROOT 2>/dev/null)/bin/go" "$work/path/go"
ln -s /usr/bin/python3 "$work/path/python3"  # Debian's

# What stands in place of each registry.
mkdir -p "$work/home/.cargo" "$work/home/.m2"
cat >"$work/home/.cargo/config.toml" <<END
[source.crates-io]
replace-with = "folder"
[source.folder]
directory = "$packages/crates"
END
cat >"$work/home/.m2/settings.xml" <<END
<settings><profiles><profile><id>registry</id><activation><activeByDefault>true</activeByDefault></activation>
<repositories><repository><id>registry</id><url>file://$packages/maven</url></repository></repositories></profile>
</profiles></settings>
END
sed "s/@VERSION@/$version/" tests/packages/first/pom.xml >"$work/first/pom.xml"
cp "$packages"/archives/cachalot-*-linux-"$(uname -m)".tar.gz "$work/first" 2>/dev/null || true

begin=$(date +%s)
(cd "$work/first" && env -i HOME="$work/home" PATH="$work/path" CACHALOT_DRIVER=host:64MiB \
  PIP_NO_INDEX=1 PIP_FIND_LINKS="$packages/pypi" PIP_DISABLE_PIP_VERSION_CHECK=1 \
  GOPROXY="file://$packages/go" GOSUMDB=off GOTOOLCHAIN=local sh -ex "$work/commands.sh") 2>&1
seconds=$(($(date +%s) - begin))

# Lines of code: what a file of the language begins with is not counted, nor are empty lines, comments and brackets.
lines=$(grep -vcE '^[[:space:]]*($|//|#include|import |package |[})]+;?$|"[^"]*"$|\)$|import \($)' "$work/first/$file")
[ "$language" = c ] || [ "$lines" -le 10 ] ||
  { echo "$readme: the first block has $lines lines of code, more than 10" >&2; exit 1; }
printf '\n%s: %s lines, %s s\n' "$language" "$lines" "$seconds" # what ran may not have ended its line, as Maven
