#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Rehearses a release: in a clone release.sh makes its commit, pages.sh the web site of cachalot.io, and a module of its
# own fetches the release by both, with an empty module cache. It builds by each tag and without one.
#
#   bindings/go/release_test.sh BUILD   called by test.sh, whose variables it has
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
build=$(cd "$1" && pwd)
out=$build/go
clone=$out/clone
portable=$root/build/portable
version=v$(cat "$root/VERSION")

# A repository with what the modules are made of, as it is here now. Git's variables, of a hook, would mean another one.
write_clone() {
  rm -rf "$clone"
  mkdir -p "$clone/bindings"
  (
    cd "$root"
    cp -r .gitignore VERSION LICENSE LICENSE-APACHE LICENSE-MIT CMakeLists.txt core capi "$clone"
    cp -r bindings/go "$clone/bindings"
    cd "$clone"
    git init -q
    git add .
    git -c user.name=Test -c user.email=test@example.org -c commit.gpgsign=false commit -q -m "A clone"
    git clean -fdxq  # what was made here
  )
}

# The target puts the amalgamation in place, and only its tag takes it.
check_clone() {
  cmake -S "$clone" -B "$clone/build" -DCACHALOT_BUILD_TESTS=OFF -DCACHALOT_BUILD_TOOLS=OFF \
    -DCACHALOT_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build "$clone/build" --target cachalot_amalgamation >/dev/null
  cmp "$clone/build/amalgamation/cachalot.h" "$clone/bindings/go/internal/raw/cachalot.h"
  (cd "$clone/bindings/go" && go list -tags cachalot_bundled -f '{{.CXXFiles}}' ./internal/raw) | grep -qx '\[cachalot.cpp\]'
  (cd "$clone/bindings/go" && go list -tags '' -f '{{.CXXFiles}}' ./internal/raw) | grep -qx '\[\]'
  echo "in a clone the target cachalot_amalgamation makes what the tag needs"
}

# Where the portable build was not made: this build tree's library with the C++ runtime inside, linked likewise.
find_portable() {
  [ ! -f "$portable/x86_64/lib/libcachalot.a" ] || [ ! -f "$portable/aarch64/lib/libcachalot.a" ] || return 0
  portable=$out/portable
  rm -rf "$portable"
  for platform in x86_64 aarch64; do
    mkdir -p "$portable/$platform/lib/pkgconfig"
    cp "$build/pkgconfig/cachalot.pc" "$portable/$platform/lib/pkgconfig"
    ld -r -o "$out/cachalot.o" --whole-archive "$build/libcachalot.a" --no-whole-archive \
      "$("${CXX:-c++}" -print-file-name=libstdc++.a)" "$("${CXX:-c++}" -print-file-name=libgcc_eh.a)"
    ar rc "$portable/$platform/lib/libcachalot.a" "$out/cachalot.o"
  done
}

