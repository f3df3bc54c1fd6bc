#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the archives of what portable/build.sh has built, OUT/cachalot-VERSION-linux-ARCH.tar.gz for each machine whose
# prefix is in build/portable, and prints their names. Each run over the same prefixes gives the same bytes.
#
#   capi/packaging/binaries.sh OUT
set -eu
. "$(dirname "$0")/release.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for arch in x86_64 aarch64; do
  [ -d "build/portable/$arch" ] || continue
  name=cachalot-$version-linux-$arch
  cp -r "build/portable/$arch" "$work/$name"
  pack "$out/$name.tar.gz" "$work" "$name"
  echo "$out/$name.tar.gz"
done
[ -n "${name:-}" ] || { echo "build/portable has no prefix: capi/packaging/portable/build.sh makes it" >&2; exit 1; }
