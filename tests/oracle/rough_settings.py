# SPDX-License-Identifier: MIT OR Apache-2.0
"""The actions of gen_rough.py that change options and the recording of the history."""

import sys

from gen import MiB
from rough_pools import PoolActions
from script_model import Options

ACTIONS = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free"]
ACTIONS += ["segment_map", "segment_unmap", "snapshot", "oom"]

ROUNDUPS = ["1", "4", "8", "[1:2,4:8,64:4,256:1,>:2]", "[64:8,256:4]", "[>:8]"]
BOOLEANS = ["True", "False"]
# Options that the script need not know of, without values that a later string might make wrong.
OPTION_VALUES = {
    "max_non_split_rounding_mb": ["64", "128", "300"],
    "garbage_collection_threshold": ["0.3", "0.5", "0.8", ".05"],
    "roundup_power2_divisions": ROUNDUPS,
    "release_lock_on_cudamalloc": BOOLEANS,
    "per_process_memory_fraction": ["0.5", "1", "0.0"],
    "pinned_num_register_threads": ["1", "8"],
    "pinned_use_background_threads": BOOLEANS,
    "pinned_use_cuda_host_register": BOOLEANS,
    "pinned_reserve_segment_size_mb": ["8"],
}
NEWER_OPTION_VALUES = {
    12: {"throw_on_cudamalloc_oom": BOOLEANS, "pinned_free_catch_all": BOOLEANS},
    13: {"pinned_max_round_threshold_mb": ["16", "64"], "pinned_max_cached_size_mb": ["64", "0"]},
    15: {
        "expandable_segments_reserve": ["0.25", "2G", ".5", "zz", "0.01"],
        "expandable_segments_reserve_by_class": ["[a:0.1,b:2G]", "[]", "[c:0.02,a:1e-1]"],
    },
}
WRONG_OPTIONS = [
    "foo:1",
    "garbage_collection_threshold:1.5",
    "max_split_size_mb:abc",
    "max_split_size_mb:19",
    "roundup_power2_divisions:3",
    "roundup_power2_divisions:[3:4]",
    "release_lock_on_cudamalloc:true",
    "pinned_num_register_threads:3",
    "per_process_memory_fraction:1.1",
    "max_non_split_rounding_mb:1",
    "roundup_power2_divisions:[64:8",
    "max_split_size_mb",
    "garbage_collection_threshold:1e-400",
]


class SettingActions(PoolActions):
    # ---- History

    def history(self):
        draw = self.draw
        level = draw.choice(["all", "all", "alloc", "state", "never", "off"])
        entries = draw.choice([0, 1, 3, 10, 60, 200])
        if entries >= 60 and not self.is_tight and self.chance(0.2):
            self.fill_ring(level, entries)
            entries = 3
            clear = False
        else:
            # A ring that has turned and is then made smaller lets upstream write behind it.
            clear = entries < self.ring or self.chance(0.3)
        line = f"history {level} {entries}" + (" clear" if clear else "")
        if self.chance(0.2):
            known = ACTIONS + (["annotate"] if self.minor >= 14 else [])
            line += " " + " ".join(draw.sample(known, draw.randint(1, 3)))
            if self.chance(0.1):
                # The call is refused, and the ring stays as it is.
                return self.say(line + " nonsense")
        self.say(line)
        self.ring = sys.maxsize if level == "off" else entries

    def fill_ring(self, level, entries):
        """Puts a few entries into an empty ring, so that it has not turned."""
        self.say(f"history {level} {entries} clear")
        for _ in range(3):
            self.allocate(self.draw.randint(1, MiB))

    def trace(self):
        self.say("trace")

    def metadata(self):
        texts = ["", "outer", "layer 7", "two  blanks", "step=3", "quoted \"text\""]
        self.say(f"metadata {self.draw.choice(texts)}".rstrip())

    def log(self):
        self.say("log " + self.draw.choice(["context", "metadata", "observer"]))

    def ask_context(self):
        if self.past:
            self.say(f"context_of {self.draw.choice(self.past[-60:])}")

    def annotate(self):
        tensors = list(self.blocks)
        if self.chance(0.1):
            self.say(self.draw.choice(["annotate_at 1234 nothing", "annotate_at 0 nothing"]))
        elif self.chance(0.05):
            self.say("supports_metadata")
        elif tensors:
            self.say(f"annotate {self.draw.choice(tensors)} note {len(self.lines)}")

    # ---- Settings

    def option_string(self):
        draw = self.draw
        values = {key: draw.choice(choices) for key, choices in OPTION_VALUES.items()}
        for minor, newer in NEWER_OPTION_VALUES.items():
            if self.minor >= minor:
                values.update({key: draw.choice(choices) for key, choices in newer.items()})
        if self.may_switch_expandable:
            values["expandable_segments"] = draw.choice(BOOLEANS)
        if not self.capture:
            values["graph_capture_record_stream_reuse"] = draw.choice(BOOLEANS)
        large = draw.choice([20, 32, 64, 21])
        # A page that the driver refuses counts as out of memory in 2.11: no case for roomy devices.
        odd_is_fine = self.is_tight or self.minor >= 13
        if large <= self.options.max_split and (large != 21 or odd_is_fine):
            values["large_segment_size_mb"] = str(large)
        keys = draw.sample(sorted(values), draw.randint(0, 4))
        parts = [f"{key}:{values[key]}" for key in keys]
        return ",".join(self.split_limit() + parts)

    def split_limit(self):
        if self.is_tight:
            # Lowering it is U3; a call that leaves it out raises it for good.
            unlimited = self.options.max_split == Options.UNLIMITED
            return [] if unlimited else [f"max_split_size_mb:{self.options.max_split}"]
        limit = self.draw.choice([64, 100, 512, None, None])
        return [f"max_split_size_mb:{limit}"] if limit else []

    def set_options(self):
        string = self.option_string()
        self.say(f"set {string}")
        self.options.apply(string)
        if self.chance(0.2):
            self.settings()

    def set_wrongly(self):
        """A call that fails has reset some options and applied those before the fault."""
        parts = self.split_limit()
        self.options.apply(",".join(parts))
        self.say("set " + ",".join(parts + [self.draw.choice(WRONG_OPTIONS)]))
        if self.chance(0.3):
            self.settings()

    def settings(self):
        self.say("settings")

    def switch_caching(self):
        if self.routes or self.capture:
            return
        self.caching = not self.caching
        self.say(f"enable {int(self.caching)}")

    def reserve(self):
        draw = self.draw
        if not self.may_expand:
            return
        stream = f"{draw.choice(self.streams):#x}"
        choices = [
            f"reserve_class {stream} {draw.choice('abcd')}",
            f"reserve_class {stream}",
            f"reserve_class_of {stream}",
            f"reserve_of {draw.choice('abcd')}",
            "reserve_of",
            "expandable_totals",
            f"default_reserve {draw.choice('abc')} {draw.choice([.05, .3])}",
        ]
        self.say(draw.choice(choices))
