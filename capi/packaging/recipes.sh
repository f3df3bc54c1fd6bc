#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes the recipes of Conan, vcpkg and conda-forge with the version and the hashes of a source archive, as those who
# run the indexes take them: OUT/conan, OUT/vcpkg and OUT/conda.
#
#   capi/packaging/recipes.sh ARCHIVE OUT [URL]     URL: where the archive will be, by default that of the release
set -eu
[ $# -ge 2 ] || { sed -n '3,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archive=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
name=${archive##*/cachalot-}
version=${name%.tar.gz}
url=${3:-https://cachalot.io/releases/v$version/cachalot-$version.tar.gz}

mkdir -p "$out"
for index in conan vcpkg conda; do
  cp -r "$here/$index" "$out"
  find "$out/$index" -name '*.in' | while read -r template; do
    sed -e "s|@VERSION@|$version|g" -e "s|@URL@|$url|g" \
      -e "s|@SHA256@|$(sha256sum "$archive" | cut -d' ' -f1)|g" \
      -e "s|@SHA512@|$(sha512sum "$archive" | cut -d' ' -f1)|g" "$template" >"${template%.in}"
    rm "$template"
  done
done
