#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Puts into the crates what a published crate has and git has not: the amalgamation, the portable libraries and the
# licences' texts. Runs Cargo on all three crates, and takes it away again.
#
#   bindings/rust/release.sh COMMAND [OPTION...]   COMMAND: publish or package
#
# CACHALOT_PORTABLE_DIR  the folder with ARCH/lib/libcachalot.a, of capi/packaging/portable/build.sh; without it
#                        build/portable. `publish` needs those of all targets, `package` says which are missing.
set -eu
cd "$(dirname "$0")"
command=$1
shift
portable=${CACHALOT_PORTABLE_DIR:-../../build/portable}
crates='cachalot-prebuilt cachalot-sys cachalot'
most=10000000  # bytes of a crate that crates.io takes

trap 'rm -rf cachalot-sys/amalgamation cachalot-prebuilt/lib cachalot*/LICENSE-*' EXIT
../../capi/amalgamation/amalgamate.py cachalot-sys/amalgamation
for arch in x86_64 aarch64; do
  library=$portable/$arch/lib/libcachalot.a
  if [ -f "$library" ]; then
    mkdir -p "cachalot-prebuilt/lib/$arch-unknown-linux-gnu"
    cp "$library" "cachalot-prebuilt/lib/$arch-unknown-linux-gnu"
  else
    echo "cachalot-prebuilt gets no library for $arch: capi/packaging/portable/build.sh has not made $library" >&2
    [ "$command" != publish ] || exit 1
  fi
done
for crate in $crates; do
  cp ../../LICENSE-MIT ../../LICENSE-APACHE "$crate"
done
# run COMMAND OPTION...: Cargo's command on all crates.
run() {
  cargo_command=$1
  shift
  # shellcheck disable=SC2046,SC2086
  "${CARGO:-cargo}" "$cargo_command" --locked --allow-dirty $(printf -- '-p %s ' $crates) "$@"
}

check_sizes() {
  for crate in $crates; do
    packed=$(ls -t "target/package/$crate"-[0-9]*.crate | head -n 1)
    size=$(wc -c <"$packed")
    [ "$size" -le $most ] || { echo "$packed has $size bytes; crates.io takes $most" >&2; exit 1; }
  done
}

# What is published cannot be taken back, so the sizes are looked at before.
if [ "$command" = publish ]; then
  run package --quiet --no-verify
  check_sizes
  run publish "$@"
else
  run "$command" "$@"
  check_sizes
fi
