#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The binaries in an old release of Ubuntu, with its compiler and C library: old_first.sh.
#
#   tests/packages/old_system.sh PACKAGES SUITE
#     PACKAGES   what run.sh makes: archives
#     SUITE      bionic (18.04: GCC 7, glibc 2.27) or a newer one
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh
packages=$(cd "$1" && pwd)
suite=$2
need mmdebstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Ubuntu's keys, which Debian has in a later release.
fetch_keys() {
  mkdir -p "$work/keys/lists/partial" "$work/keys/cache/archives/partial"
  : >"$work/keys/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" \
    >"$work/keys/sources.list"
  set -- -qq -o Dir::State::Lists="$work/keys/lists" -o Dir::State::status="$work/keys/status" \
    -o Dir::Cache="$work/keys/cache" -o Dir::Etc::sourcelist="$work/keys/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root
  apt-get "$@" update
  (cd "$work/keys" && apt-get "$@" download ubuntu-keyring && dpkg-deb -x ./*.deb .)
}

chmod 755 "$work"  # apt reads the keys as a user without rights
fetch_keys
mkdir "$work/root"
cp "$packages"/archives/cachalot-*-linux-"$(uname -m)".tar.gz tests/packages/old_first.sh "$work/root"
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$work/root/first.c"
cp tests/traces/gnn_train.csv.xz "$work/root/run.csv.xz"
mmdebstrap --quiet --variant=apt --format=null --include=gcc,libc6-dev,pkg-config \
  --keyring="$work/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" --customize-hook="copy-in $work/root /" \
  --customize-hook='chroot "$1" sh -ex /root/old_first.sh' "$suite" - \
  "deb http://archive.ubuntu.com/ubuntu $suite main"
