#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The checks of the Go module, with the library of a build tree or of CACHALOT_LIB_DIR.
#
#   bindings/go/test.sh [BUILD] [PART...]   BUILD: build/release; PART: all but the last three
#
#   lint      gofmt, go vet, staticcheck; the module needs no other
#   test      all tests, all golden files; the programs of examples/go print what they should
#   nocgo     without cgo the compiler says why it does not work
#   race      the tests once more with the race detector
#   bench     each benchmark once
#   consumer  a release, made in a clone: a module of its own takes it from a proxy, with an empty module cache, by
#             pkg-config and compiled from the amalgamation inside, which passes the tests too
#   strict    the tests once more with Go's strictest checks of what is passed to C, collecting at every chance
#   fuzz      the fuzz targets, CACHALOT_FUZZ_INPUTS (80000) each
#   asan      the tests once more with a library under the address sanitizer: that of CACHALOT_ASAN_LIB_DIR
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
version=v$(cat "$root/VERSION")
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.7.0

needed=$(sed -n 's/^go //p' go.mod)
export GOTOOLCHAIN=local
found=$(go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
at_least "$needed" "$found" ||
  leave_out "Go $needed or newer is missing (go.dev/dl; found: ${found:-none}): its packages are not tested"
command -v git >/dev/null || leave_out "Git is missing (Debian: git): Go's packages are not tested"
command -v pkg-config >/dev/null ||
  leave_out "pkg-config is missing (Debian: pkgconf): Go's packages are not tested"
export PKG_CONFIG_PATH="$library/pkgconfig"
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
  if ! go run "$staticcheck" -version >/dev/null 2>"$out/staticcheck.log"; then
    cat "$out/staticcheck.log" >&2
    [ -z "${CI+set}" ] || return 1
    echo "staticcheck could not be fetched: it is left out" >&2
    return 0
  fi
  go run "$staticcheck" ./...
  (cd "$examples" && go run "$staticcheck" ./...)
}

run_test() {
  go test -count=1 . ./internal/raw
  for name in first_block streams out_of_memory fragmentation two_models; do
    (cd "$examples" && CACHALOT_DRIVER=sim:1GiB go run "./$name") >"$out/$name.txt"
    cmp "$out/$name.txt" "$examples/expected/$name.txt"
    echo "examples/go/$name prints what it should"
  done
}

