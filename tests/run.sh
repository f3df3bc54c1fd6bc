#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# All tests, from a clean clone on a Debian machine: installs what is missing, builds, tests, and prints
# how long each stage took.
#
#   tests/run.sh            the usual stages: format release
#   tests/run.sh STAGE...   only these: format release lint asan tsan
set -eu
cd "$(dirname "$0")/.."
. tests/need.sh

# `release` has the unit tests, the golden files, the recorded runs, the exported symbols, an installed
# consumer and the checks of the tree; the sanitizers then repeat what concerns them.
stage_release() {
  cmake --workflow --preset release
}

stage_asan() {
  cmake --workflow --preset asan-ubsan
}

stage_tsan() {
  cmake --workflow --preset tsan
}

stage_format() {
  find core capi tests examples \( -name '*.h' -o -name '*.c' -o -name '*.cpp' \) -print0 |
    xargs -0 clang-format --dry-run -Werror
}

# Needs the compile commands of `release`.
stage_lint() {
  [ -f build/release/compile_commands.json ] || cmake --preset release
  find core capi -name '*.cpp' -print0 |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet \
      --extra-arg=-Wno-unknown-warning-option
}

run_stage() {
  begin=$(date +%s)
  echo "=== $1"
  "stage_$1"
  times="$times$(printf '%8s s  %s' $(($(date +%s) - begin)) "$1")
"
}

[ $# -gt 0 ] || set -- format release
for stage; do
  case $stage in
    format | release | lint | asan | tsan) ;;
    *)
      echo "no such stage: $stage" >&2
      exit 2
      ;;
  esac
done

need cmake ninja-build g++ libgtest-dev libcli11-dev nlohmann-json3-dev zlib1g-dev liblzma-dev python3 xz-utils pkgconf \
  clang-format clang-tidy
export CTEST_PARALLEL_LEVEL="$(nproc)"
times=
for stage; do run_stage "$stage"; done
printf '=== All passed.\n%s' "$times"
