#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the Debian packages of the commit that is checked out, for the Debian or Ubuntu release of this machine, and
# leaves them in OUT beside the .changes file, which lintian reads.
#
#   capi/packaging/debian/build.sh OUT
set -eu
. "$(dirname "$0")/../release.sh"
. tests/need.sh
. /etc/os-release

soversion=${version%.*}
tree=$out/cachalot-$version

# What has the version or its interface in its text or name.
write_debian_folder() {
  cp -r capi/packaging/debian "$tree/debian"
  rm "$tree/debian/build.sh"
  sed -i "s/@SOVERSION@/$soversion/g; s/@VERSION@/$version/g" "$tree/debian/control" "$tree"/debian/*.symbols
  for library in libcachalot libcachalot-libtorch libcachalot-onnxruntime; do
    for kind in install symbols; do
      mv "$tree/debian/$library.$kind" "$tree/debian/$library$soversion.$kind"
    done
  done
  cat >"$tree/debian/changelog" <<END
cachalot ($version-1~$VERSION_CODENAME) unstable; urgency=medium

  * Version $version; /usr/share/doc/cachalot/changelog.gz has its changes.

 -- $(sed -n 's/^Maintainer: //p' capi/packaging/debian/control)  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
END
}

need build-essential debhelper dpkg-dev cmake ninja-build libcli11-dev libcpp-httplib-dev liblzma-dev libsqlite3-dev \
  nlohmann-json3-dev pkgconf zlib1g-dev
bindings/onnxruntime/fetch.sh
rm -rf "$tree"
tar xf "$(capi/packaging/source.sh "$out")" -C "$out"
mkdir "$tree/onnxruntime"
cp -r build/onnxruntime/include "$tree/onnxruntime"
write_debian_folder
cd "$tree"
# Cargo makes the unwinder of `cachalot record`; debhelper gives a build a home without it.
export CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
export PATH="$PATH:$CARGO_HOME/bin"
dpkg-buildpackage --build=binary --no-sign
cd "$out"
rm -r "$tree"
ls ./*.deb
