#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much memory recorded runs need under each policy: the smallest device on which a run finishes, by replays.

    fits.py CACHALOT TRACE...            CACHALOT: the program `cachalot`
    fits.py --jobs 2 --json FILE CACHALOT TRACE...
    fits.py --expect FILE CACHALOT TRACE...    exit status 1 where a capacity is more than 2 MiB above that of the
                                               file, or the calls more than 1 %

Prints a Markdown table: what a run requests at its peak in MiB, then for each contender the capacity to fit and its
ratio to that, the driver's calls there, and the ratio of the peak where nothing limits it. The capacity is the end
of the last failure that is seen by bisection in steps of 1 MiB. Driver calls are single ones: a page that is created
takes two (create, map), one that moves or goes two (unmap, and map or release), and each mapped range one (access).
They are counted for the serving policy only.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import subprocess
import sys

MIB = 1 << 20
UNLIMITED = 4 << 20  # MiB: the largest device of a replay
CONTENDERS = {
    "default": ("", "pytorch"),
    "expandable": ("expandable_segments:True", "pytorch"),
    "expandable, 2 MiB": ("expandable_segments:True", "pytorch,page=2MiB"),
    "serving": ("", "serving"),
    "serving, thrift": ("", "serving,thrift"),
    "serving, at_limit": ("", "serving,borrow=at_limit"),
    "serving, 8 MiB": ("", "serving,page=8MiB"),
}


def number(text):
    return int(text.replace(",", ""))


class Replays:
    """One trace under one contender."""

    def __init__(self, program, trace, contender):
        self.program, self.trace = program, trace
        self.config, self.policy = CONTENDERS[contender]

    def at(self, mib):
        call = [self.program, "replay", "--brief", "--all-stats", "--config", self.config, "--policy", self.policy,
                "--capacity", f"{mib}MiB", self.trace]
        run = subprocess.run(call, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{' '.join(call)}: {run.stderr}")
        return run.stdout

    def failures(self, output):
        return number(re.search(r"of which ([\d,]+) ran out of memory", output)[1])

    def peak(self, output, what):
        return float(re.search(rf"peak {what} +([\d,.]+) MiB", output)[1].replace(",", ""))

    def calls(self, output):
        pages = re.search(r"pages +([\d,]+) obtained, ([\d,]+) moved, ([\d,]+) given back", output)
        if not pages:
            return None
        ranges = number(re.search(r"num_device_alloc +\S+ +(\S+)", output)[1])
        return 2 * sum(number(count) for count in pages.groups()) + ranges

    def fit(self, requested, peak):
        """The smallest capacity in MiB above the last failure that is met, and the output of that run."""
        low, high = math.ceil(requested) - 1, math.ceil(peak)
        output = self.at(high)
        while self.failures(output) > 0:
            low, high = high, high + max(2, high // 50)
            output = self.at(high)
        while high - low > 1:
            middle = (low + high) // 2
            tried = self.at(middle)
            if self.failures(tried) == 0:
                high, output = middle, tried
            else:
                low = middle
        return high, output


def measure(job):
    program, trace, contender = job
    replays = Replays(program, trace, contender)
    unlimited = replays.at(UNLIMITED)
    requested, peak = replays.peak(unlimited, "requested"), replays.peak(unlimited, "reserved")
    capacity, output = replays.fit(requested, peak)
    return {"trace": pathlib.Path(trace).name.split(".")[0], "contender": contender, "requested": requested,
            "capacity": capacity, "fit": capacity / requested, "unlimited": peak / requested,
            "calls": replays.calls(output)}


def worse_than(expected, results):
    """What is above the figures of an earlier run."""
    by_run = {(row["trace"], row["contender"]): row for row in expected}
    for row in results:
        name = f"{row['trace']}, {row['contender']}"
        before = by_run.get((row["trace"], row["contender"]))
        if before is None:
            yield f"{name}: nothing is expected of it"
        elif row["capacity"] > before["capacity"] + 2:
            yield f"{name}: needs {row['capacity']} MiB, {before['capacity']} were expected"
        elif row["calls"] is not None and row["calls"] > 1.01 * before["calls"]:
            yield f"{name}: {row['calls']} calls of the driver, {before['calls']} were expected"


def print_table(results, contenders):
    print("| run | requested, MiB | " + " | ".join(contenders) + " |")
    print("| --- " * (2 + len(contenders)) + "|")
    by_trace = {}
    for result in results:
        by_trace.setdefault(result["trace"], {})[result["contender"]] = result
    for trace, row in by_trace.items():
        cells = []
        for contender in contenders:
            cell = row[contender]
            calls = f", {cell['calls']:,} calls" if cell["calls"] is not None else ""
            cells.append(f"{cell['capacity']:,} ({cell['fit']:.3f}{calls}; {cell['unlimited']:.2f})")
        print(f"| {trace} | {row[contenders[0]]['requested']:,.1f} | " + " | ".join(cells) + " |")
    for what, text in (("fit", "fit"), ("unlimited", "no limit")):
        means = []
        for contender in contenders:
            ratios = [row[contender][what] for row in by_trace.values()]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            means.append(f"{mean:.3f} (worst {max(ratios):.2f})")
        print(f"| geometric mean, {text} | | " + " | ".join(means) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--expect", help="compare with the figures of this file")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    arguments = parser.parse_args()
    jobs = [(arguments.program, trace, contender) for trace in arguments.traces for contender in arguments.only]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(measure, jobs))
    print_table(results, arguments.only)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    if arguments.expect:
        found = list(worse_than(json.loads(pathlib.Path(arguments.expect).read_text()), results))
        print("\n".join(found))
        return 1 if found else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
