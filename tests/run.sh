#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# All tests, from a clean clone on a Debian machine: installs what is missing, builds, tests, and prints
# how long each stage took.
#
#   tests/run.sh            all stages: format lint release portable asan tsan
#   tests/run.sh STAGE...   only these
#   tests/run.sh long       what takes hours: fresh seeds, packages, other compilers (tests/long.sh)
set -eu
cd "$(dirname "$0")/.."
. tests/need.sh

# Without PyPI what needs the toolkit is left out, as CMake says; with CI set that is an error.
fetch_toolkit() {
  tests/toolkit/fetch.sh && return
  [ -z "${CI+set}" ] || exit 1
  echo "The CUDA Toolkit could not be fetched: what needs it is not tested" >&2
}

# Likewise what reads the public header for the bindings.
fetch_generator() {
  bindings/generate/fetch.sh && return
  [ -z "${CI+set}" ] || exit 1
  echo "libclang could not be fetched: the bindings' generated files are not compared" >&2
}

# And ONNX Runtime with its header, for its allocator and the servers.
fetch_onnxruntime() {
  bindings/onnxruntime/fetch.sh && return
  [ -z "${CI+set}" ] || exit 1
  echo "ONNX Runtime could not be fetched: cachalot as its allocator is not tested" >&2
}

# What `release` and the stages behind it take from the network, while the first stages compute.
begin_fetching() {
  fetch_toolkit &
  toolkit=$!
  fetch_generator &
  generator=$!
  (. capi/packaging/portable/zig.sh && fetch_zig) &
  zig=$!
}

# `release` has the golden files, the recorded runs, the exported symbols, an installed consumer, the bindings, the checks
# of the tree, and those tests of core and capi that no sanitizer runs; `asan` has all others, with all assertions.
stage_release() {
  fetch_onnxruntime
  wait "$toolkit"
  wait "$generator"
  rm -f "$failed_tests"
  cmake --workflow --preset release-beside-sanitizers || repeat_alone
}

failed_tests=build/release/Testing/Temporary/LastTestsFailed.log

# Tests run beside each other, more than there are processors: one or two that fail then run once more by themselves,
# and what they print is the end of the log. (The list has example.two_streams too, which is skipped without a GPU.)
repeat_alone() {
  [ -s "$failed_tests" ] && [ "$(wc -l <"$failed_tests")" -le 3 ] || return 1
  echo "=== failed beside others, and once more alone: $(cut -d: -f2 "$failed_tests" | paste -sd ' ')"
  ctest --test-dir build/release --rerun-failed --output-on-failure --parallel 1
}

# What is published as binaries, for the machine that this one is not: the bounds of what they need, and expected files
# of PyTorch's under QEMU. The part `portable` of the long tests has both machines, and all that is published.
stage_portable() {
  [ -z "${zig-}" ] || wait "$zig" || true  # build.sh fetches again what could not be fetched
  capi/packaging/portable/build.sh --quick aarch64
  capi/packaging/portable/check.py build/portable/quick/aarch64 --libraries --self-test >/dev/null 2>&1
  capi/packaging/portable/verify.sh --quick aarch64 2.15 tests/golden/2.15/cases/*.?z >build/portable/quick/cases.txt
  tail -n 1 build/portable/quick/cases.txt
}

stage_asan() {
  cmake --workflow --preset asan-ubsan
}

stage_tsan() {
  cmake --workflow --preset tsan
}

stage_format() {
  find core capi tests examples bindings/hosts bindings/libtorch bindings/onnxruntime bindings/python \
    \( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cpp' -o -name '*.cu' \) -print0 |
    xargs -0 clang-format --dry-run -Werror
}

stage_lint() {
  bindings/python/types/check.sh build/types
  fetch_onnxruntime
  cmake --preset lint >/dev/null
  # The longest first, so that no processor waits for it at the end. Of the program, how it hands over values does not
  # matter, and to look into the headers of its libraries for that takes a tenth of all the time.
  find build/lint -name 'unity_*.cxx' -printf '%s %p\n' | sort -rn | cut -d' ' -f2 |
    sed -e 's/$/ --checks=-bugprone-suspicious-include/' \
      -e '/cachalot_cli/s/$/,-performance-unnecessary-value-param/' |
    xargs -L 1 -P "$(nproc)" clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option \
      --extra-arg=-Wno-unused-command-line-argument
}

stage_long() {
  tests/long.sh
}

run_stage() {
  begin=$(date +%s)
  echo "=== $1"
  "stage_$1"
  times="$times$(printf '%8s s  %s' $(($(date +%s) - begin)) "$1")
"
}

[ $# -gt 0 ] || set -- format lint release portable asan tsan
for stage; do
  case $stage in
    format | lint | release | portable | asan | tsan | long) ;;
    *)
      echo "no such stage: $stage" >&2
      exit 2
      ;;
  esac
done

# Where the installers of Rust and Go put them, for shells that have not been told.
export PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:/usr/local/go/bin"
need cmake ninja-build g++ libgtest-dev libcli11-dev libcpp-httplib-dev nlohmann-json3-dev zlib1g-dev liblzma-dev libsqlite3-dev \
  abigail-tools python3 python3-pip python3-prometheus-client unzip xz-utils pkgconf locales clang-format clang-tidy \
  clang-14 valgrind git default-jdk-headless maven python3-venv mandoc groff-base zsh fish doxygen
# One with a decimal comma, which must change nothing.
mkdir -p build/locales
localedef -i de_DE -f UTF-8 build/locales/de_DE.UTF-8
export LOCPATH="$PWD/build/locales"
export CARGO_INCREMENTAL=0  # what is built once gains nothing from files for the next time
export CTEST_PARALLEL_LEVEL="$(($(nproc) + 1))"  # some wait for the network
times=
case " $* " in *" release "*) begin_fetching ;; esac
for stage; do run_stage "$stage"; done
printf '=== All passed.\n%s' "$times"
