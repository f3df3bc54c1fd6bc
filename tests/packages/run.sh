#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the packages of C and C++ from the commit that is checked out, and builds a fresh project on each, in an empty
# environment. Prints what each command said, and a line `CHANNEL: FIGURES` at the end of each.
#
#   tests/packages/run.sh FOLDER [CHANNEL...]     CHANNEL: amalgamation fetched debian conan vcpkg conda
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh
folder=${1:?usage: run.sh FOLDER [CHANNEL...]}
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
version=$(cat VERSION)
export CACHALOT_DRIVER=host:64MiB

# figure TEXT...: the last line of a channel.
figure() { echo "$channel: $*"; }

size_of() { stat -c %s "$1" | numfmt --to=si --format=%.2f --suffix=B; }

# first_program FILE: the README's first program in C.
first_program() { sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$1"; }

# empty_folder NAME: a fresh one, and the way to it.
empty_folder() {
  rm -rf "${folder:?}/$1"
  mkdir -p "$folder/$1"
  echo "$folder/$1"
}

# The commands that its README names.
channel_amalgamation() {
  archive=$(capi/packaging/amalgamation.sh "$folder/archives")
  work=$(empty_folder amalgamation)
  first_program "$work/first.c"
  tar xf "$archive" -C "$work"
  (cd "$work" && sed -n '/^```sh$/,/^```$/p' cachalot/README.md | sed '1d;$d' >build.sh && sh -ex build.sh && ./first)
  figure "$(size_of "$archive")"
}

# A project that knows C alone.
channel_fetched() {
  work=$(empty_folder fetched)
  cmake -S tests/install/consumer -B "$work" -G Ninja -DCONSUMER_LANGUAGES=C -DCONSUMER_ARCHIVE="file://$source" \
    -DCONSUMER_SHA256="$(sha256sum "$source" | cut -d' ' -f1)" -DCMAKE_UNITY_BUILD=ON
  cmake --build "$work"
  ctest --test-dir "$work" --output-on-failure --no-tests=error
  figure "$(size_of "$source")"
}

# In a system that has nothing but apt, of the release that the packages are built on.
channel_debian() {
  need lintian mmdebstrap
  work=$(empty_folder debian)
  capi/packaging/debian/build.sh "$work"
  lintian --allow-root --fail-on error,warning "$work"/*.changes
  mkdir "$work/root"
  cp "$work"/*.deb tests/packages/debian_first.sh "$work/root"
  first_program "$work/root/first.c"
  cp tests/traces/gnn_train.csv.xz "$work/root/run.csv.xz"
  . /etc/os-release
  mmdebstrap --quiet --variant=apt --format=null --customize-hook="copy-in $work/root /" \
    --customize-hook='chroot "$1" sh -ex /root/debian_first.sh' "$VERSION_CODENAME" -
  for package in "$work"/*.deb; do
    figure "$(basename "$package") $(size_of "$package")"
  done
}

tools=$folder/tools
bring_tools() {
  need python3-venv
  cmp -s tests/packages/requirements.txt "$tools/requirements.txt" && return
  python3 -m venv "$tools"
  "$tools/bin/pip" install -q --disable-pip-version-check --require-hashes -r tests/packages/requirements.txt
  cp tests/packages/requirements.txt "$tools"
}

# Conan's own CMake would come from its index: the system's does.
channel_conan() {
  bring_tools
  CONAN_HOME=$(empty_folder conan)
  export CONAN_HOME
  "$tools/bin/conan" profile detect
  "$tools/bin/conan" remote disable '*'
  printf '[platform_tool_requires]\ncmake/%s\n' "$(cmake --version | sed -n '1s/.* //p')" \
    >>"$CONAN_HOME/profiles/default"
  for shared in True False; do
    "$tools/bin/conan" create "$folder/recipes/conan" --version "$version" -o "cachalot/*:shared=$shared"
  done
  figure "shared and static, each under its test package"
}

# A project in C on what the port leaves, for the triplets of both kinds.
channel_vcpkg() {
  for linkage in dynamic static; do
    work=$(empty_folder "vcpkg/$linkage")
    cmake -D PORT_FOLDER="$folder/recipes/vcpkg" -D WORK="$work" -D VCPKG_LIBRARY_LINKAGE=$linkage \
      -P tests/packages/portfile.cmake
    (cd "$work/packages" && find . ! -type d | sort)
    cmake -S capi/packaging/conan/test_package -B "$work/first" -G Ninja -DCMAKE_PREFIX_PATH="$work/packages"
    cmake --build "$work/first"
    "$work/first/first"
  done
  figure "the portfile by a stand-in of vcpkg, dynamic and static"
}

channel_conda() {
  bring_tools
  work=$(empty_folder conda)
  PATH=$tools/bin:$PATH "$tools/bin/python" tests/packages/conda.py "$folder/recipes/conda/recipe.yaml" "$work"
  package=$(ls "$work"/output/linux-64/cachalot-*.conda)
  figure "$(basename "$package") $(size_of "$package")"
}

all="amalgamation fetched debian conan vcpkg conda"
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $all
need cmake ninja-build g++ git
mkdir -p "$folder/archives"
source=$(capi/packaging/source.sh "$folder/archives")
rm -rf "$folder/recipes"
capi/packaging/recipes.sh "$source" "$folder/recipes" "file://$source"
for channel; do
  echo "=== $channel"
  "channel_$channel"
done
