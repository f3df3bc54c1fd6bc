#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The whole proof: fetches PyTorch's allocator of both releases, and compares the library with every
# golden file, every case and fresh scripts of both generators, under the auditor too.
# Usage: ./prove.sh FOLDER CACHALOT_VERIFY [MINUTES] [SEED]
# FOLDER gets the packages of PyPI (550 MB a release); MINUTES (60) is the time of fresh scripts a
# release. Exit status: 0 no difference, 1 a difference, 2 something is wrong.
set -uo pipefail

usage="usage: prove.sh FOLDER CACHALOT_VERIFY [MINUTES] [SEED]"
here=$(cd "$(dirname "$0")" && pwd)
golden=$(cd "$here/../golden" && pwd)
folder=${1:?$usage}
verify=$(realpath "${2:?$usage}")
minutes=${3:-60}
seed=${4:-$RANDOM}
worst=0

run() {
  echo "== $*" | cut -c1-150
  "$@"
  local status=$?
  # A program that is killed has proved nothing either.
  [ $status -gt 2 ] && status=2
  [ $status -gt $worst ] && worst=$status
  return $status
}

ask_cases() {
  local release=$1 oracle=$folder/$1/build/oracle out=$folder/$1/cases program
  mkdir -p "$out"
  for case in "$here"/cases/*.txt; do
    # Cases of newer rules use what 2.11 does not have.
    [[ $release == 2.11 && $(basename "$case") == r[0-9]* ]] && continue
    # Pinned memory is another program's.
    [[ $case == *pinned* ]] && program=${oracle}_pinned || program=$oracle
    run "$program" "$case" "$out/$(basename "$case")"
  done
}

for release in 2.11 2.15; do
  run "$here/fetch.sh" "$folder/$release" "$release.0" pinned || exit 2
  run "$here/goldens.py" --oracle "$folder/$release" --torch $release
  run "$verify" --torch $release --check "$golden/$release"/*.txt.*z \
    "$golden/$release"/cases/*.txt.gz
  ask_cases $release
  run "$verify" --torch $release --check "$folder/$release"/cases/*.txt
  run "$here/fuzz.py" --oracle "$folder/$release" --torch $release --verify "$verify" \
    --minutes "$minutes" --seed "$seed" --jobs "$(nproc)" --keep "$folder/$release/failures"
done
case $worst in
  0) echo "proved: no difference" ;;
  1) echo "NOT proved: there are differences" ;;
  *) echo "NOT proved: something is wrong with a file or a program" ;;
esac
exit $worst