# The tags have what the branch lacks, the clone is as it was, and no tag is moved.
make_release() {
  (
    cd "$clone"
    export GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@example.org
    export GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@example.org
    before=$(git rev-parse HEAD)
    if bindings/go/release.sh HEAD "$portable/x86_64" 2>/dev/null; then
      echo "a release is made without libraries" >&2
      return 1
    fi
    bindings/go/release.sh HEAD "$portable"
    [ "$(git rev-parse HEAD "bindings/go/$version^" "bindings/go/metrics/$version^")" = "$before
$before
$before" ]
    [ -z "$(git status --porcelain)" ]
    git show "bindings/go/$version:bindings/go/internal/raw/cachalot.cpp" |
      cmp - bindings/go/internal/raw/cachalot.cpp
    if bindings/go/release.sh HEAD "$portable" 2>/dev/null; then
      echo "a release is made twice" >&2
      return 1
    fi
  )
}

# All files have the other path, and what they import is found. The clone stays as it was.
check_rename() {
  (
    cd "$clone"
    bindings/go/rename.sh example.org/cachalot/bindings/go
    if git grep -F cachalot.io/go; then return 1; fi
    cd bindings/go
    go list -tags cachalot_installed -deps ./... | grep -qx 'example.org/cachalot/bindings/go/internal/raw'
    git checkout -q .
  )
  echo "the modules can have another path"
}

# quietly COMMAND...: what it says is shown if it fails.
quietly() {
  "$@" >said.log 2>&1 || {
    cat said.log >&2
    return 1
  }
}

# The site of cachalot.io and of the repository: whoever takes 127.0.0.1 for a proxy sees both.
serve() {
  rm -rf "$out/site"
  git clone -q --bare "$clone" "$out/site/cachalot.git"
  git -C "$out/site/cachalot.git" update-server-info
  : >"$out/port" # the server opens it later, and an earlier run may have left one
  ./serve.py "$out/site" >"$out/port" &
  server=$!
  trap 'kill $server' EXIT
  while [ ! -s "$out/port" ]; do
    kill -0 "$server" # it has not ended
    sleep 0.1
  done
  site=http://127.0.0.1:$(cat "$out/port")
  "$clone/bindings/go/pages.sh" "$site/cachalot.git" "$out/site"
}

# A module of its own, which has nothing of this repository, and of other modules what was fetched before.
begin_consumer() {
  [ ! -d "$out/modules" ] || chmod -R u+w "$out/modules"
  rm -rf "$out/modules" "$out/consumer"
  mkdir -p "$out/consumer"
  GOPROXY=file://$(go env GOMODCACHE)/cache/download
  export GOPROXY GOMODCACHE="$out/modules" GOSUMDB=off GOFLAGS= CGO_LDFLAGS=
  export GONOPROXY=cachalot.io GOINSECURE=cachalot.io,127.0.0.1 HTTP_PROXY="$site" HTTPS_PROXY="$site"
  # Go's build cache keeps the list of a module's files by its version, which has other files in each run.
  export GODEBUG=goindex=0
  cd "$out/consumer"
  cp "$root/examples/go/first_block/main.go" .
  quietly go mod init example.org/consumer
  quietly go get "cachalot.io/go@$version"
}

# builds NAME ARGUMENT...: with these arguments of go build the program prints what it should.
builds() {
  name=$1
  shift
  go build -o "$name" "$@" .
  CACHALOT_DRIVER=sim "./$name" | cmp - "$root/examples/go/expected/first_block.txt"
  echo "a module of its own builds and runs: $name"
}

check_consumer() {
  module=$out/modules/cachalot.io/go@$version
  [ ! -e "$module/metrics" ] # a module of its own
  builds by-pkg-config -tags cachalot_installed
  # Nothing of this repository is found now.
  export PKG_CONFIG_PATH=/nowhere
  unset LD_LIBRARY_PATH
  (export CXX=no-such-c++ && builds prebuilt)
  # Without optimisation, to take less time.
  export CGO_CXXFLAGS='-O0 -Wno-cpp'
  if CXX=no-such-c++ go build -tags cachalot_bundled . 2>compiler.log; then return 1; fi
  [ "$(cat compiler.log)" = 'cachalot.io/go/internal/raw: exec: "no-such-c++": executable file not found in $PATH' ]
  builds bundled -tags cachalot_bundled
  for program in prebuilt bundled; do
    if ldd "$program" | grep libcachalot; then return 1; fi
  done
  go test -tags cachalot_bundled -short cachalot.io/go
  for licence in LICENSE LICENSE-APACHE LICENSE-MIT; do cmp "$module/$licence" "$root/$licence"; done
  echo "the licences' texts are in the module"
  go mod vendor
  for file in cachalot.cpp cachalot.h prebuilt.h libcachalot_linux_amd64.a libcachalot_linux_arm64.a; do
    cmp "vendor/cachalot.io/go/internal/raw/$file" "$module/internal/raw/$file"
  done
  echo "the library is vendored"
  rm -r vendor
}

# The module of metrics is fetched by its own page, and takes the main one from its own.
check_metrics() {
  mkdir metrics
  cp "$root/bindings/go/metrics/testdata/scrape/main.go" metrics
  quietly go get "cachalot.io/go/metrics@$version"
  quietly go mod tidy
  CXX=no-such-c++ go build -o scraped ./metrics
  CACHALOT_DRIVER=sim ./scraped | grep -q '^cachalot_reserved_bytes{device="0",pool="small",uuid=""} 0$'
  cmp "$out/modules/cachalot.io/go/metrics@$version/LICENSE-MIT" "$root/LICENSE-MIT"
  echo "the module of metrics is found, and serves"
}

# shellcheck disable=SC2046
unset $(git rev-parse --local-env-vars)
write_clone
check_clone
find_portable
make_release
check_rename
serve
fetched=$(cd metrics && go mod download 2>/dev/null && echo yes || true)
begin_consumer
check_consumer
if [ "$fetched" ]; then
  check_metrics
elif [ "${CI+set}" ]; then
  echo "the packages for metrics could not be fetched" >&2
  exit 1
fi
