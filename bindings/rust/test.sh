#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The checks of the Rust crates.
#
#   test.sh [PART...]    lint doc test package asan fuzz; all of them without a PART
#
# CACHALOT_LIB_DIR       a built library to test against (else each part builds it from the amalgamation)
# CACHALOT_ASAN_LIB_DIR  the same, built with -fsanitize=address; without it the part asan is skipped
# CARGO                  the cargo to use; 1.88 or newer
#
# Exit status: 0 all is well, 77 there is no cargo (an error where CI is set), else something failed.
set -eu
cd "$(dirname "$0")"
here=$PWD
. ../../tests/need.sh
cargo=${CARGO:-cargo}
features=serde,cudarc,allocator-api2,metrics,tracing

least=1.88  # The crates themselves build with 1.85; what cudarc needs does not.
found=$("$cargo" --version 2> /dev/null | cut -d ' ' -f 2 || true)
at_least "$least" "$found" ||
  leave_out "Cargo $least or newer is missing (rustup.rs; found: ${found:-none}): the crates are not tested"

lint() {
  "$cargo" fmt --all --check
  "$cargo" clippy --quiet --locked --all-targets --features "$features" -- -D warnings
}

doc() {
  RUSTDOCFLAGS="-D warnings" "$cargo" doc --quiet --locked --no-deps -p cachalot-prebuilt -p cachalot-sys \
    -p cachalot --features "cachalot/$(echo $features | sed 's|,|,cachalot/|g')"
  # As docs.rs does it: there is no library.
  DOCS_RS=1 CACHALOT_LIB_DIR=/nowhere RUSTDOCFLAGS="-D warnings" "$cargo" doc --quiet --locked \
    --no-deps -p cachalot --target-dir target/docsrs
}

# Names of programs and what each prints.
examples() {
  for name in first_block streams out_of_memory fragmentation two_models; do
    CACHALOT_DRIVER=sim:1GiB "$cargo" run --quiet --locked -p cachalot-examples --bin "$name" \
      > "target/$name.out"
    if ! cmp "target/$name.out" "../../examples/rust/expected/$name.txt"; then
      echo "examples/rust/$name.rs prints something else"
      return 1
    fi
  done
}

# A frontend in Rust, and a worker of each language.
sharing() {
  library=${CACHALOT_LIB_DIR:-$(cd ../../build/release && pwd)}
  frontend() {
    CACHALOT_LIB_DIR=$library PYTHONPATH=../python \
      "$cargo" run --quiet --locked -p cachalot-examples --bin frontend -- "$@" >> target/frontend.out
  }
  : > target/frontend.out
  frontend python3 ../../examples/sharing/worker.py
  [ ! -x "$library/sharing_worker" ] || frontend "$library/sharing_worker"
  if grep -v "exit status: 0\|number 999 is 998001 now" target/frontend.out; then
    echo "examples/rust/frontend.rs prints something else"
    return 1
  fi
}

run_tests() {
  "$cargo" test --quiet --locked --features "$features"
  examples
  sharing
}

# In place of a portable library, for this machine: one object with the C++ library of the compiler inside.
stand_in() {
  mkdir -p "$1/$(uname -m)/lib"
  ld -r -o "$1/whole.o" --whole-archive "$CACHALOT_LIB_DIR/libcachalot.a" --no-whole-archive \
    "$(c++ -print-file-name=libstdc++.a)"
  objcopy --strip-debug --wildcard --keep-global-symbol='cachalot_*' "$1/whole.o" "$1/cachalot.o"
  ar cr "$1/$(uname -m)/lib/libcachalot.a" "$1/cachalot.o"
  rm "$1/whole.o" "$1/cachalot.o"
}

