#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds servers and compares what they do with one request sequence.
#
#   run.sh BUILD [SERVER...]    BUILD is a build tree with libcachalot_onnxruntime.so; SERVER: rust java go (all)
#
# Exit status: 0 all is well, 77 something is missing for it (an error where CI is set), else something failed.
set -eu
cd "$(dirname "$0")/../../.."
. tests/need.sh
export PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"

folder=examples/servers
fetched=build/onnxruntime
[ $# -gt 0 ] || { sed -n 's/^# //p' "$0" >&2; exit 2; }
CACHALOT_LIB_DIR=$(cd "$1" && pwd)
export CACHALOT_LIB_DIR
shift
[ $# -gt 0 ] || set -- rust java go

[ -e "$fetched/models" ] || leave_out "ONNX Runtime is missing (bindings/onnxruntime/fetch.sh): servers are left out"
[ -e "$CACHALOT_LIB_DIR/libcachalot_onnxruntime.so" ] ||
  leave_out "libcachalot_onnxruntime.so is missing in $CACHALOT_LIB_DIR: servers are left out"

# Each builds its program, and says where it is.
build_rust() {
  least=1.88
  found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2 || true)
  at_least "$least" "$found" ||
    leave_out "Cargo $least or newer is missing (rustup.rs; found: ${found:-none}): the server in Rust is left out"
  cargo build --quiet --locked --manifest-path "$folder/rust/Cargo.toml" >&2
  echo "${CARGO_TARGET_DIR:-$folder/rust/target}/debug/cachalot-server"
}

build_java() {
  "$folder/java/build.sh" "$CACHALOT_LIB_DIR"
}

build_go() {
  "$folder/go/with.sh" "$CACHALOT_LIB_DIR" go build -o target/cachalot-server .
  echo "$folder/go/target/cachalot-server"
}

draw_images() {
  requirements=$folder/conformance/requirements.txt
  python=$fetched/python
  if ! cmp -s "$requirements" "$python/requirements.txt"; then
    rm -rf "$python" "$python.part"
    python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps \
      --only-binary=:all: --require-hashes -r "$requirements" --target "$python.part"
    cp "$requirements" "$python.part/requirements.txt"
    mv "$python.part" "$python"
  fi
  # Only once: another run may be reading them. They are the same wherever they are drawn.
  drawn=$(cat "$requirements" "$folder/conformance/images.py" "$folder/conformance/png.py" | cksum)
  if [ "$(cat "$fetched/images/drawn" 2>/dev/null)" != "$drawn" ]; then
    rm -rf "$fetched/images" "$fetched/images.part"
    PYTHONPATH=$python python3 "$folder/conformance/images.py" "$fetched/images.part"
    echo "$drawn" >"$fetched/images.part/drawn"
    mv "$fetched/images.part" "$fetched/images"
  fi
}

# Those whose tools are missing are left out, each with a line of its own.
servers=
for name; do
  set +e
  program=$(set -e; "build_$name")
  status=$?
  set -e
  case $status in
    0) servers="$servers $name=$program" ;;
    77) ;;
    *) exit "$status" ;;
  esac
done
[ -n "$servers" ] || exit 77
draw_images
# shellcheck disable=SC2086
exec python3 "$folder/conformance/conformance.py" "$fetched/images" "$folder/conformance/answers.json" $servers
