#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Signs the files of a release. FOLDER gets what users check them with (provenance.py and its requirements), the
# provenance, SHA256SUMS and its signature SHA256SUMS.asc.
#
#   capi/packaging/signing/sign.sh FOLDER [KEY]
#     KEY      the fingerprint of another key, for a rehearsal; without it that of SECURITY.md, which users trust
#     PYTHON   a Python with the packages of provenance-requirements.txt; without it python3
set -eu
[ $# -ge 1 ] || { sed -n '3,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
key=${2:-$(sed -n 's/^fingerprint: \([0-9A-F]\{40\}\)$/\1/p' "$here/../../../SECURITY.md")}
[ -n "$key" ] || { echo "sign.sh: SECURITY.md has a placeholder for the fingerprint: nothing is signed" >&2; exit 1; }
"$python" -c 'import in_toto_attestation, securesystemslib' 2>/dev/null ||
  { echo "sign.sh: $python lacks the packages of $here/provenance-requirements.txt: PYTHON names one that has them," \
      "for example tools/bin/python of the rehearsal's folder" >&2; exit 1; }
case $python in */*) python=$(realpath -s "$python") ;; esac
cd "$1"
rm -f SHA256SUMS SHA256SUMS.asc provenance.intoto.json
cp "$here/provenance.py" "$here/provenance-requirements.txt" .
"$python" "$here/provenance.py" sign . "$key"
set -- *  # before the file itself is there
sha256sum "$@" >SHA256SUMS
gpg --batch --quiet --local-user "$key" --armor --detach-sign SHA256SUMS
