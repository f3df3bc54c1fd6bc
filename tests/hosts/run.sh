#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# CuPy, Numba and RMM themselves on cachalot, without a GPU: the tests of the Python package that need them, over the
# host's memory.
# Usage: [CACHALOT_LIB_DIR=build/release] ./run.sh FOLDER [TORCH]
#   FOLDER  of a virtual environment, which is made if it is not there. The packages are 200 MB to fetch.
#   TORCH   where tests/torch/build.sh has made a PyTorch: with it also PyTorch and CuPy in one process
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:?usage: run.sh FOLDER}
export CACHALOT_LIB_DIR="${CACHALOT_LIB_DIR:-$root/build/release}"
export CACHALOT_FAKE_CUDA="$CACHALOT_LIB_DIR/tests/hosts/driver" CACHALOT_TEST_HOSTS=1

[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary=:all: \
  -r "$here/requirements.txt"
"$folder/bin/python" -m unittest discover -s "$root/bindings/python/tests" -p 'test_host_*.py'
[ $# -lt 2 ] || PYTHONPATH=$(cd "$2" && pwd)/site "$folder/bin/python" -m unittest discover \
  -s "$root/bindings/python/tests" -p 'test_hosts_together.py'
