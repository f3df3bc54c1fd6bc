#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What is too long for every change: campaigns with fresh seeds, packages, other compilers. Some hours on two cores.
#
#   tests/long.sh            all parts
#   tests/long.sh PART...    only these
#
#   part        what it does                                         its length, by a variable
#   simulation  interleaved threads over failing devices             LONG_SIMULATION_OPERATIONS=100000000
#   policy      the serving policy beside a model of its rules       LONG_POLICY_OPERATIONS=10000000
#   faults      each golden script, a driver call failing each time  LONG_FAULT_CALLS=60 a script
#   seeds       all unit tests, and again with assertions of level 2 LONG_SEED_ROUNDS=5
#   clang       core, C interface and golden files built by Clang    -
#   labelled    tests of CTest with the label long, in the trees release and asan-ubsan   -
#   libcxx      the same by Clang 16 with LLVM's C++ library         -
#   packages    Debian's packages, Conan, vcpkg, conda, archives, each under a fresh project  -
#   portable    the binaries of releases, of both machines, and the proxy under its tests  -
#   threads     the thread tests under the thread sanitizer          LONG_THREAD_ROUNDS=4
#   fuzz        libFuzzer: options, traces, calls, other recordings  LONG_FUZZ_SECONDS=240 each
#   bindings    Go's and Rust's fuzz targets, cgo's strictest checks,  LONG_BINDINGS_SECONDS=60, LONG_BINDINGS_INPUTS=1000000
#               Java on the newest JDK, Python's exits               LONG_BINDINGS_ROUNDS=40
#   oracle      scripts, pickles beside PyTorch's code                LONG_ORACLE_MINUTES=12 a release
#   pinned      scripts of pinned memory beside PyTorch's code        LONG_PINNED_MINUTES=6 a release
#   torch       PyTorch itself on cachalot, over the host's memory    -
#   hosts       CuPy, Numba and RMM themselves on cachalot, over the host's memory    -
#   tune        what tune says of all recorded runs, asked PyTorch's binary   LONG_TUNE_STRINGS=160
#   fleet       recordings on a local cluster of Ray                 -
#   operators   the recipes for containers, Kubernetes and monitoring  -
#   browser     the pages of cachalot report and tune in Chromium    -
#   site        the documentation with the references of all languages, and pictures of it    -
#
# LONG_SEED sets the seed that each part begins with, which is printed; without it there is a new one. The
# oracle's packages (550 MB a release) are kept in LONG_ORACLE_FOLDER, build/proof. A part that fails does
# not stop the others; what it has printed is in build/long/PART.log.
set -u
cd "$(dirname "$0")/.."
. tests/need.sh

seed=${LONG_SEED:-$(($(od -An -N4 -tu4 /dev/urandom) % 1000000 + 1))}
jobs=$(nproc)
out=build/long
proof=${LONG_ORACLE_FOLDER:-build/proof}

# figure TEXT...: what a part has done, for the summary.
figure() { echo "$*" >>"$out/$part.figures"; }

# build FOLDER PRESET [TARGET | -DNAME=VALUE]...: like the preset, with these values.
build() {
  folder=$1 preset=$2 targets='' values=''
  shift 2
  for word; do
    case $word in
      -D*) values="$values $word" ;;
      *) targets="$targets $word" ;;
    esac
  done
  # shellcheck disable=SC2086
  cmake --preset "$preset" -B "$folder" $values >/dev/null
  # shellcheck disable=SC2086
  cmake --build "$folder" --target $targets
}

# logged NAME COMMAND [ARGUMENT...]: with its output in PART.NAME, which is shown if the command fails.
logged() {
  log=$out/$part.$1
  shift
  "$@" >"$log" 2>&1 || {
    cat "$log"
    return 1
  }
}

# passed PROGRAM [ARGUMENT...]: runs tests of GoogleTest, and sets `tests` to how many have passed. None is a failure.
passed() {
  "$@" --gtest_brief=1 >"$out/$part.tests" 2>&1 || {
    cat "$out/$part.tests"
    return 1
  }
  tests=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$out/$part.tests")
  [ "${tests:-0}" -gt 0 ]
}

# golden RELEASE: its expected files.
golden() { find "tests/golden/$1" -name '*.?z' | sort; }

