# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced by the scripts of this folder that are called with OUT, the folder where their files go: what is the same
# in all of them. It makes $out, changes to the top of the tree and has what all archives of a release share.
# SOURCE_DATE_EPOCH, if it is set, is the time of all files that a script makes.

# The head of the script is its usage.
[ $# -eq 1 ] || { sed -n '3,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
# shellcheck disable=SC2034
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
while [ ! -f VERSION ]; do cd ..; done

version=$(cat VERSION)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)}
export SOURCE_DATE_EPOCH

# pack ARCHIVE FOLDER NAME...: these of a folder as a tar.gz, with equal bytes from whichever machine.
pack() {
  archive=$1 folder=$2
  shift 2
  LC_ALL=C tar --create --directory "$folder" --sort=name --format=ustar --owner=root:0 --group=root:0 \
    --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$@" | gzip -9n >"$archive.part"
  mv "$archive.part" "$archive"
}
