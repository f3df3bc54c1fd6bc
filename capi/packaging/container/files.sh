#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Puts what a program needs at run time from the installation prefixes under /portable into /opt/cachalot.
set -eu
from=/portable/$(uname -m)
to=/opt/cachalot
[ -x "$from/bin/cachalot" ] || { echo "$from has no bin/cachalot: make the portable build first" >&2; exit 1; }
mkdir -p "$to/bin" "$to/lib"
cp -P "$from/bin/cachalot" "$to/bin/"
cp -P "$from"/lib/libcachalot.so* "$from"/lib/libcachalot_pluggable.so "$to/lib/"
cp -R "$from/lib/cachalot" "$to/lib/"
cp -R "$from/share/doc/cachalot/licenses" "$to/"
chmod 755 "$to/bin/"*
# Equal files make equal layers.
find "$to" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +
