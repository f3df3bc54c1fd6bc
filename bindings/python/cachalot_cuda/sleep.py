# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pools that sleep: the memory of an idle model goes back to the driver, and comes back at the same addresses."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

from . import _c, _library
from ._arguments import Device, Stream, device_index, handle_of
from .errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class SleepStats:
    """What sleeps of a pool, or of all pools of a device.

    Attributes:
        state: "awake", "falling_asleep", "asleep" or "waking"; of a device "awake".
        pools: pools that are not awake.
        blocks: blocks that will be handed out again.
        allocated_bytes: theirs.
        asleep_bytes: bytes of pages that the driver has back, and that waking needs.
        kept_bytes: bytes of pinned host memory that has contents.
        num_sleeps: how often pools of the device fell asleep; of a pool 0.
        num_wakes: how often they woke; of a pool 0.
    """

    state: str
    pools: int
    blocks: int
    allocated_bytes: int
    asleep_bytes: int
    kept_bytes: int
    num_sleeps: int
    num_wakes: int


def sleep_pool(pool: tuple[int, int], stream: Stream, keep: bool | str = True, device: Device = None) -> int:
    """Gives a private pool's memory back to the driver and keeps its addresses: tensors and CUDA graphs are right again
    once the pool is awake. Gives the bytes that the driver has back.

    The pool has to be in expandable segments ("expandable_segments:True"). All work of the device is waited for. What
    is kept is then copied to pinned host memory on the stream, and that is waited for too. While the pool sleeps
    nothing may use its tensors, which nothing checks; they can be freed, and count for nobody.

    Args:
        pool: its id, two numbers.
        stream: a torch.cuda.Stream of the device, or the handle of a stream as a number; 0: the default stream.
        keep: what becomes of contents. True: those of live tensors are kept; False: they are lost; "all": those of
            free memory are kept too, for graphs whose results lie in memory that was freed. set_sleep_contents
            can say something else of a label.
        device: as for the statistics.

    Raises:
        InvalidStateError: there is no such pool, it is not awake, requests are routed to it, it is pinned, or a capture
            may be under way. Nothing has changed, as after the other errors.
        Error: its memory cannot come back at its addresses, the driver cannot keep contents, or there is not
            enough memory of the host.
    """
    freed = ctypes.c_uint64()
    _call("pool_sleep", pool, device, contents_of(keep), handle_of(stream), ctypes.byref(freed))
    return freed.value


def wake_pool(pool: tuple[int, int], stream: Stream, device: Device = None) -> None:
    """Gives a pool that sleeps new memory at its addresses, queues the copies of what was kept on the stream, and hands
    its blocks out again. The host does not wait for the copies: work on other streams has to come behind them. What
    was discarded is undefined.

    Args:
        pool, stream, device: as for sleep_pool.

    Raises:
        OutOfMemoryError: there is not enough memory. The pool sleeps on, with its contents, and the call can be
            repeated.
        InvalidStateError: there is no such pool, it does not sleep, or a capture may be under way.
        Error: the driver failed; the pool sleeps on.
    """
    _call("pool_wake", pool, device, handle_of(stream))


def set_sleep_contents(pool: tuple[int, int], label: str, keep: bool | str, device: Device = None) -> None:
    """Says what becomes of a pool's blocks with this label, whatever sleep_pool says: weights are kept and a
    key/value cache is discarded, say.

    Args:
        pool, device: as for sleep_pool.
        label: as `cachalot_cuda.label` gave it; nested ones are joined: "model/kv-cache".
        keep: True or False.

    Raises:
        InvalidStateError: there is no such pool, or labels are not tracked (install(track_labels=True)).
    """
    _call("pool_set_sleep_contents", pool, device, label.encode(), contents_of(keep))


def sleep_stats(device: Device = None, pool: tuple[int, int] = (0, 0)) -> SleepStats:
    """The SleepStats of a device, or of one pool of it.

    Args:
        device: as for the statistics.
        pool: the id of a private pool.

    Raises:
        InvalidStateError: there is no such pool.
    """
    row = _c.SleepStats()
    _call("get_sleep_stats", pool, device, ctypes.byref(row))
    numbers = {field.name: getattr(row, field.name) for field in dataclasses.fields(SleepStats)}
    return SleepStats(**{**numbers, "state": _c.POOL_STATES[row.state]})


def _call(name: str, pool: tuple[int, int], device: Device, *arguments: Any) -> None:
    _library.call(name, _library.allocator(), device_index(device), _c.PoolId(*pool), *arguments)


def contents_of(keep: bool | str) -> int:
    if keep not in _c.SLEEP_CONTENTS:
        raise InvalidArgumentError(f'keep must be True, False or "all", not {keep!r}', _c.ERROR_INVALID_ARGUMENT)
    return _c.SLEEP_CONTENTS[keep]
