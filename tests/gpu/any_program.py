#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that know nothing of cachalot, plain, under `cachalot record` and `cachalot run`, in turns on one GPU.

Usage: any_program.py CACHALOT [--rounds N] [--out FOLDER] [--forms LIST] [--shim LIBRARY] [--folder FOLDER]
                      [--csv FILE] [PROGRAM...]
PROGRAM: of any_programs.py [all], or a file of the folder, which prints its time and result likewise. Fails where a
program gives another result than the plain one, where a recording is not whole, or where it holds what cannot have
happened. Shows the time of each form, and the most memory that the device had in use; how long it takes beside the
plain one of the same turn; of those that are served also what the allocator had reserved, and what the recording
forecasts.
"""
import argparse
import csv
import ctypes
import importlib.util
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading

import any_programs

HERE = pathlib.Path(__file__).resolve().parent
FORMS = ("plain", "recorded", "without waits", "with stacks", "wait", "event", "async", "virtual", "whole", "serving",
         "pages", "shim", "shim without waits", "own cache", "own cache, recorded", "own cache, wait")
USUAL = ("plain", "recorded", "wait", "event", "shim", "shim without waits", "own cache", "own cache, wait")
RECORD = {"recorded": [], "without waits": ["--no-waits"], "with stacks": ["--stacks", "32"], "own cache, recorded": []}
RUN = {
    "wait": ["--free", "wait"],
    "event": ["--free", "event"],
    "async": ["--async", "cachalot"],
    "virtual": ["--virtual", "cachalot"],
    "whole": ["--whole"],
    "serving": ["--free", "event", "--policy", "serving"],
    "pages": ["--config", "expandable_segments:True"],
    "own cache, wait": ["--free", "wait"],
}

SHIM = None
FOLDER = pathlib.Path()


class Wrong(Exception):
    pass


def is_installed(program):
    framework = program.split("_", maxsplit=1)[0]
    if framework == "onnxruntime" and "CACHALOT_ONNX_MODEL" not in os.environ:
        return False
    return importlib.util.find_spec(framework) is not None


def command_of(program, form, cachalot, recording):
    if program in any_programs.PROGRAMS_OF_ALL:
        command = [sys.executable, str(HERE / "any_programs.py"), program]
    else:
        command = [str(FOLDER / program)]
    if form.startswith("own"):
        command.append("own")
    if form in ("plain", "own cache"):
        return command
    if form in RUN:
        return [cachalot, "run", *RUN[form], "--", *command]
    if form.startswith("shim"):
        waits = ["SHIM_NO_WAIT=1"] if form == "shim without waits" else []
        return ["env", *waits, *shim_environment(cachalot), *command]
    return [cachalot, "record", "-q", "-o", str(recording), *RECORD[form], "--", *command]


def shim_environment(cachalot):
    """The proxy's folder of links, with the shim in the proxy's place."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"shim-{os.getpid()}"
    printed = subprocess.run([cachalot, "run", "--print-env", folder], capture_output=True, text=True, check=True).stdout
    for name in ("libcuda.so.1", "libcuda.so"):
        (folder / name).unlink()
        (folder / name).symlink_to(SHIM)
    return [line for line in printed.splitlines() if line.startswith("LD_")]


