# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced from the project's root, after tests/need.sh: libraries of others for a machine, as archives and headers
# from Debian's packages, in build/portable/debian/ARCH. The system itself does not change.

# debian_apt MACHINE ARGUMENT...: apt-get with lists of its own.
debian_apt() {
  machine=$1
  shift
  apt-get -qq -o Dir::State::Lists="$debian/lists" -o Dir::State::status="$debian/status" \
    -o Dir::Cache="$debian/cache" -o Dir::Etc::sourcelist="$debian/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o APT::Sandbox::User=root -o APT::Architecture="$machine" -o APT::Architectures="$machine" "$@"
}

# Sets `debian` to the folder, and fetches what is not there yet (2 MB).
fetch_debian() {
  debian=$PWD/build/portable/debian/$1
  [ ! -e "$debian/usr" ] || return 0
  need dpkg-dev
  case $1 in
    x86_64) machine=amd64 ;;
    aarch64) machine=arm64 ;;
  esac
  rm -rf "$debian"
  mkdir -p "$debian/lists/partial" "$debian/cache/archives/partial" "$debian/fetched"
  : >"$debian/status"
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  for kind in deb deb-src; do
    echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main"
  done >"$debian/sources.list"
  debian_apt "$machine" update
  # Debian has cpp-httplib as a shared library only, and its sources as one header.
  (
    cd "$debian/fetched"
    debian_apt "$machine" download zlib1g-dev liblzma-dev libsqlite3-dev nlohmann-json3-dev libcli11-dev
    debian_apt "$machine" source cpp-httplib >source.log 2>&1 || { cat source.log >&2; exit 1; }
    for package in *.deb; do dpkg-deb -x "$package" .; done
    rm "usr/lib/$1-linux-gnu"/*.so
    cp cpp-httplib-*/httplib.h usr/include
    mkdir usr/share/doc/cpp-httplib
    cp cpp-httplib-*/debian/copyright usr/share/doc/cpp-httplib
    printf 'Name: cpp-httplib\nDescription: HTTP\nVersion: %s\nCflags: -I%s/usr/include\n' \
      "$(sed -n 's/^#define CPPHTTPLIB_VERSION "\(.*\)"/\1/p' usr/include/httplib.h)" "$debian" \
      >"usr/lib/$1-linux-gnu/pkgconfig/cpp-httplib.pc"
  )
  mv "$debian/fetched/usr" "$debian"
  rm -r "$debian/lists" "$debian/cache" "$debian/status" "$debian/fetched"
}
