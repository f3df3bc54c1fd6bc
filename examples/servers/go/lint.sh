#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# How the server is written: `lint.sh BUILD`, a build tree with libcachalot_onnxruntime.so.
set -eu
"$(dirname "$0")/with.sh" "${1:?usage: lint.sh BUILD}" go vet ./...
cd "$(dirname "$0")"
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
  printf 'not formatted by gofmt:\n%s\n' "$unformatted" >&2
  exit 1
fi
