# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports: the holders of a device's memory, and the obstacles of a request."""

from __future__ import annotations

import contextlib
import ctypes
import json
from collections.abc import Iterator
from typing import Any

from . import _c, _library
from ._arguments import Device, Stream, device_index, handle_of, unsigned


def report(size: int = 0, device: Device = None, stream: Stream = 0) -> dict[str, Any]:
    """The report of a device as dictionaries and lists; docs/serving.md lists the keys. All blocks are walked, so it is
    for moments of trouble.

    Args:
        size: bytes of a request that may come, or that has failed: the report says what would become of it, and what is
            in its way. 0: none.
        device: None: what the stream says, else as for the statistics.
        stream: of the request: an object with a handle, or the handle as a number.

    Raises:
        InvalidArgumentError: there is no such device, or no memory can be that large.
        Error: the allocator has the backend cudaMallocAsync.
    """
    return report_of(_library.allocator(), size, device, stream)


def report_text(size: int = 0, device: Device = None, stream: Stream = 0) -> str:
    """The same as a table of one screen, for logs."""
    with _taken(_library.allocator(), size, device, stream) as taken:
        return _library.text("report_text", taken)


def report_of(allocator: ctypes.c_void_p, size: int, device: Device, stream: Stream) -> dict[str, Any]:
    """The report of a device of any allocator."""
    with _taken(allocator, size, device, stream) as taken:
        return json.loads(_library.text("report_json", taken))


@contextlib.contextmanager
def _taken(allocator: ctypes.c_void_p, size: int, device: Device, stream: Stream) -> Iterator[ctypes.c_void_p]:
    taken = ctypes.c_void_p()
    options = _c.ReportOptions(device=device_index(device, stream), size=unsigned("size", size),
                               stream=handle_of(stream))
    _library.call("report_create", allocator, ctypes.byref(options), ctypes.byref(taken))
    try:
        yield taken
    finally:
        _library.load().cachalot_report_destroy(taken)
