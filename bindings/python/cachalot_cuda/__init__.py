# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch's CUDA caching allocator as a library of its own, under PyTorch.

    import cachalot_cuda.torch
    cachalot_cuda.torch.install()          # before the first use of CUDA

Then all of torch.cuda's memory comes from cachalot, and so do its statistics. The functions here ask the
same allocator without torch.cuda.
"""

from ._library import load as _load
from .errors import Error, InvalidArgumentError, InvalidStateError, LibraryNotFoundError
from .history import dump_snapshot, label, record_history, snapshot
from .statistics import (
    empty_cache,
    empty_cache_on_exit,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_summary,
    metrics,
    nested_stats,
    reset_accumulated_stats,
    reset_peak_stats,
    stats,
    trim,
)

__all__ = [
    "Error",
    "InvalidArgumentError",
    "InvalidStateError",
    "LibraryNotFoundError",
    "dump_snapshot",
    "empty_cache",
    "empty_cache_on_exit",
    "label",
    "library_path",
    "library_version",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_summary",
    "metrics",
    "nested_stats",
    "record_history",
    "reset_accumulated_stats",
    "reset_peak_stats",
    "snapshot",
    "stats",
    "trim",
]


def library_path():
    """Where libcachalot_pluggable.so was loaded from."""
    return _load()._name


def library_version():
    """Its version, for example "0.1.0"."""
    return _load().cachalot_version().decode()
