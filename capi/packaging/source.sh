#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the source archive of a release, OUT/cachalot-VERSION.tar.gz, from the commit that is checked out, and prints
# its name. Each run gives the same bytes.
#
#   capi/packaging/source.sh OUT
set -eu
. "$(dirname "$0")/release.sh"

git diff --quiet HEAD || echo "source.sh: what is not committed is left out of the archive" >&2
archive=$out/cachalot-$version.tar.gz
git -c tar.umask=0022 archive --format=tar --prefix="cachalot-$version/" HEAD | gzip -9n >"$archive.part"
mv "$archive.part" "$archive"
echo "$archive"
