#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the archive of the amalgamation, OUT/cachalot-amalgamation-VERSION.tar.gz, and prints its name. Each run gives
# the same bytes.
#
#   capi/packaging/amalgamation.sh OUT
set -eu
. "$(dirname "$0")/release.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
capi/amalgamation/amalgamate.py "$work/cachalot"
cp capi/include/cachalot/*.hpp LICENSE LICENSE-MIT LICENSE-APACHE "$work/cachalot"
sed "s/@VERSION@/$version/" capi/packaging/amalgamation/README.md >"$work/cachalot/README.md"
archive=$out/cachalot-amalgamation-$version.tar.gz
pack "$archive" "$work" cachalot
echo "$archive"
