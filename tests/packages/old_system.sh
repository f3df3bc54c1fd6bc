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
. tests/readme_block.sh
. tests/own_apt.sh
packages=$(cd "$1" && pwd)
suite=$2
need mmdebstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Ubuntu's keys, which Debian has in a later release.
fetch_keys() {
  own_lists "$work/keys" trixie
  own_apt "$work/keys" update
  (cd "$work/keys" && own_apt "$work/keys" download ubuntu-keyring && dpkg-deb -x ./*.deb .)
}

chmod 755 "$work"  # apt reads the keys as a user without rights
fetch_keys
mkdir "$work/root"
cp "$packages"/archives/cachalot-*-linux-"$(uname -m)".tar.gz tests/packages/old_first.sh "$work/root"
readme_block README.md c >"$work/root/first.c"
cp tests/traces/gnn_train.csv.xz "$work/root/run.csv.xz"
mmdebstrap --quiet --variant=apt --format=null --include=gcc,libc6-dev,pkg-config \
  --keyring="$work/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" --customize-hook="copy-in $work/root /" \
  --customize-hook='chroot "$1" sh -ex /root/old_first.sh' "$suite" - \
  "deb http://archive.ubuntu.com/ubuntu $suite main"
