# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch's CUDA caching allocator as a library of its own, under PyTorch.

    import cachalot_cuda.torch
    cachalot_cuda.torch.install()          # before the first use of CUDA

Then all of torch.cuda's memory comes from cachalot, and so do its statistics. The functions here ask the
same allocator without torch.cuda.
"""

from ._library import load as _load
from .allocator import Allocator, Block
from .errors import Error, InvalidArgumentError, InvalidStateError, LibraryNotFoundError, OutOfMemoryError
from .folded_stacks import save_memory_usage, save_segment_usage
from .history import dump_snapshot, label, record_history, snapshot
from .logs import use_logging
from .options import (
    set_expandable_segments,
    set_garbage_collection_threshold,
    set_graph_capture_record_stream_reuse,
    set_large_segment_size,
    set_max_non_split_rounding_size,
    set_max_split_size,
    set_per_process_memory_fraction,
    set_pinned_free_catch_all,
    set_pinned_max_cached_size,
    set_pinned_max_round_threshold,
    set_pinned_num_register_threads,
    set_pinned_reserve_segment_size_mb,
    set_pinned_use_background_threads,
    set_pinned_use_cuda_host_register,
    set_release_lock_on_cudamalloc,
    set_roundup_bypass_threshold,
    set_roundup_power2_divisions,
    set_throw_on_cudamalloc_oom,
    settings,
    update_config,
)
from .pinned import (
    PinnedMemory,
    empty_pinned_cache,
    pinned_memory,
    pinned_stats,
    reset_pinned_accumulated_stats,
    reset_pinned_peak_stats,
)
from .policy import Pin, Policy, PolicyStats, pin, policy, policy_stats, stream_ended
from .pools import Pool
from .recorder import Recorder, RecorderStats, dump_out_of_memory, record
from .report import report, report_text
from .share import OpenedBlock, SharedBlock, open_block, shared_block
from .sleep import SleepStats, set_sleep_contents, sleep_pool, sleep_stats, wake_pool
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
from .tenants import Pressure, Tenant, TenantStats

__all__ = [
    "Allocator",
    "Block",
    "Error",
    "InvalidArgumentError",
    "InvalidStateError",
    "LibraryNotFoundError",
    "OutOfMemoryError",
    "OpenedBlock",
    "Pin",
    "PinnedMemory",
    "Policy",
    "PolicyStats",
    "Pool",
    "Pressure",
    "Recorder",
    "RecorderStats",
    "SharedBlock",
    "SleepStats",
    "Tenant",
    "TenantStats",
    "dump_out_of_memory",
    "dump_snapshot",
    "empty_cache",
    "empty_cache_on_exit",
    "empty_pinned_cache",
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
    "open_block",
    "pin",
    "pinned_memory",
    "pinned_stats",
    "policy",
    "policy_stats",
    "record",
    "record_history",
    "report",
    "report_text",
    "reset_accumulated_stats",
    "reset_peak_stats",
    "reset_pinned_accumulated_stats",
    "reset_pinned_peak_stats",
    "save_memory_usage",
    "save_segment_usage",
    "set_expandable_segments",
    "set_garbage_collection_threshold",
    "set_graph_capture_record_stream_reuse",
    "set_large_segment_size",
    "set_max_non_split_rounding_size",
    "set_max_split_size",
    "set_per_process_memory_fraction",
    "set_pinned_free_catch_all",
    "set_pinned_max_cached_size",
    "set_pinned_max_round_threshold",
    "set_pinned_num_register_threads",
    "set_pinned_reserve_segment_size_mb",
    "set_pinned_use_background_threads",
    "set_pinned_use_cuda_host_register",
    "set_release_lock_on_cudamalloc",
    "set_roundup_bypass_threshold",
    "set_roundup_power2_divisions",
    "set_sleep_contents",
    "set_throw_on_cudamalloc_oom",
    "settings",
    "shared_block",
    "sleep_pool",
    "sleep_stats",
    "snapshot",
    "stats",
    "stream_ended",
    "trim",
    "update_config",
    "use_logging",
    "wake_pool",
]


def library_path() -> str:
    """Where libcachalot_pluggable.so was loaded from."""
    return _load()._name


def library_version() -> str:
    """The version of the library that is loaded, for example "0.1.0"."""
    return _load().cachalot_version().decode()
