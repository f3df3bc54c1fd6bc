# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of the live allocator: all of them as numbers, and each by a setter of its own.

A setter leaves all other options as they are at that moment, so that threads that set different ones do not
undo each other's changes. The change applies to the next request; blocks that exist stay as they are. What is
not acceptable, also what does not go with the other options, is an InvalidArgumentError in PyTorch's words, and
nothing has changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _c, _library
from .errors import InvalidArgumentError

_UNLIMITED = ("max_split_size", "roundup_bypass_threshold", "pinned_max_round_threshold", "pinned_max_cached_size")
_FLAGS = tuple(name for name, kind in _c.fields(_c.Settings) if kind is ctypes.c_int32)


def settings() -> dict[str, Any]:
    """The options in force, by the names of cachalot_settings: sizes in bytes, None where there is no limit."""
    row = _c.Settings()
    _library.call("get_settings", _library.allocator(), ctypes.byref(row))
    values = {name: getattr(row, name) for name, _ in _c.fields(row)}
    values["roundup_power2_divisions"] = list(row.roundup_power2_divisions)
    values.update({name: bool(values[name]) for name in _FLAGS})
    values.update({name: None for name in _UNLIMITED if values[name] == _c.UNLIMITED})
    return values


def update_config(config: str) -> None:
    """Sets the options that a string in PyTorch's grammar names, and leaves all others as they are
    (torch.cuda.memory._set_allocator_settings resets some). A list that is named is replaced as a whole."""
    _library.call("update_config", _library.allocator(), config.encode())


def set_max_split_size(bytes: int | None) -> None:
    """Blocks of this size and more are kept whole. Bytes. At least the large segment size; None: unlimited."""
    _set("max_split_size", _unsigned("bytes", bytes))


def set_max_non_split_rounding_size(bytes: int | None) -> None:
    """How much larger a cached block may be for a request of max_split_size and more. Bytes. At least the large
    segment size."""
    _set("max_non_split_rounding_size", _unsigned("bytes", bytes))


def set_large_segment_size(bytes: int | None) -> None:
    """The segment size of requests from 1 to 10 MiB, and the page size of new large expandable segments. Bytes.
    A multiple of 1 MiB above 10 MiB, at most max_split_size. max_non_split_rounding_size goes with it where it
    has the old value, which is its default."""
    _set("large_segment_size", _unsigned("bytes", bytes))


def set_garbage_collection_threshold(fraction: float) -> None:
    """From which share of the memory limit on cached segments are collected. Between 0 and 1; 0: off."""
    _set("garbage_collection_threshold", fraction)


def set_per_process_memory_fraction(fraction: float) -> None:
    """What throw_on_cudamalloc_oom compares with. Of the device, 0 to 1. The limit in force stays:
    torch.cuda.set_per_process_memory_fraction changes that."""
    _set("per_process_memory_fraction", fraction)


def set_roundup_bypass_threshold(bytes: int | None) -> None:
    """Requests of more bytes are not rounded by divisions. Bytes. None: all are."""
    _set("roundup_bypass_threshold", _unsigned("bytes", bytes))


def set_expandable_segments(enabled: bool) -> None:
    """Whether new segments are made of pages. An Error for True where the driver has no virtual memory."""
    _set("expandable_segments", int(bool(enabled)))


def set_release_lock_on_cudamalloc(enabled: bool) -> None:
    """Whether other threads go on while the driver allocates."""
    _set("release_lock_on_cudamalloc", int(bool(enabled)))


def set_graph_capture_record_stream_reuse(enabled: bool) -> None:
    """Whether blocks freed during a capture are reused in it."""
    _set("graph_capture_record_stream_reuse", int(bool(enabled)))


def set_throw_on_cudamalloc_oom(enabled: bool) -> None:
    """Whether requests beyond per_process_memory_fraction are refused before the driver is asked. Since 2.12:
    under 2.11 True is an unknown key."""
    _set("throw_on_cudamalloc_oom", int(bool(enabled)))


def set_pinned_use_background_threads(enabled: bool) -> None:
    """Kept for the pinned-memory allocator."""
    _set("pinned_use_background_threads", int(bool(enabled)))


def set_pinned_use_cuda_host_register(enabled: bool) -> None:
    """Kept for the pinned-memory allocator."""
    _set("pinned_use_cuda_host_register", int(bool(enabled)))


def set_pinned_free_catch_all(enabled: bool) -> None:
    """Kept for the pinned-memory allocator. Since 2.12: under 2.11 True is an unknown key."""
    _set("pinned_free_catch_all", int(bool(enabled)))


def set_pinned_num_register_threads(threads: int) -> None:
    """Kept for the pinned-memory allocator. A power of two, 1 to 128."""
    _set("pinned_num_register_threads", _unsigned("threads", threads))


def set_pinned_reserve_segment_size_mb(megabytes: int) -> None:
    """Kept for the pinned-memory allocator. MiB; 0: off."""
    _set("pinned_reserve_segment_size_mb", _unsigned("megabytes", megabytes))


def set_pinned_max_round_threshold(bytes: int | None) -> None:
    """Kept for the pinned-memory allocator. Bytes. None: unset. Since 2.13."""
    _set("pinned_max_round_threshold", _unsigned("bytes", bytes))


def set_pinned_max_cached_size(bytes: int | None) -> None:
    """Kept for the pinned-memory allocator. Bytes. None: unset. Since 2.13."""
    _set("pinned_max_cached_size", _unsigned("bytes", bytes))


def set_roundup_power2_divisions(divisions: int | Sequence[int]) -> None:
    """How many steps requests are rounded in between two powers of two: a power of two, or 0 for off, for all
    sizes; or 16 of them, for sizes from 2**i MiB to below 2**(i+1) MiB, of which the first and last are open."""
    slots = [divisions] if isinstance(divisions, int) else list(divisions)
    numbers = (ctypes.c_uint64 * max(1, len(slots)))(*(_unsigned("divisions", each) for each in slots))
    _set("roundup_power2_divisions", numbers, len(slots))


def _set(name: str, *value: Any) -> None:
    _library.call("set_" + name, _library.allocator(), *value)


def _unsigned(name: str, value: int | None) -> int:
    if value is None:
        return _c.UNLIMITED
    if not 0 <= value <= _c.UNLIMITED:
        raise InvalidArgumentError(f"{name} must be from 0 to 2**64 - 1, not {value}", _c.ERROR_INVALID_ARGUMENT)
    return value
