#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Gives the Go modules another path, in all files that git has: bindings/go/rename.sh PATH
set -eu
path=$1
cd "$(dirname "$0")/../.."
old=$(sed -n 's/^module //p' bindings/go/go.mod)
git grep -lIF "$old" | while IFS= read -r file; do
  # A path that only begins alike is another one.
  sed -i "s#$(echo "$old" | sed 's/\./\\./g')\\b#$path#g" "$file"
  case $file in *.go) gofmt -w "$file" ;; esac
done
