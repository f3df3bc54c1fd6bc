#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# All tests that need a GPU: builds what they need, prints one line for each part.
#
#   tests/gpu/run.sh            all parts
#   tests/gpu/run.sh PART...    only these: scripts models trees extension libtorch patterns policy ended sanitizer
#                               bench costs totals devices example resources fill pinned sleep sharing hosts any live
#                               judgement
#
# Environment:
#   CUDA_HOME             the toolkit (/usr/local/cuda)
#   CACHALOT_GPU_TESTS    how many GPUs are promised: a part that finds fewer then fails instead of
#                         being skipped (0)
#   CACHALOT_GPU_OUT      where logs, tables and the plot go (build/gpu/results)
#   CACHALOT_GPU_SECONDS  how long the pattern test runs with each option string (30)
#   CACHALOT_PROGRAM      the program cachalot, for the parts any and live (build/release/cachalot)
#   CACHALOT_LIBTORCH     the folder that `tests/torch/libtorch.sh build` has filled, for the part libtorch
#                         (build/libtorch)
#   CACHALOT_GPU_BUDGET   how many seconds the judgement may take (540)
# Exit code: 0 nothing failed, 1 a part failed, 2 the call is wrong.
set -uo pipefail

cd "$(dirname "$0")/../.." || exit 2
root=$PWD
here=$root/tests/gpu
build=$root/build/gpu
programs=$build/gpu-tests
out=${CACHALOT_GPU_OUT:-$build/results}
promised=${CACHALOT_GPU_TESTS:-0}
seconds=${CACHALOT_GPU_SECONDS:-30}
budget=${CACHALOT_GPU_BUDGET:-540}
export CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
export PATH=$CUDA_HOME/bin:$PATH
readonly all_parts=(scripts models trees extension libtorch patterns policy ended sanitizer bench costs totals devices
  example resources fill pinned sleep sharing hosts any live judgement)
readonly skipped=77

# Each part is a function: 0 passed, 77 skipped, anything else failed. Its output is its log.
part_scripts() { hook 600 "$here/scripts.sh" "$build"; }
part_models() { hook 600 "$here/torch_models.py"; }
part_trees() { hook 500 "$here/torch_graph_trees.py" --json "$out/trees.json"; }

# Processes on PyTorch's own allocator read the same variable.
part_extension() {
  local segments
  for segments in False True; do
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:$segments TORCH_EXTENSIONS_DIR=$build/extensions \
      hook 280 "$root/tests/torch/extension_test.py" || return
  done
}

# Its programs need GoogleTest and Cargo: they are built elsewhere.
part_libtorch() {
  local programs=${CACHALOT_LIBTORCH:-$root/build/libtorch}
  [ -n "${TORCH:-}" ] || { echo "skipped: no torch"; return "$skipped"; }
  [ -x "$programs/libtorch_test" ] ||
    { echo "skipped: $programs/libtorch_test is not there (tests/torch/libtorch.sh build)"; return "$skipped"; }
  hook 300 "$root/tests/torch/libtorch.sh" run "$build" "$TORCH" "$programs"
}

part_patterns() {
  timeout $((5 * seconds + 60)) "$programs/patterns" --seconds "$seconds" || return
  echo "Once more, with a planted fault that must be found:"
  local code=0
  timeout 60 "$programs/patterns" --seconds 2 --omit record-stream --config "" || code=$?
  # Not any failure will do: words must have differed.
  [ "$code" -eq 1 ] && grep -q 'words that differ: [1-9]' "$out/patterns.log" && return
  echo "failed: the planted fault was not found (exit code $code)"
  return 1
}

