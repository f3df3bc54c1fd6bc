#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Puts what a program needs at run time from the installation prefixes under /portable into /opt/cachalot.
set -eu
machine=$(uname -m)
from=/portable/$machine
to=/opt/cachalot
[ -x "$from/bin/cachalot" ] || { echo "$from has no bin/cachalot: make the portable build first" >&2; exit 1; }
mkdir -p "$to/bin" "$to/lib"
cp -P "$from/bin/cachalot" "$to/bin/"
cp -P "$from"/lib/libcachalot.so* "$from"/lib/libcachalot_pluggable.so "$to/lib/"
cp -R "$from/lib/cachalot" "$to/lib/"
# The proxy loads the driver by this name from its own folder. Here is where NVIDIA's container toolkit puts the driver
# in images of Debian and Ubuntu; copy-cachalot can say another place.
ln -s "/usr/lib/$machine-linux-gnu/libcuda.so.1" "$to/lib/cachalot/libcachalot_real_cuda.so"
chmod 755 "$to/bin/"*
# Equal files make equal layers.
find "$to" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +
