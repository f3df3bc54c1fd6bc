#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks a real Prometheus, which reads the given pages, each query of the dashboard: each must have an answer.

    queries.py PROMETHEUS DASHBOARD FOLDER

FOLDER has the pages, one a file; each is read as that of a pod of the file's name. A page of DCGM's exporter, with its
names and labels, is added for the GPU that the pages name. Prometheus reads its targets by the labels of
capi/packaging/monitoring/prometheus.yml, and listens on this machine only.
"""

import http.server
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

DCGM = """\
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{{gpu="0",UUID="{uuid}",device="nvidia0",pod="run"}} 4096
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{uuid}",device="nvidia0",pod="run"}} 87
"""


def read_pages(folder):
    pages = {file.stem: file.read_text() for file in sorted(folder.iterdir())}
    uuid = re.search(r'gpu_uuid="(GPU-[0-9a-f-]+)"', "".join(pages.values())).group(1)
    return {**pages, "dcgm": DCGM.format(uuid=uuid)}


def serve(pages):
    """Gives the port of a server that answers each page by its name."""
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = pages[self.path.strip("/")].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def configuration(pages, port):
    jobs = [{"job_name": name, "metrics_path": "/" + name, "honor_labels": name == "dcgm",
             "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "default", "pod": name}}]}
            for name in pages]
    return json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs})  # JSON is YAML


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def expressions(dashboard):
    for panel in json.loads(dashboard.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], (target["expr"].replace("$__rate_interval", "10s")
                                   .replace("$namespace", ".*").replace("$pod", ".*"))


def answer(address, expression):
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{address}/api/v1/query?{query}", timeout=20) as reply:
        return json.load(reply)["data"]["result"]


def unanswered(address, queries):
    return [(title, expression) for title, expression in queries if not answer(address, expression)]


def wait_until(ready, seconds=60):
    for _ in range(seconds * 5):
        try:
            if ready():
                return True
        except OSError:
            pass
        time.sleep(0.2)
    return False


def main():
    prometheus, dashboard, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    pages = read_pages(folder)
    queries = list(expressions(dashboard))
    with tempfile.TemporaryDirectory() as place:
        config = pathlib.Path(place, "prometheus.yml")
        config.write_text(configuration(pages, serve(pages)))
        address = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen([prometheus, f"--config.file={config}", f"--storage.tsdb.path={place}/data",
                                    f"--web.listen-address={address}"], stderr=subprocess.PIPE, text=True)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            address = "http://" + address
            up = wait_until(lambda: len(answer(address, "count_over_time(up[1m]) > 3")) == len(pages))
            empty = unanswered(address, queries)
            nothing = unanswered(address, [("none", "cachalot_none")])
        finally:
            process.terminate()
            process.wait()
    for title, expression in empty:
        print(f"no answer: {title}: {expression}")
    if not up or not nothing or not queries:
        print("Prometheus does not read the pages, or answers what is not there")
        return 1
    print(f"{len(queries) - len(empty)} of {len(queries)} queries have an answer, of {len(pages)} pages")
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
