# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced from the project's root, after tests/need.sh: libraries of others for a machine, as archives and headers
# from Debian's packages, in build/portable/debian/ARCH. The system itself does not change.

# Sets `debian` to the folder, and fetches what is not there yet (2 MB): the versions and sums of debian.sums. Debian's
# servers drop a version once a newer one has replaced it; the fetch then fails until debian.sums names that.
fetch_debian() {
  debian=$PWD/build/portable/debian/$1
  sums=$PWD/capi/packaging/portable/debian.sums
  ! cmp -s "$sums" "$debian/debian.sums" || return 0
  need apt dpkg-dev
  rm -rf "$debian"
  mkdir -p "$debian/fetched"
  # Debian has cpp-httplib as a shared library only, and its sources as one header.
  (
    cd "$debian/fetched"
    grep -E "^[0-9a-f]+ (all|$1) " "$sums" | while read -r sum _ path; do
      /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "http://deb.debian.org/$path" \
        "$(basename "$path")" "SHA256:$sum" >fetch.log 2>&1 || { cat fetch.log >&2; exit 1; }
    done
    for package in *.deb; do dpkg-deb -x "$package" .; done
    dpkg-source --no-check -x ./*.dsc cpp-httplib >source.log
    rm "usr/lib/$1-linux-gnu"/*.so
    cp cpp-httplib/httplib.h usr/include
    printf 'Name: cpp-httplib\nDescription: HTTP\nVersion: %s\nCflags: -I%s/usr/include\n' \
      "$(sed -n 's/^#define CPPHTTPLIB_VERSION "\(.*\)"/\1/p' usr/include/httplib.h)" "$debian" \
      >"usr/lib/$1-linux-gnu/pkgconfig/cpp-httplib.pc"
  )
  mv "$debian/fetched/usr" "$debian"
  rm -r "$debian/fetched"
  cp "$sums" "$debian"
}
