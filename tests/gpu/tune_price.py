#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `cachalot tune` says that a string costs, beside what PyTorch's driver calls then take on a GPU.

    tune_price.py CACHALOT [--rounds 3] [--out FOLDER]

Two programs are recorded once without PyTorch's cache. `cachalot tune` prices option strings for them, with the costs that
`cachalot measure` has just found. Then PyTorch runs them under each string with its own cache, and a recording tells what
its driver calls took, less their waits for work. Each string has a memory limit at which the cache is emptied several
times. Prints a Markdown table. Exit status: 0, 1 where a price is off by more than 25 %, 77 without PyTorch.
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
ROOM = 1.03  # of the limit, over what the string needs
TOLERANCE = 0.25


def train():
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
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        length = int(torch.randint(65, 640, (1,), generator=generator))
        text = torch.randint(0, words, (8, length), generator=generator).cuda()
        guess = model["head"](model["body"](model["embed"](text[:, :-1])))
        loss = functional.cross_entropy(guess.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()


def serve():
    """Requests join and leave; their caches grow by concatenation."""
    import torch

    generator = torch.Generator().manual_seed(1)

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


def record(cachalot, recording, program, **environment):
    run([cachalot, "record", "-q", "-o", recording, "--", sys.executable, __file__, "--program", program], **environment)


def tune(cachalot, recording, costs, total, strings):
    configs = [word for string in strings if string for word in ("--config", string)]
    answer = run([cachalot, "tune", "--json", "--strings", "0", "--costs", costs, "--capacity", str(total), *configs,
                  recording])
    return {row["config"]: row for row in json.loads(answer)["runs"][0]["results"] if not row["policy"]}


def measured(recording):
    """Calls, and milliseconds that they took without their waits, of PyTorch's cache."""
    calls, ns = 0, 0
    for line in recording.read_text().split("\0")[0].splitlines():
        if line[:2] in ("a,", "o,", "k,"):
            fields = line.split(",") + [""] * 14
            if fields[8]:
                calls += 1
                ns += int(fields[8]) - int(fields[12] or 0)
    return calls, ns / 1e6


def total_of(recording):
    return json.loads(recording.read_text().splitlines()[0][2:])["device_total"]


def compare(cachalot, program, costs, out, rounds):
    requests = out / f"{program}.csv"
    record(cachalot, requests, program, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    total = total_of(requests)
    needs = tune(cachalot, requests, costs, total, STRINGS)
    limited = {}
    for string in STRINGS:
        fraction = f"per_process_memory_fraction:{ROOM * needs[string]['fits_bytes'] / total:.5f}"
        limited[string] = f"{string},{fraction}" if string else fraction
    prices = tune(cachalot, requests, costs, total, limited.values())
    is_fine = True
    for string, config in limited.items():
        took = []
        for i in range(rounds):
            own = out / f"{program}-{len(took)}.csv"
            record(cachalot, own, program, PYTORCH_CUDA_ALLOC_CONF=config)
            took.append(measured(own))
        calls, ms = took[0][0], statistics.median(row[1] for row in took)
        row = prices[config]
        off = row["cost_ms"] / ms - 1
        is_fine = is_fine and abs(off) <= TOLERANCE
        print(f"| {program} | {config} | {row['driver_calls']:,} | {calls:,} | {row['cost_ms']:.1f} | {ms:.1f} "
              f"({min(row[1] for row in took):.1f} to {max(row[1] for row in took):.1f}) | {off:+.0%} |", flush=True)
    return is_fine


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cachalot", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--program", choices=PROGRAMS)
    arguments = parser.parse_args()
    if arguments.program:
        PROGRAMS[arguments.program]()
        return 0
    if importlib.util.find_spec("torch") is None:
        return 77
    costs = arguments.out / "costs.json"
    costs.write_text(run([arguments.cachalot, "measure"]))
    print("| program | options | calls, told | measured | cost, ms, told | measured | off by |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    is_fine = [compare(arguments.cachalot, program, str(costs), arguments.out, arguments.rounds) for program in PROGRAMS]
    return 0 if all(is_fine) else 1


if __name__ == "__main__":
    sys.exit(main())
