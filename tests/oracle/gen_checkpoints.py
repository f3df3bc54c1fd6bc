#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes an operation script of checkpoints of private pools (see FORMAT.md).

Usage: gen_checkpoints.py PROFILE SEED OPS [CONFIG [RELEASE]] > script.txt

Left out is a checkpoint of a pool that has been emptied or released since: the reference then frees
blocks before it fails, which the library does not (U25). Profile "waiting" has such failures, over
blocks that wait for a stream.
"""

import random
import sys
from dataclasses import dataclass, field

import generator_command

MiB = 1 << 20

COMMON_ACTIONS = {
    **{"allocate": 30, "free": 22, "route": 8, "take": 5, "restore": 5, "empty": 0.7},
    **{"stats": 2, "snapshot": 1.5, "reset": 0.7, "count_live": 1},
}
EXTRA_ACTIONS = {
    "plain": {},
    "streams": {"use": 4, "settle": 4},
    "waiting": {"use": 4, "work": 4, "settle": 2},
    "options": {"set_options": 1.5},
}
PROFILES = list(EXTRA_ACTIONS)
SETTINGS = [
    "expandable_segments:True",
    "expandable_segments:False",
    "max_split_size_mb:32",
    "roundup_power2_divisions:4",
]
MOST_LIVE = 60


@dataclass
class Pool:
    live: set = field(default_factory=set)  # ids


class Generator:
    def __init__(self, profile, seed, config=""):
        self.draw = random.Random(f"checkpoints {profile} {seed}")
        self.profile = profile
        self.seed = seed
        self.config = config
        self.lines = []
        self.last_id = 0
        self.pools = {name: Pool() for name in self.draw.choice([["1"], ["1", "g2"]])}
        self.outside = Pool()
        self.routed = None
        self.used = set()  # ids of blocks that another stream uses
        self.has_deferred_free = False
        # The pool of each checkpoint, and how many blocks it has in use.
        self.checkpoints = {}
        self.streams = ["0x0"] + [hex(0x1000 * n) for n in range(1, self.draw.choice([1, 2, 4]))]
        self.sizes = [self.any_size() for _ in range(8)]
        weights = {**COMMON_ACTIONS, **EXTRA_ACTIONS[profile]}
        self.actions = {getattr(self, name): weight for name, weight in weights.items()}

    def generate(self, operations):
        self.say(f"config {self.config}".rstrip())
        self.say(f"device {80 << 30} {self.seed}")
        for name in self.pools:
            self.say(f"pool_create {name}")
        actions, weights = list(self.actions), list(self.actions.values())
        while len(self.lines) < operations:
            self.draw.choices(actions, weights)[0]()
        return "".join(line + "\n" for line in self.lines)

    # ---- Small helpers

    def say(self, line):
        self.lines.append(line)

    def chance(self, probability):
        return self.draw.random() < probability

    def any_size(self):
        kind = self.draw.random()
        if kind < 0.4:
            return self.draw.randint(1, MiB)
        if kind < 0.8:
            return self.draw.randint(MiB, 24 * MiB)
        return self.draw.randint(1, 120) * MiB

    def owner(self):
        return self.outside if self.routed is None else self.pools[self.routed]

    def groups(self):
        return [self.outside, *self.pools.values()]

    def any_live(self):
        """A block's id and its pool; nothing: there is none."""
        groups = [group for group in self.groups() if group.live]
        if not groups:
            return None
        group = self.draw.choice(groups)
        return self.draw.choice(sorted(group.live)), group

    # ---- Blocks

    def allocate(self):
        if sum(len(group.live) for group in self.groups()) > MOST_LIVE:
            return self.free()
        self.last_id += 1
        size = self.draw.choice(self.sizes) if self.chance(0.6) else self.any_size()
        self.say(f"a {self.last_id} {size} {self.draw.choice(self.streams)}")
        self.owner().live.add(self.last_id)
        if self.routed is None:
            self.has_deferred_free = False

    def free(self):
        if found := self.any_live():
            number, group = found
            if self.may_free(number):
                group.live.remove(number)
                self.say(f"f {number}")

    # The free of a used block is deferred while a pool is routed to, and of several the order is unspecified.
    def may_free(self, number):
        if self.routed is None or number not in self.used:
            return True
        if self.has_deferred_free:
            return False
        self.has_deferred_free = True
        return True

    # One stream only: of events on several the order is unspecified.
    def use(self):
        if found := self.any_live():
            self.used.add(found[0])
            self.say(f"r {found[0]} {self.streams[-1]}")

    def work(self):
        self.say(f"work {self.draw.choice(self.streams)}")

    # An allocation sees that the events have come.
    def settle(self):
        self.say("sync")
        self.allocate()

    def empty(self):
        self.say("empty")

    def set_options(self):
        self.say(f"set {self.draw.choice(SETTINGS)}")

    # ---- Pools

    def end_routing(self):
        if self.routed is not None:
            self.say(f"pool_end {self.routed}")
            self.routed = None

    def route(self):
        if self.routed is not None:
            self.end_routing()
            if self.chance(0.4):
                return
        self.routed = self.draw.choice(list(self.pools))
        self.say(f"pool_begin {self.routed}")

    def take(self):
        if self.profile == "streams":
            self.settle()
        pool = self.draw.choice(list(self.pools))
        name = f"K{self.draw.randint(1, 6)}"
        self.checkpoints[name] = (pool, len(self.pools[pool].live))
        self.say(f"checkpoint {name} {pool}")

    def restore(self):
        if not self.checkpoints:
            return
        if self.profile == "streams":
            self.end_routing()
            self.settle()
            for group in self.pools.values():
                for number in sorted(group.live):
                    self.say(f"f {number}")
                group.live.clear()
            self.settle()
        name = self.draw.choice(sorted(self.checkpoints))
        pool, count = self.checkpoints[name]
        self.say(f"restore {name} {self.last_id + 1}")
        self.pools[pool].live = set(range(self.last_id + 1, self.last_id + 1 + count))
        # Where a later checkpoint of the name failed, the blocks are those of an earlier one.
        self.last_id += 2 * MOST_LIVE

    def count_live(self):
        pool = self.draw.choice(list(self.pools))
        ids = " ".join(map(str, sorted(self.pools[pool].live)))
        self.say(f"pool_live {pool} {ids}".rstrip())

    # ---- Reports

    def stats(self):
        self.say("stats")

    def snapshot(self):
        self.say(self.draw.choice(["snapshot", *(f"pool_snapshot {name}" for name in self.pools)]))

    def reset(self):
        self.say(self.draw.choice(["reset_peak", "reset_accumulated"]))


def generate(profile, seed, operations, config="", _release="2.11"):
    return Generator(profile, seed, config).generate(operations)


if __name__ == "__main__":
    generator_command.run(sys.modules[__name__])
