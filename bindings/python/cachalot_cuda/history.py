# SPDX-License-Identifier: MIT OR Apache-2.0
"""History and snapshots, in the form of torch.cuda.memory._snapshot."""

import contextlib
import ctypes
import re

from . import _c, _library
from .errors import Error, InvalidArgumentError

# A line of a context that tells all of a frame. Any other line is the frame's name.
_FRAME = re.compile(r"(.+?):([0-9]+):(.*)")

_recording = False


def record_history(enabled="all", context="all", max_entries=_c.UNLIMITED, clear=False, skip_actions=()):
    """Starts, changes or stops the recording of history on all devices.

    Args:
        enabled: None stops it; "state" keeps the contexts of live blocks; "all" keeps every event too.
        context: for what contexts are kept: None, "state", "alloc" or "all". They are those that the
            allocator was made with (`contexts` of cachalot_cuda.torch.install).
        max_entries: how many events a device keeps.
        clear: drops older events first.
        skip_actions: names of events that are not kept.
    """
    global _recording
    if enabled not in (None, "state", "all"):
        raise InvalidArgumentError(f"expected enabled to be None, 'state' or 'all', not {enabled!r}",
                                   _c.ERROR_INVALID_ARGUMENT)
    if context not in _c.CONTEXT_LEVELS:
        raise InvalidArgumentError(f"expected context to be None, 'state', 'alloc' or 'all', not {context!r}",
                                   _c.ERROR_INVALID_ARGUMENT)
    options = _c.HistoryOptions(
        enabled=int(enabled is not None),
        context=_c.CONTEXT_LEVELS[context] if enabled is not None else 0,
        max_entries=min(max_entries, _c.UNLIMITED) if enabled == "all" else 1,
        clear=int(clear),
        skip_actions=",".join(skip_actions).encode() or None)
    _library.call("record_history", _library.allocator(), ctypes.byref(options))
    _recording = enabled is not None


def is_recording():
    """Whether record_history has been switched on."""
    return _recording


@contextlib.contextmanager
def label(name):
    """What the thread allocates inside counts for this label, and carries it in the history where
    contexts are labels. Labels nest."""
    _library.call("label_push", name.encode())
    try:
        yield
    finally:
        _library.call("label_pop")


def snapshot(pool=(0, 0), with_history=True):
    """Segments, blocks and history of all devices as plain dictionaries and lists.

    Args:
        pool: the id of a private pool: its segments only.
        with_history: False leaves the history out.
    """
    with _taken(pool, with_history) as taken:
        return _Reader(taken).read()


def dump_snapshot(path, pool=(0, 0), with_history=True):
    """Writes a snapshot for the viewer at pytorch.org/memory_viz, piece by piece."""
    failures = []

    def write(_, data, size):
        try:
            file.write(ctypes.string_at(data, size))
        except OSError as error:
            failures.append(error)
        return len(failures)

    with _taken(pool, with_history) as taken, open(path, "wb") as file:
        try:
            _library.call("snapshot_write_pickle", taken, _library.allocator(), _c.WRITE_FUNCTION(write), None)
        except Error as error:
            raise (failures or [error])[0] from None


@contextlib.contextmanager
def _taken(pool, with_history):
    taken = ctypes.c_void_p()
    options = _c.SnapshotOptions(pool=_c.PoolId(*pool), without_history=int(not with_history))
    _library.call("snapshot_take", _library.allocator(), ctypes.byref(options), ctypes.byref(taken))
    try:
        yield taken
    finally:
        _library.load().cachalot_snapshot_destroy(taken)


def _frame(text):
    found = _FRAME.fullmatch(text)
    file, line, name = found.groups() if found else ("", 0, text)
    return {"name": name, "filename": file, "line": int(line)}


class _Reader:
    """Turns the rows of one snapshot into PyTorch's dictionaries."""

    def __init__(self, taken):
        self.taken = taken
        self.library = _library.load()
        self.allocator = _library.allocator()
        self.has_pool_in_entries = self.library.cachalot_allocator_release(self.allocator) > _c.RELEASES["2.11"]
        self.frames_of = {0: []}

    def read(self):
        segments = self.library.cachalot_snapshot_segment_count(self.taken)
        return {
            "segments": [self.segment(i) for i in range(segments)],
            "device_traces": [self.trace(device) for device in range(_library.device_count())],
            "allocator_settings": self.settings(),
            "external_annotations": [],
        }

    def row(self, kind, function, *index):
        row = kind()
        getattr(self.library, "cachalot_snapshot_" + function)(self.taken, *index, ctypes.byref(row))
        return row

    def frames(self, context):
        """Frames of a context; equal ones are one object, which a pickle writes once."""
        if context not in self.frames_of:
            lines = _library.text("context_text", self.allocator, context).splitlines()
            self.frames_of[context] = [_frame(line) for line in lines]
        return self.frames_of[context]

    def segment(self, index):
        row = self.row(_c.SegmentRow, "segment", index)
        blocks = range(row.first_block, row.first_block + row.block_count)
        return {
            "device": row.device,
            "address": row.address,
            "total_size": row.total_size,
            "allocated_size": row.allocated_size,
            "active_size": row.active_size,
            "requested_size": row.requested_size,
            "stream": row.stream,
            "segment_type": "large" if row.is_large else "small",
            "segment_pool_id": (row.pool.first, row.pool.second),
            "is_expandable": bool(row.is_expandable),
            "frames": self.frames(row.context),
            "blocks": [self.block(i) for i in blocks],
        }

    def block(self, index):
        row = self.row(_c.BlockRow, "block", index)
        return {
            "address": row.address,
            "size": row.size,
            "requested_size": row.requested_size,
            "state": _c.BLOCK_STATES[row.state],
            "frames": self.frames(row.context),
        }

    def trace(self, device):
        entries = self.library.cachalot_snapshot_entry_count(self.taken, device)
        return [self.entry(device, i) for i in range(entries)]

    def entry(self, device, index):
        row = self.row(_c.TraceEntry, "entry", device, index)
        entry = {
            "action": self.library.cachalot_action_name(row.action).decode(),
            "device_free" if row.action == _c.ACTION_OOM else "addr": row.address,
            "size": row.size,
            "stream": row.stream,
            "time_us": row.time_us,
            "compile_context": "N/A",
            "user_metadata": row.metadata.decode("utf-8", "replace"),
        }
        if self.has_pool_in_entries:
            entry["pool_id"] = (row.pool.first, row.pool.second)
        if row.internal_metadata:
            entry["internal_metadata"] = row.internal_metadata.decode("utf-8", "replace")
        if row.context:
            entry["frames"] = self.frames(row.context)
        return entry

    def settings(self):
        row = self.row(_c.Settings, "settings")
        unlimited = row.max_split_size == _c.UNLIMITED
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self.library.cachalot_snapshot_config(self.taken).decode("utf-8", "replace"),
            "max_split_size": -1 if unlimited else row.max_split_size,
            "garbage_collection_threshold": row.garbage_collection_threshold,
            "expandable_segments": bool(row.expandable_segments),
            "pinned_num_register_threads": row.pinned_num_register_threads,
            "release_lock_on_cudamalloc": bool(row.release_lock_on_cudamalloc),
            "pinned_use_cuda_host_register": bool(row.pinned_use_cuda_host_register),
            "graph_capture_record_stream_reuse": bool(row.graph_capture_record_stream_reuse),
            "roundup_power2_divisions": {str(2**i): n for i, n in enumerate(row.roundup_power2_divisions)},
        }
