#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Inference servers that know nothing of cachalot, plain, recorded and served, in turns on one GPU.

Usage: measure.py CACHALOT [--rounds N] [--forms LIST] -- SERVER [ARGUMENT...]
The server says `phase NAME` when it has begun, loaded a model and unloaded it, waits for a line each time, and says the
times of its tokens and a result at the end. Shows what the device has in use in each phase, beyond what it had before,
and the times. Fails where results differ.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from any_program import Peak  # noqa: E402

FORMS = {
    "plain": [],
    "recorded": ["record", "-q", "-o", "RECORDING"],
    "wait": ["run"],
    "event": ["run", "--free", "event"],
    "serving": ["run", "--free", "event", "--policy", "serving"],
    "all": ["run", "--free", "event", "--async", "cachalot", "--virtual", "cachalot"],
    "all, trimmed": ["run", "--free", "event", "--async", "cachalot", "--virtual", "cachalot", "--trim-idle", "1"],
}


def run(cachalot, form, server, recording):
    options = [str(recording) if word == "RECORDING" else word for word in FORMS[form]]
    command = [cachalot, *options, "--", *server] if options else server
    watch = Peak()
    before = watch.used()
    phases = []
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    times = None
    for line in process.stdout:
        if line.startswith("phase "):
            time.sleep(3 if "trimmed" in form else 0.3)
            phases.append((line.split()[1], (watch.used() - before) / 2**20))
            process.stdin.write("\n")
            process.stdin.flush()
        found = re.match(r"tokens (\d+) p50 (\S+) p99 (\S+) result (.*)$", line)
        times = found.groups() if found else times
    errors = process.stderr.read()
    if process.wait() != 0 or times is None:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{errors[-2000:]}")
    return phases, times, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cachalot")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--forms", type=lambda text: text.split("/"), default=list(FORMS))
    parser.add_argument("server", nargs="+")
    arguments = parser.parse_args()
    runs = {form: [] for form in arguments.forms}
    results = set()
    with tempfile.TemporaryDirectory() as folder:
        recording = pathlib.Path(folder) / "server.trace"
        for _ in range(arguments.rounds):
            for form in arguments.forms:
                phases, times, errors = run(arguments.cachalot, form, arguments.server, recording)
                runs[form].append((phases, times))
                results.add(times[3])
                print(f"{form}: p50 {times[1]} p99 {times[2]} {phases}", flush=True)
                if len(runs[form]) == 1:
                    print(errors.strip(), flush=True)
        if recording.exists():
            subprocess.run([arguments.cachalot, "inspect", recording], check=True)
    for form, turns in runs.items():
        memory = ", ".join(f"{name} {statistics.median(phases[i][1] for phases, _ in turns):,.0f} MiB"
                           for i, (name, _) in enumerate(turns[0][0]))
        tokens = ", ".join(
            f"p{share} {statistics.median(values):.2f} ms ({min(values):.2f} to {max(values):.2f})"
            for share, values in ((50, [float(times[1]) for _, times in turns]), (99, [float(times[2]) for _, times in turns])))
        print(f"{form:14} {tokens}; {memory}")
    if len(results) != 1:
        raise SystemExit(f"the results differ: {results}")


if __name__ == "__main__":
    main()
