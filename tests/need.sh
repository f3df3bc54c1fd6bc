#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced: what scripts need of the machine.

# need PACKAGE...: installs the Debian packages that are missing.
need() {
  missing=
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  as_root=
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  if ! command -v apt-get >/dev/null || { [ -n "$as_root" ] && ! command -v sudo >/dev/null; }; then
    echo "Please install:$missing" >&2
    exit 2
  fi
  echo "Installing:$missing"
  $as_root apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# at_least WANTED FOUND: whether the version FOUND, maybe empty, is no older.
at_least() {
  [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# leave_out TEXT [STATUS]: says what is missing and what is not done for it, and ends with STATUS (77, which
# CTest takes for skipped); an error where CI is set.
leave_out() {
  echo "$1" >&2
  [ -z "${CI+set}" ] || exit 1
  exit "${2:-77}"
}
