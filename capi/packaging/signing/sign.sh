#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Signs the files of a release: FOLDER gets SHA256SUMS, its signature SHA256SUMS.asc, and provenance.intoto.json.
#
#   capi/packaging/signing/sign.sh FOLDER [KEY]   KEY: a fingerprint; without it the first key of GnuPG that signs
#
# Needs a Python with the packages of requirements.txt, as `python`.
set -eu
[ $# -ge 1 ] || { sed -n '3,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
key=${2:-$(gpg --batch --with-colons --list-secret-keys | sed -n 's/^fpr:*\([0-9A-F]*\):*$/\1/p' | head -n 1)}
[ -n "$key" ] || { echo "sign.sh: GnuPG has no key that signs" >&2; exit 1; }
rm -f SHA256SUMS SHA256SUMS.asc provenance.intoto.json
python "$here/provenance.py" sign . "$key"
set -- *  # before the file itself is there
sha256sum "$@" >SHA256SUMS
gpg --batch --quiet --local-user "$key" --armor --detach-sign SHA256SUMS
