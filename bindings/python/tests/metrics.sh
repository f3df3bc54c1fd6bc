#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The tests of cachalot_cuda.prometheus and cachalot_cuda.opentelemetry with the packages that these are for, which come
# from PyPI (2 MB).
#
#   bindings/python/tests/metrics.sh FOLDER   FOLDER: of a virtual environment, which is made if it is not there
#
# Exit status: 0 all is well, 77 PyPI cannot be reached (an error where CI is set), else something failed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: metrics.sh FOLDER}
. "$here/../../../tests/need.sh"
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary=:all: \
  -r "$here/requirements.txt" || leave_out "PyPI cannot be reached: the metrics for Python's packages are not tested"
CACHALOT_TEST_PACKAGES=1 "$folder/bin/python" -m unittest discover -s "$here" -p test_prometheus.py
