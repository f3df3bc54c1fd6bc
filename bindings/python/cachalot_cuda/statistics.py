# SPDX-License-Identifier: MIT OR Apache-2.0
"""Statistics of a device: PyTorch's own numbers, under PyTorch's own names."""

import collections
import contextlib
import ctypes
import sys

from . import _c, _library
from .errors import InvalidArgumentError


def device_index(device=None):
    """The number of a device given as a number, as a torch.device or as "cuda:1"; None: PyTorch's
    current device where PyTorch is in use, else 0."""
    if isinstance(device, str) and ":" in device:
        return int(device.rpartition(":")[2])
    if device is not None and not isinstance(device, str):
        device = getattr(device, "index", device)
    if isinstance(device, int):
        return device
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_initialized() else 0


def _stats(device):
    stats = _c.Stats()
    _library.call("get_stats", _library.allocator(), device_index(device), ctypes.byref(stats))
    return stats


def stats(device=None):
    """The statistics as torch.cuda.memory_stats has them: names like "active.all.current", sorted."""
    library, values = _library.load(), _stats(device)
    release = library.cachalot_allocator_release(_library.allocator())
    name, value = ctypes.c_char_p(), ctypes.c_int64()
    rows = collections.OrderedDict()
    while library.cachalot_stats_at(values, release, len(rows), ctypes.byref(name), ctypes.byref(value)) == _c.OK:
        rows[name.value.decode()] = value.value
    return rows


def nested_stats(device=None):
    """The same as dictionaries in dictionaries: {"active": {"all": {"current": ...}}}."""
    nested = {}
    for name, value in stats(device).items():
        *outer, last = name.split(".")
        level = nested
        for key in outer:
            level = level.setdefault(key, {})
        level[last] = value
    return nested


def memory_summary(device=None, abbreviated=False):
    """The table of torch.cuda.memory_summary; abbreviated: without the rows by kind of pool."""
    return _library.text("memory_summary", _library.allocator(), device_index(device), int(abbreviated))


def metrics():
    """The statistics of all devices as a page for Prometheus: what a server answers to GET /metrics, with
    the content type `text/plain; version=0.0.4; charset=utf-8`."""
    return _library.text("metrics_text", _library.allocator())


def memory_allocated(device=None):
    """Bytes handed out."""
    return _stats(device).allocated_bytes.all.current


def max_memory_allocated(device=None):
    """The most bytes handed out since the peaks were reset."""
    return _stats(device).allocated_bytes.all.peak


def memory_reserved(device=None):
    """Bytes obtained from the driver."""
    return _stats(device).reserved_bytes.all.current


def max_memory_reserved(device=None):
    """The most bytes obtained from the driver since the peaks were reset."""
    return _stats(device).reserved_bytes.all.peak


def reset_peak_stats(device=None):
    """Sets every peak to its current value."""
    _library.call("reset_peak_stats", _library.allocator(), device_index(device))


def reset_accumulated_stats(device=None):
    """Sets all sums (allocated, freed) and the num_ counters to 0."""
    _library.call("reset_accumulated_stats", _library.allocator(), device_index(device))


def empty_cache():
    """Gives all cached memory of all devices back to the driver."""
    _library.call("empty_cache", _library.allocator())


@contextlib.contextmanager
def empty_cache_on_exit():
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


def trim(device=None, keep_bytes=0, min_idle=0.0):
    """Gives cached memory of a device back to the driver, longest idle first, and waits for no stream.

    Args:
        keep_bytes: may stay reserved on the device, what is handed out included.
        min_idle: seconds. Memory counts as idle from the first trim on that sees it free, so that the
            first one with a min_idle above 0 gives nothing back.

    Returns:
        How many bytes were given back.
    """
    released = ctypes.c_uint64()
    _library.call("trim", _library.allocator(), device_index(device), _unsigned("keep_bytes", keep_bytes),
                  _unsigned("min_idle", min_idle * 1e9), ctypes.byref(released))
    return released.value


def _unsigned(name, value):
    """ctypes would wrap what is below 0 or too large."""
    if not value >= 0:
        raise InvalidArgumentError(f"expected {name} to be 0 or more", _c.ERROR_INVALID_ARGUMENT)
    return int(min(value, _c.UNLIMITED))
