# SPDX-License-Identifier: MIT OR Apache-2.0
"""The actions of gen_rough.py on blocks and streams, and the state that all actions share."""

import random

from gen import GiB, MiB, draw_size
from rough_profiles import TIGHT_PROFILES
from script_model import Block, Options, Queues


class BlockActions:
    def __init__(self, profile, seed, config="", release="2.11"):
        self.profile = profile
        self.seed = seed
        self.minor = int(release.split(".")[1])
        self.draw = random.Random(f"rough/{profile}/{seed}")
        self.config = config
        if profile in ("captures", "everything") and self.chance(0.5):
            self.config = ",".join(filter(None, [config, "graph_capture_record_stream_reuse:True"]))
        self.options = Options(self.config)
        # Several streams with unseen events at a time, where nothing waits for all of them.
        self.many_queues = profile == "streams" and not self.has_limit()
        self.is_tight = profile in TIGHT_PROFILES or self.has_limit() or self.chance(0.3)
        self.is_tight &= not self.many_queues
        # Plain blocks that are split while expandable segments are on can be oversize pieces (U3).
        self.may_switch_expandable = profile in ("settings", "everything") and (
            self.options.max_split == Options.UNLIMITED or not self.is_tight
        )
        self.may_expand = self.options.expandable or self.may_switch_expandable
        self.total = self.draw.choice([600 * MiB, GiB, 2 * GiB]) if self.is_tight else 60 * GiB
        self.devices = self.draw.choice([2, 3, 4]) if self.chance(0.15) else 1
        self.streams = [0, 0x1000, 0x2000, 0x3000][: self.draw.choice([1, 2, 4, 4])]
        if self.many_queues:
            self.streams = [0, 0x1000, 0x2000, 0x3000, 0x4000]
        self.budget = self.draw.choice([8, 20, 40] if self.is_tight else [8, 40, 120])
        self.lines = []
        self.last_id = 0
        self.blocks = {}
        self.raw_blocks = {}
        self.past = []
        self.queues = Queues()
        # The block whose free waits for the end of a capture or of routing.
        self.deferred = None
        self.current = 0
        self.caching = True
        self.pools = {}
        self.pool_number = 0
        self.gone_pools = []
        self.routes = []
        self.released_pool = None
        self.fallback_pool = None
        self.capture = None
        self.capture_number = 0
        self.side_stream = 0x50000
        # The entries that the history keeps.
        self.ring = 1
        self.slots = list(range(200))
        self.draw.shuffle(self.slots)

    def has_limit(self):
        return "per_process_memory_fraction" in self.config

    def chance(self, probability):
        return self.draw.random() < probability

    def say(self, line):
        self.lines.append(line.rstrip() if line.startswith("pool") else line)

    # ---- What the allocator does by itself

    def is_frozen(self, stream):
        """Whether an operation under this current stream sees no events and defers frees."""
        if self.minor < 13:
            return bool(self.routes)
        return bool(self.capture and self.capture.marked and stream in self.capture.streams)

    def is_captured(self, stream):
        return bool(self.capture) and stream in self.capture.streams

    def note_processing(self, size):
        """After an allocation: what it has surely done about waiting frees."""
        if not self.caching or self.is_frozen(self.current) or not 0 < size < 1 << 60:
            return
        self.queues.process()
        self.deferred = None

    def pool_for(self, stream):
        if not self.caching:
            return None
        accepting = (route.pool for route in reversed(self.routes) if route.accepts(stream))
        return next(accepting, None)

    def all_pools(self):
        released = [self.released_pool[1]] if self.released_pool else []
        return list(self.pools.values()) + released

    def note_owner(self, block_id, stream):
        pool = self.pools.get(self.pool_for(stream))
        if pool is None:
            return None
        pool.blocks.add(block_id)
        pool.expandable |= self.options.expandable and not pool.own
        return self.pool_for(stream)

    # ---- Allocation

    def size(self):
        if self.is_tight and self.chance(0.25):
            return self.draw.randint(1, self.total // MiB // 4) * MiB
        return draw_size(self.draw, self.draw.choice(["mixed", "mixed", "small", "edge", "large"]))

    def stream(self):
        if self.capture and self.chance(0.6):
            return self.draw.choice(self.capture.streams)
        return self.draw.choice(self.streams)

    def allocate(self, size=None, stream=None):
        if size is None and len(self.blocks) >= self.budget:
            return self.free()
        stream = self.stream() if stream is None else stream
        size = self.size() if size is None else size
        self.last_id += 1
        self.say(f"a {self.last_id} {size} {stream:#x}")
        self.current = stream
        self.note_processing(size)
        self.blocks[self.last_id] = Block(stream, self.note_owner(self.last_id, stream))
        self.past.append(self.last_id)
        return self.last_id

    def allocate_large(self):
        self.allocate(self.draw.randint(1, self.total // MiB // 2) * MiB)

    def allocate_odd(self):
        sizes = [0, 0, 1 << 60]
        # A pool's own allocator gives whatever it is asked for.
        if not any(pool.own for pool in self.all_pools()):
            sizes += [(1 << 60) - 1, 1 << 59]
        self.allocate(self.draw.choice(sizes))

    def allocate_raw(self):
        if len(self.raw_blocks) >= self.budget:
            return
        stream = self.stream()
        # With caching off a raw request of 0 bytes makes no call, unlike that of a tensor.
        size = 0 if self.caching and self.chance(0.02) else self.size()
        self.last_id += 1
        self.say(f"raw {self.last_id} {size} {stream:#x}")
        self.note_processing(size)
        self.raw_blocks[self.last_id] = self.caching
        self.note_owner(self.last_id, stream)

    def allocate_at(self):
        # The front part is split off whatever the split limit says (U3).
        if not self.past or (self.is_tight and self.options.max_split != Options.UNLIMITED):
            return
        draw = self.draw
        self.last_id += 1
        stream = self.stream()
        sizes = [0, 1, 512, 1000, draw.randint(1, MiB), draw.randint(1, 25 * MiB)]
        offsets = [0, 0, 0, 512, 1024, 512 * draw.randint(0, 3000), MiB * draw.randint(0, 20)]
        offset = draw.choice(offsets + [-512 * draw.randint(0, 1000), 7])
        reference = draw.choice(self.past[-60:])
        self.say(f"at {self.last_id} {draw.choice(sizes)} {stream:#x} {reference} {offset}")
        self.current = stream
        self.blocks[self.last_id] = Block(stream, self.note_owner(self.last_id, stream))

    def reuse_id(self):
        """An id in use: its old block is freed after the new allocation, if that works."""
        plain = [i for i, b in self.blocks.items() if b.recorded is None and not b.armed]
        if not plain or self.routes:
            return
        block_id = self.draw.choice(plain)
        if self.blocks[block_id].pool is not None:
            return
        size, stream = self.size(), self.stream()
        self.say(f"a {block_id} {size} {stream:#x}")
        self.current = stream
        self.note_processing(size)
        # If the allocation failed the old block is still there.
        self.blocks[block_id].stream = None

    def delete(self):
        if self.caching:
            self.say(self.draw.choice(["delete 0x0", "delete 1234", "delete 7fffffffff00"]))

    def change_current(self):
        self.current = self.stream()
        self.say(f"current {self.current:#x}")

    def addresses(self):
        """Segments in another order of addresses than that in which they are obtained."""
        slots = [self.slots.pop() for _ in range(self.draw.randint(1, 3)) if self.slots]
        if slots:
            text = " ".join(f"{0x300000000000 + (slot << 37):x}" for slot in slots)
            self.say(f"addresses {text}")

    # ---- Free

    def free(self):
        candidates = list(self.blocks) + list(self.raw_blocks)
        if candidates:
            self.free_block(self.draw.choice(candidates))

    def free_block(self, block_id):
        """Frees a block, unless an unspecified order would show. Returns whether it is free."""
        if block_id in self.raw_blocks:
            # The raw free acts by the mode in force, so it must be the one of the allocation.
            if self.raw_blocks[block_id] != self.caching:
                return False
            del self.raw_blocks[block_id]
        else:
            block = self.blocks[block_id]
            if block.recorded is not None and not self.note_waiting_free(block_id, block):
                return False
            del self.blocks[block_id]
        for pool in self.all_pools():
            pool.blocks.discard(block_id)
        self.say(f"f {block_id}")
        return True

    def note_waiting_free(self, block_id, block):
        if self.is_frozen(self.current):
            return self.note_deferred_free(block_id, block)
        if not self.may_record_event(block.recorded) and not self.settle():
            return False
        # Settling allocates, on a stream under which this free might be deferred after all.
        if self.is_frozen(self.current):
            return self.note_deferred_free(block_id, block)
        self.queues.record(block.recorded)
        return True

    def note_deferred_free(self, block_id, block):
        if self.deferred is not None:
            return False
        if not block.recorded_inside:
            if self.queues.waiting() - {block.recorded}:
                return False
            self.queues.record(block.recorded, deferred=True)
        self.deferred = block_id
        return True

    def may_record_event(self, stream):
        others = self.queues.waiting() - {stream}
        if not others:
            return True
        return self.many_queues and self.queues.is_busy(stream)

    # ---- Streams

    def record(self):
        stream = self.recorded_stream()
        if stream is None:
            return
        fitting = [
            i
            for i, b in self.blocks.items()
            if b.recorded in (None, stream) and not b.armed and b.stream != stream
        ]
        if not fitting:
            return
        block_id = self.draw.choice(fitting)
        if self.chance(0.6 if not self.many_queues else 0.95):
            self.begin_work(stream)
        self.record_block(block_id, stream)
        own_stream = self.blocks[block_id].stream
        if own_stream is not None and self.chance(0.05):
            self.say(f"r {block_id} {own_stream:#x}")
        if self.chance(0.4):
            self.free_block(block_id)

    def recorded_stream(self):
        """A stream whose use is not forgotten (U1): inside a capture one that it has forked."""
        if self.is_frozen(self.current):
            streams = self.capture.streams[1:] if self.capture else []
        else:
            streams = [s for s in self.streams if not self.is_captured(s)]
        return self.draw.choice(streams) if streams else None

    def record_block(self, block_id, stream):
        self.say(f"r {block_id} {stream:#x}")
        self.blocks[block_id].recorded = stream
        self.blocks[block_id].recorded_inside |= self.is_frozen(self.current)

    def begin_work(self, stream):
        self.say(f"work {stream:#x}")
        self.queues.begin_work(stream)

    def change_work(self):
        stream = self.draw.choice(self.streams)
        if self.chance(0.3):
            return self.begin_work(stream)
        if self.chance(0.1) and len(self.queues.waiting()) <= 1:
            self.say("sync")
            return self.queues.finish_all()
        if self.queues.ripe() - {stream}:
            return self.settle()
        if self.chance(0.5):
            self.say(f"step {stream:#x}")
            self.queues.step_work(stream)
        else:
            self.finish_work(stream)

    def finish_work(self, stream):
        self.say(f"done {stream:#x}")
        self.queues.finish_work(stream)

    def settle(self):
        """Lets allocations see all events, one stream's after the other. False if none can."""
        streams = [s for s in self.streams if not self.is_frozen(s)]
        if not self.caching or not streams:
            return False
        ripe = self.queues.ripe()
        waiting = sorted(self.queues.waiting(), key=lambda s: (s not in ripe, s))
        if self.deferred is not None and not waiting:
            self.allocate(512, streams[0])
        for stream in waiting:
            self.finish_work(stream)
            self.allocate(512, streams[0])
        return True