# Who has no C compiler, or has cgo off, is told so, and nothing else.
run_nocgo() {
  for tags in '' cachalot_bundled; do
    if CGO_ENABLED=0 go build -tags "$tags" . 2>"$out/nocgo.log"; then
      echo "it builds without cgo" >&2
      return 1
    fi
    grep -q 'undefined: cachalot_needs_cgo__install_a_C_compiler_and_set_CGO_ENABLED_to_1$' "$out/nocgo.log"
    [ "$(wc -l <"$out/nocgo.log")" -eq 2 ] # the package's name, and this
  done
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

# A repository with what the module is made of, as it is here now. Git's variables, of a hook, would mean another one.
write_clone() {
  rm -rf "$out/clone"
  mkdir -p "$out/clone/bindings"
  (
    cd "$root"
    cp -r .gitignore VERSION LICENSE LICENSE-APACHE LICENSE-MIT CMakeLists.txt core capi "$out/clone"
    cp -r bindings/go "$out/clone/bindings"
    cd "$out/clone"
    # shellcheck disable=SC2046
    unset $(git rev-parse --local-env-vars)
    git init -q
    git add .
    git -c user.name=Test -c user.email=test@example.org -c commit.gpgsign=false commit -q -m "A clone"
    git clean -fdxq  # what was made here
  )
}

# Without the amalgamation the compiler says which target makes it; the target puts it in place.
check_clone() {
  clone=$out/clone
  if (cd "$clone/bindings/go" && go build -tags cachalot_bundled . 2>"$out/clone.log"); then
    echo "it builds without the amalgamation" >&2
    return 1
  fi
  [ "$(grep -c 'error:' "$out/clone.log")" -eq 1 ]
  grep -q 'error: .*build the CMake target cachalot_amalgamation first' "$out/clone.log"
  cmake -S "$clone" -B "$clone/build" -DCACHALOT_BUILD_TESTS=OFF -DCACHALOT_BUILD_TOOLS=OFF \
    -DCACHALOT_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build "$clone/build" --target cachalot_amalgamation >/dev/null
  cmp "$clone/build/amalgamation/cachalot.h" "$clone/bindings/go/internal/raw/cachalot.h"
  (cd "$clone/bindings/go" && go list -tags cachalot_bundled -f '{{.CXXFiles}}' ./internal/raw) | grep -qx '\[cachalot.cpp\]'
  (cd "$clone/bindings/go" && go list -f '{{.CXXFiles}}' ./internal/raw) | grep -qx '\[\]'
  echo "in a clone the target cachalot_amalgamation makes what the tag needs"
}

# The tag has the amalgamation, the clone is as it was, and no tag is moved.
make_release() {
  (
    cd "$out/clone"
    # shellcheck disable=SC2046
    unset $(git rev-parse --local-env-vars)
    export GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@example.org
    export GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@example.org
    before=$(git rev-parse HEAD)
    bindings/go/release.sh
    [ "$(git rev-parse HEAD "bindings/go/$version^")" = "$before
$before" ]
    [ -z "$(git status --porcelain)" ]
    git show "bindings/go/$version:bindings/go/internal/raw/cachalot.cpp" |
      cmp - bindings/go/internal/raw/cachalot.cpp
    if bindings/go/release.sh 2>/dev/null; then
      echo "a release is made twice" >&2
      return 1
    fi
    write_proxy
  )
}

# What a proxy on the network would have of the tag.
write_proxy() {
  served=$out/proxy/cachalot.io/go/@v
  rm -rf "$out/proxy"
  mkdir -p "$served"
  git archive --format=zip --prefix="cachalot.io/go@$version/" -o "$served/$version.zip" \
    "bindings/go/$version:bindings/go"
  git show "bindings/go/$version:bindings/go/go.mod" >"$served/$version.mod"
  echo "$version" >"$served/list"
  echo "{\"Version\":\"$version\"}" >"$served/$version.info"
}

run_consumer() {
  write_clone
  check_clone
  make_release
  [ ! -d "$out/modules" ] || chmod -R u+w "$out/modules"
  rm -rf "$out/modules" "$out/consumer"
  mkdir -p "$out/consumer"
  cp "$examples/first_block/main.go" "$out/consumer"
  cp "$examples/expected/first_block.txt" "$out/consumer/expected.txt"
  (
    cd "$out/consumer"
    export GOMODCACHE="$out/modules" GOPROXY="file://$out/proxy" GOSUMDB=off GOFLAGS= CGO_LDFLAGS=
    # Go's build cache keeps the list of a module's files by its version, which has other files in each run.
    export GODEBUG=goindex=0
    go mod init example.org/consumer 2>/dev/null
    go get "cachalot.io/go@$version" 2>get.log
    go build -o by-pkg-config .
    CACHALOT_DRIVER=sim ./by-pkg-config >printed.txt
    cmp printed.txt expected.txt
    echo "a module of its own builds and runs by pkg-config"
    # Nothing of this repository is found now. Without optimisation, to take less time.
    export PKG_CONFIG_PATH=/nowhere CGO_CXXFLAGS='-O0 -Wno-cpp'
    unset LD_LIBRARY_PATH
    go build -tags cachalot_bundled -o bundled .
    if ldd bundled | grep libcachalot; then return 1; fi
    CACHALOT_DRIVER=sim ./bundled >printed.txt
    cmp printed.txt expected.txt
    echo "a module of its own compiles the amalgamation inside, and runs"
    go test -tags cachalot_bundled -short cachalot.io/go
    for licence in LICENSE LICENSE-APACHE LICENSE-MIT; do
      cmp "$out/modules/cachalot.io/go@$version/$licence" "$root/$licence"
    done
    echo "the licences' texts are in the module"
    go mod vendor
    for file in cachalot.cpp cachalot.h; do
      cmp "vendor/cachalot.io/go/internal/raw/$file" "$out/clone/bindings/go/internal/raw/$file"
    done
    echo "the amalgamation is vendored"
  )
}

mkdir -p "$out"
[ $# -gt 0 ] || set -- lint test nocgo race bench consumer
for part; do
  case $part in
    lint | test | nocgo | strict | race | fuzz | bench | consumer | asan)
      begin=$(date +%s)
      "run_$part"
      echo "$part: $(($(date +%s) - begin)) s"
      ;;
    *) echo "There is no part $part" >&2; exit 2 ;;
  esac
done
