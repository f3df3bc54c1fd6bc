#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the test program, with the library inside, for machines that have no Go; writes the amalgamation for it.
#
#   bindings/go/gpu.sh OUT
#
# OUT gets the program, the golden files, and run.sh.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
../../capi/amalgamation/amalgamate.py --go internal/raw
link='-s -w -extldflags "-static-libstdc++ -static-libgcc"'
go test -c -tags cachalot_bundled -ldflags "$link" -o "$out/cachalot.test" .
rm -rf "$out/golden"
cp -r ../../tests/golden "$out/golden"
cat >"$out/run.sh" <<'END'
#!/bin/sh
# With a GPU: CACHALOT_GPU_TESTS=1 ./run.sh
set -eu
cd "$(dirname "$0")"
export CACHALOT_GOLDEN_DIR="$PWD/golden"
exec ./cachalot.test "$@"
END
chmod +x "$out/run.sh"
du -sh "$out"
