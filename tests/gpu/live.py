#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`cachalot record --live` beside programs that know nothing of it: the ledger of the device is what nvidia-smi shows.

Usage: live.py CACHALOT [PROGRAM...]
PROGRAM: of any_programs.py, with "+own" for its own cache, or pool or refused [a choice of them]. Fails where the ledger
and nvidia-smi differ by more than 2 %, or a refused request leaves no report.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
USUAL = ("torch_train", "torch_train+own", "cupy_temporaries", "jax_operations", "jax_operations+own", "pool", "refused")

# Memory that the driver's pool keeps when the program has given it back (cudarc 536).
POOL = """
import cupy, time
cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
kept = cupy.zeros(1 << 28, dtype=cupy.uint8)
blocks = [cupy.zeros(1 << 27, dtype=cupy.uint8) for _ in range(16)]
cupy.cuda.Device().synchronize()
del blocks
for i in range(30):
    cupy.zeros(1 << 20, dtype=cupy.uint8)
    cupy.cuda.Device().synchronize()
    time.sleep(0.1)
"""
REFUSED = """
import torch
kept = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("refused")
"""


class Wrong(Exception):
    pass


def command_of(program):
    if program in ("pool", "refused"):
        return [sys.executable, "-c", POOL if program == "pool" else REFUSED]
    return [sys.executable, str(HERE / "any_programs.py"), *program.split("+")]


def used_by_smi():
    done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"],
                          capture_output=True, text=True, check=True)
    return int(done.stdout) << 20


def ledger(url):
    with urllib.request.urlopen(url + "/ledger", timeout=20) as answer:
        return json.load(answer)["devices"]


def look(url):
    """What nvidia-smi shows, the ledger's sum, its part that no holder explains, and its holders; nothing while the
    program obtains memory or gives it back."""
    before = used_by_smi()
    devices = ledger(url)
    behind = used_by_smi()
    if len(devices) != 1 or before != behind:
        return None
    holders = {row["holder"]: row["bytes"] for row in devices[0]["holders"]}
    rest = sum(size for name, size in holders.items() if name.startswith("rest:"))
    return behind, sum(holders.values()), rest, holders


def follow(program, cachalot, folder):
    process = subprocess.Popen(
        [cachalot, "record", "--listen", "127.0.0.1:0", "-q", "-o", str(folder / f"{program}.trace"), "--",
         *command_of(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = re.search(r"(http://\S+)/ ", process.stderr.readline())
    looks = []
    while process.poll() is None:
        try:
            seen = look(found[1])
        except OSError:  # it has ended meanwhile
            break
        if seen:
            looks.append(seen)
        time.sleep(0.1)
    out, err = process.communicate()
    if process.returncode != 0 or not looks:
        raise Wrong(f"exit code {process.returncode}, {len(looks)} looks\n{out}{err}")
    return looks, err


def check(program, looks, err, folder):
    worst = 0.0
    for used, total, _, _ in looks:
        worst = max(worst, abs(used - total) / used)
    used, _, rest, holders = max(looks, key=lambda seen: seen[0])
    print(f"{program}: {len(looks)} quiet moments, at most {worst:.2%} off; the most {used / 2**20:,.0f} MiB in use, "
          f"no holder for {rest / 2**20:,.0f}: { {name: round(size / 2**20) for name, size in holders.items()} }", flush=True)
    if worst > 0.02:
        raise Wrong(f"{worst:.2%} off")
    if program == "refused":
        (path,) = folder.glob("refused.trace.oom-1.json")
        report = json.loads(path.read_text())
        print(f"  {err.strip()}\n  {report['ledger']}", flush=True)
        if report["requested_bytes"] != 1 << 40 or not report["last_events"][-1].startswith("o,"):
            raise Wrong("the report is of something else")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cachalot", type=os.path.abspath)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for program in arguments.programs or USUAL:
            try:
                check(program, *follow(program, arguments.cachalot, folder), folder)
            except Wrong as wrong:
                print(f"{program}: {wrong}", flush=True)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
