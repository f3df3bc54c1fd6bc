#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes an operation script of backend:cudaMallocAsync for the oracle (see FORMAT.md).

Usage: gen_async.py PROFILE SEED OPS [CONFIG [RELEASE]] > script.txt
CONFIG stands behind the choice of the backend, which does not look at it. RELEASE (2.11) adds the
words that it has.

Left out are calls from which PyTorch does not come back: a tensor's free while an error is pending
ends its process, and its search for the largest block never ends where the limit is below what is
used.
"""

import random
import sys

import generator_command

MiB = 1 << 20
EXABYTE = 1 << 60

COMMON_ACTIONS = {
    **{"allocate": 30, "free": 24, "reuse_id": 3, "allocate_raw": 4, "allocate_odd": 0.6},
    **{"record": 5, "delete": 0.3, "empty": 0.6, "peer": 0.3, "base": 1, "largest": 0.5},
    **{"stats": 2, "reset": 0.7, "current": 0.5, "ask": 0.4, "misuse": 0.4, "set_options": 0.4},
}
EXTRA_ACTIONS = {
    "plain": {},
    "streams": {"record": 20},
    "captures": {"begin_capture": 2, "end_capture": 1.5, "misuse_capture": 0.3, "record": 5},
    "faults": {"fail": 2, "error": 1, "pending_error": 1, "fraction": 1, "allocate_large": 6},
    "settings": {"set_options": 8, "reserve": 1},
    "graphs": {"graph_memory": 4, "stats": 6, "reset": 4, "empty": 2},
}
EXTRA_ACTIONS["everything"] = {
    name: weight / 2 for extra in list(EXTRA_ACTIONS.values()) for name, weight in extra.items()
}
PROFILES = list(EXTRA_ACTIONS)

# Words of later releases, by the minor release that brings them.
NEWER_ACTIONS = {12: {"context": 0.3}, 13: {"allocate_at": 0.3}, 14: {"annotate": 0.4}}

OPTIONS = [
    *["", "max_split_size_mb:64", "max_split_size_mb:5", "large_segment_size_mb:40"],
    *["expandable_segments:True", "garbage_collection_threshold:0.5", "unknown:1"],
    *["release_lock_on_cudamalloc:True", "pinned_num_register_threads:3", "backend:native"],
    *["backend:cudaMallocAsync", "backend:cudaMallocAsync,expandable_segments:True"],
    *["backend:cudaMallocAsync,release_lock_on_cudamalloc:True", "backend:other"],
    *["release_lock_on_cudamalloc:False,backend:cudaMallocAsync,max_split_size_mb:30"],
    *["per_process_memory_fraction:0.1", "roundup_power2_divisions:[256:1,>:4]"],
]
MISUSES = [
    *["pool_create 1", "pool_count 1", "pool_oom_on 2", "pool_oom_off 2", "pool_no_split 1"],
    *["pool_snapshot 1", "pool_live 1", "pool_release 1", "expandable_sizes", "settings", "trace"],
    *["snapshot", "history all 10", "history off 1", "delete 0x123456", "fraction 1.5"],
    *["fraction -0.5", "fraction nan", "enable 0", "enable 1", "callback 1", "pool_empty 3"],
]


class Generator:
    def __init__(self, profile, seed, config="", release="2.11"):
        self.draw = random.Random(f"async {profile} {seed}")
        self.seed = seed
        self.config = config
        self.minor = int(release.split(".")[1])
        self.lines = []
        self.last_id = 0
        self.tensors, self.raw = [], []
        self.capturing = False
        self.may_ask_largest = True
        self.total = self.draw.choice([200, 600, 2000, 80000]) * MiB + self.draw.choice([0, 513])
        self.devices = self.draw.choice([1, 1, 2, 3])
        self.streams = ["0x0"] + [
            hex(0x1000 * n) for n in self.draw.sample(range(1, 0x300), self.draw.choice([2, 5, 25]))
        ]
        weights = dict(COMMON_ACTIONS)
        extras = [actions for minor, actions in NEWER_ACTIONS.items() if self.minor >= minor]
        for extra in [EXTRA_ACTIONS[profile], *extras]:
            for name, weight in extra.items():
                weights[name] = weights.get(name, 0) + weight
        self.actions = {getattr(self, name): weight for name, weight in weights.items()}

    def generate(self, operations):
        separator = "," if self.config else ""
        self.say(f"config backend:cudaMallocAsync{separator}{self.config}")
        self.say(f"device {self.total} {self.seed} {self.devices}")
        words = [word for word in ("whole_text", "waits") if self.chance(0.5)]
        if words:
            self.say("log " + " ".join(words))
        actions, weights = list(self.actions), list(self.actions.values())
        while len(self.lines) < operations:
            self.draw.choices(actions, weights)[0]()
        return "".join(line + "\n" for line in self.lines)

    # ---- Small helpers

    def say(self, line):
        self.lines.append(line)

    def chance(self, probability):
        return self.draw.random() < probability

    def new_id(self):
        self.last_id += 1
        return self.last_id

    def stream(self):
        return self.draw.choice(self.streams)

    def size(self):
        kind = self.draw.random()
        if kind < 0.4:
            return self.draw.randint(1, 4096)
        if kind < 0.9:
            return self.draw.randint(1, self.total // 60)
        return self.draw.randint(1, self.total // 8)

    def take(self, ids):
        """Removes one of the ids, most often a young one."""
        start = 0 if self.chance(0.3) else max(0, len(ids) - 12)
        return ids.pop(self.draw.randrange(start, len(ids)))

    # ---- Blocks

    def allocate(self, size=None):
        if len(self.tensors) > 60:
            return self.free()
        number = self.new_id()
        self.say(f"a {number} {size or self.size()} {self.stream()}")
        self.tensors.append(number)

    def allocate_large(self):
        self.allocate(self.draw.randint(self.total // 8, self.total + self.total // 8))

    def allocate_raw(self):
        number = self.new_id()
        self.say(f"raw {number} {self.size()} {self.stream()}")
        self.raw.append(number)

    def allocate_odd(self):
        size = self.draw.choice([0, 0, EXABYTE, EXABYTE + 5])
        self.say(f"a {self.new_id()} {size} {self.stream()}")

    def reuse_id(self):
        if self.tensors:
            self.say(f"a {self.draw.choice(self.tensors)} {self.size()} {self.stream()}")

    def allocate_at(self):
        if self.tensors:
            reference = self.draw.choice(self.tensors)
            self.say(f"at {self.new_id()} {self.size()} {self.stream()} {reference} 512")

    def free(self):
        ids = self.raw if self.raw and (not self.tensors or self.chance(0.2)) else self.tensors
        if ids:
            self.say(f"f {self.take(ids)}")

    def delete(self):
        self.say(self.draw.choice(["delete 0x0", "delete 0x200"]))

    def record(self):
        if not self.tensors:
            return
        number = self.draw.choice(self.tensors)
        for _ in range(self.draw.choice([1, 1, 2, 3, 9])):
            self.say(f"r {number} {self.stream()}")

    def current(self):
        self.say(f"current {self.stream()}")

    # ---- Captures

    def begin_capture(self):
        if self.capturing:
            return
        self.capturing = True
        self.say(f"pool_begin {self.draw.randint(1, 3)}")

    def end_capture(self):
        if not self.capturing:
            return
        self.capturing = False
        self.say(f"pool_end {self.draw.randint(1, 3)}")

    def misuse_capture(self):
        self.say("pool_begin 1" if self.capturing else "pool_end 1")
        if self.minor >= 13:
            self.say(self.draw.choice(["capture_mark", "capture_unmark"]))

    # ---- Faults and limits

    def fail(self):
        self.say(f"fail {self.draw.randint(1, 4)} {self.draw.choice([0, 0, 1, 5])}")

    def error(self):
        self.say(f"error {self.draw.choice([1, 3, 700, 801])} {self.draw.choice([0, 0, 2])}")

    def pending_error(self):
        self.say(f"pending_error {self.draw.choice([3, 700])}")
        for _ in range(self.draw.choice([0, 0, 1, 2])):
            self.draw.choice([self.stats, self.reset, self.empty, self.current])()
        consumers = [self.allocate_raw, lambda: self.say("delete 0x600")]
        if self.may_ask_largest:
            consumers.append(self.largest)
        if self.raw:
            consumers.append(lambda: self.say(f"f {self.take(self.raw)}"))
        self.draw.choice(consumers)()
        # That block may not have been there.
        self.say("delete 0x600")

    def fraction(self):
        fraction = self.draw.choice([0, 0.01, 0.25, 0.5, 0.9, 1, self.draw.random()])
        self.may_ask_largest = fraction == 1
        self.say(f"fraction {fraction}")
        self.say("get_fraction")

    def graph_memory(self):
        self.say(f"graph_memory {self.draw.randint(0, 1 << 30)} {self.draw.randint(0, 1 << 31)}")

    def set_options(self):
        self.say("set " + self.draw.choice(OPTIONS))

    def reserve(self):
        if self.minor < 15:
            return
        self.say(f"default_reserve {self.draw.choice(['x', 'y'])} 0.25")
        self.say("reserve_of x")

    # ---- The rest

    def largest(self):
        if self.may_ask_largest:
            self.say(f"largest {self.draw.choice([0, 1000])}")

    def base(self):
        if self.tensors:
            self.say(f"base {self.draw.choice(self.tensors)}")

    def context(self):
        if self.tensors:
            self.say(f"context_of {self.draw.choice(self.tensors)}")

    def annotate(self):
        if self.tensors:
            self.say(f"annotate {self.draw.choice(self.tensors)} text")
        self.say(self.draw.choice(["annotate_at 0x200 text", "supports_metadata"]))

    def empty(self):
        self.say("empty")

    def peer(self):
        self.say(f"peer {self.draw.randrange(self.devices)} {self.draw.randrange(self.devices)}")

    def stats(self):
        self.say("stats")

    def reset(self):
        self.say(self.draw.choice(["reset_peak", "reset_peak", "reset_accumulated"]))

    def ask(self):
        self.say(self.draw.choice(["is_enabled", "get_fraction"]))

    def misuse(self):
        self.say(self.draw.choice(MISUSES))


def generate(profile, seed, operations, config="", release="2.11"):
    return Generator(profile, seed, config, release).generate(operations)


if __name__ == "__main__":
    generator_command.run(sys.modules[__name__])
