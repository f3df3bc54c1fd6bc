#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the documentation site: the repository's pages by MkDocs, and the C API by Doxygen. A link that leads nowhere,
# a page without a place and a warning of either tool are errors.
#
#   docs/site/build.sh OUT          ten seconds, once the tools are there
#   docs/site/build.sh OUT whole    a minute: with rustdoc, Javadoc and Go's reference, which need these languages
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh

[ $# -ge 1 ] || { sed -n '3,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
out=$(realpath -m "$1")
whole=${2-}
made=$PWD/build/site/made
tools=$PWD/build/site/tools
site=docs/site

# Installed beside its place and moved there last, so that what was cut off is not taken for whole.
fetch_tools() {
  cmp -s "$site/requirements.txt" "$tools/requirements.txt" && return
  need python3 python3-pip
  rm -rf "$tools.part" "$tools"
  echo "MkDocs: fetching it from PyPI" >&2
  python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary=:all: \
    --require-hashes -r "$site/requirements.txt" --target "$tools.part" ||
    leave_out "MkDocs could not be fetched: the documentation site is not built"
  cp "$site/requirements.txt" "$tools.part/requirements.txt"
  mv "$tools.part" "$tools"
}

# Over a copy of the headers that has version.h too, as CMake makes it.
build_c() {
  version=$(cat VERSION)
  headers=$made/include/cachalot
  mkdir -p "$headers"
  cp capi/include/cachalot/*.h capi/include/cachalot/*.hpp "$headers"
  capi/include/write_version.sh "$made/include"
  CACHALOT_VERSION=$version CACHALOT_MADE=$made CACHALOT_STYLE=$tools/doxygen_awesome_css doxygen "$site/Doxyfile"
  python3 "$site/check_c_api.py" "$made/xml" bindings/interface.json
}

build_pages() {
  NO_MKDOCS_2_WARNING=1 PYTHONPATH=$tools python3 -m mkdocs build --strict -f "$site/mkdocs.yml" -d "$out"
}

need doxygen
fetch_tools
rm -rf "$made" "$out"
build_c
[ "$whole" != whole ] || . "$site/languages.sh"
build_pages
mkdir -p "$out/api"
mv "$made/html" "$out/api/c"
for reference in rust java; do
  [ ! -d "$made/$reference" ] || mv "$made/$reference" "$out/api/$reference"
done
python3 "$site/check_links.py" "$out" ${whole:+"$whole"}