class Peak:
    """The most memory that the device has in use while something runs, as NVML tells it every 5 ms."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self.nvml.nvmlInit_v2()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))
        self.most = 0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def used(self):
        memory = (ctypes.c_ulonglong * 3)()  # total, free, used
        self.nvml.nvmlDeviceGetMemoryInfo(self.device, memory)
        return memory[2]

    def watch(self):
        least = self.used()
        while not self.ends.wait(0.005):
            self.most = max(self.most, self.used() - least)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def run(form, command):
    with Peak() as peak:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^time (\S+) result (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        raise Wrong(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    if form.startswith("shim") and "async_shim: " not in done.stderr:
        raise Wrong(f"{' '.join(command)}: it asked the shim for nothing")
    served = re.search(r"([\d,]+) requests served by ([\d,]+) calls of the driver, ([\d,.]+) MiB reserved", done.stderr)
    return float(found[1]), found[2], peak.most / 2**20, served and [text.replace(",", "") for text in served.groups()]


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
    times = {form: [] for form in arguments.forms}
    peaks = {form: [] for form in arguments.forms}
    served = {}
    results = {}
    tables = ""
    for _ in range(arguments.rounds):
        for form in arguments.forms:
            recording = folder / f"{program}-{form.replace(' ', '-').replace(',', '')}.trace"
            seconds, result, peak, numbers = run(form, command_of(program, form, arguments.cachalot, recording))
            times[form].append(seconds)
            peaks[form].append(peak)
            served.setdefault(form, []).append(numbers)
            kind = "own" if form.startswith("own") else "driver"
            if results.setdefault(kind, result) != result:
                raise Wrong(f"{program}, {form}: result {result}, but plain {results[kind]}")
            if form in RECORD:
                text = check_recording(arguments.cachalot, recording)
                if form == "recorded":
                    tables = text
    return times, peaks, served, tables


def rows(program, times, peaks, served, tables):
    yield program
    for form, values in times.items():
        middle = statistics.median(values)
        scale, unit = (1e6, "us") if middle < 1e-3 else (1e3, "ms")
        besides = [value / plain for value, plain in zip(values, times.get("plain", []))]
        text = (f"  {form:20} {middle * scale:9.2f} {unit} ({min(values) * scale:.1f} to {max(values) * scale:.1f}), "
                f"device {statistics.median(peaks[form]):,.0f} MiB ({min(peaks[form]):,.0f} to {max(peaks[form]):,.0f})")
        if besides and form != "plain":
            text += f", {statistics.median(besides):.2f} times plain ({min(besides):.2f} to {max(besides):.2f})"
        numbers = [row for row in served[form] if row]
        if numbers:
            requests, calls, reserved = ([float(value) for value in column] for column in zip(*numbers))
            text += (f", {requests[0]:,.0f} served, {statistics.median(calls):,.0f} calls, "
                     f"{min(reserved):,.1f} to {max(reserved):,.1f} MiB reserved")
        yield text
    for rule in ("wait", "event"):
        forecast = re.search(rf"^ +(?:defaults)? +{rule} {{3,}}(.*?) {{3,}}(\S+)", tables, re.MULTILINE)
        if forecast:
            yield f"  forecast of {rule}: {forecast[1]}, {forecast[2]} calls"


def write_csv(file, program, times, peaks):
    """A row a run: what plot_programs.py draws."""
    for form, values in times.items():
        for turn, (seconds, peak) in enumerate(zip(values, peaks[form])):
            csv.writer(file).writerow([program, form, turn, f"{seconds:.6g}", f"{peak:.0f}"])


def main():
    global SHIM, FOLDER
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cachalot")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--forms", type=lambda text: text.split("/"), default=list(USUAL),
                        help=f"of {'/'.join(FORMS)}, with slashes between")
    parser.add_argument("--shim", type=os.path.abspath, help="async_shim.c, built; without it that form is left out")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--csv", type=argparse.FileType("a"))
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    arguments = parser.parse_intermixed_args()
    arguments.cachalot = os.path.abspath(arguments.cachalot)
    SHIM = arguments.shim
    FOLDER = arguments.folder.resolve()
    if SHIM is None:
        arguments.forms = [form for form in arguments.forms if not form.startswith("shim")]
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or pathlib.Path(temporary)
        for program in arguments.programs or any_programs.PROGRAMS:
            if program in any_programs.PROGRAMS_OF_ALL and not is_installed(program):
                print(f"{program}: skipped, its framework is not installed", flush=True)
                continue
            try:
                measured = measure(program, arguments, folder)
            except Wrong as wrong:
                print(f"{program}: {wrong}", flush=True)
                failed += 1
                continue
            print("\n".join(rows(program, *measured)), flush=True)
            (folder / f"{program}.txt").write_text(measured[-1])
            if arguments.csv:
                write_csv(arguments.csv, program, *measured[:2])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