# bring_oracle RELEASE PROGRAM [pinned]: PyTorch's binary in $proof/RELEASE, fetched if it is not there, and built again
# if a source of the program is newer.
bring_oracle() {
  if [ ! -d "$proof/$1/wheels" ] || [ ! -e "$proof/$1/build/$2" ]; then
    tests/oracle/fetch.sh "$proof/$1" "$1.0" ${3:+"$3"}
  elif [ -n "$(find tests/oracle/src tests/oracle/fakecuda tests/hex_digits.h -newer "$proof/$1/build/$2")" ]; then
    TORCH="$proof/$1/torch" CUDA_INC="$proof/$1/nvidia/cu13/include" tests/oracle/build.sh "$proof/$1/build"
  fi
}

part_simulation() {
  build build/release release cachalot_simulation
  build/release/tests/cachalot_simulation --operations "${LONG_SIMULATION_OPERATIONS:-100000000}" \
    --audit-every 100000 --seed "$seed" >"$out/$part.worlds"
  cat "$out/$part.worlds"
  figure "$(head -n 1 "$out/$part.worlds")"
}

# compared FOLDER OPERATIONS: scripts through the library of this build and through the model.
compared() {
  "$1/tests/cachalot_policy_model" --operations "$2" --seed "$seed" >"$out/$part.scripts" || {
    cat "$out/$part.scripts"
    return 1
  }
  figure "${1#build/}: $(head -n 1 "$out/$part.scripts")"
}

# Every recorded run; a tenth of the scripts once more, with assertions that walk lists and tables.
part_policy() {
  operations=${LONG_POLICY_OPERATIONS:-10000000}
  build build/release release cachalot_policy_model
  compared build/release "$operations"
  # shellcheck disable=SC2046
  tests/policy/recordings.py build/release/tests/cachalot_policy_model tests/policy/fits.json \
    $(find tests/traces -name '*.csv.xz' ! -name 'prefetch_*' | sort) >"$out/$part.recordings" || {
    cat "$out/$part.recordings"
    return 1
  }
  figure "$(grep -c ' MiB: ' "$out/$part.recordings") recorded runs with the model's driver calls"
  build build/asserts release cachalot_policy_model -DCACHALOT_ASSERT_LEVEL=2
  compared build/asserts $((operations / 10))
}

part_faults() {
  build build/release release cachalot_verify_faults
  for release in 2.11 2.15; do
    # shellcheck disable=SC2046
    build/release/cachalot_verify_faults --torch "$release" --calls "${LONG_FAULT_CALLS:-60}" $(golden "$release") \
      >"$out/$part.replays"
    cat "$out/$part.replays"
    figure "$release: $(head -n 1 "$out/$part.replays")"
  done
}

# unit_tests FOLDER: runs those of core and capi, and sets `count` to how many have passed.
unit_tests() {
  passed "$1/tests/cachalot_core_test"
  count=$tests
  passed "$1/tests/cachalot_capi_test"
  count=$((count + tests))
}

# What is installed has no assertions. Those that walk lists and tables see what a single test does not compare.
part_seeds() {
  build build/release release cachalot_core_test cachalot_capi_test
  export CACHALOT_TEST_SEED="$seed"
  unit_tests build/release
  figure "seed $seed without assertions, $count tests"
  build build/asserts release cachalot_core_test cachalot_capi_test -DCACHALOT_ASSERT_LEVEL=2
  rounds=${LONG_SEED_ROUNDS:-5}
  for round in $(seq "$rounds"); do
    export CACHALOT_TEST_SEED=$((seed + round))
    echo "CACHALOT_TEST_SEED=$CACHALOT_TEST_SEED"
    unit_tests build/asserts
  done
  figure "$rounds seeds, $count tests each"
}

# by_compiler FOLDER -DNAME=VALUE...: core, C interface and expected files. What another compiler warns of in the tests is
# no concern here.
by_compiler() {
  folder=$1
  shift
  build "$folder" release cachalot_core_test cachalot_capi_test cachalot_verify "$@" -DCACHALOT_WARNINGS_AS_ERRORS=OFF
  unit_tests "$folder"
  figure "$count tests"
  for release in 2.11 2.15; do
    # shellcheck disable=SC2046
    "$folder/cachalot_verify" --torch "$release" $(golden "$release") >"$out/$part.golden"
    figure "$release: $(tail -n 1 "$out/$part.golden")"
  done
}

# The amalgamation has no warning of it.
part_clang() {
  by_compiler build/clang -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14
  ctest --test-dir build/clang -R '^amalgamation.all$' --no-tests=error --output-on-failure
}

