#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a random operation script for the oracle (see FORMAT.md).

Usage: gen.py PROFILE SEED OPS [CONFIG [RELEASE]] > script.txt
RELEASE (2.11.0) adds what that release has and 2.11 has not, from a random sequence of its own.

No unspecified order shows: a block is recorded on one stream at most, events of one foreign stream
at a time wait to be seen, and at most one released pool still holds memory.
"""

import random
import sys

import generator_command

KiB = 1 << 10
MiB = 1 << 20
GiB = 1 << 30

PROFILES = (
    "mixed small large edge training serving streams record limit limit_record oom fail pools "
    "settings everything sessions"
).split()

TOTALS = {"limit": 2 * GiB, "limit_record": 2 * GiB, "oom": 1 * GiB, "fail": 8 * GiB}

# Every constant of the rules; a size is one of them, give or take a little.
EDGES = [512, 1024, MiB, 2 * MiB, 10 * MiB, 20 * MiB, 21 * MiB, 40 * MiB]
EDGES += [64 * MiB, 128 * MiB, 256 * MiB, 512 * MiB]
EDGE_STEPS = [-1, 0, 1, -512, 512, -513, 513, -MiB, MiB, MiB + 1, 1 - MiB, -2 * MiB]

SETTINGS = [
    "max_split_size_mb:32",
    "expandable_segments:True",
    "expandable_segments:False",
    "roundup_power2_divisions:4",
    "large_segment_size_mb:32",
    "max_split_size_mb:128,max_non_split_rounding_mb:64",
    "garbage_collection_threshold:0.5",
]
REJECTION_SETTINGS = [
    "throw_on_cudamalloc_oom:True",
    "throw_on_cudamalloc_oom:False",
    "per_process_memory_fraction:0.5",
    "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.7",
    "per_process_memory_fraction:1",
]


def streams_of(profile):
    if profile in ("streams", "record", "everything"):
        return [0, 0x1000, 0x2000, 0x3000]
    if profile == "limit_record":
        return [0, 0x1000]
    if profile == "sessions":  # more than the library has shards
        return [0] + [0x1000 * n for n in range(1, 150)]
    return [0]


def draw_size(draw, kind):
    """A size of a kind: small, large, edge, or of any."""
    u = draw.random()
    if kind == "small":
        sizes = [1, 3, 511, 512, 513, draw.randint(1, 4096), draw.randint(1, MiB)]
        return draw.choice(sizes + [1 << draw.randint(0, 20), MiB])
    if kind == "large":
        sizes = [MiB + 1, draw.randint(MiB, 20 * MiB), 10 * MiB - 512, 10 * MiB, 10 * MiB + 1]
        sizes += [draw.randint(10, 200) * MiB, draw.randint(10 * MiB, 300 * MiB)]
        return draw.choice(sizes)
    if kind == "edge":
        return max(1, draw.choice(EDGES) + draw.choice(EDGE_STEPS))
    if u < 0.45:
        return draw_size(draw, "small")
    return draw_size(draw, "large" if u < 0.85 else "edge")


class Generator:
    """Draws the same numbers in the same order as ever: a script belongs to its arguments."""

    def __init__(self, profile, seed, config="", release="2.11"):
        self.profile = profile
        self.config = config
        self.minor = int(release.split(".")[1])
        self.random = random.Random(f"{profile}/{seed}")
        # What newer releases add draws from a sequence of its own, so the rest stays as it was.
        self.newer = random.Random(f"newer/{profile}/{seed}")
        self.seed = seed
        self.streams = streams_of(profile)
        self.lines = []
        self.count = 0
        self.last_id = 0
        self.live = {}
        # The stream that a block is recorded on, and the pool it is from.
        self.recorded = {}
        self.owner = {}
        # The stream with unfinished work, and the one with events that no allocation has seen.
        self.pending = None
        self.queued = None
        self.pools = []
        self.pool_count = 0
        self.active_pool = None
        # The released pool that still has live blocks.
        self.zombie = None
        self.past = []
        self.graph_count = 0

    def generate(self, operations):
        self.begin()
        while self.count < operations:
            if self.minor >= 12:
                self.step_newer()
            self.count += 1
            self.step(self.random.random())
        self.end()
        return "".join(line + "\n" for line in self.lines)

    def say(self, line):
        self.lines.append(line)

    # ---- The frame

    def begin(self):
        self.say(f"config {self.config}")
        self.say(f"device {TOTALS.get(self.profile, 60 * GiB)} {self.seed}")
        if self.minor >= 12:
            self.say("log observer rejection")
        if self.profile in ("limit", "limit_record"):
            self.say(f"fraction {self.random.choice([.25, .5, .75, .9])}")
        if self.profile == "everything":
            self.say("fraction 0.05")
        self.budget = self.random.choice([8, 40, 200])

    def end(self):
        if self.active_pool is not None:
            self.leave_pool()
        self.settle()
        self.say("stats")
        self.say("snapshot")
        for block in list(self.live):
            self.free(block)
        self.say("empty")
        self.say("stats")

    # ---- Blocks

    def allocate(self, size=None, stream=None):
        self.last_id += 1
        if stream is None:
            stream = self.random.choice(self.streams)
        if size is None:
            size = draw_size(self.random, self.profile)
        self.say(f"a {self.last_id} {size} {stream:#x}")
        self.live[self.last_id] = stream
        if self.active_pool is not None:
            self.owner[self.last_id] = self.active_pool
        return self.last_id

    def free(self, block):
        del self.live[block]
        self.owner.pop(block, None)
        stream = self.recorded.pop(block, None)
        if stream is not None:
            if self.queued not in (None, stream):
                self.settle()
            self.queued = stream
        self.say(f"f {block}")

    def settle(self):
        """Finishes the pending stream and lets an allocation see it, before another gets work."""
        if self.pending is not None:
            self.say(f"done {self.pending:#x}")
        if self.pending is not None or self.queued is not None:
            self.pending = self.queued = None
            self.allocate(512, self.streams[0])

    # ---- One step

    def step(self, u):
        if self.profile == "training":
            self.train()
        elif self.profile == "serving":
            self.serve()
        elif u < 0.5 and len(self.live) < self.budget or not self.live:
            self.allocate()
        elif u < 0.93:
            self.free(self.random.choice(list(self.live)))
        elif u < 0.96 and self.profile in ("record", "limit_record", "everything"):
            self.record()
        elif u < 0.965:
            self.settle()
            self.say("empty")
        elif u < 0.97:
            self.say(self.random.choice(["reset_peak", "reset_accumulated"]))
        elif u < 0.975 and self.profile in ("limit", "everything"):
            self.settle()
            self.say(f"fraction {self.random.choice([.05, .1, .3, .6])}")
        elif u < 0.98 and self.profile == "fail":
            self.say(f"fail {self.random.choice([1, 1, 2, 3])}")
            self.allocate(self.random.randint(20, 300) * MiB)
        elif u < 0.985:
            self.say("stats")
        elif u < 0.987:
            self.budget = self.random.choice([8, 40, 200])
        elif self.profile == "pools":
            self.change_pools()
        elif self.profile == "settings" and u < 0.995:
            self.say("set " + self.random.choice(SETTINGS))

    def train(self):
        """A forward pass keeps activations, a backward pass frees them in reverse."""
        draw = self.random
        batch = draw.choice([1, 1, 1, 0.75, 0.5, 1.1])
        activations = []
        for _ in range(draw.randint(8, 40)):
            size = int(draw.choice([0.3, 1.5, 4, 9, 25, 60]) * MiB * batch) + draw.randint(0, 700)
            activations.append(self.allocate(size))
            self.count += 1
            if draw.random() < 0.5:
                temporary = self.allocate(draw_size(draw, "small"))
                kept = self.allocate(draw_size(draw, "small"))
                activations.append(kept)
                self.free(temporary)
                self.count += 2
        for activation in reversed(activations):
            gradient = self.allocate(draw.randint(1, 12 * MiB))
            self.free(activation)
            self.free(gradient)
            self.count += 3

    def serve(self):
        """Requests of random batch and length: a cache that grows and is dropped."""
        draw = self.random
        batch = draw.randint(1, 16)
        cache = []
        for step in range(draw.randint(3, 30)):
            cache.append(self.allocate(batch * (step + draw.randint(16, 64)) * 8192))
            sizes = [4096, 65536, 262144]
            for block in [self.allocate(batch * draw.choice(sizes)) for _ in range(3)]:
                self.free(block)
            if len(cache) > 1 and draw.random() < 0.8:
                self.free(cache.pop(0))
            self.count += 8
        for block in cache:
            self.free(block)

    def record(self):
        draw = self.random
        if self.pending is None:
            self.pending = draw.choice(self.streams[1:])
            self.say(f"work {self.pending:#x}")
        if self.queued not in (None, self.pending):
            stream = self.pending
            self.settle()
            self.pending = stream
            self.say(f"work {stream:#x}")
        free_to_use = [i for i in self.live if self.recorded.get(i, self.pending) == self.pending]
        block = draw.choice(free_to_use or [None])
        if block is None:
            self.settle()
            return
        self.say(f"r {block} {self.pending:#x}")
        self.recorded[block] = self.pending
        if draw.random() < 0.5:
            self.free(block)
        if draw.random() < 0.3:
            self.settle()

    # ---- Pools

    def change_pools(self):
        self.settle()
        if self.active_pool is None and self.random.random() < 0.7:
            self.enter_pool()
        elif self.active_pool is not None:
            self.leave_pool()
        elif self.pools:
            self.drop_pool()

    def enter_pool(self):
        draw = self.random
        if not self.pools or draw.random() < 0.4:
            self.pool_count += 1
            self.pools.append(self.pool_count)
            flag = draw.choice(["", "", "no_split", "use_on_oom"])
            self.say(f"pool_create {self.pool_count} {flag}".rstrip())
        self.active_pool = draw.choice(self.pools)
        stream = draw.choice(["", f" {self.streams[0]:#x}"])
        self.say(f"pool_begin {self.active_pool}{stream}")

    def leave_pool(self):
        self.say(f"pool_end {self.active_pool}")
        self.say(f"pool_release {self.active_pool}")
        self.active_pool = None

    def drop_pool(self):
        pool = self.pools.pop(self.random.randrange(len(self.pools)))
        if self.zombie is not None:
            self.free_blocks_of(self.zombie)
            self.say(f"pool_empty {self.zombie}")
            self.zombie = None
        # A pool of expandable segments that is released with live blocks makes PyTorch itself fail.
        if self.random.random() < 0.5 or "expandable" in self.config:
            self.free_blocks_of(pool)
        else:
            self.zombie = pool
        self.say(f"pool_oom_off {pool}")
        self.say(f"pool_release {pool}")
        self.say(f"pool_empty {pool}")

    def free_blocks_of(self, pool):
        for block in [i for i in self.owner if self.owner[i] == pool]:
            self.free(block)

    # ---- What 2.12 and later add

    def step_newer(self):
        v = self.newer.random()
        if self.live:
            self.past.append(list(self.live)[-1])
            del self.past[:-80]
        if self.minor >= 13 and v < 0.012 and self.past and self.profile != "pools":
            self.allocate_at()
        elif self.minor >= 14 and v < 0.018 and self.live:
            self.say(f"annotate {self.newer.choice(list(self.live))} note {self.count}")
        elif self.minor >= 13 and v < 0.023 and self.may_capture():
            self.settle()
            self.capture()
        elif self.minor >= 12 and v < 0.030 and self.profile in ("settings", "oom", "limit"):
            expandable = ",expandable_segments:True" if "expandable" in self.config else ""
            self.say("set " + self.newer.choice(REJECTION_SETTINGS) + expandable)
        elif self.minor >= 15 and v < 0.040 and "reserve" in self.config:
            self.reserve()

    def may_capture(self):
        profiles = ("pools", "everything", "record", "mixed")
        return self.profile in profiles and self.active_pool is None

    def allocate_at(self):
        draw = self.newer
        self.last_id += 1
        stream = draw.choice(self.streams)
        sizes = [1, 512, 1000, draw.randint(1, 4096), draw.randint(1, MiB)]
        size = draw.choice(sizes + [draw.randint(1, 25 * MiB)])
        reference = draw.choice(self.past)
        offsets = [0, 0, 0, 0, 512, 1024, 512 * draw.randint(0, 3000), MiB * draw.randint(0, 20)]
        offset = draw.choice(offsets + [-512 * draw.randint(0, 1000), 7])
        self.say(f"at {self.last_id} {size} {stream:#x} {reference} {offset}")
        self.live[self.last_id] = stream
        self.count += 1

    def reserve(self):
        draw = self.newer
        choices = [
            f"reserve_class {draw.choice(self.streams):#x} {draw.choice('abc')}",
            f"reserve_class {draw.choice(self.streams):#x}",
            f"reserve_of {draw.choice('abc')}",
            "expandable_totals",
            f"default_reserve {draw.choice('abc')} {draw.choice([.05, .3])}",
        ]
        self.say(draw.choice(choices))

    def capture(self):
        """A capture from its beginning to its end; one free at most waits for its end."""
        draw = self.newer
        self.graph_count += 1
        graph = self.graph_count
        self.say(f"pool_begin g{graph}" + draw.choice(["", " 0x0"]))
        self.say(f"capture 0x0 {graph}")
        self.say("capture_mark")
        self.say("node 0x0")
        inside = self.fill_capture()
        if draw.random() < 0.7:
            self.fork_capture(inside, 0x50000)
        if draw.random() < 0.3:
            self.say(f"pool_snapshot g{graph}")
        self.say(f"capture_end {graph}")
        self.say("capture_unmark")
        self.say(f"pool_end g{graph}")
        self.allocate(512, self.streams[0])
        if draw.random() < 0.5:
            self.say("snapshot")
        for block in inside:
            self.say(f"f {block}")
        self.say(f"pool_release g{graph}")
        self.say(f"pool_empty g{graph}")

    def allocate_captured(self, size):
        self.last_id += 1
        self.say(f"a {self.last_id} {size} 0x0")
        return self.last_id

    def fill_capture(self):
        draw = self.newer
        inside = []
        for _ in range(draw.randint(1, 8)):
            sizes = [512, 1000, draw.randint(1, MiB), draw.randint(1, 40 * MiB), 12 * MiB]
            inside.append(self.allocate_captured(draw.choice(sizes)))
            if draw.random() < 0.5:
                self.say(f"f {inside.pop(draw.randrange(len(inside)))}")
        return inside

    def fork_capture(self, inside, side):
        draw = self.newer
        block = self.allocate_captured(draw.choice([3000, 5 * MiB, 30 * MiB]))
        self.say(f"fork 0x0 {side:#x}")
        self.say(f"node {side:#x}")
        self.say(f"r {block} {side:#x}")
        self.say(f"f {block}")
        inside.append(self.allocate_captured(draw.choice([3000, 5 * MiB])))
        self.say(f"join 0x0 {side:#x}")
        self.say("node 0x0")
        inside.append(self.allocate_captured(draw.choice([3000, 5 * MiB, 30 * MiB])))
        if draw.random() < 0.3:
            self.say("stats")


def generate(profile, seed, operations, config="", release="2.11"):
    """The script of these arguments, as text."""
    return Generator(profile, seed, config, release).generate(operations)


if __name__ == "__main__":
    generator_command.run(sys.modules[__name__])
