#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the native methods against libcachalot_onnxruntime.so of CACHALOT_LIB_DIR, and puts the start script beside
# them. Called by Maven: `native.sh TARGET JAVA_HOME`.
set -eu
cd "$(dirname "$0")"
target=$1 home=$2
root=$(cd ../../.. && pwd)
library=${CACHALOT_LIB_DIR:?it has to name the folder of libcachalot_onnxruntime.so}
case $library in
  /*) ;;
  *) echo "CACHALOT_LIB_DIR, $library, has to be absolute: the loader looks there, wherever the server is started" >&2; exit 1 ;;
esac
IFS=. read -r major minor patch <"$root/VERSION"
mkdir -p "$target/version/cachalot"
sed "s/@PROJECT_VERSION_MAJOR@/$major/; s/@PROJECT_VERSION_MINOR@/$minor/; s/@PROJECT_VERSION_PATCH@/$patch/
     s/@PROJECT_VERSION@/$major.$minor.$patch/" "$root/capi/include/cachalot/version.h.in" >"$target/version/cachalot/version.h"
hardening=$(sed -n "s/^[a-z]* *\(any\|$(uname -m)\) *-/-/p" "$root/capi/cmake/hardening.txt")
# Of libcachalot.so nothing is called here: it is there already, the binding has loaded it.
# shellcheck disable=SC2086
"${CC:-cc}" -std=c99 -O2 -Wall -Wextra -Wconversion -Werror -shared -fPIC -fvisibility=hidden $hardening \
  -I"$home/include" -I"$home/include/linux" -I"$target/headers" -I"$root/capi/include" -I"$target/version" \
  -I"$root/bindings/onnxruntime/include" src/main/c/registration.c -o "$target/libcachalot_server.so" \
  "$library/libcachalot_onnxruntime.so" -Wl,-z,defs -Wl,-rpath,"$library" -Wl,-rpath-link,"$library"
install -m 755 src/main/sh/server.sh "$target/server"
