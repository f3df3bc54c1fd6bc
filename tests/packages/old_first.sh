# SPDX-License-Identifier: MIT OR Apache-2.0
# The fresh project, in a system that is as old as the binaries allow; `sh -ex` shows each command.
cd /root
export CACHALOT_DRIVER=host:64MiB
ldd --version | head -n 1
mkdir cachalot
tar xf cachalot-*.tar.gz -C cachalot --strip-components=1
export PKG_CONFIG_PATH=/root/cachalot/lib/pkgconfig LD_LIBRARY_PATH=/root/cachalot/lib
cc first.c -o first $(pkg-config --cflags --libs cachalot)
./first
cc first.c -o first_static $(pkg-config --static --cflags --libs cachalot | sed s/-lcachalot/-l:libcachalot.a/)
LD_LIBRARY_PATH= ./first_static
unset LD_LIBRARY_PATH
# The program needs glibc 2.28, the libraries 2.27.
if ! ldd --version | grep -q 2.27; then
  cachalot/bin/cachalot --version
  cachalot/bin/cachalot replay --expect --brief run.csv.xz
fi
