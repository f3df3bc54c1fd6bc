#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""CuPy, Numba and RMM on cachalot beside their own allocators, on a GPU: time and memory of loads, their own tests.

Usage: hosts.py [--rounds N] [--out FOLDER] [--numba-tests] [--cupy-tests FOLDER] [LOAD...]
LOAD: of host_loads.py [all whose packages are installed]. Each way of a load runs in a process of its own, in turns. It
fails where one gives another result than the host's own way. --numba-tests runs the tests of numba-cuda with and
without the plug-in, --cupy-tests those of a source archive of CuPy (its folder tests/cupy_tests), and fails where one
that passes without cachalot does not pass with it. The tables of docs/hosts.md are printed, and written to
FOLDER/hosts.md.
"""
import argparse
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import statistics
import subprocess
import sys

import host_loads

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "bindings" / "python"
CACHALOT = ("cachalot", "cachalot, expandable")
WAYS = {
    "cupy": ("own", "driver's pool", "none", *CACHALOT),
    "numba": ("own", *CACHALOT),
    "rmm": ("own", "driver's pool", "pool", *CACHALOT),
    "torch": ("own", "own, expandable", *CACHALOT),
}
NUMBA_TESTS = ("numba.cuda.tests.cudadrv", "numba.cuda.tests.cudapy")
NUMBA_ALONE = tuple(f"numba.cuda.tests.cudapy.test_{name}" for name in ("ipc", "multithreads", "multiprocessing"))
CUPY_TESTS = ("cuda_tests/test_memory.py", "cuda_tests/memory_hooks_tests", "cuda_tests/test_stream.py",
              "core_tests/test_core.py", "core_tests/test_ndarray.py", "core_tests/test_ndarray_copy_and_view.py",
              "core_tests/test_ndarray_get.py", "core_tests/test_ndarray_owndata.py", "creation_tests/test_basic.py",
              "creation_tests/test_from_data.py", "indexing_tests", "manipulation_tests/test_join.py")
SECONDS = 560  # of one process
JOBS = "8"  # of a host's own tests at a time


class Wrong(Exception):
    pass


def environment(**values):
    path = os.pathsep.join([str(PACKAGE), str(HERE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **values}


def run(load, way):
    """Seconds, bytes and the result of one process."""
    done = subprocess.run([sys.executable, HERE / "host_loads.py", load, way], env=environment(), text=True,
                          capture_output=True, timeout=SECONDS, check=False)
    found = re.search(r"^time (\S+) memory (\d+) result (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        raise Wrong(f"{load}, {way}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return float(found[1]), int(found[2]), found[3]


def measure(load, rounds):
    """The rows of a load: its ways in turns."""
    ways = WAYS[load.split("_")[0]]
    seen = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            seen[way].append(run(load, way))
    expected = seen["own"][0][2]
    for way in ways:
        for _, _, result in seen[way]:
            if result != expected:
                raise Wrong(f"{load}, {way}: the result is {result}, not {expected}")
    return [row(load, way, seen[way]) for way in ways]


def row(load, way, seen):
    times = [seconds for seconds, _, _ in seen]
    spread = f"{text_of(statistics.median(times))} ({text_of(min(times))} to {text_of(max(times))})"
    return f"| `{load}` | {way} | {spread} | {max(memory for _, memory, _ in seen) / host_loads.MIB:,.0f} |"


def text_of(seconds):
    return f"{seconds * 1e9:,.0f} ns" if seconds < 1e-3 else f"{seconds:.3f} s"


def numba_run(*arguments, **values):
    """What the tests of numba-cuda that do not pass are, and how many ran."""
    done = subprocess.run([sys.executable, "-m", "numba.runtests", *arguments], env=environment(**values), text=True,
                          capture_output=True, timeout=SECONDS, check=False)
    text = done.stdout + done.stderr
    ran = re.search(r"^Ran (\d+) tests? in", text, re.MULTILINE)
    if not ran:
        raise Wrong(f"Numba's tests did not end: {text.strip().splitlines()[-1:]}")
    return set(re.findall(r"^(?:FAIL|ERROR): (\S+ \(\S+\))", text, re.MULTILINE)), int(ran[1])


def numba_outcome(**values):
    """Of all of them; those that start processes run in no process of Numba's, which may have no children."""
    failed, ran = numba_run("-m", JOBS, *NUMBA_TESTS, **values)
    alone, _ = numba_run(*NUMBA_ALONE, **values)
    return {name for name in failed if not any(module in name for module in NUMBA_ALONE)} | alone, ran


def cupy_outcome(folder, *plugin):
    """Likewise of CuPy."""
    tests = [os.path.join(folder, name) for name in CUPY_TESTS]
    jobs = ["-n", JOBS] if importlib.util.find_spec("xdist") else []
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *jobs, *plugin, *tests]
    done = subprocess.run(command, env=environment(), text=True, capture_output=True, timeout=SECONDS, check=False)
    counts = re.findall(r"(\d+) (passed|failed|errors?)", done.stdout)
    if not counts:
        raise Wrong(f"CuPy's tests did not end: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE))
    return failed, sum(int(count) for count, _ in counts)


def compare(host, without, with_cachalot):
    """The rows of a host's own tests, and whether they are worse with cachalot; says what fails with it alone. Both
    run at the same time."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        (own, ran), (ours, ours_ran) = threads.map(lambda outcome: outcome(), (without, with_cachalot))
    worse, better = sorted(ours - own), sorted(own - ours)
    for name in worse:
        print(f"{host}: only with cachalot fails {name}")
    for name in better:
        print(f"{host}: only without cachalot fails {name}")
    return [f"| {host} | {ran} | {len(own)} | {ours_ran} | {len(ours)} |"], bool(worse) or ours_ran != ran


def own_tests(options):
    if options.numba_tests:
        plugin = {"NUMBA_CUDA_MEMORY_MANAGER": "cachalot_cuda.numba"}
        yield lambda: compare("Numba", numba_outcome, lambda: numba_outcome(**plugin))
    if options.cupy_tests:
        plugin = "-p", "cupy_on_cachalot"
        yield lambda: compare("CuPy", lambda: cupy_outcome(options.cupy_tests),
                              lambda: cupy_outcome(options.cupy_tests, *plugin))


def attempt(function):
    """The rows that a function gives and whether it has failed, also where it has no rows for that reason."""
    try:
        return function()
    except (Wrong, subprocess.TimeoutExpired) as error:
        print(f"failed: {error}")
        return [], True


def is_installed(load):
    packages = load.split("_")[0], *(["cupy"] if load == "torch_and_cupy" else [])
    return all(importlib.util.find_spec(name) is not None for name in packages)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--numba-tests", action="store_true")
    parser.add_argument("--cupy-tests")
    parser.add_argument("loads", nargs="*", metavar="LOAD")
    options = parser.parse_args()
    unknown = [load for load in options.loads if load not in host_loads.LOADS]
    if unknown:
        parser.error(f"no such load: {unknown[0]}")
    lines = ["| load | memory by | time | peak, MiB |", "| --- | --- | --- | --- |"]
    failures = 0
    for load in options.loads or filter(is_installed, host_loads.LOADS):
        rows, has_failed = attempt(lambda load=load: (measure(load, options.rounds), False))
        lines += rows
        failures += has_failed
    lines += ["", "| its own tests | ran | failed | with cachalot: ran | failed |", "| --- | --- | --- | --- | --- |"]
    for test in own_tests(options):
        rows, has_failed = attempt(test)
        lines += rows
        failures += has_failed
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "hosts.md").write_text(text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
