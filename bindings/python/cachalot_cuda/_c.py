# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part of the C interface that this package uses, as ctypes declarations.

Names and fields are those of capi/include/cachalot without the prefix; the tests compare every layout
with the header. Structs with a `struct_size` fill it in themselves.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

OK = 0
ERROR_INVALID_ARGUMENT = 1
ERROR_INVALID_STATE = 2
ERROR_NOT_SUPPORTED = 3
ERROR_OUT_OF_MEMORY = 10

RELEASES = {None: 0, "2.11": 211, "2.15": 215}
CONTEXT_SOURCES = {None: 0, "stack": 1, "labels": 2}
MENDS = {
    "fallback_errors": 0x01,
    "fallback_expandable": 0x02,
    "handle_type": 0x04,
    "search_after_release": 0x08,
    "history_order": 0x10,
    "rejection": 0x20,
    "reserve": 0x40,
    "split_limit": 0x80,
}
CONTEXT_LEVELS = {None: 0, "state": 1, "alloc": 2, "all": 3}
RECORDED_CONTEXTS = {"labels": 0, "history": 1, None: 2}
BLOCK_STATES = ("inactive", "active_allocated", "active_pending_free")
LOG_KINDS = {1: "warning", 2: "difference", 3: "damage", 4: "advice"}
PRESSURES = {1: "limit", 2: "guarantee", 3: "device"}
ALL_DEVICES = -1
ROUTE_THIS_THREAD = 0
ACTION_OOM = 8
POOL_USE_ON_OOM = 1
POOL_NO_SPLIT = 2
POOL_PINNED = 4
POOL_WHOLE_BLOCKS = 8
POOL_STATES = ("awake", "falling_asleep", "asleep", "waking")
SLEEP_CONTENTS = {False: 0, True: 1, "all": 2}
POLICIES = {"pytorch": 1, "serving": 2}
TEXTS = {None: 0, "pytorch": 1, "own": 2}
BORROWS = {"first": 0, "at_limit": 1, "never": 2}
STREAMS = {"unannounced": 0, "announced": 1}
UNLIMITED = 2**64 - 1
STREAM_ALL = 2**64 - 1


class Struct(ctypes.Structure):
    """A struct that begins with its own size."""

    def __init__(self, **values: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **values)


def fields(row: type[Struct] | Struct) -> list[tuple[str, Any]]:
    """Names and types of a struct's fields, without its size and what is reserved."""
    rows: Any = row._fields_
    return [(name, kind) for name, kind in rows if name != "struct_size" and not name.startswith("reserved_")]


class Error(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("status", c_int32),
        ("driver_code", c_int32),
        ("requested", c_uint64),
        ("segment_size", c_uint64),
        ("device_free", c_uint64),
        ("device_total", c_uint64),
        ("limit", c_uint64),
        ("allocated", c_uint64),
        ("reserved", c_uint64),
        ("private_pools_free", c_uint64),
        ("largest_free_block", c_uint64),
        ("stream", c_uint64),
        ("device", c_int32),
        ("reserved_0", c_int32),
        ("message", c_char * 4096),
    ]


class PoolId(ctypes.Structure):
    _fields_ = [("first", c_uint64), ("second", c_uint64)]


class PoolOptions(Struct):
    _fields_ = [("struct_size", c_size_t), ("flags", c_uint32), ("reserved_0", c_int32), ("source", c_void_p)]


class PoolRoute(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int32),
        ("reserved_0", c_int32),
        ("stream", c_uint64),
        ("capture_id", c_uint64),
        ("predicate", c_void_p),
        ("user_data", c_void_p),
        ("destroy", c_void_p),
    ]


class AllocatorOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("driver", c_void_p),
        ("config", c_char_p),
        ("release", c_int32),
        ("context_source", c_int32),
        ("mend", c_uint32),
        ("no_caching", c_int32),
        ("shareable_pages", c_int32),
        ("check_every_call", c_int32),
        ("track_labels", c_int32),
        ("reserved_0", c_int32),
        ("log", c_void_p),
        ("log_user_data", c_void_p),
        ("context_capture", c_void_p),
        ("context_text", c_void_p),
        ("context_user_data", c_void_p),
        ("debug", c_uint32),
        ("reserved_1", c_uint32),
        ("policy", c_int32),
        ("thrift", c_int32),
        ("borrow", c_int32),
        ("streams", c_int32),
        ("page_bytes", c_uint64),
        ("pinned_config", c_char_p),
        ("texts", c_int32),
        ("reserved_2", c_int32),
    ]


