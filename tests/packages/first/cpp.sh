# SPDX-License-Identifier: MIT OR Apache-2.0
# C++, over the archive of binaries: what a new user types, in an empty folder with the program.
mkdir cachalot
tar xf cachalot-*.tar.gz -C cachalot --strip-components=1
export PKG_CONFIG_PATH=$PWD/cachalot/lib/pkgconfig
c++ -std=c++20 first.cpp -o first $(pkg-config --cflags --libs cachalot) -Wl,-rpath,cachalot/lib
./first
