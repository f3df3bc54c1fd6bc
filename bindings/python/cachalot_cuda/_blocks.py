# SPDX-License-Identifier: MIT OR Apache-2.0
"""Blocks of the process's allocator by their addresses, on the shortest way that Python has."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from . import _c, _library
from .errors import InvalidStateError


class _Thread(threading.local):
    """An error record for each thread: making one takes as long as an allocation."""

    def __init__(self) -> None:
        self.error = _c.Error()
        self.reference = ctypes.byref(self.error)


_thread = _Thread()


def allocate(size: int, device: int, stream: int) -> int:
    """The address of a block of so many bytes for a stream, by its handle. OutOfMemoryError, or another Error."""
    address = ctypes.c_uint64()
    _call(_library.load().cachalot_allocate, size, device, stream, ctypes.byref(address))
    return address.value


def free(address: int) -> None:
    """Gives a block back. InvalidArgumentError where no live block begins there."""
    _call(_library.load().cachalot_free, address)


def record_stream(address: int, stream: int) -> None:
    """Says that a stream uses a block: freed, it is handed out again when the work is done that the stream, or all for
    _c.STREAM_ALL, had been given by then."""
    _call(_library.load().cachalot_record_stream, address, stream)


def _call(function: Any, *arguments: Any) -> None:
    mine = _thread
    if function(_library.allocator(), *arguments, mine.reference) != _c.OK:
        raise _library.exception(mine.error)


def has_plain_segment(address: int) -> bool:
    """Whether a block lies in one allocation of the driver's, and not in an expandable segment."""
    base, size = ctypes.c_uint64(), ctypes.c_uint64()
    try:
        _library.call("base_allocation", _library.allocator(), address, ctypes.byref(base), ctypes.byref(size))
    except InvalidStateError:
        return False
    return True


def release_context(device: int) -> None:
    """Lets go of a device's context before it ends: of cached memory, pinned memory too, and of all events."""
    _library.call("release_context", _library.allocator(), device)