# Each takes minutes to build or to run: releases of Rust, Go and Java under projects of their own, the servers' checks,
# programs for GPUs, and what a sanitizer makes slow, the program among it.
part_labelled() {
  tests/toolkit/fetch.sh
  bindings/onnxruntime/fetch.sh
  for preset in release asan-ubsan; do
    build build/$preset $preset all -DCACHALOT_BUILD_TOOLS=ON
    logged $preset ctest --test-dir build/$preset -L '^long$' --no-tests=error --output-on-failure --parallel "$jobs"
    figure "$preset: $(sed -n 's/.* tests passed, 0 tests failed out of \(.*\)/\1 tests/p' "$out/$part.$preset")"
  done
}

# GoogleTest is C++ too, so it is built with the same library.
part_libcxx() {
  need clang-16 libc++-16-dev libc++abi-16-dev googletest llvm-14
  compilers='-DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 -DCMAKE_CXX_FLAGS=-stdlib=libc++'
  # shellcheck disable=SC2086
  cmake -S /usr/src/googletest -B build/libcxx/googletest -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$PWD/build/libcxx/prefix" $compilers
  cmake --build build/libcxx/googletest --target install
  # shellcheck disable=SC2086
  by_compiler build/libcxx/release $compilers -DCMAKE_PREFIX_PATH="$PWD/build/libcxx/prefix" -DCACHALOT_BUILD_TOOLS=OFF \
    -DCACHALOT_ADDR2LINE=llvm-addr2line-14
  ldd build/libcxx/release/libcachalot.so | grep -F libc++.so
}

# The tests find the proxy by a link, and so the one that is built for older systems.
part_portable() {
  capi/packaging/portable/build.sh
  need python3-venv
  [ -x build/sbom/bin/python ] || python3 -m venv build/sbom
  build/sbom/bin/pip install -q --disable-pip-version-check --require-hashes -r capi/packaging/sbom/requirements.txt
  build build/release release cachalot_proxy_test
  links=$PWD/build/portable/links
  mkdir -p "$links"
  ln -sfn "$PWD/build/portable/x86_64/lib/cachalot/libcuda.so.1" "$links/libcuda.so.1"
  ln -sfn "$PWD/build/release/tests/proxy/fake/libcachalot_fake_driver_13000.so" "$links/libcachalot_real_cuda.so"
  LD_LIBRARY_PATH=$links passed build/release/tests/cachalot_proxy_test --gtest_filter=-*OverAnOldDriver.*
  figure "proxy: $tests tests"
  for arch in x86_64 aarch64; do
    capi/packaging/portable/check.py "build/portable/$arch" >"$out/$part.$arch"
    capi/packaging/portable/check.py "build/portable/$arch" --self-test >/dev/null 2>&1
    build/sbom/bin/python capi/packaging/sbom/sbom.py "build/portable/$arch" "$out/$arch.spdx.json"
    figure "$arch: $(grep -F lib/libcachalot.so "$out/$part.$arch")"
    for release in 2.11 2.15; do
      # shellcheck disable=SC2046
      capi/packaging/portable/verify.sh "$arch" "$release" $(golden "$release") >"$out/$part.golden"
      figure "$arch, $release: $(tail -n 1 "$out/$part.golden")"
    done
  done
}

# Debian's are installed in an empty system, which root makes.
part_packages() {
  logged channels tests/packages/run.sh build/packages
  while read -r line; do figure "$line"; done <build/packages/figures
}

# In another order each time, since a race may need what ran before.
part_threads() {
  build build/tsan tsan cachalot_core_test cachalot_capi_test cachalot_cuda_test cachalot_proxy_test \
    cachalot_verify_faults
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  for release in 2.11 2.15; do  # the library's thread in the background beside a script's
    build/tsan/cachalot_verify_faults --torch "$release" --calls 300 "tests/golden/$release/cases/pinned-background.txt.gz"
  done
  rounds=${LONG_THREAD_ROUNDS:-4}
  count=0
  for round in $(seq "$rounds"); do
    export CACHALOT_TEST_SEED=$((seed + round))
    echo "CACHALOT_TEST_SEED=$CACHALOT_TEST_SEED"
    for program in core capi cuda proxy; do
      links=
      [ $program != proxy ] || links=$PWD/build/tsan/tests/proxy/links_13000
      LD_LIBRARY_PATH=$links passed build/tsan/tests/cachalot_${program}_test \
        --gtest_filter='*Thread*:*thread*-*OverAnOldDriver.*' --gtest_shuffle \
        --gtest_random_seed=$((CACHALOT_TEST_SEED % 99999 + 1))
      count=$((count + tests))
    done
  done
  figure "$count tests in $rounds rounds, no race"
}

