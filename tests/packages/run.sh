#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The rehearsal of a release: makes all that is published from the commit that is checked out, and lets a fresh project
# use each, in an empty environment. Prints what each command said; lines `CHANNEL: FIGURES` are in FOLDER/figures too.
#
#   tests/packages/run.sh FOLDER [CHANNEL...]
#
#   binaries      archives of both machines; a project in C and in C++, in old systems too
#   pypi          wheels of both machines, looked at by twine and installed by pip
#   crates        the crates, added by Cargo
#   go            the release's tags, fetched by Go
#   maven         what the plugin of Maven Central would upload, fetched by Maven
#   amalgamation  built by the commands of its README
#   fetched       CMake's FetchContent of the source archive
#   debian        installed by apt in an empty Debian
#   conan, vcpkg, conda   the recipes of `recipes_tried`: those of `recipes`, but for the archive's address
#   signed        sums, signatures, provenance and bills of materials of what the channels before have made
#   reproduced    what the channels before have made, once more in another folder: equal bytes
#
# The channels of languages take the libraries of `binaries`.
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh
. tests/readme_block.sh
folder=${1:?usage: run.sh FOLDER [CHANNEL...]}
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
version=$(cat VERSION)
export CACHALOT_DRIVER=host:64MiB

# figure TEXT...: of the channel.
figure() { echo "$channel: $*" | tee -a "$folder/figures"; }

# first_block LANGUAGE: its README's first block, with what the channel has made.
first_block() {
  tests/packages/first_block.sh "$1" "$folder" >"$folder/first_block.log" || {
    cat "$folder/first_block.log"
    return 1
  }
  figure "first block in $(tail -n 1 "$folder/first_block.log")"
}

size_of() { stat -c %s "$1" | numfmt --to=si --format=%.2f --suffix=B; }

# empty_folder NAME: a fresh one, and the way to it.
empty_folder() {
  rm -rf "${folder:?}/$1"
  mkdir -p "$folder/$1"
  echo "$folder/$1"
}

# The commands that its README names.
channel_amalgamation() {
  archive=$(capi/packaging/amalgamation.sh "$folder/archives")
  work=$(empty_folder amalgamation)
  readme_block README.md c >"$work/first.c"
  tar xf "$archive" -C "$work"
  readme_block "$work/cachalot/README.md" sh >"$work/build.sh"
  (cd "$work" && sh -ex build.sh && ./first)
  figure "$(size_of "$archive")"
}

# A project that knows C alone.
channel_fetched() {
  work=$(empty_folder fetched)
  cmake -S tests/install/consumer -B "$work" -G Ninja -DCONSUMER_LANGUAGES=C -DCONSUMER_ARCHIVE="file://$source" \
    -DCONSUMER_SHA256="$(sha256sum "$source" | cut -d' ' -f1)" -DCMAKE_UNITY_BUILD=ON
  cmake --build "$work"
  ctest --test-dir "$work" --output-on-failure --no-tests=error
  figure "$(size_of "$source")"
}

