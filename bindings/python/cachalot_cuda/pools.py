# SPDX-License-Identifier: MIT OR Apache-2.0
"""Private pools: memory set apart for one user, that others do not take."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from . import _c
from ._arguments import Stream, handle_of
from ._ending import EndsByItself
from .errors import Error, InvalidStateError
from .sleep import contents_of

if TYPE_CHECKING:
    from .allocator import Allocator


class Pool(EndsByItself):
    """A private pool of one device (Allocator.pool). In a with block all requests of the thread on this device go to
    it, those of hosts too where the allocator is that of the process. One thread at a time has it in a with block::

        pool = allocator.pool()
        with pool:
            block = allocator.allocate(1 << 20)

    Blocks stay in the pool for as long as they live. (PyTorch's own pools are torch.cuda.MemPool.)

    Args:
        use_on_oom: its cached blocks serve requests of others that would fail.
        no_split: its blocks are never split.
        pinned: its memory stays where it is, also once the pool is closed: for memory that others have registered.
        whole_blocks: each of its blocks is an allocation of the driver, as handles for other processes need it.

    Attributes:
        device: where it lies.
        id: two numbers.
    """

    _allocator: Allocator | None = None  # also where a constructor fails

    def __init__(self, allocator: Allocator, device: int, *, use_on_oom: bool = False, no_split: bool = False,
                 pinned: bool = False, whole_blocks: bool = False) -> None:
        self.device = device
        key = _c.PoolId()
        allocator._call("pool_new_id", 0, ctypes.byref(key))
        self.id = (key.first, key.second)
        flags = (_c.POOL_USE_ON_OOM * bool(use_on_oom) | _c.POOL_NO_SPLIT * bool(no_split)
                 | _c.POOL_PINNED * bool(pinned) | _c.POOL_WHOLE_BLOCKS * bool(whole_blocks))
        options = _c.PoolOptions(flags=flags)
        allocator._call("pool_create", device, key, ctypes.byref(options))
        self._allocator = allocator  # lives as long as its pools

    def sleep(self, keep: bool | str = True, stream: Stream = 0) -> int:
        """Gives the memory back to the driver and keeps its addresses, as cachalot_cuda.sleep_pool, which says the
        rest. Gives the number of bytes."""
        freed = ctypes.c_uint64()
        self._call("pool_sleep", contents_of(keep), handle_of(stream), ctypes.byref(freed))
        return freed.value

    def wake(self, stream: Stream = 0) -> None:
        """Gives the pool its memory back, with what was kept, as cachalot_cuda.wake_pool."""
        self._call("pool_wake", handle_of(stream))

    def close(self) -> None:
        """Ends the pool: its cached memory goes back to the driver, that of live blocks when they are freed and the
        cache is emptied. Again: nothing.

        Raises:
            InvalidStateError: requests are routed to it; nothing has changed.
        """
        if self._allocator is not None:
            if self._use_count() > 1:
                raise InvalidStateError("requests are routed to the pool", _c.ERROR_INVALID_STATE)
            self._call("pool_release")
            self._call("pool_empty")
            self._allocator = None

    def _use_count(self) -> int:
        count = ctypes.c_int32()
        self._call("pool_use_count", ctypes.byref(count))
        return count.value

    def __enter__(self) -> Pool:
        route = _c.PoolRoute(kind=_c.ROUTE_THIS_THREAD)
        try:
            self._call("pool_begin", ctypes.byref(route))
        except Error:
            self._forget_use()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._call("pool_end")
        self._call("pool_release")  # the use of the routing

    def _forget_use(self) -> None:
        if self._allocator is not None and self._use_count() > 1:
            self._call("pool_release")

    def _call(self, name: str, *arguments: Any) -> None:
        if self._allocator is None:
            raise InvalidStateError("the pool is closed", _c.ERROR_INVALID_STATE)
        self._allocator._call(name, self.device, _c.PoolId(*self.id), *arguments)
