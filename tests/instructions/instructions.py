#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the instructions of a hit: a pair of cachalot_allocate and cachalot_free, by callgrind.

    instructions.py PROGRAM PLUGGABLE              prints a table, and fails where a row is above its bound
    instructions.py PROGRAM PLUGGABLE --self-test  expects a bound below a row to be found

PLUGGABLE is the same program with the calls of libcachalot_pluggable.so.

The bounds are for GCC 12 with -O3 and hardened libraries on x86_64, built in bundles, as users and packages build them.
They may only fall. Exit status: 0 within the bounds, 1 above one, 77 there is no valgrind.
"""

import os
import re
import shutil
import subprocess
import sys

FEW, MANY = 20_000, 60_000

# A row of a program, what the allocator does besides ("serving": the serving policy decides), its option string,
# the bound.
ROWS = [
    ("window", "", "", 499),
    ("window", "", "expandable_segments:True", 642),
    ("window", "", "max_split_size_mb:64", 509),
    ("window", "labels", "", 782),
    ("window", "tenants", "", 943),
    ("window", "history", "", 1149),
    ("streams", "", "", 651),
    ("pingpong", "", "", 237),
    ("pingpong", "labels", "", 459),
    ("pingpong", "tenants", "", 611),
    ("pingpong", "history", "", 822),
    ("window", "recorder", "", 3663),
    ("pingpong", "recorder", "", 3241),
    ("large", "", "max_split_size_mb:64", 226),
    ("window", "serving", "", 473),
    ("window", "serving labels", "", 742),
    ("window", "serving tenants", "", 907),
    ("window", "serving history", "", 1110),
    ("pingpong", "serving", "", 253),
]
# By how much a row may be above the same row without the serving policy.
SERVING_COSTS = 30
PLUGGABLE_ROWS = [
    ("window", "", "", 561),
    ("pingpong", "", "", 290),
]


def instructions(program, row, pairs, extra, config):
    policy = "serving" if "serving" in extra else "pytorch"
    environment = dict(os.environ, HITS_WITH=extra, HITS_CONFIG=config, CACHALOT_DRIVER="sim:4096GiB",
                       CACHALOT_POLICY=policy)
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, row, str(pairs)],
                         env=environment, capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not collected:
        sys.exit(f"{program} {row} {pairs} failed:\n{run.stderr}")
    return int(collected[1])


def instructions_a_pair(program, row, extra="", config=""):
    """What is done once, in both runs, falls out of the difference."""
    few, many = (instructions(program, row, pairs, extra, config) for pairs in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def findings(program, rows, prefix=""):
    loop = instructions_a_pair(program, "none")
    counts = {}
    for row, extra, config, bound in rows:
        count = instructions_a_pair(program, row, extra, config) - loop
        counts[row, extra, config] = count
        name = prefix + " ".join(part for part in (row, extra, config) if part)
        print(f"{name:44} {count:6.0f}  at most {bound}", flush=True)
        if count > bound:
            yield f"{name}: {count:.0f} instructions a pair, {bound} is the bound"
        default = counts.get((row, extra.removeprefix("serving").strip(), config), count)
        if count > default + SERVING_COSTS:
            yield f"{name}: {count:.0f} instructions a pair, {default:.0f} without the serving policy"


def self_test(program):
    name, extra, config, bound = ROWS[0]
    found = list(findings(program, [(name, extra, config, bound // 2)]))
    return [] if len(found) == 1 else ["a bound below the row was not found"]


def main():
    program, pluggable, *options = sys.argv[1:]
    if not shutil.which("valgrind"):
        print("valgrind is not installed: instructions are not counted")
        return 77
    if options == ["--self-test"]:
        found = self_test(program)
    else:
        found = [*findings(program, ROWS), *findings(pluggable, PLUGGABLE_ROWS, "pluggable ")]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
