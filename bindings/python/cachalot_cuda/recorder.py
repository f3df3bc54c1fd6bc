# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recordings of the allocator while it runs, and what is left of an out-of-memory error."""

from __future__ import annotations

import collections
import ctypes
import os
from typing import Any

from . import _c, _library
from .errors import InvalidArgumentError

RecorderStats = collections.namedtuple("RecorderStats", "events lost bytes")
RecorderStats.__doc__ = """What a recorder has written: events that it has seen, lines that were lost, and bytes."""


class Recorder:
    """Writes the history of the allocator as a trace until it is stopped, which the end of a `with` does."""

    def __init__(self, number: int | None) -> None:
        self._number = number

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _call(self, name: str, *arguments: Any) -> None:
        if self._number is None:
            raise InvalidArgumentError("the recorder is stopped", _c.ERROR_INVALID_ARGUMENT)
        _library.call(name, _library.allocator(), self._number, *arguments)

    def flush(self) -> None:
        """Writes the texts of contexts that are new. Raises Error if events are lost."""
        self._call("recorder_flush")

    def stats(self) -> RecorderStats:
        """What it has written."""
        stats = _c.RecorderStats()
        self._call("recorder_get_stats", ctypes.byref(stats))
        return RecorderStats(stats.events, stats.lost, stats.bytes)

    def path(self) -> str:
        """The file that it writes."""
        if self._number is None:
            raise InvalidArgumentError("the recorder is stopped", _c.ERROR_INVALID_ARGUMENT)
        return _library.text("recorder_path", _library.allocator(), self._number)

    def stop(self) -> None:
        """Writes the last line and ends it. Again: nothing."""
        if self._number is not None:
            self._call("recorder_stop")
            self._number = None


def record(path: str | os.PathLike[str], max_bytes: int = 0, contexts: str | None = "labels",
           workload: str = "") -> Recorder:
    """Starts a recorder, which `cachalot replay` and `cachalot inspect` read.

    Args:
        path: the name of the file; %p stands for the number of the process. A file that exists is kept, and the new
            file gets a number behind its name (".2").
        max_bytes: what it may take, at least 2 MiB; 0: any number. When half of that is used, the file is kept
            beside as PATH.before, and a new one begins with what is live.
        contexts: what events say of where they come from: "labels", "history" (what record_history keeps) or None.
        workload: what is recorded, for the header.
    """
    if contexts not in _c.RECORDED_CONTEXTS:
        raise InvalidArgumentError(f"expected contexts to be 'labels', 'history' or None, not {contexts!r}",
                                   _c.ERROR_INVALID_ARGUMENT)
    options = _c.RecorderOptions(path=os.fsencode(path), max_bytes=max_bytes,
                                 contexts=_c.RECORDED_CONTEXTS[contexts], workload=workload.encode())
    number = ctypes.c_uint64()
    _library.call("recorder_start", _library.allocator(), ctypes.byref(options), ctypes.byref(number))
    return Recorder(number.value)


def dump_out_of_memory(folder: str | os.PathLike[str] | None, events: int = 10_000) -> None:
    """From now on each request that fails as out of memory leaves its report, the last events and the live blocks in
    the folder, of the first 16 failures.

    Args:
        folder: one that there is; None: nothing is written any more.
        events: how many of the last are kept for it, which slows each call down as history does; 0: none.
    """
    options = _c.OomDumpOptions(folder=os.fsencode(folder) if folder is not None else None, events=events or -1)
    _library.call("set_oom_dump", _library.allocator(), ctypes.byref(options))
