#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Counts the code of core and capi: counts.py, with what it needs.
#
#   tests/tidy/counts.sh [--self-test]
#
# Exit status 77: what it needs cannot be fetched; with CI set that is 1.
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh

if ! bindings/generate/fetch.sh libclang; then
  leave_out "libclang cannot be fetched: the code is not counted"
fi
PYTHONPATH=build/libclang:. exec python3 -B tests/tidy/counts.py "$@"
