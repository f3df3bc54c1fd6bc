# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced from the project's root, after tests/need.sh: libraries of others for a machine, as archives and headers
# from Debian's packages, in build/portable/debian/ARCH. The system itself does not change.

. tests/own_apt.sh

# Sets `debian` to the folder, and fetches what is not there yet (2 MB).
fetch_debian() {
  debian=$PWD/build/portable/debian/$1
  [ ! -e "$debian/usr" ] || return 0
  need dpkg-dev
  case $1 in
    x86_64) machine=amd64 ;;
    aarch64) machine=arm64 ;;
  esac
  of_machine="-o APT::Architecture=$machine -o APT::Architectures=$machine"
  rm -rf "$debian"
  mkdir -p "$debian/fetched"
  own_lists "$debian/apt" "$(. /etc/os-release && echo "$VERSION_CODENAME")" deb deb-src
  own_apt "$debian/apt" $of_machine update
  # Debian has cpp-httplib as a shared library only, and its sources as one header.
  (
    cd "$debian/fetched"
    own_apt "$debian/apt" $of_machine download zlib1g-dev liblzma-dev libsqlite3-dev nlohmann-json3-dev libcli11-dev
    own_apt "$debian/apt" $of_machine source cpp-httplib >source.log 2>&1 || { cat source.log >&2; exit 1; }
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
  rm -r "$debian/apt" "$debian/fetched"
}
