# SPDX-License-Identifier: MIT OR Apache-2.0
"""What gen_rough.py must know of its own script, so that no unspecified order shows in it.

The model is careful where it cannot know (an allocation may have failed, a callback may not have
run yet): it then takes more blocks for live, and more events for waiting, than there are.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

MiB = 1 << 20


class Queues:
    """The events that no allocation has seen yet, stream by stream, and the streams' work."""

    def __init__(self):
        self.submitted = Counter()
        self.completed = Counter()
        # For each stream the work that each event waits for; None while its recording is deferred.
        self.events = {}

    def begin_work(self, stream):
        self.submitted[stream] += 1

    def step_work(self, stream):
        self.completed[stream] = min(self.submitted[stream], self.completed[stream] + 1)

    def finish_work(self, stream):
        self.completed[stream] = self.submitted[stream]

    def finish_all(self):
        self.completed = Counter(self.submitted)

    def is_busy(self, stream):
        return self.completed[stream] < self.submitted[stream]

    def record(self, stream, deferred=False):
        mark = None if deferred else self.submitted[stream]
        self.events.setdefault(stream, []).append(mark)

    def waiting(self):
        return set(self.events)

    def ripe(self):
        """The streams whose oldest event is done, so that an allocation completes it."""
        return {
            stream
            for stream, marks in self.events.items()
            if marks[0] is None or marks[0] <= self.completed[stream]
        }

    def process(self):
        """What an allocation does: records deferred events and drops those that are done."""
        for stream, marks in list(self.events.items()):
            marks = [self.submitted[stream] if mark is None else mark for mark in marks]
            while marks and marks[0] <= self.completed[stream]:
                marks.pop(0)
            if marks:
                self.events[stream] = marks
            else:
                del self.events[stream]


@dataclass
class Block:
    """A tensor's block that is live, as far as is known."""

    # None: not certain.
    stream: int
    pool: str = None
    # The foreign stream that it is recorded on, and whether that was inside a capture.
    recorded: int = None
    recorded_inside: bool = False
    # The callback may free it at any time.
    armed: bool = False


@dataclass
class Pool:
    """A private pool that can be routed to."""

    count: int = 1
    own: bool = False
    # May own expandable memory.
    expandable: bool = False
    # Was opted in for fallback at some time: its use count is not certain.
    opted: bool = False
    blocks: set = field(default_factory=set)


@dataclass
class Route:
    """An entry of the routing list. stream: "" all, "never" none, else the only one."""

    pool: str
    stream: str

    def accepts(self, stream):
        return self.stream == "" or self.stream == f"{stream:#x}"


@dataclass
class Capture:
    """A stream capture under way."""

    number: int
    pool: str
    main: int
    marked: bool
    # The main stream and those that it has forked.
    streams: list = field(default_factory=list)


class Options:
    """The options whose values the script must know."""

    UNLIMITED = 1 << 60

    def __init__(self, config):
        self.max_split = self.UNLIMITED
        self.large_segment = 20
        self.expandable = False
        self.reuse = False
        self.apply(config)

    def apply(self, string):
        """A settings call with a valid string."""
        self.max_split = self.UNLIMITED
        for name, value in re.findall(r"(\w+):([^,\[]+)", string):
            if name == "max_split_size_mb":
                self.max_split = int(value)
            elif name == "large_segment_size_mb":
                self.large_segment = int(value)
            elif name == "expandable_segments":
                self.expandable = value == "True"
            elif name == "graph_capture_record_stream_reuse":
                self.reuse = value == "True"
