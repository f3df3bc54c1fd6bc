#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""torch.compile(mode="reduce-overhead") on cachalot against PyTorch's native allocator, on a GPU.

    torch_graph_trees.py [--json FILE] [--workload NAME]...
    torch_graph_trees.py --worker native|cachalot [--slow-asserts] [--fast-asserts] [WORKLOAD...]

That mode makes CUDA graphs that share a private pool (CUDA graph trees), and puts the pool back to an earlier
state when it leaves a path that it knows. Runs the workloads below under each option string and with each
choice of PyTorch's own checks (torch._inductor.config.triton), with both allocators in processes of their
own. Results, what the allocators say of their memory, also when all is gone, and the numbers of requests,
recordings and restores must be equal. How long an iteration takes is shown: processes of one allocator
differ more than the allocators do, so that a time proves nothing.

Needs torch 2.11 with Triton, a C++ compiler, and CACHALOT_LIB_DIR (or an installed library).

Exit status: 0 all equal, 1 something differs or failed, 2 the call is wrong, 77 there is no torch.
"""

import argparse
import gc
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "bindings" / "python"

# Option string, and PyTorch's checks of the pool: at each new path (its default), never, and also at each replay.
TURNS = [
    ("", ["--slow-asserts"]),
    ("expandable_segments:True", ["--slow-asserts"]),
    ("", []),
    ("", ["--slow-asserts", "--fast-asserts"]),
]

# Statistics that must be equal at the end. Others may follow the driver's addresses, by which release 2.11
# chooses among free blocks of equal size.
STRICT = ("allocation.all.allocated", "allocation.all.freed", "requested_bytes.all.allocated", "num_ooms")

WIDTH = 512


class Run:
    """What a workload reports: digests of its results, statistics, and seconds for each iteration."""

    def __init__(self):
        import torch
        self.torch = torch
        self.results, self.memory, self.seconds = [], [], {}

    def keep(self, *tensors):
        for tensor in tensors:
            data = tensor.detach().float().cpu().numpy().tobytes()
            self.results.append(hashlib.sha256(data).hexdigest()[:16])

    def note_memory(self):
        """What is in use and reserved now."""
        self.torch.cuda.synchronize()
        stats = self.torch.cuda.memory_stats()
        self.memory.append([stats[f"{name}.all.current"] for name in
                            ("allocated_bytes", "active_bytes", "allocation", "reserved_bytes")])

    def time(self, name, iteration, count=300):
        """The median of an iteration that has only known paths, which are replayed."""
        seconds = []
        for _ in range(count):
            begin = time.perf_counter()
            iteration()
            self.torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
        self.seconds[name] = statistics.median(seconds[count // 5:])

    def module(self, depth):
        nn = self.torch.nn
        layers = [layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))]
        return nn.Sequential(*layers).cuda()

    def compiled(self, module):
        return self.torch.compile(module, mode="reduce-overhead")

    def batch(self, rows=64):
        return self.torch.randn(rows, WIDTH, device="cuda")


def inference(run):
    """Chains of graphs in random order: each new order leaves a path that was replayed. Outputs stay alive
    through the chain, and some, as PyTorch invalidates them, beyond it."""
    torch, choose = run.torch, random.Random(1)
    parts = [run.compiled(run.module(depth)) for depth in (1, 2, 3)]
    join = run.compiled(lambda a, b: (a * b + a).softmax(-1))
    held = []

    def chain(length):
        torch.compiler.cudagraph_mark_step_begin()
        outputs = [choose.choice(parts)(batch)]
        for _ in range(length):
            outputs.append(choose.choice(parts)(outputs[-1]))
            if len(outputs) > 2 and choose.random() < 0.3:
                del outputs[0]
        outputs.append(join(outputs[0], outputs[-1]))
        return outputs

    with torch.no_grad():
        batch = run.batch()
        for i in range(60):
            outputs = chain(choose.randrange(3))
            run.keep(*outputs)
            held = [*held[-3:], outputs[-1]] if i % 3 else []
            if i % 20 == 19:
                del outputs
                run.note_memory()

        def replay():
            torch.compiler.cudagraph_mark_step_begin()
            return join(parts[0](batch), parts[1](batch))

        for _ in range(3):
            run.keep(replay())
        run.time("inference", replay)
        run.note_memory()


def training(run):
    """Forward and backward through a graph break, and up to three times forward before backward: what is saved
    for the backward pass is live at the restores, and only C++ has it."""
    torch = run.torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = run.module(2), run.module(2)

        def forward(self, x):
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.second(x).square().mean()

    model = Model()
    compiled = run.compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = [run.batch() for _ in range(3)]

    def step(count):
        losses = [compiled(batch) for batch in batches[:count]]
        sum(losses).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return losses

    for i in range(60):
        run.keep(*step(1 if i < 8 else i % 3 + 1))
        if i % 20 == 19:
            run.note_memory()
    run.time("training", lambda: step(1))
    run.keep(*model.parameters())
    run.note_memory()


def deleters(run):
    """Storages that point to a block of a restore free it when the last reference ends: one of Python's, or
    one that only C++ has, and there in another thread."""
    torch = run.torch
    with torch.no_grad():
        first, known, *later = [run.compiled(run.module(1)) for _ in range(4)]
        batch = run.batch()
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            run.keep(known(first(batch)))
        factor = torch.ones(WIDTH, device="cuda", requires_grad=True)
    for i, new in enumerate(later):
        for _ in range(3):  # the path is warmed up, recorded, and replayed
            with torch.no_grad():
                torch.compiler.cudagraph_mark_step_begin()
                output = first(batch)
                result = new(output)
                run.keep(output, result)
            run.note_memory()
            if i % 2:
                product = (output * factor).sum()  # saves the output for the backward pass
                del output
                run.note_memory()
                product.backward()
                del product
            else:
                del output
            run.note_memory()
            result = None
            run.note_memory()
    side = torch.cuda.Stream()
    with torch.no_grad():
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            output = known(first(batch))
            output.record_stream(side)
    del output
    run.note_memory()


WORKLOADS = {function.__name__: function for function in (inference, training, deleters)}


def work(allocator, workloads, slow_asserts, fast_asserts):
    """Runs in a process of its own; prints one line of JSON for each workload."""
    import torch
    if allocator == "cachalot":
        import cachalot_cuda.torch
        cachalot_cuda.torch.install(release="2.11")
    import torch._inductor.config
    from torch._dynamo.utils import counters
    from torch._inductor.cudagraph_trees import CUDAGraphTreeManager
    recordings = counted(CUDAGraphTreeManager, "record_function")
    restores = counted(CUDAGraphTreeManager, "apply_checkpoint_execution_state_in_allocator")
    torch._inductor.config.triton.slow_path_cudagraph_asserts = slow_asserts
    torch._inductor.config.triton.fast_path_cudagraph_asserts = fast_asserts
    torch._dynamo.config.cache_size_limit = 64
    for name in workloads or WORKLOADS:
        torch.manual_seed(0)
        run = Run()
        WORKLOADS[name](run)
        skipped = counters["inductor"]["cudagraph_skips"]
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        run.note_memory()
        print(json.dumps({
            "workload": name,
            "results": run.results,
            "memory": run.memory,
            "seconds": run.seconds,
            "skipped": skipped,
            "recordings": recordings(),
            "restores": restores(),
            "stats": dict(torch.cuda.memory_stats()),
        }), flush=True)


def counted(kind, method):
    """A function that says how often a method has been called since it said so last."""
    calls, original = [], getattr(kind, method)

    def call(*arguments):
        calls.append(1)
        return original(*arguments)

    def since():
        count = len(calls)
        calls.clear()
        return count

    setattr(kind, method, call)
    return since


def environment(config, cache):
    values = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=config, CUBLAS_WORKSPACE_CONFIG=":4096:8",
                  TORCHINDUCTOR_CACHE_DIR=cache, TORCHINDUCTOR_DETERMINISTIC="1",
                  # Each process compiles, since that too asks for memory.
                  TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    for name in ("CACHALOT_ALLOC_CONF", "CACHALOT_RELEASE", "CACHALOT_POLICY", "PYTORCH_ALLOC_CONF"):
        values.pop(name, None)
    values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return values


def measure(allocator, turn, workloads, cache):
    """The workloads by name, and what went wrong ("" if nothing)."""
    config, asserts = turn
    done = subprocess.run([sys.executable, __file__, "--worker", allocator, *asserts, *workloads],
                          env=environment(config, cache), capture_output=True, text=True, check=False)
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failure = f"{allocator}, {turn}: exit status {done.returncode}\n{done.stderr[-4000:]}"
    failed = done.returncode != 0 or "cachalot: " in done.stderr
    return {run["workload"]: run for run in runs}, failure if failed else ""


def differences(native, ours):
    """One line for each thing that must be equal and is not."""
    for name, expected in native.items():
        found = ours.get(name, {})
        if expected["skipped"] or not expected["restores"]:
            yield f"{name}: {expected['skipped']} graphs were skipped and {expected['restores']} checkpoints restored"
        for key in ("results", "memory", "skipped", "recordings", "restores"):
            if found.get(key) != expected[key]:
                yield f"{name}: {key} are {found.get(key)}, natively {expected[key]}"
        for key in STRICT:
            if found and found["stats"][key] != expected["stats"][key]:
                yield f"{name}: {key} is {found['stats'][key]}, natively {expected['stats'][key]}"


def medians(report):
    """The median seconds of an iteration on both allocators, by its name: of the processes that check nothing
    at a replay."""
    taken = {}
    for entry in report:
        if "--fast-asserts" in entry["turn"][1]:
            continue
        for place, side in enumerate(("native", "cachalot")):
            for run in entry[side].values():
                for name, seconds in run["seconds"].items():
                    taken.setdefault(name, ([], []))[place].append(seconds)
    return {name: [statistics.median(times) for times in both] for name, both in taken.items() if all(both)}


def rows(turn, native, ours):
    config, asserts = turn
    for name in (name for name in native if name in ours):
        run = ours[name]
        times = [" ".join(f"{seconds * 1e6:.0f} us" for seconds in side[name]["seconds"].values())
                 for side in (native, ours)]
        mib = [f"{side[name]['memory'][-2][0] / 2**20:.2f} MiB" for side in (native, ours)]
        different = [key for key, value in native[name]["stats"].items() if run["stats"].get(key) != value]
        yield (f"| `{config}` | {' '.join(asserts)} | {name} | {len(run['results'])} | {run['recordings']} "
               f"| {run['restores']} | {', '.join(times)} | {', '.join(mib)} | {' '.join(different) or 'equal'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="where all numbers are written")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, default=[], help="only this one")
    parser.add_argument("--worker", choices=["native", "cachalot"], help=argparse.SUPPRESS)
    parser.add_argument("--slow-asserts", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fast-asserts", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("skipped: no torch")
        return 77
    if arguments.worker:
        work(arguments.worker, arguments.names, arguments.slow_asserts, arguments.fast_asserts)
        return 0
    begin, failures, report = time.time(), [], []
    print("| options | checks | workload | results | recordings | restores | iteration: native, cachalot "
          "| in use: native, cachalot | statistics that differ |\n|" + " --- |" * 9)
    with tempfile.TemporaryDirectory() as cache:
        for turn in TURNS:
            (native, failed), (ours, also) = (measure(side, turn, arguments.workload, cache)
                                              for side in ("native", "cachalot"))
            failures += [*filter(None, [failed, also]), *(f"{turn}: {line}" for line in differences(native, ours))]
            report.append({"turn": turn, "native": native, "cachalot": ours})
            print("\n".join(rows(turn, native, ours)), flush=True)
            if arguments.json:
                text = json.dumps({"turns": report, "failures": failures}, indent=1)
                pathlib.Path(arguments.json).write_text(text + "\n")
    for name, (native, ours) in medians(report).items():
        print(f"{name}: {native * 1e6:.0f} us an iteration natively, {ours * 1e6:.0f} us on cachalot")
    print("\n".join(failures) or f"\nAll equal, in {time.time() - begin:.0f} s.", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