# What is published builds alone: the crates in an empty folder, with a program that uses them, from
# the amalgamation in them, against an installed library and with the library that comes with them.
package() {
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  portable=$here/../../build/portable
  if [ ! -f "$portable/$(uname -m)/lib/libcachalot.a" ] && [ -f "${CACHALOT_LIB_DIR:-}/libcachalot.a" ]; then
    portable=$folder/portable
    stand_in "$portable"
  fi
  CACHALOT_PORTABLE_DIR=$portable ./release.sh package --quiet --no-verify
  for name in cachalot-prebuilt cachalot-sys cachalot; do
    tar -xzf "$(ls -t target/package/$name-[0-9]*.crate | head -n 1)" -C "$folder"
    mv "$folder"/$name-[0-9]* "$folder/$name"
  done
  ../../capi/amalgamation/amalgamate.py "$folder/made"
  diff -r "$folder/made" "$folder/cachalot-sys/amalgamation"
  for name in cachalot-prebuilt cachalot-sys cachalot; do
    for licence in LICENSE-MIT LICENSE-APACHE; do
      cmp "../../$licence" "$folder/$name/$licence"
    done
  done
  mkdir -p "$folder/program/src"
  cat > "$folder/program/Cargo.toml" << END
[package]
name = "program"
version = "1.0.0"
edition = "2024"
[features]
bundled = ["cachalot/bundled"]
[dependencies]
cachalot = "*"
[patch.crates-io]
cachalot = { path = "../cachalot" }
cachalot-sys = { path = "../cachalot-sys" }
cachalot-prebuilt = { path = "../cachalot-prebuilt" }
END
  cp ../../examples/rust/first_block.rs "$folder/program/src/main.rs"
  cp Cargo.lock "$folder/program"
  cd "$folder/program"
  # Only the program itself is new in it: the crates of others stay as they are here.
  "$cargo" update --quiet --workspace
  expected=$(cat "$here/../../examples/rust/expected/first_block.txt")
  # Without optimisation, to take less time.
  printed=$(CACHALOT_LIB_DIR='' CACHALOT_DRIVER=sim CXXFLAGS='-O0 -Wno-cpp' \
    "$cargo" run --quiet --locked --features bundled)
  [ "$printed" = "$expected" ]
  echo "built from the amalgamation in the crate"
  if [ -n "${CACHALOT_LIB_DIR:-}" ]; then
    [ "$(CACHALOT_DRIVER=sim "$cargo" run --quiet --locked)" = "$expected" ]
    echo "built against an installed library"
  fi
  cd "$here"
  if [ -f "$portable/$(uname -m)/lib/libcachalot.a" ]; then
    ./prebuilt.sh target/package
  else
    echo "no portable library and no CACHALOT_LIB_DIR to make one of: the feature prebuilt is not tested"
  fi
}

host() { rustc -vV | sed -n "s/^host: //p"; }

# The C++ side under the address sanitizer: what the crate does to the library is what C could do.
asan() {
  if [ -z "${CACHALOT_ASAN_LIB_DIR:-}" ]; then
    echo "the part asan is skipped: CACHALOT_ASAN_LIB_DIR names no library"
    return 0
  fi
  CACHALOT_LIB_DIR=$CACHALOT_ASAN_LIB_DIR "$cargo" test --quiet --locked -p cachalot \
    --features serde,allocator-api2 --target-dir target/asan --no-run
  library=$("${CC:-cc}" -print-file-name=libasan.so)
  runner=CARGO_TARGET_$(host | tr a-z- A-Z_)_RUNNER  # the sanitizer is for the tests, not for Cargo, which has leaks
  # Allocators that are left behind on purpose are leaks (tests/life.rs), so are closures that own
  # their allocator: leaks are looked for where there are none of these.
  for name in life callbacks threads interface pinned policy sleep features golden fuzz; do
    leaks=1
    case $name in life | golden) leaks=0 ;; esac
    env CACHALOT_LIB_DIR="$CACHALOT_ASAN_LIB_DIR" "$runner=env LD_PRELOAD=$library" \
      ASAN_OPTIONS="detect_leaks=$leaks:abort_on_error=0:exitcode=23" \
      "$cargo" test --quiet --locked -p cachalot --features serde,allocator-api2 \
      --target-dir target/asan --test "$name"
  done
}

# The calls of the test `fuzz`, guided by coverage, for some seconds. What cargo-fuzz asks the compiler
# for, but for the sanitizer, which needs nightly. With a target named, or what builds it is changed too.
fuzz() {
  RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing" \
    "$cargo" run --quiet --locked --manifest-path fuzz/Cargo.toml --target "$(host)" --bin calls -- \
    -max_total_time="${CACHALOT_FUZZ_SECONDS:-4}" -print_final_stats=1
}

[ $# -gt 0 ] || set -- lint doc test package asan fuzz
for part; do
  case $part in
    lint | doc | package | asan | fuzz) "$part" ;;
    test) run_tests ;;
    *)
      echo "no part: $part" >&2
      exit 2
      ;;
  esac
done
