#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The rehearsal of a release: a fresh project uses the packed crates by version, with the feature `prebuilt`, an empty
# CARGO_HOME and no C++ compiler, and runs the first block of the README. Cargo has them, and the crates of others that
# they need, from a folder in place of crates.io.
#
#   bindings/rust/prebuilt.sh CRATES [WORK]
#     CRATES   the folder with what `release.sh package` has packed
#     WORK     an empty folder, which keeps in WORK/registry what stands in place of crates.io
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../tests/readme_block.sh"
crates=$(cd "$1" && pwd)
cargo=${CARGO:-cargo}
if [ $# -gt 1 ]; then
  folder=$(cd "$2" && pwd)
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi

mkdir -p "$folder/program/src" "$folder/home" "$folder/path" "$folder/registry"
cat >"$folder/program/Cargo.toml" <<END
[package]
name = "program"
version = "1.0.0"
edition = "2024"
[features]
prebuilt = ["cachalot/prebuilt"]
[dependencies]
cachalot = "0.1"
END
readme_block "$here/cachalot/README.md" rust >"$folder/program/src/main.rs"

# What crates.io would have: the packed crates as Cargo unpacks them, and those of others that they need, in the
# versions of Cargo.lock.
for name in cachalot-prebuilt cachalot-sys cachalot; do
  packed=$(ls -t "$crates/$name"-[0-9]*.crate | head -n 1)
  tar -xzf "$packed" -C "$folder/registry"
  mv "$folder/registry/$(basename "$packed" .crate)" "$folder/registry/$name"
  echo "{\"files\": {}, \"package\": \"$(sha256sum "$packed" | cut -d ' ' -f 1)\"}" \
    >"$folder/registry/$name/.cargo-checksum.json"
done
mkdir "$folder/vendor"
cp -r "$folder/program/." "$folder/vendor"
cp "$here/Cargo.lock" "$folder/vendor"
echo '[patch.crates-io]' >>"$folder/vendor/Cargo.toml"
for name in cachalot-prebuilt cachalot-sys cachalot; do
  echo "$name = { path = \"$folder/registry/$name\" }" >>"$folder/vendor/Cargo.toml"
done
(cd "$folder/vendor" && "$cargo" vendor --quiet "$folder/others" >/dev/null)
mv "$folder/others"/* "$folder/registry"

cat >"$folder/home/config.toml" <<END
[source.crates-io]
replace-with = "folder"
[source.folder]
directory = "$folder/registry"
END

# A linker, and neither a C++ compiler nor pkg-config.
for name in cargo rustc; do
  ln -s "$(rustup which $name 2>/dev/null || command -v $name)" "$folder/path/$name"
done
for name in cc ld as; do
  ln -s "$(command -v $name)" "$folder/path/$name"
done

# build ARGUMENT...: in this environment and no other.
build() {
  (cd "$folder/program" && env -i HOME="$folder" CARGO_HOME="$folder/home" PATH="$folder/path" cargo "$@")
}

begin=$(date +%s)
build build --quiet --features prebuilt
printed=$(env -i CACHALOT_DRIVER=sim "$folder/program/target/debug/program")
case $printed in
  '1 MiB at 0x'*' on device 0') ;;
  *)
    echo "the first block of the README prints: $printed"
    exit 1
    ;;
esac
if needed=$(readelf -d "$folder/program/target/debug/program" | grep 'NEEDED.*\(stdc++\|cachalot\)'); then
  echo "the program needs $needed"
  exit 1
fi
echo "built without a C++ compiler and run, in $(($(date +%s) - begin)) s"

# So there was none: without the feature the source is to be compiled.
if build build --quiet 2>"$folder/errors"; then
  echo "there is a C++ compiler on the PATH"
  exit 1
fi
grep -q 'c++' "$folder/errors"

# And a target that has no library is one error.
mv "$folder/registry/cachalot-prebuilt/lib" "$folder/lib"
mkdir "$folder/registry/cachalot-prebuilt/lib"
if build build --quiet --features prebuilt 2>"$folder/errors"; then
  echo "a target without a library is no error"
  exit 1
fi
[ "$(grep -c 'has no library for the target' "$folder/errors")" = 1 ] || {
  cat "$folder/errors"
  exit 1
}
rmdir "$folder/registry/cachalot-prebuilt/lib"
mv "$folder/lib" "$folder/registry/cachalot-prebuilt"
