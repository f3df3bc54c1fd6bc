#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the pages of the library and of its programs to a folder, over fakes of NVIDIA's libraries.

    pages.py BUILD FOLDER    library.prom; run.prom and contexts.prom of `cachalot run`, with a limit and of a program with
                             contexts of its own; recorded.prom of `cachalot record --live`
"""

import os
import pathlib
import re
import subprocess
import sys
import urllib.request


def run(build, page, environment, how, *options):
    served = [build / "cachalot", "run", "-q", *options, "--metrics", page]
    subprocess.run([*served, "--", build / "tests/proxy/program", "open", *how], env=environment, check=True)


def recorded(build, folder, environment):
    live = [build / "cachalot", "record", "-q", "--listen", "127.0.0.1:0", "-o", folder / "run.trace"]
    with subprocess.Popen([*live, "--", build / "tests/proxy/program", "open", "3", "hold:4194304"], env=environment,
                          text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        address = re.search(r"(http://\S+/metrics)", process.stderr.readline()).group(1)
        process.stdout.readline()  # the program waits
        with urllib.request.urlopen(address, timeout=20) as page:
            (folder / "recorded.prom").write_bytes(page.read())
        process.terminate()
        process.communicate()
    for recording in folder.glob("run.trace*"):
        recording.unlink()


def main():
    build, folder = (pathlib.Path(path).absolute() for path in sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    used = folder.parent / "used"
    used.write_text("100")
    fakes = build / "tests/proxy"
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{fakes}/drivers:{fakes}/nvml", "FAKE_NVML_USED": str(used)}
    busy = [build / "tests/cachalot_metrics_test", "--print-all"]
    (folder / "library.prom").write_bytes(subprocess.run(busy, check=True, capture_output=True).stdout)
    run(build, folder / "run.prom", environment, ["9"], "--limit", "1GiB")
    run(build, folder / "contexts.prom", environment, ["0", "contexts:1"])
    recorded(build, folder, environment)


if __name__ == "__main__":
    main()
