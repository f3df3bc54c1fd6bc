#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Golden and fresh scripts on the cuda driver of the first GPU, line by line against the oracle with
# the addresses that the GPU gave.
#
#   tests/gpu/scripts.sh [BUILD]     BUILD: a build folder with the tests in it, or to make them in
#
# Environment:
#   CACHALOT_VERIFY_ON_GPU   the program, if it was built elsewhere
#   CACHALOT_ORACLES         a folder with 2.11/build/oracle and 2.15/build/oracle (build/oracles,
#                            made by tests/oracle/fetch.sh if it is not there)
#   CACHALOT_GPU_SEED        of the fresh scripts (the time)
# Exit code: 0 no difference, 1 a difference or a fault, 77 skipped.
set -uo pipefail

cd "$(dirname "$0")/../.." || exit 2
build=${1:-build/gpu}
oracles=${CACHALOT_ORACLES:-build/oracles}
seed=${CACHALOT_GPU_SEED:-$(date +%s)}
work=$build/scripts
releases=(2.11 2.15)
readonly configs=("" expandable_segments:True max_split_size_mb:32 roundup_power2_divisions:4
  garbage_collection_threshold:0.6 max_split_size_mb:128,garbage_collection_threshold:0.5
  large_segment_size_mb:64 graph_capture_record_stream_reuse:True
  expandable_segments:True,graph_capture_record_stream_reuse:True
  per_process_memory_fraction:0.5 release_lock_on_cudamalloc:True)

build_program() {
  program=${CACHALOT_VERIFY_ON_GPU:-}
  [ -z "$program" ] || return 0
  cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCACHALOT_BUILD_TESTS=ON &&
    cmake --build "$build" --target cachalot_verify_on_gpu --parallel "$(nproc)" || return
  program=$(find "$build" -name cachalot_verify_on_gpu -type f | head -n 1)
}

# fresh GENERATOR PROFILES RELEASE
fresh() {
  local release=$3 profile config
  for profile in $2; do
    for config in "${configs[@]}"; do
      seed=$((seed + 1))
      python3 "tests/oracle/$1.py" "$profile" "$seed" 400 "$config" "$release" \
        >"$work/$release/$1-$profile-$seed.txt" || return
    done
  done
}

# verify RELEASE NAME FILE...: in several processes, since the oracle's part is the longest
verify() {
  local release=$1 name=$2 log=$work/$1-$2.log
  shift 2
  printf '%s\0' "$@" | xargs -0 -P 8 -n 12 timeout 60 "$program" --torch "$release" \
    --oracle "$oracles/$release/build/oracle" >"$log" 2>"$log.err"
  local code=$?
  grep -E 'differs at|^[^ ]*\.(txt|gz|xz):|^    |^verify_on_gpu' "$log" "$log.err" | head -n 40
  awk -v name="$release $name" '
    / lines compared, / { s += $1; o += $3; l += $5; a += $8; d += $13; f += $15 }
    /^skipped, since/ { n = $NF; sub(/: [0-9]+$/, ""); skipped[$0] += n }
    /^ended early/ { n = $NF; sub(/: [0-9]+$/, ""); skipped[$0] += n }
    END {
      for (reason in skipped) printf "  %s: %d\n", reason, skipped[reason]
      printf "%s: %d scripts, %d operations, %d lines compared, %d addresses from the GPU, " \
             "%d differences, %d faulty\n", name, s, o, l, a, d, f
      exit s == 0
    }' "$log" || code=1
  return "$code"
}

build_program || { echo "failed: the program could not be built"; exit 1; }
code=0
echo "seed $seed"
for release in "${releases[@]}"; do
  [ -x "$oracles/$release/build/oracle" ] ||
    tests/oracle/fetch.sh "$oracles/$release" "$release.0" >"$work-fetch.log" 2>&1 ||
    { echo "skipped: no oracle in $oracles/$release, and none could be fetched"; exit 77; }
  rm -rf "${work:?}/$release"
  mkdir -p "$work/$release"
  fresh gen "mixed small large edge training serving streams record limit limit_record oom pools settings everything" "$release" || exit 1
  fresh gen_rough "raw callbacks own routing captures streams history settings" "$release" || exit 1
  verify "$release" golden tests/golden/"$release"/*.?z tests/golden/"$release"/cases/*.?z || code=1
  verify "$release" fresh "$work/$release"/gen-*.txt || code=1
  verify "$release" rough "$work/$release"/gen_rough-*.txt || code=1
done
exit "$code"
