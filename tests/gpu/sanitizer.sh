#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What compute-sanitizer says: an overrun inside a cached segment is missed, found once blocks are
# announced through NVTX, and found without the cache; the pattern test is clean.
#
# Usage: sanitizer.sh BUILD      BUILD holds overrun and patterns
# Exit code: 0 all as expected, 1 not, 77 the tool cannot run here (its message is printed).
set -uo pipefail

build=${1:?usage: sanitizer.sh BUILD}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
readonly found_code=9
readonly limit=120

if ! command -v compute-sanitizer >/dev/null; then
  echo "skipped: compute-sanitizer is not on the PATH"
  exit 77
fi

# sanitize OPTION... PROGRAM ARGUMENT...: output to $log, exit code $found_code for a finding.
sanitize() {
  timeout "$limit" compute-sanitizer --error-exitcode "$found_code" "$@" >"$log" 2>&1
}

# memcheck PROGRAM ARGUMENT...: for faults of kernels only. A call that fails is not a fault: the
# library asks the driver for what older ones lack.
memcheck() {
  sanitize --tool memcheck --report-api-errors no --destroy-on-device-error kernel "$@"
}

# shellcheck disable=SC2317,SC2329  # called by expect_clean
racecheck() {
  sanitize --tool racecheck "$@"
}

# Whether the tool caught the planted write itself, not some other thing.
caught_write() {
  [ "$1" -eq "$found_code" ] && grep -q 'Invalid __global__ write of size 4' "$log"
}

result() {
  echo "$1: $2"
  [ "$1" = passed ] && return
  failed=1
  sed 's/^/    /' "$log" | tail -n 25
}

# expect_found NAME VARIABLE=VALUE
expect_found() {
  local name=$1 code=0
  (export "${2?}" && memcheck "$build/overrun") || code=$?
  if caught_write "$code"; then result passed "$name"; else result failed "$name (exit code $code)"; fi
}

# expect_clean NAME memcheck|racecheck PROGRAM ARGUMENT...
expect_clean() {
  local name=$1 code=0
  shift
  "$@" || code=$?
  # racecheck has a summary of its own: "0 hazards displayed".
  if [ "$code" -eq 0 ] && grep -Eq 'SUMMARY: 0 (errors|hazards)' "$log"; then
    result passed "$name"
  else
    result failed "$name (exit code $code)"
  fi
}

code=0
memcheck "$build/overrun" --memory driver || code=$?
if ! caught_write "$code"; then
  echo "skipped: compute-sanitizer does not find an overrun of plain cudaMalloc memory here:" \
    "$(grep -i -m 1 error "$log" || echo "no message, exit code $code")"
  sed 's/^/    /' "$log" | head -n 25
  exit 77
fi
echo "passed: an overrun of plain cudaMalloc memory is found"

unset CACHALOT_DEBUG PYTORCH_NO_CUDA_MEMORY_CACHING
expect_clean "an overrun inside a cached segment is missed" memcheck "$build/overrun"
expect_found "the same is found with CACHALOT_DEBUG=nvtx" CACHALOT_DEBUG=nvtx
expect_found "the same is found with PYTORCH_NO_CUDA_MEMORY_CACHING=1" \
  PYTORCH_NO_CUDA_MEMORY_CACHING=1

small=("$build/patterns" --seconds 3 --seed 7 --streams 2 --max-size 256KiB --limit 64MiB)
for config in "" expandable_segments:True backend:cudaMallocAsync; do
  expect_clean "memcheck finds nothing in patterns, options \"$config\"" \
    memcheck "${small[@]}" --threads 2 --config "$config"
done
# With two threads racecheck loses track ("Internal Sanitizer Error: Detected a failure to track a kernel
# launch").
small+=(--threads 1)
expect_clean "racecheck finds nothing in patterns" racecheck "${small[@]}" --config ""

# A block is withdrawn when the host frees it, so kernels queued before must have ended by then. The tool
# can refuse a heap ("Call to nvtxMemHeapRegister failed: The object is not ready to perform the requested
# operation"): it then does not look into that segment, and counts an error that is none of the program's.
export CACHALOT_DEBUG=nvtx
code=0
memcheck --force-blocking-launches "${small[@]}" --config "" || code=$?
refused=$(grep -c 'Call to nvtxMemHeapRegister failed' "$log")
allocations=$(sed -n 's/.*driver allocations \([0-9]*\).*/\1/p' "$log" | head -n 1)

# Whether the program passed, and the tool found nothing but the heaps that it refused, not all of them.
only_refusals() {
  grep -q 'SUMMARY: '"$refused"' error' "$log" || return
  [ "$refused" -gt 0 ] || return "$code"
  grep -q 'passed: no word differs' "$log" && [ "$refused" -lt "${allocations:-0}" ]
}

if only_refusals; then
  result passed "memcheck finds nothing in patterns with CACHALOT_DEBUG=nvtx ($refused heaps refused)"
else
  result failed "memcheck finds nothing in patterns with CACHALOT_DEBUG=nvtx (exit code $code, $refused heaps refused)"
fi
exit "$failed"
