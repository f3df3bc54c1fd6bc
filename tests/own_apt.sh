# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced: packages of other releases and machines of Debian's, fetched without a change of this system.

# own_lists FOLDER SUITE: makes the folder, for own_apt.
own_lists() {
  mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
  : >"$1/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $2 main" \
    >"$1/sources.list"
}

# own_apt FOLDER ARGUMENT...: apt-get by the lists of the folder.
own_apt() {
  own_lists=$1
  shift
  apt-get -qq -o Dir::State::Lists="$own_lists/lists" -o Dir::State::status="$own_lists/status" \
    -o Dir::Cache="$own_lists/cache" -o Dir::Etc::sourcelist="$own_lists/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root "$@"
}
