# SPDX-License-Identifier: MIT OR Apache-2.0
"""Statistics of a device: PyTorch's own numbers, under PyTorch's own names."""

from __future__ import annotations

import collections
import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from . import _c, _library
from ._arguments import Device, device_index, unsigned


def _stats(device: Device) -> _c.Stats:
    return row_of(_library.allocator(), device_index(device))


def row_of(allocator: ctypes.c_void_p, device: int) -> _c.Stats:
    """The statistics of a device of an allocator as a row of the C interface."""
    stats = _c.Stats()
    _library.call("get_stats", allocator, device, ctypes.byref(stats))
    return stats


def stats(device: Device = None) -> dict[str, int]:
    """The statistics as torch.cuda.memory_stats has them: names like "active.all.current", sorted."""
    return named_stats(_library.allocator(), device_index(device))


def named_stats(allocator: ctypes.c_void_p, device: int) -> dict[str, int]:
    """The same for a device of any allocator."""
    library, values = _library.load(), row_of(allocator, device)
    release = library.cachalot_allocator_release(allocator)
    name, value = ctypes.c_char_p(), ctypes.c_int64()
    rows: dict[str, int] = collections.OrderedDict()
    while library.cachalot_stats_at(values, release, len(rows), ctypes.byref(name), ctypes.byref(value)) == _c.OK:
        rows[(name.value or b"").decode()] = value.value
    return rows


def nested_stats(device: Device = None) -> dict[str, Any]:
    """The same as dictionaries in dictionaries: {"active": {"all": {"current": ...}}}."""
    nested: dict[str, Any] = {}
    for name, value in stats(device).items():
        *outer, last = name.split(".")
        level = nested
        for key in outer:
            level = level.setdefault(key, {})
        level[last] = value
    return nested


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The table of torch.cuda.memory_summary; abbreviated: without the rows by kind of pool."""
    return _library.text("memory_summary", _library.allocator(), device_index(device), int(abbreviated))


def metrics() -> str:
    """The statistics of all devices as a page for Prometheus: what a server answers to GET /metrics, with
    the content type `text/plain; version=0.0.4; charset=utf-8`."""
    return _library.text("metrics_text", _library.allocator())


def memory_allocated(device: Device = None) -> int:
    """Bytes handed out."""
    return _stats(device).allocated_bytes.all.current


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes handed out since the peaks were reset."""
    return _stats(device).allocated_bytes.all.peak


def memory_reserved(device: Device = None) -> int:
    """Bytes obtained from the driver."""
    return _stats(device).reserved_bytes.all.current


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes obtained from the driver since the peaks were reset."""
    return _stats(device).reserved_bytes.all.peak


def reset_peak_stats(device: Device = None) -> None:
    """Sets every peak to its current value."""
    _library.call("reset_peak_stats", _library.allocator(), device_index(device))


def reset_accumulated_stats(device: Device = None) -> None:
    """Sets all sums (allocated, freed) and the num_ counters to 0."""
    _library.call("reset_accumulated_stats", _library.allocator(), device_index(device))


def empty_cache() -> None:
    """Gives all cached memory of all devices back to the driver."""
    _library.call("empty_cache", _library.allocator())


@contextlib.contextmanager
def empty_cache_on_exit() -> Iterator[None]:
    """Empties the cache (empty_cache) when the with block is left, also by an exception.

    For a phase whose sizes nobody needs again::

        with cachalot_cuda.empty_cache_on_exit():
            warm_up()

    An exception of the block stays the one that is raised: an Error of emptying has it as its context.
    """
    try:
        yield
    finally:
        empty_cache()


def trim(device: Device = None, keep_bytes: int = 0, min_idle: float = 0.0) -> int:
    """Gives cached memory of a device back to the driver, longest idle first, and waits for no stream.

    Args:
        keep_bytes: may stay reserved on the device, what is handed out included.
        min_idle: seconds. Memory counts as idle from the first trim on that sees it free, so that the
            first one with a min_idle above 0 gives nothing back.

    Returns:
        How many bytes were given back.
    """
    return trim_of(_library.allocator(), device_index(device), keep_bytes, min_idle)


def trim_of(allocator: ctypes.c_void_p, device: int, keep_bytes: int, min_idle: float) -> int:
    """The same for a device of any allocator."""
    released = ctypes.c_uint64()
    _library.call("trim", allocator, device, unsigned("keep_bytes", keep_bytes), unsigned("min_idle", min_idle * 1e9),
                  ctypes.byref(released))
    return released.value
