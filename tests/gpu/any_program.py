#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that know nothing of cachalot, plain and under `cachalot record`, in turns on one GPU.

Usage: any_program.py CACHALOT [--rounds N] [--out FOLDER] [PROGRAM...]
PROGRAM: of any_programs.py [all]. Fails where a recorded program gives another result than the plain one, where a
recording is not whole, or where it holds what cannot have happened.
"""
import argparse
import importlib.util
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import any_programs

HERE = pathlib.Path(__file__).resolve().parent
FORMS = ("plain", "recorded", "without waits", "with stacks", "own cache", "own cache, recorded")


class Wrong(Exception):
    pass


def is_installed(program):
    framework = program.split("_", maxsplit=1)[0]
    return importlib.util.find_spec(framework) is not None


def command_of(program, form, cachalot, recording):
    command = [sys.executable, str(HERE / "any_programs.py"), program]
    if form.startswith("own"):
        command.append("own")
    if form in ("plain", "own cache"):
        return command
    options = {"without waits": ["--no-waits"], "with stacks": ["--stacks", "32"]}.get(form, [])
    return [cachalot, "record", "-q", "-o", str(recording), *options, "--", *command]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^time (\S+) result (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        raise Wrong(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    return float(found[1]), found[2]


def check_recording(cachalot, recording):
    """Replays it, which refuses what cannot have happened. Gives its tables."""
    if not re.search(r"^[aA],", recording.read_text().split("\0")[0], re.MULTILINE):
        raise Wrong(f"{recording}: it has no request")
    done = subprocess.run([cachalot, "inspect", recording], capture_output=True, text=True, check=False)
    if done.returncode != 0 or "did not end" in done.stdout or "are lost" in done.stdout:
        raise Wrong(f"{recording}:\n{done.stdout}{done.stderr}")
    replayed = subprocess.run([cachalot, "replay", "--brief", recording], capture_output=True, text=True, check=False)
    if replayed.returncode != 0:
        raise Wrong(f"{recording}:\n{replayed.stdout}{replayed.stderr}")
    return done.stdout


def measure(program, arguments, folder):
    times = {form: [] for form in FORMS}
    results = {}
    tables = ""
    for _ in range(arguments.rounds):
        for form in FORMS:
            recording = folder / f"{program}-{form.replace(' ', '-').replace(',', '')}.trace"
            seconds, result = run(command_of(program, form, arguments.cachalot, recording))
            times[form].append(seconds)
            kind = "own" if form.startswith("own") else "driver"
            if results.setdefault(kind, result) != result:
                raise Wrong(f"{program}, {form}: result {result}, but plain {results[kind]}")
            if form not in ("plain", "own cache"):
                text = check_recording(arguments.cachalot, recording)
                if form == "recorded":
                    tables = text
    return times, tables


def row(program, times):
    cells = [program]
    for form in FORMS:
        middle = statistics.median(times[form])
        base = statistics.median(times["own cache" if form.startswith("own") else "plain"])
        scale, unit = (1e6, "us") if middle < 1e-3 else (1e3, "ms")
        spread = f"{min(times[form]) * scale:.1f}-{max(times[form]) * scale:.1f}"
        cells.append(f"{middle * scale:.2f} {unit} ({spread}) {middle / base:.3f}")
    return " | ".join(cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cachalot")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    arguments = parser.parse_intermixed_args()
    arguments.cachalot = os.path.abspath(arguments.cachalot)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or pathlib.Path(temporary)
        print(" | ".join(("program", *FORMS)), flush=True)
        for program in arguments.programs or any_programs.PROGRAMS:
            if not is_installed(program):
                print(f"{program}: skipped, its framework is not installed", flush=True)
                continue
            try:
                times, tables = measure(program, arguments, folder)
            except Wrong as wrong:
                print(f"{program}: {wrong}", flush=True)
                failed += 1
                continue
            print(row(program, times), flush=True)
            (folder / f"{program}.txt").write_text(tables)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
