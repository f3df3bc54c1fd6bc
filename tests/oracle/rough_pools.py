# SPDX-License-Identifier: MIT OR Apache-2.0
"""The actions of gen_rough.py on private pools and captures."""

from rough_blocks import BlockActions
from script_model import Capture, Pool, Route


class PoolActions(BlockActions):
    # ---- Pools

    def pool_flags(self):
        flags = []
        if self.chance({"own": 0.8, "fallback": 0.2}.get(self.profile, 0.15)):
            flags.append("own")
        if self.chance(0.15):
            flags.append("no_split")
        if self.fallback_pool is None and self.chance(0.6 if self.profile == "fallback" else 0.1):
            flags.append("use_on_oom")
        return flags

    def create_pool(self):
        if len(self.pools) >= 4:
            return self.drop_pool()
        if self.gone_pools and self.chance(0.3):
            name = self.gone_pools.pop()
        else:
            self.pool_number += 1
            name = str(self.pool_number)
        flags = self.pool_flags()
        self.say(f"pool_create {name} {' '.join(flags)}")
        self.pools[name] = Pool(own="own" in flags, opted="use_on_oom" in flags)
        if "use_on_oom" in flags:
            self.fallback_pool = name

    def join_pool(self):
        if self.pools:
            name = self.draw.choice(list(self.pools))
            self.say(f"pool_create {name}")
            self.pools[name].count += 1

    def routed_pools(self):
        return [route.pool for route in self.routes]

    def route(self, name, stream):
        """Begins the routing; an unknown pool is made by it."""
        self.say(f"pool_begin {name} {stream}")
        if name in self.pools:
            self.pools[name].count += 1
        else:
            self.pools[name] = Pool()
        self.routes.append(Route(name, stream))

    def enter_pool(self):
        free_pools = [name for name in self.pools if name not in self.routed_pools()]
        if len(self.routes) >= 3 or not self.caching:
            return
        if free_pools and self.chance(0.85):
            name = self.draw.choice(free_pools)
        else:
            self.pool_number += 1
            name = str(self.pool_number)
        streams = ["", "", f"{self.draw.choice(self.streams):#x}"]
        if self.profile in ("routing", "everything", "fallback"):
            streams.append("never")
        self.route(name, self.draw.choice(streams))

    def leave_pool(self):
        leavable = [r for r in self.routes if not self.capture or r.pool != self.capture.pool]
        # Refused if memory was recovered under it in the capture that is under way.
        may_be_refused = self.capture and self.options.reuse
        if not leavable or may_be_refused:
            return
        route = leavable[-1] if self.chance(0.7) else self.draw.choice(leavable)
        self.unroute(route)
        if self.pools[route.pool].count > 1 and self.chance(0.85):
            self.say(f"pool_release {route.pool}")
            self.pools[route.pool].count -= 1

    def unroute(self, route):
        self.say(f"pool_end {route.pool}")
        self.routes.remove(route)

    def may_synchronize(self):
        """Whether emptying a pool is no internal error."""
        return not self.is_frozen(self.current)

    def bury_released_pool(self):
        """Gives all memory of the released pool back. False if that cannot be now."""
        if self.released_pool is None:
            return True
        name, pool = self.released_pool
        if not self.may_synchronize() or not self.free_blocks_of(pool):
            return False
        self.say(f"pool_empty {name}")
        self.forget_released_pool()
        return True

    def forget_released_pool(self):
        """The pool's memory is given back: if its use count is certain, it is gone."""
        name, pool = self.released_pool
        self.released_pool = None
        if not pool.expandable and not pool.opted:
            self.gone_pools.append(name)

    def free_blocks_of(self, pool):
        # Settling the deferred free takes a new block, which may be of this pool again.
        for _ in range(4):
            # Fallback may have served any request from an opted pool.
            blocks = [*self.blocks, *self.raw_blocks] if pool.opted else sorted(pool.blocks)
            if not blocks:
                break
            if not all([self.free_block(block_id) for block_id in blocks]):
                return False
            if self.deferred is not None:
                self.settle()
        return self.deferred is None

    def drop_pool(self):
        idle = [name for name in self.pools if name not in self.routed_pools()]
        if not idle or not self.may_synchronize() or not self.bury_released_pool():
            return
        name = self.draw.choice(idle)
        pool = self.pools[name]
        # A failed growth may have left it an empty segment, which upstream loses sight of (U4).
        if pool.expandable and self.is_tight and self.chance(0.9):
            return
        must_be_free = pool.expandable or pool.opted
        if (must_be_free or self.chance(0.5)) and not self.free_blocks_of(pool):
            return
        if name == self.fallback_pool and self.chance(0.8):
            self.say(f"pool_oom_off {name}")
            self.fallback_pool = None
        for _ in range(pool.count):
            self.say(f"pool_release {name}")
        del self.pools[name]
        self.released_pool = (name, pool)
        # Upstream may keep a pool of expandable segments that is empty (U4): it is left alone.
        if pool.expandable or self.chance(0.6):
            self.say(f"pool_empty {name}")
            if not pool.blocks:
                self.forget_released_pool()

    def change_fallback(self):
        if self.fallback_pool is not None:
            self.say(f"pool_oom_off {self.fallback_pool}")
            self.fallback_pool = None
        elif self.pools:
            self.fallback_pool = self.draw.choice(list(self.pools) + ["98"])
            self.say(f"pool_oom_on {self.fallback_pool}")
            if self.fallback_pool in self.pools:
                self.pools[self.fallback_pool].opted = True

    def ask_pool(self):
        names = list(self.pools) + ["99"]
        if self.released_pool:
            names.append(self.released_pool[0])
        name = self.draw.choice(names)
        blocks = [i for i in self.pools[name].blocks] if name in self.pools else []
        live = " ".join(str(i) for i in sorted(blocks) if i in self.blocks)
        question = self.draw.choice(["pool_count", "pool_snapshot", "pool_live"])
        self.say(f"{question} {name} {live if question == 'pool_live' else ''}")

    def misuse_pool(self):
        """Calls that are refused, or do nothing."""
        calls = ["pool_end 99", "pool_release 99", "pool_empty 99", "pool_no_split 97"]
        idle = [name for name in self.pools if name not in self.routed_pools()]
        calls += [f"pool_end {name}" for name in idle]
        calls += [f"pool_empty {name}" for name in self.pools]
        calls += [f"pool_empty {self.released_pool[0]}"] * 2 if self.released_pool else []
        calls += [f"pool_no_split {name}" for name in idle]
        call = self.draw.choice(calls + [f"pool_begin {name}" for name in self.routed_pools()])
        self.say(call)
        if call.startswith("pool_begin"):
            # The use count is raised before the call is refused.
            self.pools[call.split()[1]].count += 1

    # ---- Captures

    def begin_capture(self):
        if self.capture or not self.caching or len(self.routes) >= 3:
            return
        graphs = [name for name in self.pools if name not in self.routed_pools()]
        self.capture_number += 1
        name = f"g{self.capture_number}"
        if graphs and self.chance(0.3):
            name = self.draw.choice(graphs)
        main = self.draw.choice(self.streams)
        self.route(name, self.draw.choice(["", f"{main:#x}"]))
        self.say(f"capture {main:#x} {self.capture_number}")
        marked = self.minor >= 13 and self.chance(0.92)
        if marked:
            self.say("capture_mark")
        self.say(f"node {main:#x}")
        self.capture = Capture(self.capture_number, name, main, marked, [main])

    def work_in_capture(self):
        if not self.capture:
            return
        main, streams = self.capture.main, self.capture.streams
        u = self.draw.random()
        if u < 0.1:
            self.fork(self.draw.choice(streams))
        elif u < 0.2 and len(streams) > 1:
            self.join(self.draw.choice(streams[1:]))
        elif u < 0.3:
            self.say(f"node {self.draw.choice(streams):#x}")
        elif u < 0.6:
            self.allocate(self.size(), main)
        elif u < 0.7:
            self.allocate(self.size(), self.draw.choice(streams))
        elif u < 0.8:
            self.record()
        else:
            self.free()

    def fork(self, stream):
        # Each forked stream is of one capture only: what is remembered of it must not matter later.
        self.side_stream += 0x1000
        self.say(f"fork {stream:#x} {self.side_stream:#x}")
        self.say(f"node {self.side_stream:#x}")
        self.capture.streams.append(self.side_stream)
        return self.side_stream

    def join(self, side):
        self.say(f"join {self.capture.main:#x} {side:#x}")
        self.say(f"node {self.capture.main:#x}")

    def fork_and_join(self):
        """A free that waits for a forked stream, which joins: with the reuse option it is found."""
        if not self.capture or self.deferred is not None:
            return
        main = self.capture.main
        block_id = self.allocate(self.size(), main)
        side = self.fork(main)
        self.record_block(block_id, side)
        if not self.free_block(block_id):
            return
        if self.chance(0.5):
            self.allocate(self.size(), main)
        if self.chance(0.2):
            return
        self.join(side)
        self.allocate(max(1, self.size()), main)
        if self.options.reuse and self.is_frozen(main):
            self.deferred = None

    def end_capture(self):
        if not self.capture:
            return
        capture = self.capture
        route = next(route for route in self.routes if route.pool == capture.pool)
        too_early = self.chance(0.03)
        if too_early:
            # Refused if memory was recovered in the capture; then the second time ends it.
            self.say(f"pool_end {capture.pool}")
        self.say(f"capture_end {capture.number}")
        if capture.marked:
            self.say("capture_unmark")
        elif self.minor >= 13 and self.chance(0.3):
            self.say("capture_unmark")
        self.unroute(route)
        self.capture = None
