#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes an operation script of pinned host memory for oracle_pinned (see FORMAT.md).

Usage: gen_pinned.py PROFILE SEED OPS [CONFIG [RELEASE]] > script.txt
CONFIG stands behind the options that the script chooses. RELEASE (2.11) adds the options that it
has.

Left out are background threads, whose time is not certain, and what ends PyTorch's process: an
event that fails at a free in 2.11, and a block that a free cannot give back without
pinned_free_catch_all. Left out too are a pool's internal assertions, so a pool loses its last user
after its end and its name is not used again, and requests above 2^63.
"""

import random
import re
import sys
from dataclasses import dataclass

import generator_command

MiB = 1 << 20

COMMON_ACTIONS = {
    **{"allocate": 30, "free": 24, "reuse_id": 2, "allocate_nothing": 0.3, "use": 12, "use_at": 1},
    **{"change_work": 6, "settle": 2, "current": 0.5, "empty": 0.7, "stats": 4, "reset": 0.7},
}
POOL_ACTIONS = {"begin_pool": 3, "end_pool": 2.5, "release_pool": 2, "current": 3, "empty": 0.5}
EXTRA_ACTIONS = {
    "plain": {},
    "streams": {"use": 20, "change_work": 10, "free": 6},
    "faults": {"fail": 2, "error": 1, "event_error": 3, "free_error": 2, "empty": 1, "use": 6},
    "reserve": {"set_options": 0.3, "fail": 0.5, "empty": 0.5, "allocate": 10},
    "register": {"set_options": 1, "error": 0.5, "free_error": 0.5, "empty": 1},
    "limits": {"set_options": 1, "allocate_large": 8, "empty": 0.5},
    "pools": {**POOL_ACTIONS, "misuse_pool": 0.3},
    "captures": {**POOL_ACTIONS, "begin_capture": 2, "end_capture": 1.5, "use": 8},
    "settings": {"set_options": 5, "set_wrongly": 1, "allocate_large": 3},
    "stats": {"stats": 15, "reset": 6},
}
EXTRA_ACTIONS["everything"] = {
    name: weight / 3 for extra in list(EXTRA_ACTIONS.values()) for name, weight in extra.items()
}
PROFILES = list(EXTRA_ACTIONS)

# By the minor release that brings them.
CHOICES = {
    11: {
        "pinned_use_cuda_host_register": ["True", "False"],
        "pinned_num_register_threads": ["1", "4", "128"],
        "pinned_reserve_segment_size_mb": ["1", "2", "16"],
    },
    12: {"pinned_free_catch_all": ["True", "True", "False"]},
    13: {
        "pinned_max_round_threshold_mb": ["0", "1", "4", "100"],
        "pinned_max_cached_size_mb": ["0", "1", "3", "100"],
    },
}
ALWAYS = {
    "reserve": ["pinned_reserve_segment_size_mb"],
    "register": ["pinned_use_cuda_host_register"],
    "limits": ["pinned_max_round_threshold_mb", "pinned_max_cached_size_mb"],
    "everything": ["pinned_use_cuda_host_register"],
}
WRONG = ["pinned_num_register_threads:3", "pinned_reserve_segment_size_mb:0", "pinned_unknown:1"]
MOST_LIVE = 60


@dataclass
class Pool:
    """A pool that has been begun at least once; one without users is forgotten."""

    users: int = 1
    is_begun: bool = True


class Generator:
    def __init__(self, profile, seed, config="", release="2.11"):
        self.draw = random.Random(f"pinned {profile} {seed}")
        self.seed = seed
        self.minor = int(release.split(".")[1])
        self.lines = []
        self.ids = []
        self.last_id = 0
        self.pools = {}
        self.last_pool = 0
        # The stream that captures into each graph.
        self.captures = {}
        self.last_capture = 0
        self.choices = {
            key: values
            for minor, options in CHOICES.items()
            if self.minor >= minor
            for key, values in options.items()
        }
        # Registered memory is real.
        self.most = 2 * MiB if profile in ("register", "everything", "settings") else 64 * MiB
        self.config = ",".join(filter(None, [self.first_options(profile), config]))
        self.options = {}
        self.apply(self.config)
        self.streams = ["0x0"] + [
            hex(0x10 * n) for n in self.draw.sample(range(1, 0x3000), self.draw.choice([1, 3, 12]))
        ]
        self.sizes = [self.any_size() for _ in range(8)]
        weights = dict(COMMON_ACTIONS)
        for name, weight in EXTRA_ACTIONS[profile].items():
            weights[name] = weights.get(name, 0) + weight
        self.actions = {getattr(self, name): weight for name, weight in weights.items()}

    def generate(self, operations):
        self.say(f"config {self.config}".rstrip())
        self.say(f"device {80 << 30} {self.seed}")
        if self.chance(0.5):
            self.say("log query")
        actions, weights = list(self.actions), list(self.actions.values())
        while len(self.lines) < operations:
            self.draw.choices(actions, weights)[0]()
        self.finish()
        return "".join(line + "\n" for line in self.lines)

    # Most blocks come back, so that a block that was lost shows.
    def finish(self):
        for number in self.ids:
            if self.chance(0.9):
                self.say(f"hf {number}")
        for line in ["sync", "host_empty", "host_stats"]:
            self.say(line)

    # ---- Small helpers

    def say(self, line):
        self.lines.append(line)

    def chance(self, probability):
        return self.draw.random() < probability

    def stream(self):
        return self.draw.choice(self.streams)

    def any_size(self):
        kind = self.draw.random()
        power = 1 << self.draw.randint(0, self.most.bit_length() - 1)
        if kind < 0.3:
            return self.draw.randint(1, 4096)
        if kind < 0.6:
            return max(1, power + self.draw.choice([-1, 0, 0, 1]))
        return self.draw.randint(1, self.draw.choice([self.most >> 8, self.most]))

    def size(self):
        return self.draw.choice(self.sizes) if self.chance(0.6) else self.any_size()

    # ---- Options

    def first_options(self, profile):
        always = [key for key in ALWAYS.get(profile, []) if key in self.choices]
        keys = dict.fromkeys(always + [key for key in self.choices if self.chance(0.2)])
        if self.most > 2 * MiB:
            keys.pop("pinned_use_cuda_host_register", None)
        return ",".join(f"{key}:{self.draw.choice(self.choices[key])}" for key in keys)

    def apply(self, string):
        self.options.update(re.findall(r"(pinned_\w+):(\w+)", string))

    def set_options(self):
        self.disarm()
        keys = [key for key in self.choices if self.most <= 2 * MiB or "register" not in key]
        chosen = self.draw.sample(keys, min(len(keys), self.draw.choice([1, 1, 2])))
        string = ",".join(f"{key}:{self.draw.choice(self.choices[key])}" for key in chosen)
        self.say(f"set {string}")
        self.apply(string)

    def set_wrongly(self):
        self.say(f"set {self.draw.choice(WRONG)}")

    # ---- Blocks

    def allocate(self, size=None):
        if len(self.ids) > MOST_LIVE:
            return self.free()
        self.last_id += 1
        self.say(f"ha {self.last_id} {size or self.size()}")
        self.ids.append(self.last_id)

    def allocate_large(self):
        self.allocate(self.draw.randint(self.most // 64, self.most))

    def allocate_nothing(self):
        self.say(f"ha {self.last_id + 1000000} 0")
        self.say(f"hr {self.last_id + 1000000} {self.stream()}")

    def reuse_id(self):
        if self.ids:
            self.say(f"ha {self.draw.choice(self.ids)} {self.size()}")

    # Most often a young one; now and then twice.
    def free(self):
        if not self.ids:
            return
        start = 0 if self.chance(0.3) else max(0, len(self.ids) - 12)
        number = self.ids.pop(self.draw.randrange(start, len(self.ids)))
        self.say(f"hf {number}")
        if self.chance(0.02):
            self.say(self.draw.choice([f"hf {number}", f"hr {number} {self.stream()}"]))

    def use(self):
        if not self.ids:
            return
        number = self.draw.choice(self.ids)
        for _ in range(self.draw.choice([1, 1, 1, 2, 3, 9])):
            self.say(f"hr {number} {self.stream()}")

    def use_at(self):
        if self.ids:
            offset = self.draw.choice([0, 0, 1, 16])
            self.say(f"hr_at {self.draw.choice(self.ids)} {self.stream()} {offset}")

    def empty(self):
        self.say("host_empty")

    # ---- Streams

    def change_work(self):
        self.say(f"{self.draw.choice(['work', 'work', 'step', 'done'])} {self.stream()}")

    def settle(self):
        self.say("sync")

    def current(self):
        self.say(f"current {self.stream()}")

    # ---- Pools and captures

    def begin_pool(self):
        known = [name for name, pool in self.pools.items() if not pool.is_begun]
        if known and self.chance(0.4):
            name = self.draw.choice(known)
            self.pools[name].users += 1
            self.pools[name].is_begun = True
        elif len(self.pools) < 5:
            # Not in the order of their numbers.
            self.last_pool += self.draw.randint(1, 9)
            name = self.draw.choice(["", "g"]) + str(self.last_pool * 7919 % 10007)
            self.pools[name] = Pool()
        else:
            return
        routes = ["", "", self.stream(), "0x0", "never"]
        self.say(f"host_pool_begin {name} {self.draw.choice(routes)}".rstrip())

    def end_pool(self):
        begun = [name for name, pool in self.pools.items() if pool.is_begun]
        if begun:
            name = self.draw.choice(begun)
            self.pools[name].is_begun = False
            self.say(f"host_pool_end {name}")

    def release_pool(self):
        free = [name for name, pool in self.pools.items() if not pool.is_begun or pool.users > 1]
        if not free:
            return
        name = self.draw.choice(free)
        self.pools[name].users -= 1
        if self.pools[name].users == 0:
            del self.pools[name]
        self.say(f"host_pool_release {name}")

    def misuse_pool(self):
        begun = [name for name, pool in self.pools.items() if pool.is_begun]
        if begun and self.chance(0.5):
            # It fails, but counts as a user.
            name = self.draw.choice(begun)
            self.pools[name].users += 1
            self.say(f"host_pool_begin {name}")
        else:
            self.say(self.draw.choice(["host_pool_end 20000", "host_pool_release 20000"]))

    def begin_capture(self):
        free = [stream for stream in self.streams if stream not in self.captures.values()]
        if not free or len(self.captures) > 1:
            return
        self.last_capture += 1
        self.captures[self.last_capture] = stream = self.draw.choice(free)
        self.say(f"capture {stream} {self.last_capture}")
        self.say(f"current {stream}")

    def end_capture(self):
        if self.captures:
            graph = self.draw.choice(list(self.captures))
            del self.captures[graph]
            self.say(f"capture_end {graph}")

    # ---- Failures

    def fail(self):
        self.say(f"fail {self.draw.randint(1, 3)} {self.draw.choice([0, 0, 1, 4])}")

    def error(self):
        self.say(f"error {self.draw.choice([1, 2, 700])} {self.draw.choice([0, 0, 2])}")

    # What looks at events, and gives blocks back, outside of a free.
    def look(self):
        self.draw.choice([self.allocate, self.empty])()

    def event_error(self):
        self.say(f"event_error {self.draw.choice([1, 700, 700])} {self.draw.choice([0, 0, 1, 3])}")
        if self.minor < 15:
            # A free would end the process. `allocate` may be one.
            self.empty() if len(self.ids) > MOST_LIVE else self.look()
            self.say("event_error 0")

    def free_error(self):
        self.say(f"free_error {self.draw.choice([1, 700])} {self.draw.choice([0, 0, 1, 3])}")
        if self.a_free_may_fail():
            self.empty() if len(self.ids) > MOST_LIVE else self.look()
            self.disarm()

    def a_free_may_fail(self):
        catches = self.options.get("pinned_free_catch_all") == "True"
        return "pinned_max_cached_size_mb" in self.options and not catches

    def disarm(self):
        self.say("free_error 0")

    # ---- Reports

    def stats(self):
        self.say("host_stats")

    def reset(self):
        self.say(self.draw.choice(["host_reset_peak", "host_reset_peak", "host_reset_accumulated"]))


def generate(profile, seed, operations, config="", release="2.11"):
    return Generator(profile, seed, config, release).generate(operations)


if __name__ == "__main__":
    generator_command.run(sys.modules[__name__])
