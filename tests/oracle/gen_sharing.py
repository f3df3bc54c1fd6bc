#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes an operation script of memory that is shared and opened (see FORMAT.md).

Usage: gen_sharing.py PROFILE SEED OPS [CONFIG [RELEASE]] > script.txt

Both ends are one process. Left out is memory that is opened again while an older one has its name: the
reference then gives what it has open. So are pages that are opened twice in 2.15, whose reference takes
them for others or not by bytes that it never sets (U15).
"""

import random
import sys

import generator_command

MiB = 1 << 20

# By profile: what stands at the top of a script.
PROFILES = {
    "descriptors": ["fabric 801", "sharing 1"],
    "fabric": ["fabric_device 1", "sharing 1"],
    "refused": ["fabric 801"],
    "peers": ["fabric 801", "sharing 1", "peer 1 0"],
}
ACTIONS = {
    **{"allocate": 30, "free": 18, "share": 14, "open": 12, "close": 9, "empty": 1.5},
    **{"set_options": 0.7, "stats": 1, "snapshot": 0.7, "fail": 0.5, "totals": 1, "route": 1.5},
}
SETTINGS = ["expandable_segments:True", "expandable_segments:False", "max_split_size_mb:32"]
MOST_LIVE = 40


class Generator:
    def __init__(self, profile, seed, config, release):
        self.draw = random.Random(f"sharing {profile} {seed}")
        self.profile = profile
        self.seed = seed
        self.config = config
        self.release = release
        self.lines = []
        self.last_id = 0
        self.live = set()
        self.opened = set()
        self.routed = False
        self.streams = ["0x0"] + [hex(0x1000 * n) for n in range(1, self.draw.choice([1, 2, 3]))]
        self.sizes = [self.any_size() for _ in range(8)]
        self.actions = {getattr(self, name): weight for name, weight in ACTIONS.items()}

    def generate(self, operations):
        devices = " 2" if self.profile == "peers" else ""
        self.say(f"config {self.config}".rstrip())
        self.say(f"device {8 << 30} {self.seed}{devices}")
        for line in PROFILES[self.profile]:
            if self.release != "2.11" or not line.startswith("fabric_device"):
                self.say(line)
        actions, weights = list(self.actions), list(self.actions.values())
        while len(self.lines) < operations:
            self.draw.choices(actions, weights)[0]()
        return "".join(line + "\n" for line in self.lines)

    # ---- Small helpers

    def say(self, line):
        self.lines.append(line)

    def any_size(self):
        kind = self.draw.random()
        if kind < 0.4:
            return self.draw.randint(1, MiB)
        if kind < 0.8:
            return self.draw.randint(MiB, 24 * MiB)
        return self.draw.randint(1, 120) * MiB

    def any_of(self, ids):
        return self.draw.choice(sorted(ids)) if ids else None

    # ---- Blocks

    def allocate(self):
        if len(self.live) > MOST_LIVE:
            return self.free()
        self.last_id += 1
        size = self.draw.choice(self.sizes) if self.draw.random() < 0.6 else self.any_size()
        self.say(f"a {self.last_id} {size} {self.draw.choice(self.streams)}")
        self.live.add(self.last_id)

    # What is open of a block goes first, so that no later one has its name.
    def free(self):
        number = self.any_of(self.live)
        if number is None:
            return
        self.close_all()
        self.live.remove(number)
        self.say(f"f {number}")

    def empty(self):
        self.close_all()
        self.say("empty")

    def set_options(self):
        self.say(f"set {self.draw.choice(SETTINGS)}")

    def route(self):
        self.say("pool_end 1" if self.routed else "pool_begin 1")
        self.routed = not self.routed

    def fail(self):
        self.say(f"fail 1 {self.draw.randint(0, 2)}")

    # ---- Memory between processes

    def share(self):
        if (number := self.any_of(self.live)) is not None:
            self.say(f"share {number}")

    def open(self):
        if (number := self.any_of(self.live)) is not None:
            if self.release != "2.11" and self.has_pages():
                self.close_all()
            self.say(f"import {number}")
            self.opened.add(number)

    def close(self):
        if (number := self.any_of(self.opened)) is not None:
            self.say(f"import_close {number}")
            self.opened.remove(number)

    def close_all(self):
        for number in sorted(self.opened):
            self.say(f"import_close {number}")
        self.opened.clear()

    def has_pages(self):
        return any("expandable_segments:True" in line for line in self.lines)

    # ---- Reports

    def stats(self):
        self.say("stats")

    def snapshot(self):
        self.say("snapshot")

    def totals(self):
        self.say("expandable_sizes" if self.release == "2.11" else "expandable_totals")


def generate(profile, seed, operations, config="", release="2.11"):
    return Generator(profile, seed, config, release).generate(operations)


if __name__ == "__main__":
    generator_command.run(sys.modules[__name__])