part_policy() {
  local short=$(((seconds + 2) / 3)) policy
  timeout $((seconds + 60)) "$programs/patterns" --seconds "$seconds" --policy serving || return
  for policy in serving,streams=announced serving,thrift serving,borrow=at_limit serving,page=8MiB; do
    timeout $((short + 60)) "$programs/patterns" --seconds "$short" --policy "$policy" || return
  done
  # What the faults are planted in works as it is. It has no event of all streams, so that without the promise
  # the host waits.
  for policy in serving serving,streams=announced; do
    timeout $((short + 60)) "$programs/patterns" --seconds "$short" --policy "$policy" --driver custom || return
  done
  policy_fault record-stream && policy_fault stream-wait --live 40 && policy_fault host-wait
}

# policy_fault WHAT OPTION...: a planted fault is found. Memory that was taken away under a kernel can
# also end in an illegal access.
policy_fault() {
  local what=$1 code=0 log=$out/policy-$1.log
  shift
  echo "With a planted fault that must be found: $what"
  timeout 60 "$programs/patterns" --seconds 3 --policy serving,streams=announced --driver custom --omit "$what" "$@" \
    >"$log" 2>&1 || code=$?
  cat "$log"
  [ "$code" -eq 1 ] && grep -qE 'words that differ: [1-9]|illegal memory access|launch failure' "$log" && return
  echo "failed: the planted fault was not found (exit code $code)"
  return 1
}

part_ended() { timeout 300 "$programs/ended_streams"; }

part_sanitizer() { timeout 600 "$here/sanitizer.sh" "$programs"; }

part_bench() {
  local torch=()
  # Without PyTorch there is nothing to be so many times as fast as.
  [ ! -e "$programs/libtorch_plugin.so" ] || torch=(--torch "$programs/libtorch_plugin.so" --require 5 --miss-percent 105)
  timeout 240 "$programs/bench" "${torch[@]}" --out "$out"
}

part_costs() {
  timeout 180 "$programs/driver_costs" --out "$out" || return
  python3 -c 'import matplotlib' 2>/dev/null || { echo "no matplotlib: the plot is left out"; return 0; }
  python3 "$here/plot_costs.py" "$out/driver_costs.csv" "$out/gpu-driver-costs.svg"
}

part_totals() { timeout 120 "$programs/totals"; }
part_devices() { timeout 120 "$programs/devices"; }

part_fill() { timeout 300 "$programs/fill" --out "$out"; }

part_pinned() {
  local torch=()
  [ ! -e "$programs/libtorch_pinned_plugin.so" ] || torch=(--torch "$programs/libtorch_pinned_plugin.so")
  timeout 300 "$programs/pinned" "${torch[@]}" --out "$out"
}

part_sleep() { timeout 300 "$programs/sleep" --require 80 --out "$out"; }
part_resources() { timeout 120 "$programs/resources"; }
part_sharing() { timeout 200 "$programs/sharing"; }

# Without the tests of numba-cuda, which take eight minutes (--numba-tests).
part_hosts() {
  hook 590 "$here/hosts.py" --rounds 2 --out "$out" || return
  # Without any host there is nothing to be measured.
  grep -q '^| `' "$out/hosts.md" || { echo "skipped: none of CuPy, Numba and RMM is installed"; return "$skipped"; }
}

# The program needs more libraries than these parts: it is built elsewhere.
part_any() {
  local cachalot=${CACHALOT_PROGRAM:-$root/build/release/cachalot}
  [ -x "$cachalot" ] || { echo "skipped: $cachalot is not there (CACHALOT_PROGRAM)"; return "$skipped"; }
  hook 590 "$here/any_program.py" "$cachalot" --rounds 3 --out "$out"
}

part_live() {
  local cachalot=${CACHALOT_PROGRAM:-$root/build/release/cachalot}
  [ -x "$cachalot" ] || { echo "skipped: $cachalot is not there (CACHALOT_PROGRAM)"; return "$skipped"; }
  hook 400 "$here/live.py" "$cachalot"
}

part_judgement() {
  hook $((budget + 50)) "$here/policy_judgement.py" --seconds "$budget" --out "$out"
}