class Policy(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("policy", c_int32),
        ("thrift", c_int32),
        ("borrow", c_int32),
        ("streams", c_int32),
        ("page_bytes", c_uint64),
    ]


class PolicyStats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("pages_created", c_uint64),
        ("pages_moved", c_uint64),
        ("pages_released", c_uint64),
        ("blocks_borrowed", c_uint64),
        ("stream_waits", c_uint64),
        ("host_waits", c_uint64),
        ("pinned_bytes", c_uint64),
    ]


class Settings(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("max_split_size", c_uint64),
        ("max_non_split_rounding_size", c_uint64),
        ("large_segment_size", c_uint64),
        ("garbage_collection_threshold", c_double),
        ("per_process_memory_fraction", c_double),
        ("roundup_power2_divisions", c_uint64 * 16),
        ("roundup_bypass_threshold", c_uint64),
        ("expandable_segments", c_int32),
        ("release_lock_on_cudamalloc", c_int32),
        ("graph_capture_record_stream_reuse", c_int32),
        ("throw_on_cudamalloc_oom", c_int32),
        ("pinned_use_background_threads", c_int32),
        ("pinned_use_cuda_host_register", c_int32),
        ("pinned_free_catch_all", c_int32),
        ("reserved_0", c_int32),
        ("pinned_num_register_threads", c_uint64),
        ("pinned_reserve_segment_size_mb", c_uint64),
        ("pinned_max_round_threshold", c_uint64),
        ("pinned_max_cached_size", c_uint64),
    ]


class Stat(ctypes.Structure):
    _fields_ = [("current", c_int64), ("peak", c_int64), ("allocated", c_int64), ("freed", c_int64)]


class StatArray(ctypes.Structure):
    _fields_ = [("all", Stat), ("small_pool", Stat), ("large_pool", Stat)]


class Stats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("allocation", StatArray),
        ("segment", StatArray),
        ("active", StatArray),
        ("inactive_split", StatArray),
        ("allocated_bytes", StatArray),
        ("reserved_bytes", StatArray),
        ("active_bytes", StatArray),
        ("inactive_split_bytes", StatArray),
        ("requested_bytes", StatArray),
        ("oversize_allocations", Stat),
        ("oversize_segments", Stat),
        ("num_alloc_retries", c_int64),
        ("num_ooms", c_int64),
        ("num_sync_all_streams", c_int64),
        ("num_device_alloc", c_int64),
        ("num_device_free", c_int64),
        ("max_split_size", c_int64),
        ("num_oom_rejections", c_int64),
    ]


class CallTimes(ctypes.Structure):
    _fields_ = [("count", c_int64), ("total", c_int64), ("min", c_int64), ("max", c_int64)]


class PinnedStats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("allocations", Stat),
        ("allocated_bytes", Stat),
        ("active_requests", Stat),
        ("active_bytes", Stat),
        ("allocate_times", CallTimes),
        ("free_times", CallTimes),
    ]


class SleepStats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("state", c_int32),
        ("reserved_0", c_int32),
        ("pools", c_uint64),
        ("blocks", c_uint64),
        ("allocated_bytes", c_uint64),
        ("asleep_bytes", c_uint64),
        ("kept_bytes", c_uint64),
        ("num_sleeps", c_uint64),
        ("num_wakes", c_uint64),
    ]


class HistoryOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("enabled", c_int32),
        ("context", c_int32),
        ("max_entries", c_uint64),
        ("clear", c_int32),
        ("reserved_0", c_int32),
        ("skip_actions", c_char_p),
    ]


class RecorderOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("path", c_char_p),
        ("max_bytes", c_uint64),
        ("contexts", c_int32),
        ("reserved_0", c_int32),
        ("workload", c_char_p),
        ("write", c_void_p),
        ("write_user_data", c_void_p),
        ("write_destroy", c_void_p),
    ]


class RecorderStats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("events", c_uint64),
        ("lost", c_uint64),
        ("bytes", c_uint64),
    ]


class OomDumpOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("folder", c_char_p),
        ("events", c_int64),
    ]


class SnapshotOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("pool", PoolId),
        ("without_history", c_int32),
        ("reserved_0", c_int32),
    ]


class ReportOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("reserved_0", c_int32),
        ("size", c_uint64),
        ("stream", c_uint64),
    ]


class SegmentRow(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("is_large", c_int32),
        ("address", c_uint64),
        ("total_size", c_uint64),
        ("allocated_size", c_uint64),
        ("active_size", c_uint64),
        ("requested_size", c_uint64),
        ("stream", c_uint64),
        ("pool", PoolId),
        ("is_expandable", c_int32),
        ("reserved_0", c_int32),
        ("number", c_int64),
        ("context", c_uint64),
        ("first_block", c_size_t),
        ("block_count", c_size_t),
    ]


class BlockRow(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("address", c_uint64),
        ("size", c_uint64),
        ("requested_size", c_uint64),
        ("state", c_int32),
        ("reserved_0", c_int32),
        ("context", c_uint64),
    ]


class TraceEntry(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("action", c_int32),
        ("device", c_int32),
        ("address", c_uint64),
        ("size", c_uint64),
        ("stream", c_uint64),
        ("pool", PoolId),
        ("context", c_uint64),
        ("time_us", c_int64),
        ("metadata", c_char_p),
        ("internal_metadata", c_char_p),
    ]


class Pressure(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("reason", c_int32),
        ("device", c_int32),
        ("missing_bytes", c_uint64),
        ("allocated_bytes", c_uint64),
        ("guaranteed_bytes", c_uint64),
        ("requester", c_uint64),
        ("requester_name", c_char_p),
        ("requester_priority", c_int32),
        ("is_guaranteed", c_int32),
    ]


class TenantOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("guaranteed_bytes", c_uint64),
        ("limit_bytes", c_uint64),
        ("priority", c_int32),
        ("reserved_0", c_int32),
        ("pressure", c_void_p),
        ("pressure_user_data", c_void_p),
        ("pressure_destroy", c_void_p),
    ]


class TenantStats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("id", c_uint64),
        ("device", c_int32),
        ("priority", c_int32),
        ("guaranteed_bytes", c_uint64),
        ("limit_bytes", c_uint64),
        ("allocation", Stat),
        ("allocated_bytes", Stat),
        ("requested_bytes", Stat),
        ("num_ooms", c_int64),
        ("num_pressure_calls", c_int64),
        ("pressure_freed_bytes", c_int64),
        ("name", c_char * 64),
        ("asleep_bytes", c_uint64),
    ]


_ERROR = POINTER(Error)
_SIZE = POINTER(c_size_t)

PRESSURE_FUNCTION = ctypes.CFUNCTYPE(c_uint64, c_void_p, POINTER(Pressure))
DESTROY_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
WRITE_FUNCTION = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)

