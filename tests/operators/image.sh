#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The image of capi/packaging/container, built and used as in a pod, without a registry, a daemon and a GPU:
#
#   image.sh PREFIX PROGRAMS   PREFIX: an installation; PROGRAMS: tests/proxy of a build tree, with the fake driver
#
# The base is what debootstrap makes. Containers are bubblewrap's: another user, and a root file system that is
# read-only. Needs root for debootstrap and buildah.
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh
need buildah bubblewrap debootstrap prometheus-node-exporter curl jq
prefix=$(realpath "$1") programs=$(realpath "$2")
place=$PWD/build/operators base=$PWD/build/operators/base
mkdir -p "$place"
work=$(mktemp -d "$place/image.XXXXXX")
in_store() { buildah --root "$place/store" --runroot "$work/run" --storage-driver vfs "$@"; }
started=
end() {
  # shellcheck disable=SC2086
  [ -z "$started" ] || { kill $started; wait $started; } 2>/dev/null || true
  in_store rm --all >/dev/null
  rm -rf "$work"
}
trap end EXIT

expect() {
  grep -q -- "$2" "$1" && return
  echo "no '$2' in:" >&2
  cat "$1" >&2
  exit 1
}

# ---- The image

if [ ! -d "$base" ]; then
  debootstrap --variant=minbase bookworm "$base.new" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  umount "$base.new/proc" 2>/dev/null || true  # which debootstrap leaves there where it runs in a container
  mv "$base.new" "$base"
  rm -rf "$base/var/cache/apt" "$base/var/lib/apt/lists" "$base/dev"/*
  mkdir "$base/cachalot" "$base/output" "$base/driver"  # where a server's container has its mounts
fi
if ! in_store inspect --type image localhost/debian:12-slim >/dev/null 2>&1; then
  container=$(in_store from scratch)
  in_store add -q "$container" "$base" / >/dev/null
  in_store commit -q "$container" localhost/debian:12-slim >/dev/null
  in_store rm "$container" >/dev/null
fi

context=$work/context
mkdir -p "$context/capi/packaging" "$context/build/portable"
cp LICENSE LICENSE-APACHE LICENSE-MIT "$context"
cp -R capi/packaging/container "$context/capi/packaging"
cp -R "$prefix" "$context/build/portable/$(uname -m)"
mkdir "$context/build/portable/work"  # of the portable build, and of no use here
touch "$context/build/portable/work/object"
build() {
  in_store bud -q --no-cache --isolation chroot --timestamp 0 --build-arg BASE=localhost/debian:12-slim "$@" \
    -f "$context/capi/packaging/container/Dockerfile" "$context" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
}
sent=$(in_store mount "$(in_store from "$(build --target files)")")/portable
[ "$(ls "$sent")" = "$(uname -m)" ] || { echo "more than prefixes is sent to the builder:" "$sent"/* >&2; exit 1; }
image=$(build)
find "$context" -exec touch {} +
[ "$(build)" = "$image" ] || { echo "two builds differ" >&2; exit 1; }
root=$(in_store mount "$(in_store from "$image")")
[ "$(in_store inspect --type image --format '{{.OCIv1.Config.User}}' "$image")" = 65532:65532 ]

for text in LICENSE LICENSE-APACHE LICENSE-MIT "$prefix"/share/doc/cachalot/licenses/*; do
  cmp "$text" "$root/opt/cachalot/licenses/$(basename "$text")"
done

# The layer of cachalot lies on that of the base.
in_store push -q "$image" "oci:$work/pushed"
blobs=$work/pushed/blobs/sha256
manifest=$blobs/$(jq -r '.manifests[0].digest' "$work/pushed/index.json" | cut -d: -f2)
layer=$(jq -r '.layers[-1].digest' "$manifest" | cut -d: -f2)
size="$(wc -c <"$blobs/$layer") bytes compressed, $(gzip -dc "$blobs/$layer" | wc -c) bytes of files"

# ---- The pod

# within ROOT USER MOUNTS... -- COMMAND...: a container.
within() {
  from=$1 user=$2
  shift 2
  bwrap --unshare-all --die-with-parent --clearenv --uid "$user" --gid "$user" --cap-drop ALL --ro-bind "$from" / \
    --dev /dev --proc /proc --setenv PATH /opt/cachalot/bin:/usr/bin:/bin "$@"
}
mkdir -m 777 "$work/files" "$work/output" "$work/driver"
cp -L "$programs/drivers/libcuda.so.1" "$programs/program" "$work/driver"
# server [VARIABLE=VALUE]... -- COMMAND...
server() {
  variables=
  while [ "$1" != -- ]; do
    variables="$variables --setenv ${1%%=*} ${1#*=}"
    shift
  done
  # shellcheck disable=SC2086
  within "$base" 10001 --ro-bind "$work/files" /cachalot --bind "$work/output" /output \
    --ro-bind "$work/driver" /driver --setenv TMPDIR /output --setenv LD_LIBRARY_PATH /driver $variables "$@"
}

within "$root" 65532 -- cachalot --version >"$work/log"
expect "$work/log" '[0-9]\.[0-9]'
within "$root" 65532 --bind "$work/files" /mnt -- copy-cachalot /mnt
server -- /cachalot/bin/cachalot run --metrics /output/%p.prom -- /driver/program open 9 2>"$work/log"
expect "$work/log" '9 requests served'
server -- /cachalot/bin/cachalot record -o /output/run.trace -- /driver/program open 9 2>"$work/log"
expect "$work/log" 'cuMemAlloc  *9 '
audit=/cachalot/lib/cachalot/libcachalot_audit.so
server LD_AUDIT=$audit CACHALOT_RUN_FREE=wait CACHALOT_RUN_METRICS=/output/audited.prom -- /driver/program open 9
expect "$work/output/audited.prom" '^cachalot_allocations_total.* 9$'
server LD_AUDIT=$audit CACHALOT_RECORD=/output/audited.trace -- /driver/program open 9
[ -s "$work/output/audited.trace" ]
# Two containers of a pod, whose processes have the same number, and what reads their pages.
for name in first second; do
  server LD_AUDIT=$audit CACHALOT_RUN_FREE=wait CACHALOT_RUN_TRIM_IDLE=3 "CACHALOT_RUN_METRICS=/output/$name-%p.prom" \
    -- /driver/program open 9 wait >"$work/$name" &
  started="$started $!"
done
attempts=0
until pages=$(ls "$work/output/first-"*.prom "$work/output/second-"*.prom 2>/dev/null); do
  attempts=$((attempts + 1))
  [ $attempts -lt 100 ] || { echo "no pages of two containers" >&2; exit 1; }
  sleep 0.2
done
[ "$(echo "$pages" | sed 's/.*-//' | sort -u | wc -l)" -eq 1 ]  # the same number
arguments=$(sed -n '/name: metrics  #/,/ports:/p' capi/packaging/kubernetes/pod.yaml | grep -o -- '--[^],]*')
# shellcheck disable=SC2086
prometheus-node-exporter $(echo "$arguments" | sed "s|=/output|=$work/output|") --web.listen-address=127.0.0.1:9177 \
  2>"$work/log" &
started="$started $!"
curl -s --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:9177/metrics >"$work/scraped"
expect "$work/scraped" '^node_textfile_scrape_error 0$'
for name in first second; do
  expect "$work/scraped" "^cachalot_allocations_total{.*process=\"$name-[0-9]*\".* 9\$"
done

if server -- touch /written 2>/dev/null; then echo "the root file system is not read-only" >&2; exit 1; fi

# Programs without use for the driver, and those that do not find one, are as without cachalot.
server LD_AUDIT=$audit CACHALOT_RUN_FREE=wait -- true
! server LD_AUDIT=$audit CACHALOT_RUN_FREE=wait LD_LIBRARY_PATH=/ -- /driver/program open 9 2>"$work/log" || exit 1
expect "$work/log" 'program: no driver'
echo "the image $image serves and records programs of other images; its layer has $size"
