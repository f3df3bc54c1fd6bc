#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `cachalot tune` says that a string costs, beside what PyTorch's driver calls then take on a GPU.

    tune_price.py CACHALOT [--rounds 5] [--out FOLDER]

Two programs are recorded once, by PyTorch's own history. `cachalot tune` prices option strings for them, with the costs that
`cachalot measure` finds. PyTorch runs them under each string, and a recording tells what its driver calls took, less their
waits for work. In each round the costs are measured and all strings run, since a machine is not equally fast at all times;
medians count. Each string has a memory limit at which the cache is emptied several times. Prints a Markdown table. Exit
status: 0, 1 where a price is off by more than 25 %, 77 without PyTorch.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys

STRINGS = ("", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4")
ROOM = 1.06  # of the limit, over what the string needs
TOLERANCE = 0.25


def train(seed):
    """Training steps of a transformer whose lengths differ."""
    import torch
    from torch.nn import functional

    torch.manual_seed(7)
    width, words = 512, 4000
    layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0, batch_first=True)
    model = torch.nn.ModuleDict({
        "embed": torch.nn.Embedding(words, width),
        "body": torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False),
        "head": torch.nn.Linear(width, words),
    }).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(60):
        length = int(torch.randint(65, 640, (1,), generator=generator))
        text = torch.randint(0, words, (8, length), generator=generator).cuda()
        guess = model["head"](model["body"](model["embed"](text[:, :-1])))
        loss = functional.cross_entropy(guess.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()


def serve(seed):
    """Requests join and leave; their caches grow by concatenation."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def number(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    slots = [None] * 16
    for _ in range(500):
        for i, slot in enumerate(slots):
            if slot is None:
                slots[i] = (torch.zeros(16, number(32, 900), 1024, dtype=torch.half, device="cuda"), number(4, 40))
            elif slot[1] == 0:
                slots[i] = None
            else:
                token = torch.zeros(16, 48, 1024, dtype=torch.half, device="cuda")
                slots[i] = (torch.cat([slot[0], token], dim=1), slot[1] - 1)
    torch.cuda.synchronize()


PROGRAMS = {"train": train, "serve": serve}


def run(command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    return done.stdout


def record(cachalot, recording, program, config):
    """Whether the program finishes: the driver's addresses are not those of the replay, so it may also run out of memory."""
    command = [cachalot, "record", "-q", "-o", recording, "--", sys.executable, __file__, "--program", program]
    done = subprocess.run(command, env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": config}, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0 and "OutOfMemoryError" not in done.stderr:
        sys.exit(done.stderr[-1500:])
    return done.returncode == 0


def tune(cachalot, snapshot, facts, costs, strings):
    configs = [word for string in strings for word in ("--config", string)]
    answer = run([cachalot, "tune", "--json", "--only", "--strings", "0", "--costs", costs, "--release", facts["release"],
                  "--capacity", str(facts["total"]), *configs, snapshot])
    return {row["config"]: row for row in json.loads(answer)["runs"][0]["results"]}


def measured(recording):
    """Calls that obtain memory and give it back, and milliseconds that all took without their waits. A page is one call
    when it is obtained, and two when it is given back."""
    calls, ns = 0, 0
    for line in recording.read_text().split("\0")[0].splitlines():
        if line[:2] in ("a,", "o,", "k,"):
            fields = line.split(",") + [""] * 14
            if fields[8]:
                calls += 0.5 if fields[0] == "k" and fields[9] == "v" else 1
                ns += int(fields[8]) - int(fields[12] or 0)
    return round(calls), ns / 1e6


def write_snapshot(program, seed, path):
    """The whole history of the program's allocator, as PyTorch writes it; prints what tune has to know of it."""
    import torch

    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python", context=None)
    PROGRAMS[program](seed)
    torch.cuda.memory._dump_snapshot(path)
    print(json.dumps({"release": ".".join(torch.__version__.split(".")[:2]),
                      "total": torch.cuda.get_device_properties(0).total_memory}))


class Comparison:
    """Of a program: what each string is said to cost, and what it takes."""

    def __init__(self, cachalot, program, out, costs):
        self.cachalot, self.program, self.out = cachalot, program, out
        self.snapshot = out / f"{program}.pickle"
        self.facts = json.loads(run([sys.executable, __file__, "--program", program, "--snapshot", self.snapshot]))
        needs = tune(cachalot, self.snapshot, self.facts, costs, STRINGS)
        self.configs = [self.limited(string, needs[string]["fits_bytes"]) for string in STRINGS]
        self.told = {config: [] for config in self.configs}
        self.took = {config: [] for config in self.configs}

    def limited(self, string, fits):
        fraction = f"per_process_memory_fraction:{ROOM * fits / self.facts['total']:.5f}"
        return f"{string},{fraction}" if string else fraction

    def add_round(self, costs):
        rows = tune(self.cachalot, self.snapshot, self.facts, costs, self.configs)
        for config in self.configs:
            recording = self.out / f"{self.program}-{self.configs.index(config)}-{len(self.took[config])}.csv"
            if record(self.cachalot, recording, self.program, config):
                self.told[config].append((rows[config]["driver_calls"], rows[config]["cost_ms"]))
                self.took[config].append(measured(recording))

    def print_rows(self):
        """Whether all are within the tolerance."""
        is_fine = True
        for config in self.configs:
            told, took = self.told[config], self.took[config]
            if not took:
                print(f"| {self.program} | `{config}` | out of memory | | | | |", flush=True)
                is_fine = False
                continue
            said, ms = (statistics.median(row[1] for row in rows) for rows in (told, took))
            off = said / ms - 1
            is_fine = is_fine and abs(off) <= TOLERANCE
            print(f"| {self.program} | `{config}` | {told[0][0]:,} | {took[0][0]:,} | {said:.1f} ({spread(told)}) | "
                  f"{ms:.1f} ({spread(took)}) | {off:+.0%} |", flush=True)
        return is_fine


def spread(rows):
    return f"{min(row[1] for row in rows):.1f} to {max(row[1] for row in rows):.1f}"


def measure(cachalot, out):
    costs = out / "costs.json"
    costs.write_text(run([cachalot, "measure", "--max-size", "1GiB", "--rounds", "2"]))
    return str(costs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cachalot", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--program", choices=PROGRAMS, help="run it, no more")
    parser.add_argument("--snapshot", help="of that program, to be written")
    parser.add_argument("--seed", type=int, default=1, help="of its lengths")
    arguments = parser.parse_args()
    if arguments.snapshot:
        write_snapshot(arguments.program, arguments.seed, arguments.snapshot)
        return 0
    if arguments.program:
        PROGRAMS[arguments.program](arguments.seed)
        return 0
    if importlib.util.find_spec("torch") is None:
        return 77
    costs = measure(arguments.cachalot, arguments.out)
    comparisons = [Comparison(arguments.cachalot, program, arguments.out, costs) for program in PROGRAMS]
    for _ in range(arguments.rounds):
        costs = measure(arguments.cachalot, arguments.out)
        for comparison in comparisons:
            comparison.add_round(costs)
    print("| program | options | calls, told | measured | cost, ms, told | measured | off by |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    is_fine = [comparison.print_rows() for comparison in comparisons]
    return 0 if all(is_fine) else 1


if __name__ == "__main__":
    sys.exit(main())