# Name: the arguments of a function that returns a status and takes an error record last.
CALLS: dict[str, list[Any]] = {
    "pluggable_set_options": [c_char_p, POINTER(AllocatorOptions)],
    "pluggable_get_allocator": [POINTER(c_void_p)],
    "driver_open": [c_char_p, POINTER(c_void_p)],
    "allocator_create": [POINTER(AllocatorOptions), POINTER(c_void_p)],
    "allocator_destroy": [c_void_p],
    "empty_cache": [c_void_p],
    "trim": [c_void_p, c_int32, c_uint64, c_uint64, POINTER(c_uint64)],
    "set_caching_enabled": [c_void_p, c_int32],
    "set_memory_limit": [c_void_p, c_int32, c_uint64],
    "memory_limit": [c_void_p, c_int32, POINTER(c_uint64)],
    "set_memory_fraction": [c_void_p, c_int32, c_double],
    "memory_fraction": [c_void_p, c_int32, POINTER(c_double)],
    "configure": [c_void_p, c_char_p],
    "get_settings": [c_void_p, POINTER(Settings)],
    "update_config": [c_void_p, c_char_p],
    "set_max_split_size": [c_void_p, c_uint64],
    "set_max_non_split_rounding_size": [c_void_p, c_uint64],
    "set_large_segment_size": [c_void_p, c_uint64],
    "set_garbage_collection_threshold": [c_void_p, c_double],
    "set_per_process_memory_fraction": [c_void_p, c_double],
    "set_roundup_bypass_threshold": [c_void_p, c_uint64],
    "set_expandable_segments": [c_void_p, c_int32],
    "set_release_lock_on_cudamalloc": [c_void_p, c_int32],
    "set_graph_capture_record_stream_reuse": [c_void_p, c_int32],
    "set_throw_on_cudamalloc_oom": [c_void_p, c_int32],
    "set_pinned_use_background_threads": [c_void_p, c_int32],
    "set_pinned_use_cuda_host_register": [c_void_p, c_int32],
    "set_pinned_free_catch_all": [c_void_p, c_int32],
    "set_pinned_num_register_threads": [c_void_p, c_uint64],
    "set_pinned_reserve_segment_size_mb": [c_void_p, c_uint64],
    "set_pinned_max_round_threshold": [c_void_p, c_uint64],
    "set_pinned_max_cached_size": [c_void_p, c_uint64],
    "set_roundup_power2_divisions": [c_void_p, POINTER(c_uint64), c_size_t],
    "policy_read": [c_char_p, POINTER(Policy)],
    "get_policy": [c_void_p, POINTER(Policy)],
    "get_policy_stats": [c_void_p, c_int32, POINTER(PolicyStats)],
    "pin": [c_void_p, c_uint64, c_uint64],
    "unpin": [c_void_p, c_uint64, c_uint64],
    "allocate": [c_void_p, c_uint64, c_int32, c_uint64, POINTER(c_uint64)],
    "free": [c_void_p, c_uint64],
    "record_stream": [c_void_p, c_uint64, c_uint64],
    "base_allocation": [c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_uint64)],
    "release_context": [c_void_p, c_int32],
    "shared_block_create": [c_void_p, c_uint64, POINTER(c_void_p)],
    "shared_block_ticket": [c_void_p, c_char_p, c_size_t, _SIZE],
    "opened_block_create": [c_void_p, c_int32, c_char_p, POINTER(c_void_p)],
    "opened_block_address": [c_void_p, POINTER(c_uint64), POINTER(c_uint64)],
    "pinned_allocate": [c_void_p, c_uint64, POINTER(c_void_p)],
    "pinned_free": [c_void_p, c_void_p],
    "pinned_record_stream": [c_void_p, c_void_p, c_int32, c_uint64],
    "pinned_empty_cache": [c_void_p],
    "pinned_get_stats": [c_void_p, POINTER(PinnedStats)],
    "pinned_reset_peak_stats": [c_void_p],
    "pinned_reset_accumulated_stats": [c_void_p],
    "stream_ended": [c_void_p, c_int32, c_uint64],
    "get_stats": [c_void_p, c_int32, POINTER(Stats)],
    "reset_peak_stats": [c_void_p, c_int32],
    "reset_accumulated_stats": [c_void_p, c_int32],
    "memory_summary": [c_void_p, c_int32, c_int32, c_char_p, c_size_t, _SIZE],
    "metrics_text": [c_void_p, c_char_p, c_size_t, _SIZE],
    "tenant_create": [c_void_p, POINTER(TenantOptions), POINTER(c_void_p)],
    "tenant_destroy": [c_void_p],
    "allocate_for": [c_void_p, c_void_p, c_uint64, c_int32, c_uint64, POINTER(c_uint64)],
    "tenant_begin": [c_void_p],
    "tenant_end": [c_void_p],
    "tenant_set_bytes": [c_void_p, c_int32, c_uint64, c_uint64],
    "tenant_set_priority": [c_void_p, c_int32],
    "get_tenant_stats": [c_void_p, c_int32, POINTER(TenantStats)],
    "pool_new_id": [c_void_p, c_int32, POINTER(PoolId)],
    "pool_begin": [c_void_p, c_int32, PoolId, POINTER(PoolRoute)],
    "pool_end": [c_void_p, c_int32, PoolId],
    "pool_create": [c_void_p, c_int32, PoolId, POINTER(PoolOptions)],
    "pool_release": [c_void_p, c_int32, PoolId],
    "pool_empty": [c_void_p, c_int32, PoolId],
    "pool_set_pinned": [c_void_p, c_int32, PoolId, c_int32],
    "pool_sleep": [c_void_p, c_int32, PoolId, c_int32, c_uint64, POINTER(c_uint64)],
    "pool_wake": [c_void_p, c_int32, PoolId, c_uint64],
    "pool_set_sleep_contents": [c_void_p, c_int32, PoolId, c_char_p, c_int32],
    "get_sleep_stats": [c_void_p, c_int32, PoolId, POINTER(SleepStats)],
    "pool_use_count": [c_void_p, c_int32, PoolId, POINTER(c_int32)],
    "pool_has_live": [c_void_p, c_int32, PoolId, POINTER(c_uint64), c_size_t, POINTER(c_int32)],
    "checkpoint_take": [c_void_p, c_int32, PoolId, POINTER(c_void_p)],
    "checkpoint_apply": [c_void_p, c_int32, c_void_p, POINTER(c_void_p)],
    "record_history": [c_void_p, POINTER(HistoryOptions)],
    "recorder_start": [c_void_p, POINTER(RecorderOptions), POINTER(c_uint64)],
    "recorder_flush": [c_void_p, c_uint64],
    "recorder_stop": [c_void_p, c_uint64],
    "recorder_get_stats": [c_void_p, c_uint64, POINTER(RecorderStats)],
    "recorder_path": [c_void_p, c_uint64, c_char_p, c_size_t, _SIZE],
    "set_oom_dump": [c_void_p, POINTER(OomDumpOptions)],
    "set_metadata": [c_char_p],
    "annotate": [c_void_p, c_uint64, c_char_p],
    "context_of": [c_void_p, c_uint64, POINTER(c_uint64)],
    "context_text": [c_void_p, c_uint64, c_char_p, c_size_t, _SIZE],
    "label_push": [c_char_p],
    "label_pop": [],
    "report_create": [c_void_p, POINTER(ReportOptions), POINTER(c_void_p)],
    "report_text": [c_void_p, c_char_p, c_size_t, _SIZE],
    "report_json": [c_void_p, c_char_p, c_size_t, _SIZE],
    "snapshot_take": [c_void_p, POINTER(SnapshotOptions), POINTER(c_void_p)],
    "snapshot_write_pickle": [c_void_p, c_void_p, WRITE_FUNCTION, c_void_p],
}

