#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a command here in which cgo finds cachalot: `with.sh BUILD COMMAND...`, a build tree with
# libcachalot_onnxruntime.so.
#
# Exit status: 77 there is no Go that is new enough, no pkg-config (an error where CI is set), else the command's.
set -eu
build=$(cd "${1:?usage: with.sh BUILD COMMAND...}" && pwd)
shift
cd "$(dirname "$0")"
. ../../../tests/need.sh

needed=$(sed -n 's/^go //p' go.mod)
export GOTOOLCHAIN=local
found=$(go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
at_least "$needed" "$found" ||
  leave_out "Go $needed or newer is missing (go.dev/dl; found: ${found:-none}): the server in Go is left out"
command -v pkg-config >/dev/null ||
  leave_out "pkg-config is missing (Debian: pkgconf): the server in Go is left out"
export GOFLAGS=-tags=cachalot_installed
export PKG_CONFIG_PATH="$build/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
# Go's build cache does not look at what pkg-config says, but at this: another library is another build.
export CGO_LDFLAGS="-L$build -Wl,-rpath,$build"
exec "$@"
