#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a rough operation script for the oracle (see FORMAT.md): all that gen.py leaves out.

Usage: gen_rough.py PROFILE SEED OPS [CONFIG [RELEASE]] > script.txt
RELEASE (2.11) adds the words that it has.

No unspecified order shows: a block is recorded on one stream at most, one free at most is deferred,
one released pool at most holds memory, one pool at most is opted in for fallback, and events of two
streams never complete in one operation.

Upstream's defects that leave its memory unsound are avoided too: U1 and U2 (only forked streams of a
capture are recorded inside it, each in one capture only), U3 (where memory can run out, the split
limit is not lowered, and expandable segments are not switched on beside it), U4 (a pool of expandable
segments is released when its blocks are free), U8 (an ordered error meets the first page of a growth).
A history ring that is made smaller is cleared, since upstream would write behind it.
"""

import sys

import generator_command
from rough_profiles import COMMON_ACTIONS, EXTRA_ACTIONS, NEWER_ACTIONS, PROFILES
from rough_settings import SettingActions


class Generator(SettingActions):
    def __init__(self, profile, seed, config="", release="2.11"):
        super().__init__(profile, seed, config, release)
        self.actions = self.weigh_actions()

    def weigh_actions(self):
        weights = dict(COMMON_ACTIONS)
        extras = [EXTRA_ACTIONS[self.profile]]
        extras += [actions for minor, actions in NEWER_ACTIONS.items() if self.minor >= minor]
        for extra in extras:
            for name, weight in extra.items():
                weights[name] = weights.get(name, 0) + weight
        if self.profile == "history":
            for name in ("ask_context", "annotate"):
                if name in weights:
                    weights[name] *= 4
        return {getattr(self, name): weight for name, weight in weights.items()}

    def generate(self, operations):
        self.begin()
        actions, weights = list(self.actions), list(self.actions.values())
        first = len(self.lines)
        while len(self.lines) < first + operations:
            self.draw.choices(actions, weights)[0]()
        self.end()
        return "".join(line + "\n" for line in self.lines)

    # ---- The frame

    def begin(self):
        self.say(f"config {self.config}")
        if self.options.expandable and self.chance(0.08):
            self.say("env TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=0")
        devices = f" {self.devices}" if self.devices > 1 else ""
        self.say(f"device {self.total} {self.seed}{devices}")
        words = self.log_words()
        if words:
            self.say("log " + " ".join(words))
        if self.may_expand and self.chance(0.3):
            self.say(f"fabric {self.draw.choice([0, 801, 801, 800])}")
        if self.minor >= 13 and self.may_expand and self.chance(0.3):
            self.say(f"fabric_device {self.draw.choice([1, 1, 0, -1])}")
        if self.profile == "history":
            self.history()

    def log_words(self):
        chances = {"observer": 0.6, "handles": 0.2, "capture_mode": 0.1, "metadata": 0.2}
        chances["context"] = 0.8 if self.profile == "history" else 0.1
        # The order in which several queues are asked is not specified.
        chances["query"] = 0 if self.many_queues else 0.15
        if self.minor >= 12:
            chances["rejection"] = 0.6
        if self.minor >= 13:
            chances["counter"] = 0.15
        return [word for word, chance in chances.items() if self.chance(chance)]

    def end(self):
        self.end_capture()
        while self.routes:
            self.leave_pool()
        if not self.caching:
            self.switch_caching()
        if self.profile in ("faults", "everything", "fallback"):
            self.say("fail 0")
            self.say("error 0")
        self.settle()
        self.say("stats")
        self.say("snapshot")
        for block in list(self.blocks) + list(self.raw_blocks):
            self.free_block(block)
        self.settle()
        self.say("empty")
        self.say("stats")

    # ---- The cache and the limit

    def empty(self):
        if len(self.queues.waiting()) > 1:
            self.settle()
        self.say("empty")
        if self.many_queues:
            # Emptying may have finished a stream's work.
            self.say("sync")
            self.queues.finish_all()

    def fraction(self):
        values = ["1", "0.9", "0.6", "0.99999"]
        wrong = ["1.5", "-0.1", "nan"]
        self.say("fraction " + self.draw.choice(wrong if self.chance(0.1) else values))
        if self.chance(0.3):
            self.say("get_fraction")
        if self.is_tight and self.chance(0.3):
            self.say(f"fraction {self.draw.choice(['0.3', '0.1', '0.05', '0'])}")
            for _ in range(self.draw.randint(1, 8)):
                self.allocate()
            self.say("fraction 1")

    def callback(self):
        plain = [i for i, b in self.blocks.items() if b.recorded is None and not b.armed]
        armed = self.draw.sample(plain, min(len(plain), self.draw.randint(1, 3)))
        if not armed:
            return
        self.say("callback " + " ".join(map(str, armed)))
        for block_id in armed:
            self.blocks[block_id].armed = True
        if self.chance(0.6):
            self.allocate_large()

    def peer(self):
        if self.devices > 1:
            pair = [0, self.draw.randint(1, self.devices - 1)]
            if self.chance(0.7):
                pair.reverse()
            self.say(f"peer {pair[0]} {pair[1]}")

    # ---- Faults

    def fail(self):
        self.say(f"fail {self.draw.choice([1, 1, 2, 3])} {self.draw.choice([0, 0, 1, 2, 5])}")
        if self.chance(0.7):
            self.allocate_large()

    def error(self):
        # At a later page of a growth an error leaves pages behind (U8).
        after = 0 if self.may_expand else self.draw.choice([0, 0, 1, 2])
        self.say(f"error {self.draw.choice([1, 700, 800, 801, 999])} {after}")
        if self.chance(0.7):
            self.allocate_large()

    def pending_error(self):
        self.say(f"pending_error {self.draw.choice([1, 700])}")
        if self.chance(0.5):
            self.allocate()

    def fail_own(self):
        self.say(f"own_fail {self.draw.choice([0, 1, 2, 4])}")

    # ---- Reports

    def reset(self):
        self.say(self.draw.choice(["reset_peak", "reset_accumulated"]))

    def report(self):
        questions = ["stats", "stats", "largest 0", "largest 100000000", "expandable_sizes"]
        questions += ["get_fraction", "is_enabled"]
        if self.blocks:
            questions += [f"base {self.draw.choice(list(self.blocks))}"] * 2
        if self.chance(0.1):
            questions = ["snapshot"]
        self.say(self.draw.choice(questions))


def generate(profile, seed, operations, config="", release="2.11"):
    """The script of these arguments, as text."""
    return Generator(profile, seed, config, release).generate(operations)


if __name__ == "__main__":
    generator_command.run(sys.modules[__name__])
