#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch on cachalot against PyTorch's native allocator, on a GPU: same results, same memory.

    torch_models.py [--json FILE] [--config STRING]... [--workload NAME]...

Runs the workloads of torch_workloads.py under each option string with both allocators, then the checks of
torch_features.py, and prints a Markdown table. Results and every statistic must be equal. Where they are
not, both run again with their history recorded, and a difference counts as explained if

- PyTorch's own allocator differs from itself in it, or
- PyTorch made its requests in another order in the two processes, or
- the driver gave the two processes addresses in another order, by which release 2.11 chooses among free
  blocks of equal size.

The latter two explain nothing that depends on neither: results, numbers of allocations and of errors.

Needs torch 2.11, transformers, torchvision, and CACHALOT_LIB_DIR (or an installed library).

Exit status: 0 all equal, 1 a difference that has no explanation or a check that failed, 2 the call is wrong,
77 there is no torch.
"""

import argparse
import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "bindings" / "python"

CONFIGS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:128,garbage_collection_threshold:0.8",
    "roundup_power2_divisions:4",
]

# Columns of the table; all other statistics are compared too.
COLUMNS = {
    "allocated_bytes.all.peak": "peak allocated",
    "reserved_bytes.all.peak": "peak reserved",
    "allocation.all.allocated": "allocations",
    "num_device_alloc": "driver allocations",
    "num_alloc_retries": "retries",
    "num_ooms": "out of memory",
}

# How much longer the steps may take, of all workloads of an option string together.
TIME_LIMIT = 1.10


# What neither another order of requests nor a choice among equal blocks can change.
STRICT = ("results", "allocation.all.allocated", "requested_bytes.all.allocated", "num_ooms")


def environment(config):
    values = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=config, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    for name in ("CACHALOT_ALLOC_CONF", "CACHALOT_RELEASE", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        values.pop(name, None)
    values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return values


class Worker:
    """A process that has begun to import and waits for its turn on the GPU."""

    def __init__(self, allocator, config, workloads):
        self.what = f"{allocator}, {config!r}"
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "torch_workloads.py"), allocator, *workloads], env=environment(config),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self):
        """The measured workloads by name, and what went wrong ("" if nothing)."""
        output, errors = self.process.communicate("go\n")
        measured = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        failure = f"{self.what}: exit status {self.process.returncode}\n{errors[-3000:]}"
        return {run["workload"]: run for run in measured}, failure if self.process.returncode else ""

    def stop(self):
        self.process.kill()
        self.process.communicate()


def run_all(turns, workloads):
    """Runs a process for each (allocator, config); each imports while the one before it computes."""
    waiting = None
    for i, turn in enumerate(turns):
        worker = waiting or Worker(*turn, workloads)
        waiting = Worker(*turns[i + 1], workloads) if i + 1 < len(turns) else None
        try:
            yield worker.run()
        except BaseException:
            worker.stop()
            if waiting:
                waiting.stop()
            raise


def differing(first, second):
    """The names of what differs between two runs of a workload, with both values."""
    values = [{**run["stats"], "results": run["results"]} for run in (first, second)]
    names = sorted(values[0].keys() | values[1].keys())
    return {name: [v.get(name) for v in values] for name in names if values[0].get(name) != values[1].get(name)}


def order(addresses):
    """The place of each address among all of them."""
    places = {address: place for place, address in enumerate(sorted(set(addresses)))}
    return [places[address] for address in addresses]


def explain(name, native, again):
    """Why a statistic may differ; "" if there is no reason."""
    native_again, ours_again = again
    if name in differing(native, native_again):
        return "varies in PyTorch too"
    if name.startswith(STRICT):
        return ""
    native_history, our_history = native_again["history"], ours_again["history"]
    if native_history["requests"] != our_history["requests"]:
        return "PyTorch's requests came in another order"
    if order(native_history["addresses"]) != order(our_history["addresses"]):
        return "the driver's addresses came in another order"
    return ""


def compare(config, native, ours, again):
    """One row for each workload of an option string; `again` gives a second run of both, with history."""
    rows = []
    for name in (name for name in native if name in ours):
        found = differing(native[name], ours[name])
        reasons = {key: explain(key, native[name], [runs[name] for runs in again()]) for key in found}
        rows.append({
            "config": config,
            "workload": name,
            "native": native[name],
            "cachalot": ours[name],
            "explained": {key: [*found[key], reason] for key, reason in reasons.items() if reason},
            "unexplained": {key: found[key] for key, reason in reasons.items() if not reason},
        })
    return rows


def text_of(name, value):
    return f"{value / 2**20:.1f} MiB" if "bytes" in name else str(value)


def verdict(row):
    if row["unexplained"]:
        return f"**{len(row['unexplained'])} differ**"
    if row["explained"]:
        reasons = sorted({reason for *_, reason in row["explained"].values()})
        return f"{len(row['explained'])} differ: {', '.join(reasons)}"
    return "equal"


def table(rows):
    lines = ["| options | workload | results | " + " | ".join(COLUMNS.values()) + " | steps: native, cachalot | all statistics |",
             "|" + " --- |" * (len(COLUMNS) + 5)]
    for row in rows:
        native, ours = row["native"], row["cachalot"]
        cells = [f"`{row['config']}`", row["workload"], "equal" if native["results"] == ours["results"] else "**differ**"]
        for key in COLUMNS:
            pair = [text_of(key, run["stats"].get(key)) for run in (native, ours)]
            cells.append(pair[0] if pair[0] == pair[1] else f"**{pair[0]}, {pair[1]}**")
        cells.append(f"{native['step_seconds']:.3f} s, {ours['step_seconds']:.3f} s")
        cells.append(verdict(row))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def slower(rows):
    """One line for each option string whose steps took too long."""
    lines = []
    for config in dict.fromkeys(row["config"] for row in rows):
        native, ours = (sum(row[side]["step_seconds"] for row in rows if row["config"] == config)
                        for side in ("native", "cachalot"))
        if ours > native * TIME_LIMIT:
            lines.append(f"{config!r}: the steps took {ours:.3f} s, and {native:.3f} s natively")
    return lines


def again_with_history(config, workloads):
    """A function that runs both allocators with history when it is first called."""
    @functools.lru_cache(maxsize=None)
    def again():
        options = ["--history", *workloads]
        return [Worker(allocator, config, options).run()[0] for allocator in ("native", "cachalot")]
    return again


def run_features():
    """What the checks of torch_features.py say is wrong; "" if nothing."""
    done = subprocess.run([sys.executable, str(HERE / "torch_features.py")], env=environment(""), text=True,
                          capture_output=True, check=False)
    print(done.stderr[-300:] if done.returncode == 0 else "", file=sys.stderr)
    return "" if done.returncode == 0 else f"torch_features.py failed:\n{done.stdout}{done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="where all numbers are written")
    parser.add_argument("--config", action="append", help="an option string instead of the four")
    parser.add_argument("--workload", action="append", default=[], help="only this one")
    parser.add_argument("--no-features", action="store_true", help="leaves the checks of torch_features.py out")
    arguments = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("skipped: no torch")
        return 77
    begin = time.time()
    configs = arguments.config or CONFIGS
    turns = [(allocator, config) for config in configs for allocator in ("native", "cachalot")]
    results = run_all(turns, arguments.workload)
    rows, failures = [], []
    for config in configs:
        (native, native_failure), (ours, our_failure) = next(results), next(results)
        failures += filter(None, [native_failure, our_failure])
        print(f"{time.time() - begin:.0f} s: {config!r} has run", file=sys.stderr, flush=True)
        rows += compare(config, native, ours, again_with_history(config, arguments.workload))
        print(table(rows[-len(native):]), file=sys.stderr, flush=True)
    failures += ["" if arguments.no_features else run_features()]
    for row in rows:
        for name, (native, ours) in row["unexplained"].items():
            failures.append(f"{row['config']!r}, {row['workload']}: {name} is {ours}, natively {native}")
    failures += slower(rows)
    failures = [failure for failure in failures if failure]
    print(table(rows))
    if arguments.json:
        report = {"rows": rows, "failures": failures, "seconds": time.time() - begin}
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(failures) or f"\nAll equal, in {time.time() - begin:.0f} s.", flush=True)
    return 1 if failures or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
