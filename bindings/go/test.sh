#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks and tests Go's packages with the library of a build tree.
#
#   bindings/go/test.sh [BUILD]   BUILD: build/release
#
# Exit status 77: there is no Go that is new enough; with CI set that is 1.
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
. "$root/tests/need.sh"
build=$(cd "$root" && cd "${1:-build/release}" && pwd)

needed=$(sed -n 's/^go //p' go.mod)
export GOTOOLCHAIN=local
found=$(go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
at_least "$needed" "$found" ||
  leave_out "Go $needed or newer is missing (go.dev/dl; found: ${found:-none}): its packages are not tested"

unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
  printf 'not formatted by gofmt:\n%s\n' "$unformatted" >&2
  exit 1
fi
export PKG_CONFIG_PATH="$build/pkgconfig"
go vet ./...
# Go's strictest check of what is passed to C, with a collection at every chance.
GOEXPERIMENT=cgocheck2 GOGC=1 go test -count=1 ./...
