#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares ways to get memory for two ONNX models that alternate, and writes tables and a picture's data.

    compare.py PROGRAM ORT_FOLDER [--provider cpu|cuda] [--out FOLDER] [--requests N] [--clients N]
                                  [--budgets MIB...] [--rounds N]
    compare.py PROGRAM ORT_FOLDER --check     a few requests each: all are served, cachalot gives memory back

PROGRAM is the built `comparison`, ORT_FOLDER what bindings/onnxruntime/fetch.sh has made. The folder gets
results.json, tables.md and a CSV for each row; plot.py draws them. Of several rounds, in each of which every row has
its turn, times are the medians; bytes are those of the first.
Exit status: 0 compared, 1 the check found something, 2 the call is wrong.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

MIB = 1 << 20
# Name, the program's contender, cachalot's options and policy.
ROWS = {
    "cpu": [
        ("ORT's arena", "arena", "", ""),
        ("ORT's arena, one for both models", "arena-shared", "", ""),
        ("ORT's arena, shrunk after each run", "arena-shrink", "", ""),
        ("no arena", "none", "", ""),
        ("cachalot", "cachalot", "", ""),
        ("cachalot, `expandable_segments:True`", "cachalot", "expandable_segments:True", ""),
        ("cachalot, `max_split_size_mb:32`", "cachalot", "max_split_size_mb:32", ""),
        ("cachalot, `roundup_power2_divisions:4`", "cachalot", "roundup_power2_divisions:4", ""),
        ("cachalot, `serving`", "cachalot", "", "serving"),
        ("cachalot, `serving,thrift`", "cachalot", "", "serving,thrift"),
        ("cachalot, `serving,thrift,page=64KiB`", "cachalot", "", "serving,thrift,page=64KiB"),
    ],
    "cuda": [
        ("ORT's arena", "arena", "", ""),
        ("ORT's arena, one for both models", "arena-shared", "", ""),
        ("ORT's arena, `kSameAsRequested`", "arena-same", "", ""),
        ("ORT's arena, shrunk after each run", "arena-shrink", "", ""),
        ("cachalot", "cachalot", "", ""),
        ("cachalot, `expandable_segments:True`", "cachalot", "expandable_segments:True", ""),
        ("cachalot, `serving`", "cachalot", "", "serving"),
        ("cachalot, `serving,thrift`", "cachalot", "", "serving,thrift"),
        ("cachalot, both models on one stream", "cachalot-stream", "", ""),
        ("cachalot, one stream, `serving,thrift`", "cachalot-stream", "", "serving,thrift"),
    ],
}


def measure(arguments, contender, options, policy, *more):
    """One run's numbers; a run that the system ends has no more than its signal."""
    ort = arguments.ort_folder
    command = [arguments.program, "--library", ort / "lib/libonnxruntime.so", "--models", ort / "models",
               "--provider", arguments.provider, "--contender", contender, "--options", options, *more]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                            env=dict(os.environ, CACHALOT_POLICY=policy))
    if result.returncode == 0:
        return json.loads(result.stdout)
    if result.returncode < 0:
        return {"died": -result.returncode}
    sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")


def compare(arguments):
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    common = ("--requests", arguments.requests, "--clients", arguments.clients)
    rows = []
    for number, (name, contender, options, policy) in enumerate(ROWS[arguments.provider]):
        row = measure(arguments, contender, options, policy, *common, "--timeline", out / f"{number}.csv")
        row["name"] = name
        row["budgets"] = {budget: measure(arguments, contender, options, policy, *common, "--budget", f"{budget}MiB")
                          for budget in arguments.budgets}
        rows.append(row)
        print(table_row(row, arguments.budgets), file=sys.stderr, flush=True)
    again = [[measure(arguments, *row, *common) for _, *row in ROWS[arguments.provider]]
             for _ in range(1, arguments.rounds)]
    for number, row in enumerate(rows):
        for key in ("p50_ms", "p99_ms"):
            times = [run[key] for run in [row, *(each[number] for each in again)] if "died" not in run]
            row[key] = statistics.median(times) if times else None
    (out / "results.json").write_text(json.dumps({"arguments": vars(arguments), "rows": rows}, indent=1, default=str))
    tables = "".join(line + "\n" for line in table(rows, arguments.budgets))
    (out / "tables.md").write_text(tables)
    print(tables, end="")


def served(run, requests):
    if "died" in run:
        return f"ended by signal {run['died']}"
    return f"all {requests}" if not run["failure"] else str(run["served"])


def table_row(row, budgets):
    if "died" in row:
        return f"| {row['name']} | ended by signal {row['died']} |"
    cells = [row["name"], *(f"{row[key] / MIB:.0f}" for key in ("peak", "after", "idle")),
             f"{row['p50_ms']:.0f}", f"{row['p99_ms']:.0f}"]
    cells += [served(row["budgets"][budget], row["served"]) for budget in budgets]
    return "| " + " | ".join(cells) + " |"


def table(rows, budgets):
    heads = ["", "peak, MiB", "after the last", "when idle", "p50, ms", "p99, ms"]
    heads += [f"served within {budget} MiB" for budget in budgets]
    yield "| " + " | ".join(heads) + " |"
    yield "| " + " | ".join("---" for _ in heads) + " |"
    for row in rows:
        yield table_row(row, budgets)


def check(arguments):
    """Claims that hold on any machine."""
    requests = 6
    found = []
    for name, contender, options, policy in ROWS["cpu"]:
        row = measure(arguments, contender, options, policy, "--requests", requests)
        if row.get("served") != requests:
            found.append(f"{name}: {row}")
        elif contender == "cachalot" and row["idle"] > row["peak"] / 4:
            found.append(f"{name}: after {row['peak']} bytes at the peak {row['idle']} are kept when idle")
    small = measure(arguments, "cachalot", "", "", "--requests", requests, "--budget", "8MiB")
    if "out of memory" not in small.get("failure", ""):
        found.append(f"cachalot in 8 MiB: {small}")
    print("\n".join(found) or f"{len(ROWS['cpu'])} ways to get memory compared")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("ort_folder", type=pathlib.Path)
    parser.add_argument("--provider", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/comparison"))
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--budgets", type=int, nargs="*", default=[64, 96, 128], metavar="MIB")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        return check(arguments)
    compare(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
