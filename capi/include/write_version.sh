#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes FOLDER/cachalot/version.h as CMake does, for what needs the header without a build.
#
#   capi/include/write_version.sh FOLDER
set -eu
include=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/cachalot"
IFS=. read -r major minor patch <"$include/../../VERSION"
sed -e "s/@PROJECT_VERSION_MAJOR@/$major/" -e "s/@PROJECT_VERSION_MINOR@/$minor/" \
  -e "s/@PROJECT_VERSION_PATCH@/$patch/" -e "s/@PROJECT_VERSION@/$major.$minor.$patch/" \
  "$include/cachalot/version.h.in" >"$1/cachalot/version.h"
