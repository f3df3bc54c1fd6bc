#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The checks of the Go module, with the library of a build tree or of CACHALOT_LIB_DIR.
#
#   bindings/go/test.sh [BUILD] [PART...]   BUILD: build/release; PART: all but the last five
#
#   lint      gofmt, go vet, staticcheck; the module needs no other
#   test      all tests, all golden files; the programs of examples/go print what they should
#   metrics   the module of metrics: go vet, its tests
#   nocgo     without cgo or a library there is one error, which says what is missing
#   race      the tests once more with the race detector
#   bench     each benchmark once
#   consumer  a release, made in a clone: release_test.sh
#   strict    the tests once more with Go's strictest checks of what is passed to C, collecting at every chance
#   fuzz      the fuzz targets, CACHALOT_FUZZ_INPUTS (80000) each
#   asan      the tests once more with a library under the address sanitizer: that of CACHALOT_ASAN_LIB_DIR
#   otlp      examples/go/metrics sends to a collector of OpenTelemetry; staticcheck of the module of metrics: both look
#             at many packages
#
# Exit status: 0 all is well, 77 there is no Go that is new enough, no Git, no pkg-config (an error where CI is set).
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
. "$root/tests/need.sh"
build=$(cd "$root" && cd "${1:-build/release}" && pwd)
[ $# -eq 0 ] || shift
library=${CACHALOT_LIB_DIR:-$build}
out=$build/go
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.7.0

needed=$(sed -n 's/^go //p' go.mod)
export GOTOOLCHAIN=local
found=$(go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
at_least "$needed" "$found" ||
  leave_out "Go $needed or newer is missing (go.dev/dl; found: ${found:-none}): its packages are not tested"
command -v git >/dev/null || leave_out "Git is missing (Debian: git): Go's packages are not tested"
command -v pkg-config >/dev/null ||
  leave_out "pkg-config is missing (Debian: pkgconf): Go's packages are not tested"
export PKG_CONFIG_PATH="$library/pkgconfig" GOFLAGS=-tags=cachalot_installed
# Go's build cache does not look at what pkg-config says, but at this: another library is another build.
export CGO_LDFLAGS="-L$library -Wl,-rpath,$library"
export LD_LIBRARY_PATH="$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CACHALOT_GOLDEN_DIR="$root/tests/golden"
examples=$root/examples/go

run_lint() {
  unformatted=$(gofmt -l . "$examples")
  if [ -n "$unformatted" ]; then
    printf 'not formatted by gofmt:\n%s\n' "$unformatted" >&2
    return 1
  fi
  modules=$(go list -m all)
  if [ "$modules" != "$(sed -n 's/^module //p' go.mod)" ]; then
    printf 'the module needs others:\n%s\n' "$modules" >&2
    return 1
  fi
  go vet ./...
  (cd "$examples" && go vet ./...)
  check_static
}

# Comes from Go's module proxy; without it the check is left out, and is an error where CI is set.
check_static() {
  [ $# -gt 0 ] || set -- . "$examples"
  if ! go run "$staticcheck" -version >/dev/null 2>"$out/staticcheck.log"; then
    cat "$out/staticcheck.log" >&2
    [ -z "${CI+set}" ] || return 1
    echo "staticcheck could not be fetched: it is left out" >&2
    return 0
  fi
  for folder; do (cd "$folder" && go run "$staticcheck" ./...); done
}

run_test() {
  go test -count=1 . ./internal/raw
  for name in first_block streams out_of_memory fragmentation two_models; do
    (cd "$examples" && CACHALOT_DRIVER=sim:1GiB go run "./$name") >"$out/$name.txt"
    cmp "$out/$name.txt" "$examples/expected/$name.txt"
    echo "examples/go/$name prints what it should"
  done
}

# Comes from Go's module proxy like staticcheck, and the module needs a newer Go.
run_metrics() {
  if ! (cd metrics && go mod download) 2>"$out/metrics.log"; then
    cat "$out/metrics.log" >&2
    [ -z "${CI+set}" ] || return 1
    echo "the module of metrics is left out" >&2
    return 0
  fi
  (cd metrics && go mod tidy -diff && go vet ./... && go test -count=1 ./...)
}

run_otlp() {
  check_static metrics
  (cd "$examples/metrics" && go vet ./... && go test -count=1 ./...)
}

# fails_with TEXT COMMAND...: the command has one error, which is TEXT.
fails_with() {
  text=$1
  shift
  if "$@" >"$out/fails.log" 2>&1; then
    echo "it works: $*" >&2
    return 1
  fi
  [ "$(grep -Ec ': (error|undefined): ' "$out/fails.log")" -eq 1 ]
  grep -q "$text" "$out/fails.log"
}

# Who has no C compiler, or has cgo off, is told so, and nothing else; likewise who lacks what a tag needs.
run_nocgo() {
  for tags in '' cachalot_installed cachalot_bundled; do
    fails_with 'undefined: cachalot_needs_cgo__install_a_C_compiler_and_set_CGO_ENABLED_to_1$' \
      env CGO_ENABLED=0 go build -tags "$tags" .
  done
  rm -rf "$out/bare"
  mkdir "$out/bare"
  cp -r go.mod ./*.go internal "$out/bare"
  (cd "$out/bare" && refuse_clone)
}

# A clone has neither libraries nor the amalgamation.
refuse_clone() {
  rm -f internal/raw/prebuilt.h internal/raw/cachalot.h internal/raw/cachalot.cpp
  fails_with 'error: .*: prebuilt.sh, or the tag cachalot_installed' go build -tags '' .
  fails_with 'error: .*build the CMake target cachalot_amalgamation first' go build -tags cachalot_bundled .
  # Another platform's error is the name of a variable in this file.
  env GOARCH=riscv64 CGO_ENABLED=1 go list -tags '' -f '{{.GoFiles}} {{.CgoFiles}}' ./internal/raw >"$out/riscv.log"
  grep -q 'not_prebuilt.go' "$out/riscv.log"
  if grep -q '[^_]prebuilt.go' "$out/riscv.log"; then return 1; fi
}

run_strict() {
  GOEXPERIMENT=cgocheck2 GOGC=1 go test -count=1 -short . ./internal/raw
}

run_race() {
  go test -count=1 -short -race . ./internal/raw
}

# So many inputs, since Go's tool can fail at the end of a time ("context deadline exceeded").
run_fuzz() {
  for target in FuzzOptions FuzzTrace; do
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${CACHALOT_FUZZ_INPUTS:-80000}x" .
  done
}

run_bench() {
  go test -run '^$' -bench . -benchtime 1x . >"$out/bench.txt"
  grep -c '^Benchmark' "$out/bench.txt"
}

# The C++ side: what the package does to the library is what C could do. Leaks are what tests leave on purpose.
run_asan() {
  PKG_CONFIG_PATH="$CACHALOT_ASAN_LIB_DIR/pkgconfig" \
    CGO_LDFLAGS="-L$CACHALOT_ASAN_LIB_DIR -Wl,-rpath,$CACHALOT_ASAN_LIB_DIR" go test -c -o "$out/asan.test" .
  LD_PRELOAD=$("${CC:-cc}" -print-file-name=libasan.so) LD_LIBRARY_PATH=$CACHALOT_ASAN_LIB_DIR \
    ASAN_OPTIONS=detect_leaks=0:handle_segv=0 "$out/asan.test" -test.short
}

run_consumer() {
  ./release_test.sh "$build"
}

mkdir -p "$out"
[ $# -gt 0 ] || set -- lint test metrics nocgo race bench
for part; do
  case $part in
    lint | test | metrics | nocgo | strict | race | fuzz | bench | consumer | asan | otlp)
      begin=$(date +%s)
      "run_$part"
      echo "$part: $(($(date +%s) - begin)) s"
      ;;
    *) echo "There is no part $part" >&2; exit 2 ;;
  esac
done