# Name: what any other function returns, and its arguments.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "version": (c_char_p, []),
    "version_number": (c_int32, []),
    "action_name": (c_char_p, [c_int32]),
    "allocator_release": (c_int32, [c_void_p]),
    "allocator_backend": (c_char_p, [c_void_p]),
    "allocator_driver": (c_void_p, [c_void_p]),
    "driver_name": (c_char_p, [c_void_p]),
    "driver_destroy": (None, [c_void_p]),
    "shared_block_users": (c_size_t, [c_void_p]),
    "shared_block_destroy": (None, [c_void_p]),
    "opened_block_has_sharer": (c_int32, [c_void_p]),
    "opened_block_destroy": (None, [c_void_p]),
    "is_caching_enabled": (c_int32, [c_void_p]),
    "driver_device_count": (c_int32, [c_void_p]),
    "stats_at": (c_int32, [POINTER(Stats), c_int32, c_size_t, POINTER(c_char_p), POINTER(c_int64)]),
    "checkpoint_destroy": (None, [c_void_p]),
    "checkpoint_changes_destroy": (None, [c_void_p]),
    "checkpoint_freed_at": (c_int32, [c_void_p, c_size_t, POINTER(c_uint64)]),
    "checkpoint_created_at": (c_int32, [c_void_p, c_size_t, POINTER(c_uint64)]),
    "report_destroy": (None, [c_void_p]),
    "snapshot_destroy": (None, [c_void_p]),
    "snapshot_segment_count": (c_size_t, [c_void_p]),
    "snapshot_segment": (c_int32, [c_void_p, c_size_t, POINTER(SegmentRow)]),
    "snapshot_block": (c_int32, [c_void_p, c_size_t, POINTER(BlockRow)]),
    "snapshot_entry_count": (c_size_t, [c_void_p, c_int32]),
    "snapshot_entry": (c_int32, [c_void_p, c_int32, c_size_t, POINTER(TraceEntry)]),
    "snapshot_settings": (c_int32, [c_void_p, POINTER(Settings)]),
    "snapshot_config": (c_char_p, [c_void_p]),
}


def declare(library: ctypes.CDLL) -> None:
    """Tells ctypes the signatures of all functions above; AttributeError names one that is missing."""
    for name, arguments in CALLS.items():
        function = getattr(library, "cachalot_" + name)
        function.restype, function.argtypes = c_int32, [*arguments, _ERROR]
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, "cachalot_" + name)
        function.restype, function.argtypes = result, arguments
