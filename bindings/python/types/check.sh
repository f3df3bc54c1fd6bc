#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The type hints of the package, by mypy --strict (pyproject.toml), and what they say of programs that use it: one that
# is right has no error, and in one that is wrong each marked line has.
# Usage: check.sh FOLDER
#   FOLDER  of a virtual environment with mypy, which is made if it is not there (12 MB to fetch)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: check.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary=:all: \
  -r "$here/requirements.txt"
cd "$here/.."
mypy() { "$folder/bin/mypy" --cache-dir "$folder/cache" "$@"; }
mypy
export MYPYPATH="$PWD"
mypy --config-file= --strict --follow-imports=silent "$here/right.py"
mypy --config-file= --strict --follow-imports=silent --no-error-summary "$here/wrong.py" >"$folder/wrong.txt" && {
  echo "no error is found in wrong.py" >&2
  exit 1
}
sed -n 's/^[^:]*wrong.py:\([0-9]*\): error.*/\1/p' "$folder/wrong.txt" | sort -nu >"$folder/found"
grep -n '# wrong$' "$here/wrong.py" | cut -d: -f1 >"$folder/expected"
cmp "$folder/found" "$folder/expected" || {
  cat "$folder/wrong.txt"
  exit 1
}
