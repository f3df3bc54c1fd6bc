#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the fuzzers and lets each run for some seconds over the committed corpora.
#
#   tests/fuzz/run.sh [SECONDS] [NAME...]     NAME: options, trace, calls, pickle, rmm,
#                                             nsight; SECONDS: 5
#
# CACHALOT_FUZZ_SEED is libFuzzer's seed (7). What is new stays in build/fuzz/corpus, what fails in
# build/fuzz/failures; feed a file to build/fuzz/tests/cachalot_fuzz_NAME to see it again.
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh

seconds=${1:-5}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- options trace calls pickle rmm nsight
# To libFuzzer 0, and what is no number, is without end.
[ "$seconds" -gt 0 ] 2>/dev/null || {
  echo "SECONDS is $seconds: it has to be a number above 0" >&2
  exit 2
}

# Without the runtime there is nothing to do; with CI set that is an error.
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++-14 -fsanitize=fuzzer -x c++ - -o /dev/null 2>/dev/null; then
  leave_out "clang 14 has no fuzzer runtime (Debian: clang-14, libclang-rt-14-dev): the fuzzers are left out" 0
fi

cmake --preset fuzz >/dev/null
targets=
for name; do targets="$targets cachalot_fuzz_$name"; done
# shellcheck disable=SC2086
cmake --build build/fuzz --target $targets

mkdir -p build/fuzz/failures
for name; do
  mkdir -p "build/fuzz/corpus/$name"
  dictionary=
  [ ! -f "tests/fuzz/$name.dict" ] || dictionary=-dict=tests/fuzz/$name.dict
  echo "--- $name, $seconds s"
  (
    # Long inputs are slow, and find nothing that short ones do not. Memory and time are bounded whatever the input is. No dictionary: no word.
    # shellcheck disable=SC2086
    "build/fuzz/tests/cachalot_fuzz_$name" -seed="${CACHALOT_FUZZ_SEED:-7}" -max_len=1024 -max_total_time="$seconds" -timeout=20 \
      -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 $dictionary \
      -artifact_prefix=build/fuzz/failures/"$name"- \
      "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
  ) 2>&1 | tee "build/fuzz/$name.log" | grep -E 'DEFECT|ERROR|SUMMARY|executed_units|peak_rss' || true
  ! grep -qE 'DEFECT|ERROR:|SUMMARY' "build/fuzz/$name.log"
done
