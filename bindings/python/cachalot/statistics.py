# SPDX-License-Identifier: MIT OR Apache-2.0
"""Statistics of a device: PyTorch's own numbers, under PyTorch's own names."""

import collections
import ctypes
import sys

from . import _c, _library


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
