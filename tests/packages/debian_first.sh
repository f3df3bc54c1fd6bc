# SPDX-License-Identifier: MIT OR Apache-2.0
# The fresh project, in a system that has the packages in this folder and nothing else; `sh -ex` shows each command.
cd /root
export CACHALOT_DRIVER=host:64MiB DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y ./libcachalot*.deb gcc pkgconf >/dev/null
cc first.c -o first $(pkg-config --cflags --libs cachalot)
./first
apt-get install -qq -y g++ >/dev/null  # for the runtime of C++
cc first.c -o first_static $(pkg-config --static --cflags --libs cachalot | sed s/-lcachalot/-l:libcachalot.a/)
./first_static
apt-get install -qq -y ./cachalot_*.deb >/dev/null
cachalot --version
cachalot replay --expect --brief run.csv.xz