part_fuzz() {
  logged fuzzers env CACHALOT_FUZZ_SEED="$seed" tests/fuzz/run.sh "${LONG_FUZZ_SECONDS:-240}"
  figure "inputs: $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$part.fuzzers" | tr '\n' ' ')"
}

# Go's and Rust's take a build of their own: of Go's standard library, of Rust's crates.
part_bindings() {
  build build/release release cachalot cachalot_pluggable
  bindings/go/test.sh build/release strict otlp
  logged go env CACHALOT_FUZZ_INPUTS="${LONG_BINDINGS_INPUTS:-1000000}" bindings/go/test.sh build/release fuzz
  figure "Go: $(grep -c '^PASS' "$out/$part.go") fuzz targets, ${LONG_BINDINGS_INPUTS:-1000000} inputs each"
  logged rust env CACHALOT_LIB_DIR="$PWD/build/release" CACHALOT_FUZZ_SECONDS="${LONG_BINDINGS_SECONDS:-60}" \
    bindings/rust/test.sh fuzz
  figure "Rust: $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$part.rust") sequences of calls"
  need default-jdk-headless maven
  logged java bindings/java/test.sh build/release test newest
  figure "Java: $(grep -c ' tests, ' "$out/$part.java") classes of tests; $(sed -n 's/^\(Java [0-9]*\|There is no JDK.*\)$/\1/p' "$out/$part.java")"
  rounds=${LONG_BINDINGS_ROUNDS:-40}
  logged python env CACHALOT_LIB_DIR="$PWD/build/release" CACHALOT_EXIT_ROUNDS="$rounds" \
    python3 -m unittest discover -s bindings/python/tests -p test_exit.py
  figure "Python: $rounds rounds of exits amid threads"
}

# The screenshots are for people.
part_browser() {
  need chromium chromium-driver python3-selenium fonts-dejavu-core
  build build/release release cachalot cachalot_cli
  CI=1 CACHALOT_TEST_SEED=$seed python3 tests/report/browser_test.py build/release/cachalot \
    build/release/libcachalot.so "$out/screenshots" >"$out/$part.tests" 2>&1 || {
    cat "$out/$part.tests"
    return 1
  }
  figure "$(sed -n 's/^Ran \([0-9]* tests\) .*/\1/p' "$out/$part.tests"), screenshots in $out/screenshots"
  grep ' MiB, charts after ' "$out/$part.tests" | while read -r line; do figure "$line"; done
}

# Half of the time without observers, where hits take the fast path.
part_oracle() {
  build build/release release cachalot_verify cachalot_cli
  half=$(python3 -c "print(${LONG_ORACLE_MINUTES:-12} / 2)")
  for release in 2.11 2.15; do
    bring_oracle "$release" oracle
    for unobserved in "" --unobserved; do
      # shellcheck disable=SC2086
      tests/oracle/fuzz.py --oracle "$proof/$release" --torch $release --verify build/release/cachalot_verify \
        --minutes "$half" --seed "$seed" --jobs "$jobs" --keep "$out/differences" $unobserved >"$out/$part.scripts" || {
        cat "$out/$part.scripts"
        return 1
      }
      figure "$(tail -n 1 "$out/$part.scripts")${unobserved:+, unobserved}"
      seed=$((seed + 1))
    done
    tests/convert/viz_check.py build/release/cachalot "$proof/$release/torch/cuda/_memory_viz.py" >"$out/$part.viz"
    figure "$release: $(cat "$out/$part.viz")"
  done
}

# Its oracle also needs libtorch_cuda.so: 1 GB more of the disk a release.
part_pinned() {
  build build/release release cachalot_verify
  for release in 2.11 2.15; do
    bring_oracle "$release" oracle_pinned pinned
    tests/oracle/fuzz.py --oracle "$proof/$release" --torch $release --verify build/release/cachalot_verify \
      --generator pinned --operations 500 --minutes "${LONG_PINNED_MINUTES:-6}" --seed "$seed" --jobs "$jobs" \
      --keep "$out/differences" >"$out/$part.scripts" || {
      cat "$out/$part.scripts"
      return 1
    }
    figure "$(tail -n 1 "$out/$part.scripts")"
  done
}

