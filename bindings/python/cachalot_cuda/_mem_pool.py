# SPDX-License-Identifier: MIT OR Apache-2.0
"""torch.cuda.MemPool for a process that is on cachalot: PyTorch cannot make its own there."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from . import _c, _library, sleep
from ._arguments import Stream
from .errors import Error
from .sleep import SleepStats


class MemPool:
    """A private pool of cachalot with the interface of torch.cuda.MemPool, for torch.cuda.use_mem_pool and
    torch.cuda.graph.

    Args:
        allocator: must be None; another source of memory cannot be put under cachalot from Python.
        use_on_oom: its cached blocks serve requests of others that would fail.
        no_split: its blocks are never split.
        pinned: its memory stays where it is, also once the pool is gone: for memory that others have
            registered (cachalot_cuda.pin). torch.cuda.MemPool does not have it.
    """

    _device: int | None = None  # also where a constructor fails

    def __init__(self, allocator: None = None, use_on_oom: bool = False, no_split: bool = False, *,
                 pinned: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError("a MemPool with an allocator of its own needs PyTorch's native allocator")
        torch.cuda.init()
        self._id: tuple[int, int] = torch.cuda.graph_pool_handle()
        options = _c.PoolOptions(flags=_c.POOL_USE_ON_OOM * bool(use_on_oom) + _c.POOL_NO_SPLIT * bool(no_split)
                                 + _c.POOL_PINNED * bool(pinned))
        device = torch.cuda.current_device()
        self._call("pool_create", device, ctypes.byref(options))
        self._device = device

    def _call(self, name: str, device: int | None, *arguments: Any) -> None:
        _library.call(name, _library.allocator(), device, _c.PoolId(*self._id), *arguments)

    @property
    def id(self) -> tuple[int, int]:
        """The id of the pool, two numbers."""
        return self._id

    def use_count(self) -> int:
        """How many uses it has: itself, and each routing that has not been released."""
        count = ctypes.c_int32()
        self._call("pool_use_count", self._device, ctypes.byref(count))
        return count.value

    def set_pinned(self, pinned: bool) -> None:
        """Pins the pool's memory, present and future, or ends that."""
        self._call("pool_set_pinned", self._device, int(bool(pinned)))

    def sleep(self, keep: bool | str = True, stream: Stream | None = None) -> int:
        """Gives the pool's memory back to the driver until it is woken, and keeps its addresses. Gives the bytes
        that the driver has back. Nothing may use the pool's tensors meanwhile.

        Args:
            keep: whether contents are kept, or "all", as for cachalot_cuda.sleep_pool, which says the rest.
            stream: that copies them; None: the current one of the pool's device.
        """
        return sleep.sleep_pool(self._id, self._stream(stream), keep, self._device)

    def wake(self, stream: Stream | None = None) -> None:
        """Gives the pool its memory back, with what was kept. Work on other streams than this one, or than the
        current one of the pool's device where it is None, has to come behind it.

        Raises:
            cachalot_cuda.OutOfMemoryError: the pool sleeps on, and the call can be repeated.
        """
        sleep.wake_pool(self._id, self._stream(stream), self._device)

    def _stream(self, stream: Stream | None) -> Stream:
        return torch.cuda.current_stream(self._device) if stream is None else stream

    def set_sleep_contents(self, label: str, keep: bool | str) -> None:
        """Whether contents of blocks with this label are kept, whatever sleep says."""
        sleep.set_sleep_contents(self._id, label, keep, self._device)

    @property
    def state(self) -> str:
        """"awake", "falling_asleep", "asleep" or "waking"."""
        return self.sleep_stats().state

    def sleep_stats(self) -> SleepStats:
        """What sleeps of it, as cachalot_cuda.SleepStats."""
        return sleep.sleep_stats(self._device, self._id)

    def snapshot(self, include_traces: bool = True) -> Any:
        """Its segments, as torch.cuda.memory_snapshot has them."""
        return torch.cuda.memory_snapshot(self._id, include_traces)

    def __del__(self) -> None:
        if self._device is None:
            return
        try:
            self._call("pool_release", self._device)
            self._call("pool_empty", self._device)
        except (Error, AttributeError, TypeError):  # but for Error: the interpreter is going, its modules are empty
            pass
