# SPDX-License-Identifier: MIT OR Apache-2.0
"""History and snapshots, in the form of torch.cuda.memory._snapshot."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from . import _c, _library
from .errors import Error, InvalidArgumentError

# A line of a context that tells all of a frame. Any other line is the frame's name.
_FRAME = re.compile(r"(.+?):([0-9]+):(.*)")

_recording = False


def record_history(enabled: str | None = "all", context: str | None = "all", max_entries: int = _c.UNLIMITED,
                   clear: bool = False, skip_actions: Iterable[str] = ()) -> None:
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


def is_recording() -> bool:
    """Whether record_history has been switched on."""
    return _recording


@contextlib.contextmanager
def label(name: str) -> Iterator[None]:
    """What the thread allocates inside counts for this label, and carries it in the history where
    contexts are labels. Labels nest."""
    _library.call("label_push", name.encode())
    try:
        yield
    finally:
        _library.call("label_pop")


def snapshot(pool: tuple[int, int] = (0, 0), with_history: bool = True) -> dict[str, Any]:
    """Segments, blocks and history of all devices as plain dictionaries and lists.

    Args:
        pool: the id of a private pool: its segments only.
        with_history: False leaves the history out.
    """
    with _taken(pool, with_history) as taken:
        return _Reader(taken).read()


def dump_snapshot(path: str | os.PathLike[str], pool: tuple[int, int] = (0, 0), with_history: bool = True) -> None:
    """Writes a snapshot for the viewer at pytorch.org/memory_viz, piece by piece."""
    failures: list[Exception] = []

    def write(_: Any, data: int, size: int) -> int:
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
def _taken(pool: tuple[int, int], with_history: bool) -> Iterator[ctypes.c_void_p]:
    taken = ctypes.c_void_p()
    options = _c.SnapshotOptions(pool=_c.PoolId(*pool), without_history=int(not with_history))
    _library.call("snapshot_take", _library.allocator(), ctypes.byref(options), ctypes.byref(taken))
    try:
        yield taken
    finally:
        _library.load().cachalot_snapshot_destroy(taken)


def traceback(address: int) -> list[dict[str, Any]] | None:
    """The frames of the hand-out of the live block at an address; None where it has none. Release 2.15 only."""
    context = ctypes.c_uint64()
    _library.call("context_of", _library.allocator(), address, ctypes.byref(context))
    return _frames(context.value) if context.value else None


def annotate(address: int, text: str) -> None:
    """Adds an entry with a text for the live block at an address to the history. Release 2.15 only."""
    _library.call("annotate", _library.allocator(), address, text.encode())


def has_annotations() -> bool:
    """Whether the release that is followed has annotate and traceback."""
    return _library.load().cachalot_allocator_release(_library.allocator()) > _c.RELEASES["2.11"]


def _frames(context: int) -> list[dict[str, Any]]:
    return [_frame(line) for line in _library.text("context_text", _library.allocator(), context).splitlines()]


def _frame(text: str) -> dict[str, Any]:
    found = _FRAME.fullmatch(text)
    file, line, name = found.groups() if found else ("", 0, text)
    return {"name": name, "filename": file, "line": int(line)}


class _Reader:
    """Turns the rows of one snapshot into PyTorch's dictionaries."""

    def __init__(self, taken: ctypes.c_void_p) -> None:
        self.taken = taken
        self.library = _library.load()
        self.has_pool_in_entries = has_annotations()  # both came with one release
        self.frames_of: dict[int, list[dict[str, Any]]] = {0: []}

    def read(self) -> dict[str, Any]:
        segments = self.library.cachalot_snapshot_segment_count(self.taken)
        return {
            "segments": [self.segment(i) for i in range(segments)],
            "device_traces": [self.trace(device) for device in range(_library.device_count())],
            "allocator_settings": self.settings(),
            "external_annotations": [],
        }

    def row(self, kind: Any, function: str, *index: int) -> Any:
        row = kind()
        getattr(self.library, "cachalot_snapshot_" + function)(self.taken, *index, ctypes.byref(row))
        return row

    def frames(self, context: int) -> list[dict[str, Any]]:
        """Frames of a context; equal ones are one object, which a pickle writes once."""
        if context not in self.frames_of:
            self.frames_of[context] = _frames(context)
        return self.frames_of[context]

    def segment(self, index: int) -> dict[str, Any]:
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

    def block(self, index: int) -> dict[str, Any]:
        row = self.row(_c.BlockRow, "block", index)
        return {
            "address": row.address,
            "size": row.size,
            "requested_size": row.requested_size,
            "state": _c.BLOCK_STATES[row.state],
            "frames": self.frames(row.context),
        }

    def trace(self, device: int) -> list[dict[str, Any]]:
        entries = self.library.cachalot_snapshot_entry_count(self.taken, device)
        return [self.entry(device, i) for i in range(entries)]

    def entry(self, device: int, index: int) -> dict[str, Any]:
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

    def settings(self) -> dict[str, Any]:
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