# Its PyTorch is the whole package: 1 GB of the disk a release.
part_torch() {
  build build/release release cachalot_pluggable cachalot_libtorch
  for release in 2.11 2.15; do
    bring_oracle "$release" oracle
    tests/torch/build.sh "$proof/$release"
    logged tests tests/torch/run.sh "$proof/$release"
    figure "$release: $(sed -n -e 's/^\(Ran\|\[  PASSED  \]\) \([0-9]* tests\).*/\2/p' \
      -e 's/^test result: ok. \([0-9]*\) .*/\1 in Rust/p' "$out/$part.tests" | paste -sd ' ')"
  done
}

part_hosts() {
  build build/release release cachalot_pluggable cachalot_hosts_driver
  bring_oracle 2.11 oracle
  tests/torch/build.sh "$proof/2.11"
  logged tests tests/hosts/run.sh build/hosts "$proof/2.11"
  figure "$(sed -n 's/^Ran \([0-9]* tests\) .*/\1/p' "$out/$part.tests" | paste -sd ' ')"
}

part_tune() {
  build build/release release cachalot_cli
  bring_oracle 2.11 oracle
  # shellcheck disable=SC2046
  tests/tune/confirm.py --strings "${LONG_TUNE_STRINGS:-160}" build/release/cachalot "$proof/2.11/build/oracle" \
    $(find tests/traces -name '*.csv.xz' | sort) >"$out/$part.table" || {
    cat "$out/$part.table"
    return 1
  }
  figure "$(grep -c agrees "$out/$part.table") answers, and PyTorch's binary agrees"
}

part_fleet() {
  build build/release release cachalot_cli
  [ -x build/fleet/bin/python ] || python3 -m venv build/fleet
  build/fleet/bin/pip install -q --require-hashes -r tests/tune/requirements.txt
  build/fleet/bin/python tests/tune/fleet_test.py "$PWD/build/release/cachalot" tests/traces >"$out/$part.tests" 2>&1 || {
    cat "$out/$part.tests"
    return 1
  }
  figure "$(grep 'core hours' "$out/$part.tests")"
}

# The pictures are for people.
part_site() {
  need chromium fonts-dejavu-core doxygen
  docs/site/build.sh "$out/site" whole
  mkdir -p "$out/screenshots"
  picture() {
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=4000 \
      --window-size="$3" --screenshot="$out/screenshots/site_$1.png" "file://$PWD/$out/site/$2" ${4:+"$4"} 2>/dev/null
  }
  picture front index.html 1300,1500
  picture dark index.html 1300,1500 --blink-settings=preferredColorScheme=0
  picture phone index.html 500,1500
  picture table hosts/index.html 1300,1500
  picture c_api api/c/allocator_8h.html 1300,1500
  figure "$(find "$out/site" -name '*.html' | wc -l) pages, pictures in $out/screenshots"
}

part_operators() {
  build build/release release cachalot cachalot_cli cachalot_pluggable cachalot_cuda_proxy cachalot_audit \
    cachalot_metrics_test cachalot_proxy_program cachalot_fake_driver_13000 cachalot_fake_nvml_memory
  logged run env PATH="$PATH:/usr/local/go/bin" tests/operators/run.sh build/release
  figure "$(grep 'queries have' "$out/$part.run")"
  figure "$(tail -n 1 "$out/$part.run")"
}

# Runs one part, shows its figures, and adds its line to the summary.
run_part() {
  begin=$(date +%s)
  echo "=== $part, seed $seed"
  : >"$out/$part.figures"
  (
    set -e
    "part_$part"
  ) >"$out/$part.log" 2>&1
  status=$?
  if [ $status -ne 0 ]; then
    failed="$failed $part"
    tail -n 40 "$out/$part.log"
  fi
  sed 's/^/  /' "$out/$part.figures"
  times="$times$(printf '%8s s  %s%s' $(($(date +%s) - begin)) "$part" "$([ $status -eq 0 ] || echo ' FAILED')")
"
}

all="simulation policy faults seeds labelled clang libcxx packages portable threads fuzz bindings oracle pinned torch hosts tune fleet operators browser site"
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $all
for part; do
  case " $all " in
    *" $part "*) ;;
    *)
      echo "no such part: $part" >&2
      exit 2
      ;;
  esac
done
need cmake ninja-build g++ clang-14 libclang-rt-14-dev libgtest-dev libcli11-dev nlohmann-json3-dev zlib1g-dev \
  liblzma-dev libsqlite3-dev libcpp-httplib-dev pkgconf python3 python3-pip python3-venv unzip
mkdir -p "$out"
times=
failed=
for part; do run_part; done
echo "=== $([ -n "$failed" ] && echo "Failed:$failed" || echo "All passed.")"
printf '%s' "$times"
[ -z "$failed" ]