part_example() {
  local code=0
  timeout 120 "$programs/two_streams" || code=$?
  [ "$code" -eq 2 ] || return "$code"
  echo "skipped: $(tail -n 1 "$out/example.log")"
  return "$skipped"
}

# hook SECONDS PROGRAM ARGUMENT...: a part that is a program of its own.
hook() {
  local limit=$1
  shift
  [ -x "$1" ] || { echo "skipped: ${1#"$root"/} is not there"; return "$skipped"; }
  CACHALOT_LIB_DIR=$build timeout "$limit" "$@"
}

# Why nothing can run here; empty if it can.
missing() {
  local gpus
  [ -x "$CUDA_HOME/bin/nvcc" ] || { echo "no nvcc in $CUDA_HOME/bin"; return; }
  command -v nvidia-smi >/dev/null || { echo "no GPU: no nvidia-smi"; return; }
  gpus=$(nvidia-smi -L 2>&1) || echo "no GPU: $(head -n 1 <<<"$gpus")"
}

build_all() {
  export TORCH
  TORCH=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2>/dev/null) || unset TORCH
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCACHALOT_BUILD_TESTS=OFF \
    -DCACHALOT_BUILD_EXAMPLES=OFF -DCACHALOT_BUILD_TOOLS=OFF &&
    cmake --build "$build" --target cachalot cachalot_pluggable cachalot_libtorch --parallel "$(nproc)" &&
    "$here/build.sh" "$programs" "$build"
}

# broken_promise PART REASON: is its being skipped against the promise? Two GPUs are promised by 2, and
# a tool or PyTorch by nobody.
broken_promise() {
  case $1:$2 in
    sanitizer:* | models:"no torch" | trees:"no torch" | extension:"no torch" | libtorch:"no torch" | \
      judgement:"no torch") return 1 ;;
    devices:*) [ "$promised" -ge 2 ] ;;
    *) [ "$promised" -ge 1 ] ;;
  esac
}

failures=0
report() {
  printf '%-10s %s\n' "$1" "$2"
  case $2 in failed*) failures=$((failures + 1)) ;; esac
}

# report_skip PART REASON
report_skip() {
  if broken_promise "$1" "$2"; then report "$1" "failed: a GPU was promised, but $2"; else report "$1" "skipped: $2"; fi
}

run_part() {
  local log=$out/$1.log begin=$SECONDS code=0
  "part_$1" >"$log" 2>&1 || code=$?
  case $code in
    0) report "$1" "passed in $((SECONDS - begin)) s" ;;
    "$skipped") report_skip "$1" "$(sed -n 's/^skipped: //p' "$log" | head -n 1)" ;;
    124) report "$1" "failed: it ran out of time; see $log" ;;
    *) report "$1" "failed: $(tail -n 1 "$log") (exit code $code; see $log)" ;;
  esac
}

parts=("$@")
[ $# -gt 0 ] || parts=("${all_parts[@]}")
for part in "${parts[@]}"; do
  [[ " ${all_parts[*]} " == *" $part "* ]] || { echo "no such part: $part" >&2; exit 2; }
done
[[ $promised =~ ^[0-9]+$ && $seconds =~ ^[0-9]+$ && $budget =~ ^[0-9]+$ ]] ||
  { echo "CACHALOT_GPU_TESTS, CACHALOT_GPU_SECONDS and CACHALOT_GPU_BUDGET are numbers" >&2; exit 2; }

reason=$(missing)
if [ -n "$reason" ]; then
  for part in "${parts[@]}"; do report_skip "$part" "$reason"; done
else
  mkdir -p "$out"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv >"$out/machine.txt"
  if build_all >"$out/build.log" 2>&1; then
    for part in "${parts[@]}"; do run_part "$part"; done
  else
    report build "failed: $(grep -m 1 -i error "$out/build.log") (see $out/build.log)"
  fi
fi
[ "$failures" -eq 0 ]
