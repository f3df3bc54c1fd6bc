# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced by the scripts of this folder, which have changed to the top of the tree: what is the same in all
# archives of a release. SOURCE_DATE_EPOCH, if it is set, is the time of all files that a script makes.

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
