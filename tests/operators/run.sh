#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The recipes for containers, Kubernetes and monitoring (docs/kubernetes.md) by the code of those that read them.
#
#   run.sh BUILD   a build tree with the tools, tests/proxy and cachalot_metrics_test
set -eu
cd "$(dirname "$0")/../.."
. tests/need.sh
need prometheus python3-venv
build=$1 out=build/operators packaging=capi/packaging
mkdir -p "$out"

[ -x "$out/venv/bin/python" ] || python3 -m venv "$out/venv"
"$out/venv/bin/pip" install -q --require-hashes -r tests/operators/requirements.txt
"$out/venv/bin/hadolint" "$packaging/container/Dockerfile"
"$out/venv/bin/python" "$packaging/monitoring/dashboard.py" | cmp - "$packaging/monitoring/dashboard.json"

promtool check rules "$packaging/monitoring/alerts.yml" >/dev/null
(cd "$packaging/monitoring" && promtool test rules alerts_test.yml)

rm -rf "$out/pages"
tests/operators/pages.py "$build" "$out/pages"
tests/operators/queries.py prometheus "$packaging/monitoring/dashboard.json" "$out/pages"
(cd tests/operators && CACHALOT_PAGES=$OLDPWD/$out/pages go test -count=1 ./...)
# Without Prometheus' discoveries of clouds, which are most of a Collector.
(cd tests/operators/collector && CACHALOT_PAGES=$OLDPWD/$out/pages go test -count=1 -tags remove_all_sd ./...)

capi/packaging/portable/build.sh "$(uname -m)"
tests/operators/image.sh "build/portable/$(uname -m)" "$build/tests/proxy"
