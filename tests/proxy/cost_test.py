#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the instructions of the proxy's own code, the driver's calls taken off: for a request and its free that are
served or recorded, by callgrind, over a fake of the driver.

    cost_test.py PROGRAM LINKS              prints a table, and fails where a row is above its bound
    cost_test.py PROGRAM LINKS --self-test  expects a bound below a row to be found

LINKS: the folder in which the proxy stands before the fake. The bounds are for GCC 12 with -O3 on x86_64, and have room
for what differs between runs (digits of times). They may only fall. Exit status: 0 within the bounds, 1 above one, 77 there
is no valgrind.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

FEW, MANY = 2_000, 12_000
RECORDING = "%s/run"
ROWS = [
    ("record", {"CACHALOT_RECORD": RECORDING}, 4050),
    ("record --no-waits", {"CACHALOT_RECORD": RECORDING, "CACHALOT_RECORD_WAITS": "0"}, 3700),
    ("run", {"CACHALOT_RUN_FREE": "wait"}, 1350),
    ("run --free event", {"CACHALOT_RUN_FREE": "event"}, 1780),
]


def instructions_of_the_proxy(program, links, environment, pairs):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "callgrind.out")
        environment = {name: value.replace("%s", folder) for name, value in environment.items()}
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}", program, "open", str(pairs)],
                       env={**os.environ, **environment, "LD_LIBRARY_PATH": links}, capture_output=True, check=True)
        with open(file, encoding="utf-8") as lines:
            count = instructions_in("/proxy/libcuda.so.1", lines)
    if count == 0:
        sys.exit(f"{program}: nothing of the proxy was counted")
    return count


def instructions_in(object_file, lines):
    """Those that callgrind has counted in the code of one object. callgrind_annotate puts functions of one name together,
    such as the operators new of two objects, and names one of the objects."""
    names, current, is_of_a_call, count = {}, "", False, 0
    for line in lines:
        named = re.match(r"(c?ob)=\((\d+)\)(?: (.*))?$", line)
        if named:
            kind, number, name = named.groups()
            if name:
                names[number] = name
            if kind == "ob":
                current = names[number]
        elif line.startswith("calls="):
            is_of_a_call = True  # the next line has what the callee took
        elif re.match(r"[\d+*-]", line):
            if not is_of_a_call and current.endswith(object_file):
                count += int(line.split()[1])
            is_of_a_call = False
    return count


def findings(program, links, rows):
    for name, environment, bound in rows:
        few, many = (instructions_of_the_proxy(program, links, environment, pairs) for pairs in (FEW, MANY))
        count = (many - few) / (MANY - FEW)
        print(f"{name:20} {count:6.0f}  at most {bound}", flush=True)
        if count > bound:
            yield f"{name}: {count:.0f} instructions a pair, {bound} is the bound"


def main():
    program, links, *options = sys.argv[1:]
    if not shutil.which("valgrind"):
        print("valgrind is not installed: instructions are not counted")
        return 77
    if options == ["--self-test"]:
        name, environment, bound = ROWS[0]
        found = list(findings(program, links, [(name, environment, bound // 2)]))
        return 0 if len(found) == 1 else 1
    found = list(findings(program, links, ROWS))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
