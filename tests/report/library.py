# SPDX-License-Identifier: MIT OR Apache-2.0
"""Replays of the first events of a trace by the shared library, and what its snapshot says then."""
import ctypes
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p

from page_data import Sums

READ = ctypes.CFUNCTYPE(c_int64, c_void_p, c_void_p, c_size_t)



class ReplayOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("config", c_char_p), ("release", c_int32), ("expect", c_int32),
                ("capacity", c_uint64), ("fraction", c_double), ("progress", c_void_p), ("progress_user_data", c_void_p),
                ("policy", c_int32), ("thrift", c_int32), ("borrow", c_int32), ("streams", c_int32),
                ("page_bytes", c_uint64), ("stop_at_out_of_memory", c_int32), ("history", c_int32),
                ("observer", c_void_p), ("observer_user_data", c_void_p),
                ("event_count", c_uint64)]


class SegmentRow(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("device", c_int32), ("is_large", c_int32), ("address", c_uint64),
                ("total_size", c_uint64), ("allocated_size", c_uint64), ("active_size", c_uint64),
                ("requested_size", c_uint64), ("stream", c_uint64), ("pool", c_uint64 * 2), ("is_expandable", c_int32),
                ("reserved_0", c_int32), ("number", c_int64), ("context", c_uint64), ("first_block", c_size_t),
                ("block_count", c_size_t)]


class BlockRow(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("address", c_uint64), ("size", c_uint64), ("requested_size", c_uint64),
                ("state", c_int32), ("reserved_0", c_int32), ("context", c_uint64)]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name in ("segment_count", "block_count"):
            getattr(self.c, f"cachalot_snapshot_{name}").restype = c_size_t
        self.c.cachalot_replay_allocator.restype = c_void_p

    def call(self, name, *arguments):
        status = getattr(self.c, name)(*arguments)
        assert status == 0, f"{name} returned {status}"

    def read(self, text):
        rest = [text.encode()]

        def read(_, buffer, capacity):
            part, rest[0] = rest[0][:capacity], rest[0][capacity:]
            ctypes.memmove(buffer, part, len(part))
            return len(part)

        trace = c_void_p()
        self.call("cachalot_trace_read", READ(read), None, byref(trace), None)
        return trace

    def sums(self, trace, moment, capacity=0, config=None):
        """What the snapshot says when the events up to this one have been replayed."""
        options = ReplayOptions(ctypes.sizeof(ReplayOptions), config, capacity=capacity, event_count=moment + 1)
        replay = c_void_p()
        self.call("cachalot_replay_run", trace, byref(options), byref(replay), None)
        snapshot = c_void_p()
        allocator = c_void_p(self.c.cachalot_replay_allocator(replay))
        self.call("cachalot_snapshot_take", allocator, None, byref(snapshot), None)
        sums = self.sums_of(snapshot)
        self.c.cachalot_snapshot_destroy(snapshot)
        self.c.cachalot_replay_destroy(replay)
        return sums

    def rows(self, snapshot, kind, row_type):
        count = getattr(self.c, f"cachalot_snapshot_{kind}_count")(snapshot)
        for i in range(count):
            row = row_type(ctypes.sizeof(row_type))
            self.call(f"cachalot_snapshot_{kind}", snapshot, c_size_t(i), byref(row))
            yield row

    def sums_of(self, snapshot):
        sums = Sums()
        for row in self.rows(snapshot, "segment", SegmentRow):
            sums.reserved += row.total_size
            sums.live += row.allocated_size
            sums.pending += row.active_size - row.allocated_size
            sums.requested += row.requested_size
        sums.blocks = sum(row.state == 1 for row in self.rows(snapshot, "block", BlockRow))
        return sums

    def destroy(self, trace):
        self.c.cachalot_trace_destroy(trace)
