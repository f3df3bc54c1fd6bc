#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The main job, from a clean clone on a Debian machine: replays recorded runs of real models through our
# allocator and prints PyTorch's own figures beside ours. Needs no GPU.
#
#   examples/replay.sh [FILE...]     the recordings of tests/traces, or these files
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tests/need.sh"

need cmake ninja-build g++ pkgconf libcli11-dev libcpp-httplib-dev nlohmann-json3-dev zlib1g-dev liblzma-dev libsqlite3-dev
(cd "$root" && cmake --preset install -B build/tools -DCACHALOT_BUILD_TOOLS=ON >/dev/null)
cmake --build "$root/build/tools" --target cachalot_cli
[ $# -gt 0 ] || set -- "$root"/tests/traces/*.csv.xz
exec "$root/build/tools/cachalot" replay --expect --brief "$@"
