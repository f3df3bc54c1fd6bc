#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs one program again and again, each time with as much memory as it is told; started by policy_judgement.py.

    policy_programs.py PROGRAM native|cachalot

The environment has the allocator's options. Says on a line of JSON whether it can start, then reads lines of JSON,
{"cap": BYTES or null, "method": "ballast" or "limit", "passes": 1}, and answers each with one: whether the program
finished, the seconds of its steps in each pass that did, a digest of its results, the allocator's peaks. The first pass
begins with an empty cache, the others with what the one before has left.

A cap counts from after the first run (the context, kernels and handles of libraries are loaded then), with every cache
emptied and cuBLAS's workspaces given back. "ballast": the rest of the device is taken away by a plain allocation.
"limit": torch.cuda.set_per_process_memory_fraction.
"""

import dataclasses
import gc
import hashlib
import json
import random
import sys

import torch_workloads  # imports torch, and sets what has to be set before

import torch
from ballast import Ballast

# What libraries say that got no memory.
SHORT_OF_MEMORY = ("out of memory", "ALLOC_FAILED", "NOT_INITIALIZED", "unable to find an engine")
DEVICE, MIB = torch_workloads.DEVICE, torch_workloads.MIB


class Server:
    """Eight streams with a request each at a time, layer by layer in an order that a seed decides."""

    STREAMS, LAYERS, REQUESTS, WIDTH = 8, 8, 96, 1024

    def __init__(self, run):
        self.random = random.Random(5)
        scale = self.WIDTH ** -0.5
        up = (run.normal(self.WIDTH, 4 * self.WIDTH) * scale).half().to(DEVICE)
        down = (run.normal(4 * self.WIDTH, self.WIDTH) * scale / 2).half().to(DEVICE)
        self.weights = [(up.roll(i, 0), down.roll(i, 0)) for i in range(self.LAYERS)]
        self.streams = [torch.cuda.Stream() for _ in range(self.STREAMS)]
        torch.cuda.synchronize()
        self.active = {}
        self.started = 0
        self.results = {}

    def request(self, number):
        rows = self.random.choice((64, 512, 1024, 3000, 6000, 9000, 12000))
        x = torch.full((rows, self.WIDTH), (number % 7 + 1) / 8, dtype=torch.float16, device=DEVICE)
        yield
        for up, down in self.weights:
            hidden = torch.nn.functional.gelu(x @ up)
            yield
            x = torch.nn.functional.layer_norm(x + hidden @ down, (self.WIDTH,))
            del hidden
            yield
        self.results[number] = float(x.float().sum())  # waits for the stream, as a server does for its answer

    def turn(self):
        """One layer of one stream."""
        slot = self.random.randrange(self.STREAMS)
        with torch.cuda.stream(self.streams[slot]):
            if slot not in self.active and self.started < self.REQUESTS:
                self.active[slot] = self.request(self.started)
                self.started += 1
            if slot in self.active and next(self.active[slot], "end") == "end":
                del self.active[slot]

    @torch.no_grad()
    def serve(self, requests):
        """Until so many more have been answered."""
        end = min(len(self.results) + requests, self.REQUESTS)
        while len(self.results) < end:
            self.turn()
        return torch.tensor([self.results[number] for number in sorted(self.results)])


def server(run):
    """A small transformer's layers on eight streams, batches of 64 to 12,000 rows."""
    model = Server(run)
    for _ in range(8):
        run.step(model.serve, Server.REQUESTS // 8)


class Requests:
    """Sixteen streams that hold blocks of a server's sizes; the load goes from some of the streams to others."""

    STREAMS, BUSY, TURNS = 16, 4, 1000

    def __init__(self):
        self.random = random.Random(7)
        self.streams = [torch.cuda.Stream() for _ in range(self.STREAMS)]
        self.held = [[] for _ in range(self.STREAMS)]
        self.wanted = [4] * self.STREAMS

    def size(self):
        percent = self.random.randrange(100)
        if percent < 55:
            return 256 << self.random.randrange(9)
        if percent < 90:
            return (64 << 10) * self.random.randint(1, 160)
        return MIB * self.random.randint(8, 63)

    def turn(self):
        slot = self.random.randrange(self.STREAMS)
        blocks = self.held[slot]
        with torch.cuda.stream(self.streams[slot]):
            while len(blocks) >= self.wanted[slot]:
                del blocks[self.random.randrange(len(blocks))]
            block = torch.empty(self.size(), dtype=torch.uint8, device=DEVICE)
            block.fill_(self.random.randrange(251))
        blocks.append(block)
        del block

    def work(self):
        busy = self.random.sample(range(self.STREAMS), self.BUSY)
        self.wanted = [96 if slot in busy else 4 for slot in range(self.STREAMS)]
        for _ in range(self.TURNS):
            self.turn()
        torch.cuda.synchronize()
        return torch.tensor([float(block[-1]) for blocks in self.held for block in blocks[-1:]])


def requests(run):
    """No model: nothing but requests and fills."""
    load = Requests()
    for _ in range(8):
        run.step(load.work)
    torch.cuda.synchronize()


PROGRAMS = {**torch_workloads.WORKLOADS, "server": server, "requests": requests}


def clean():
    gc.collect()
    torch.cuda.synchronize()
    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
    torch.cuda.empty_cache()


class Cap:
    """How much memory there is."""

    def __init__(self):
        self.ballast = Ballast()
        self.total = torch.cuda.mem_get_info()[1]

    def set(self, cap, method):
        """What the allocator has kept although it was emptied counts as there."""
        if cap is None:
            return None
        if method == "limit":
            torch.cuda.set_per_process_memory_fraction((cap + 0.5) / self.total)
            return cap
        kept = torch.cuda.memory_reserved()
        return self.ballast.leave(cap - kept) + kept

    def lift(self, method):
        self.ballast.release()
        if method == "limit":
            torch.cuda.set_per_process_memory_fraction(1.0)


def policy_stats():
    """What the serving policy has done since the start; None: PyTorch's own allocator decides."""
    if "cachalot_cuda" not in sys.modules:
        return None
    import cachalot_cuda
    return dataclasses.asdict(cachalot_cuda.policy_stats(0))


def attempt(program):
    """One run: None, or why it did not finish, and what it reports."""
    run = torch_workloads.Run()
    try:
        PROGRAMS[program](run)
        torch.cuda.synchronize()
        return None, run
    except torch.OutOfMemoryError as problem:
        return "out of memory: " + str(problem)[:300], run
    except RuntimeError as problem:
        text = str(problem)
        short = any(word in text for word in SHORT_OF_MEMORY)
        return ("out of memory: " if short else "failed: ") + text[:300], run


def peaks():
    stats = torch.cuda.memory_stats()
    return {name: stats.get(f"{name}_bytes.all.peak", 0) for name in ("requested", "allocated", "reserved")}


def answer(program, cap, order):
    clean()
    method = order.get("method", "ballast")
    try:
        room = cap.set(order["cap"], method)
    except MemoryError as problem:
        cap.lift(method)
        return {"finished": False, "why": f"failed: {problem}"}
    torch.cuda.reset_peak_memory_stats()
    seconds, digests, why = [], set(), None
    while why is None and len(seconds) < order.get("passes", 1):
        why, run = attempt(program)
        if why is None:
            seconds.append(sum(run.seconds))
            digests.add(hashlib.sha256(" ".join(run.results).encode()).hexdigest())
        del run
    reply = {
        "finished": bool(seconds),
        "why": why,
        "room": room,
        "seconds": seconds,
        "digest": " ".join(sorted(digests)),
        "peaks": peaks(),
        "retries": torch.cuda.memory_stats().get("num_alloc_retries", 0),
        "policy": policy_stats(),
    }
    if why is None or why.startswith("out of memory"):
        clean()
        cap.lift(method)
    return reply


def start(allocator):
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    gc.disable()  # cycles are freed between steps, not when the interpreter likes
    if allocator == "cachalot":
        import cachalot_cuda.torch
        cachalot_cuda.torch.install(release="2.11")
    torch.zeros(1, device=DEVICE)
    return Cap()


def say(what):
    print(json.dumps(what), flush=True)


def main():
    program, allocator = sys.argv[1:]
    try:
        cap = start(allocator)
    except Exception as problem:  # whatever it is, the judgement goes on without this contender
        say({"ready": False, "why": f"{type(problem).__name__}: {problem}"[:300]})
        return
    say({"ready": True})
    for line in sys.stdin:
        say(answer(program, cap, json.loads(line)))


if __name__ == "__main__":
    main()
