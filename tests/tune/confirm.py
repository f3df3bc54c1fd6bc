#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch's own binary about the answers of `cachalot tune`: each run finishes in the capacity that it names, and not in the
next one below.

    confirm.py CACHALOT ORACLE TRACE...             ORACLE: what tests/oracle/fetch.sh has built
    confirm.py --json FILE CACHALOT ORACLE TRACE...     and write what it confirms to a file, as tests/tune/confirmed.json

Looks at the defaults, expandable segments, and the best string found. Prints a Markdown table: the capacity in MiB and over
what is requested at the peak. Exit status: 0, or 1 where the binary does not agree.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MIB = 1 << 20


def tune(cachalot, traces, strings):
    command = [cachalot, "tune", "--json", "--strings", str(strings), *traces]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["runs"]


def rows_of(run):
    """The defaults, expandable segments, and the best that the search has found."""
    own = [row for row in run["results"] if not row["policy"]]
    usual = [row for row in own if row["config"] in ("", "expandable_segments:True")]
    found = sorted((row for row in own if row["found_by_search"]), key=lambda row: row["fits_bytes"])
    return usual + found[:1]


def failures(cachalot, oracle, trace, config, release, capacity):
    """How many requests PyTorch's binary refuses."""
    with tempfile.TemporaryDirectory() as folder:
        script, answer = os.path.join(folder, "script.txt"), os.path.join(folder, "answer.txt")
        with open(script, "w") as out:
            subprocess.run([cachalot, "replay", "--script", "--torch", release, "--config", config, "--capacity",
                            str(capacity), trace], stdout=out, check=True)
        subprocess.run([oracle, script, answer], check=True, capture_output=True)
        with open(answer) as lines:
            return sum(line.startswith(" E oom") for line in lines)


def confirm(job):
    cachalot, oracle, run, row = job
    at = failures(cachalot, oracle, run["file"], row["config"], row["release"], row["fits_bytes"])
    below = failures(cachalot, oracle, run["file"], row["config"], row["release"], row["fails_bytes"])
    return at == 0 and below > 0, at, below


def confirmed(run, row):
    return {"file": pathlib.Path(run["file"]).name, "requested_bytes": run["requested_bytes"],
            **{key: row[key] for key in ("config", "release", "fits_bytes", "fails_bytes")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cachalot")
    parser.add_argument("oracle")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--strings", type=int, default=160)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    runs = tune(arguments.cachalot, arguments.traces, arguments.strings)
    jobs = [(arguments.cachalot, arguments.oracle, run, row) for run in runs for row in rows_of(run)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(confirm, jobs))
    print("| run | options | smallest device, MiB | of requested | PyTorch's binary |")
    print("| --- | --- | --- | --- | --- |")
    for (_, _, run, row), (agrees, at, below) in zip(jobs, answers):
        name = pathlib.Path(run["file"]).name.split(".")[0]
        verdict = "agrees" if agrees else f"**{at} fail there, {below} below**"
        print(f"| {name} | {row['config'] or 'defaults'} | {row['fits_bytes'] / MIB:,.1f} | "
              f"{row['fits_bytes'] / run['requested_bytes']:.3f} | {verdict} |")
    if arguments.json:
        rows = [confirmed(run, row) for (_, _, run, row), (agrees, _, _) in zip(jobs, answers) if agrees]
        arguments.json.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    return 0 if all(agrees for agrees, _, _ in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
