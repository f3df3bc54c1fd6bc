#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds into BUILD an empty library for each that libtorch_cuda.so in TORCH_LIB needs and that is not here: no function
# of theirs is called, so the loader only has to find the libraries and the versions.
# Usage: ./stubs.sh TORCH_LIB BUILD
set -euo pipefail

torch_lib=${1:?usage: stubs.sh TORCH_LIB BUILD}
build=${2:?usage: stubs.sh TORCH_LIB BUILD}
libraries=("$torch_lib"/libtorch_{cuda,cpu}.so)
[ ! -e "$torch_lib/libtorch_python.so" ] || libraries+=("$torch_lib/libtorch_python.so")
of_system=$(ldconfig -p)

needed() {
  readelf -d "${libraries[@]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | sort -u
}

# Those that the system, PyTorch's package or the simulated runtime has.
is_here() {
  [ -e "$torch_lib/$1" ] || [ "$1" = libcudart.so.13 ] || grep -q "^\s*$1 " <<<"$of_system"
}

version_of() {
  readelf -V "${libraries[@]}" | awk -v library="$1" '
    /File: / { wanted = index($0, "File: " library " ") }
    wanted && /Name: / { name = $3 }
    END { print name }'
}

# What PyTorch opens by name while it looks for a context, and what its Python module says it has of NVSHMEM.
cat >"$build/stub.c" <<'C'
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  (void)device;
  *flags = 0;
  *is_active = 1;
  return 0;
}
int _ZN4c10d17nvshmem_extension20is_nvshmem_availableEv(void) { return 0; }
void _ZN4c10d17nvshmem_extension22nvshmemx_cumodule_initEm(unsigned long module) { (void)module; }
C
for library in $(needed) libcuda.so.1 libnvrtc.so.13; do
  is_here "$library" && continue
  version=$(version_of "$library")
  options=()
  if [ -n "$version" ]; then
    echo "$version { global: *; };" >"$build/stub.map"
    options=("-Wl,--version-script=$build/stub.map")
  fi
  gcc -shared -fPIC -Wl,-soname,"$library" "${options[@]}" -o "$build/$library" "$build/stub.c"
done
rm -f "$build/stub.c" "$build/stub.map"