# In a system that has nothing but apt, of the release that the packages are built on.
channel_debian() {
  need lintian mmdebstrap
  work=$(empty_folder debian)
  capi/packaging/debian/build.sh "$work"
  lintian --allow-root --fail-on error,warning "$work"/*.changes
  mkdir "$work/root"
  cp "$work"/*.deb tests/packages/debian_first.sh "$work/root"
  readme_block README.md c >"$work/root/first.c"
  cp tests/traces/gnn_train.csv.xz "$work/root/run.csv.xz"
  . /etc/os-release
  mmdebstrap --quiet --variant=apt --format=null --customize-hook="copy-in $work/root /" \
    --customize-hook='chroot "$1" sh -ex /root/debian_first.sh' "$VERSION_CODENAME" -
  for package in "$work"/*.deb; do
    figure "$(basename "$package") $(size_of "$package")"
  done
}

# Programs of PyPI: of the recipes, of the wheels' pages, of the bills of materials, of signatures.
tools=$folder/tools
bring_tools() {
  need python3-venv
  set -- tests/packages/requirements.txt capi/packaging/sbom/requirements.txt \
    capi/packaging/signing/provenance-requirements.txt
  cat "$@" >"$folder/requirements.txt"
  cmp -s "$folder/requirements.txt" "$tools/requirements.txt" && return
  python3 -m venv --clear "$tools"
  for requirements; do
    "$tools/bin/pip" install -q --disable-pip-version-check --require-hashes -r "$requirements"
  done
  cp "$folder/requirements.txt" "$tools"
}

# `recipes` is submitted to the indexes, `recipes_tried` is what the channels use: both differ by the address alone.
make_recipes() {
  rm -rf "$folder/recipes" "$folder/recipes_tried"
  capi/packaging/recipes.sh "$source" "$folder/recipes"
  capi/packaging/recipes.sh "$source" "$folder/recipes_tried" "file://$source"
  moved=$(empty_folder recipes_moved)
  cp -r "$folder/recipes/." "$moved"
  address=https://cachalot.io/releases/v$version/$(basename "$source")
  for recipe in conan/conandata.yml vcpkg/portfile.cmake conda/recipe.yaml; do
    grep -q "$address" "$moved/$recipe" || { echo "recipes/$recipe lacks the address $address" >&2; return 1; }
    sed -i "s|$address|file://$source|" "$moved/$recipe"
  done
  diff -r "$moved" "$folder/recipes_tried"
  rm -rf "$moved"
}

# Conan's own CMake would come from its index: the system's does.
channel_conan() {
  bring_tools
  CONAN_HOME=$(empty_folder conan)
  export CONAN_HOME
  "$tools/bin/conan" profile detect
  "$tools/bin/conan" remote disable '*'
  printf '[platform_tool_requires]\ncmake/%s\n' "$(cmake --version | sed -n '1s/.* //p')" \
    >>"$CONAN_HOME/profiles/default"
  for shared in True False; do
    "$tools/bin/conan" create "$folder/recipes_tried/conan" --version "$version" -o "cachalot/*:shared=$shared"
  done
  figure "shared and static, each under its test package"
}

# A project in C on what the port leaves, for the triplets of both kinds.
channel_vcpkg() {
  for linkage in dynamic static; do
    work=$(empty_folder "vcpkg/$linkage")
    cmake -D PORT_FOLDER="$folder/recipes_tried/vcpkg" -D WORK="$work" -D VCPKG_LIBRARY_LINKAGE=$linkage \
      -P tests/packages/portfile.cmake
    (cd "$work/packages" && find . ! -type d | sort)
    cmake -S capi/packaging/conan/test_package -B "$work/first" -G Ninja -DCMAKE_PREFIX_PATH="$work/packages"
    cmake --build "$work/first"
    "$work/first/first"
  done
  figure "the portfile by a stand-in of vcpkg, dynamic and static"
}

channel_conda() {
  bring_tools
  work=$(empty_folder conda)
  PATH=$tools/bin:$PATH "$tools/bin/python" tests/packages/conda.py "$folder/recipes_tried/conda/recipe.yaml" "$work"
  package=$(ls "$work"/output/linux-64/cachalot-*.conda)
  figure "$(basename "$package") $(size_of "$package")"
}

# The libraries of both machines; `build/portable` keeps them.
channel_binaries() {
  need g++-aarch64-linux-gnu qemu-user
  rm -f "$folder"/archives/cachalot-*-linux-*.tar.gz
  capi/packaging/portable/build.sh
  capi/packaging/binaries.sh "$folder/archives"
  first_block c
  first_block cpp
  for suite in bionic focal; do tests/packages/old_system.sh "$folder" $suite; done
  work=$(empty_folder aarch64)
  readme_block README.md c >"$work/first.c"
  tar xf "$folder"/archives/cachalot-*-linux-aarch64.tar.gz -C "$work" --strip-components=1
  aarch64-linux-gnu-gcc -I"$work/include" "$work/first.c" -o "$work/first" -L"$work/lib" -lcachalot \
    -Wl,-rpath,"$work/lib"
  qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/first"
  for archive in "$folder"/archives/cachalot-*-linux-*.tar.gz; do
    figure "$(basename "$archive") $(size_of "$archive")"
  done
}

channel_pypi() {
  bring_tools
  rm -rf "$folder/pypi"
  for arch in x86_64 aarch64; do
    wheel=$(bindings/python/wheel/build.sh "$folder/wheel" $arch)
    mkdir -p "$folder/pypi"
    case $wheel in *manylinux_2_27_"$arch".whl) ;; *) echo "$wheel is not for glibc 2.27" >&2; return 1 ;; esac
    cp "$wheel" "$folder/pypi"
    figure "$(basename "$wheel") $(size_of "$wheel")"
  done
  "$tools/bin/twine" check --strict "$folder"/pypi/*
  first_block python
}

# `first_block.sh` has what prebuilt.sh makes in place of crates.io.
channel_crates() {
  bindings/rust/release.sh package --quiet --no-verify
  bindings/rust/prebuilt.sh bindings/rust/target/package "$(empty_folder rust)"
  rm -rf "$folder/crates"
  mv "$folder/rust/registry" "$folder/crates"
  for crate in bindings/rust/target/package/cachalot*-"$version".crate; do
    cp "$crate" "$folder/archives"
    figure "$(basename "$crate") $(size_of "$crate")"
  done
  first_block rust
}

# A built library to compare the module's with.
library() {
  cmake --preset release >/dev/null
  cmake --build build/release --target cachalot cachalot_static
}

channel_go() {
  library
  bindings/go/test.sh build/release consumer
  rm -rf "$folder/go"
  cp -r build/release/go/modules/cache/download "$folder/go"
  for module in go go/metrics; do
    figure "cachalot.io/$module $(size_of "$folder/go/cachalot.io/$module/@v/v$version.zip")"
  done
  first_block go
}

channel_maven() {
  library
  bindings/java/test.sh build/release release
  rm -rf "$folder/maven"
  cp -r build/release/java/release/repository "$folder/maven"
  find "$folder/maven" -name '*.jar' ! -name '*-sources.jar' ! -name '*-javadoc.jar' | sort | while read -r jar; do
    figure "$(basename "$jar") $(size_of "$jar")"
  done
  first_block java
}

# What docs/releasing.md tells users to do in a folder with files that they have downloaded.
verify_provenance() { "$tools/bin/python" "$1/provenance.py" verify "$1" "${2:-$key}"; }
verify_signed() {
  (cd "$1" && gpg --batch --verify SHA256SUMS.asc SHA256SUMS &&
    sha256sum --quiet --check --ignore-missing SHA256SUMS) && verify_provenance "$1"
}

# refused WHY COMMAND...: it fails and says so in its last line.
refused() {
  why=$1
  shift
  if "$@" >"$folder/refused.log" 2>&1 || ! tail -n 1 "$folder/refused.log" | grep -q "$why"; then
    cat "$folder/refused.log"
    echo "nobody says '$why': $*" >&2
    return 1
  fi
}

# refuse_changed WHY FILE COMMAND...: with another byte of the file.
refuse_changed() {
  why=$1 file=$2
  shift 2
  cp "$file" "$folder/kept"
  printf '!' | dd of="$file" bs=1 seek=30 conv=notrunc status=none
  refused "$why" "$@"
  mv "$folder/kept" "$file"
}

# A user who has downloaded one archive, and what checks it.
verify_part() {
  part=$(empty_folder part)
  amalgamation=$part/cachalot-amalgamation-$version.tar.gz
  for name in SHA256SUMS SHA256SUMS.asc provenance.intoto.json provenance.py "$(basename "$amalgamation")"; do
    cp "$work/$name" "$part"
  done
  verify_signed "$part" | tee "$folder/part.log"
  grep -q "^2 of $count files" "$folder/part.log"
  refuse_changed 'the provenance has [0-9a-f]*, the file' "$amalgamation" verify_provenance "$part"
  refuse_changed 'did NOT match' "$amalgamation" verify_signed "$part"
  refuse_changed 'BAD signature' "$part/SHA256SUMS" verify_signed "$part"
  refuse_changed 'JSONDecodeError\|binascii\|ignature' "$part/provenance.intoto.json" verify_provenance "$part"
  touch "$part/unknown"
  refused 'no such file' verify_provenance "$part"
  rm "$part/unknown"
  refused 'GnuPG has no key' verify_provenance "$part" 0000000000000000000000000000000000000000
  mv "$part/provenance.py" "$folder/kept.py"
  rm "$amalgamation"
  refused 'no file of a release' "$tools/bin/python" "$folder/kept.py" verify "$part" "$key"
}

# `release` is what a person signs and uploads. The key that is thrown away signs a copy of it.
channel_signed() {
  bring_tools
  work=$(empty_folder release)
  cp "$folder"/archives/* "$work"
  [ ! -d "$folder/pypi" ] || cp "$folder"/pypi/*.whl "$work"
  for arch in x86_64 aarch64; do
    prefix=build/portable/$arch
    [ ! -d "$prefix" ] ||
      "$tools/bin/python" capi/packaging/sbom/sbom.py "$prefix" "$work/cachalot-$version-linux-$arch.spdx.json"
  done
  . capi/packaging/signing/throw_away_key.sh
  key=$(gpg --batch --with-colons --list-keys | sed -n 's/^fpr:*\([0-9A-F]*\):*$/\1/p' | head -n 1)
  export PYTHON="$tools/bin/python"
  refused 'placeholder\|GnuPG has no key' capi/packaging/signing/sign.sh "$work"
  work=$(empty_folder release_tried)
  cp "$folder"/release/* "$work"
  capi/packaging/signing/sign.sh "$work" "$key"
  count=$(find "$work" -type f ! -name 'SHA256SUMS*' ! -name provenance.intoto.json | wc -l)
  verify_signed "$work" | grep "^$count of $count files, of commit $commit"
  verify_part
  figure "$count files"
}

# Files that are there of the channels' first run, as they come out of a clone. Zig is the same one.
channel_reproduced() {
  clone=$(empty_folder again)/clone
  git clone -q . "$clone"
  mkdir -p "$clone/build"
  ln -s "$PWD/build/zig" "$PWD/build/onnxruntime" "$clone/build"
  (
    cd "$clone"
    made=$folder/again
    capi/packaging/source.sh "$made"
    capi/packaging/amalgamation.sh "$made"
    capi/packaging/portable/build.sh
    capi/packaging/binaries.sh "$made"
    for arch in x86_64 aarch64; do cp "$(bindings/python/wheel/build.sh build/wheel $arch)" "$made"; done
    bindings/rust/release.sh package --quiet --no-verify
    cp bindings/rust/target/package/cachalot*.crate "$made"
    bindings/java/release.sh rehearse "$PWD/build/java" >/dev/null
    find build/java/repository -name '*.jar' -exec cp {} "$made" \;
    capi/packaging/debian/build.sh "$made/debian" >"$made/debian.log" 2>&1
    cp "$made"/debian/*.deb "$made"
  )
  count=0
  for file in "$folder"/archives/* "$folder"/pypi/* "$folder"/debian/*.deb $(find "$folder/maven" -name '*.jar'); do
    [ -e "$file" ] || continue
    cmp "$file" "$folder/again/$(basename "$file")"
    count=$((count + 1))
  done
  rm -rf "$clone"
  figure "$count files, each with equal bytes"
}

all="binaries pypi crates go maven amalgamation fetched debian conan vcpkg conda signed reproduced"
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $all
need cmake ninja-build g++ git
# What another commit has made is no part of this release.
commit=$(git rev-parse HEAD)
if [ "$(cat "$folder/commit" 2>/dev/null)" != "$commit" ]; then
  for made in archives pypi crates go maven debian; do rm -rf "${folder:?}/$made"; done
  echo "$commit" >"$folder/commit"
fi
mkdir -p "$folder/archives"
: >"$folder/figures"
source=$(capi/packaging/source.sh "$folder/archives")
make_recipes
for channel; do
  echo "=== $channel"
  "channel_$channel"
done
