# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pinned host memory: buffers that copies to and from devices go through without a stop."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from . import _c, _library
from ._arguments import Device, Stream, device_index, handle_of
from .errors import InvalidArgumentError, InvalidStateError


class PinnedMemory:
    """A block of pinned host memory (pinned_memory).

    Its view, and whatever is made of that, shares the memory and keeps it: slices, numpy.frombuffer,
    torch.frombuffer. The block goes back to the cache when this and all of them are gone. close(), or the end
    of a with block, gives up the share of this one.

    Attributes:
        size: bytes.
        address: the first byte, at a multiple of 512; 0 for a block of 0 bytes.
    """

    def __init__(self, size: int) -> None:
        if not 0 <= size < 2**63:
            raise InvalidArgumentError(f"size must be from 0 to 2**63 - 1, not {size}", _c.ERROR_INVALID_ARGUMENT)
        self.size, self.address = size, 0
        self._view = None
        if size == 0:
            self._view = memoryview(bytearray())
            return
        memory = ctypes.c_void_p()
        _library.call("pinned_allocate", _library.allocator(), size, ctypes.byref(memory))
        address = memory.value or 0
        try:
            # Every export of the view has a reference to the array, so the block outlives them all.
            array = (ctypes.c_ubyte * size).from_address(address)
            weakref.finalize(array, _free, address).atexit = False
        except BaseException:
            _free(address)
            raise
        self.address = address
        self._view = memoryview(array).cast("B")

    @property
    def view(self) -> memoryview:
        """The bytes as a memoryview that can be written. They have whatever lay there."""
        return self._live()

    def record_stream(self, stream: Stream, device: Device = None) -> None:
        """Says that a stream uses the memory: call it behind each copy that the host does not wait for, before
        the memory is given up. After that it is handed out again when the work is done that the stream had been
        given until then. Nothing waits here: the host must not read what the device writes, nor write what
        the device reads, until the work is done.

        Args:
            stream: a torch.cuda.Stream, or the handle of a stream as a number.
            device: the stream's; None: what the stream says, else as for the statistics.

        Raises:
            InvalidArgumentError: there is no such device, or the block has 0 bytes.
            InvalidStateError: this is closed.
        """
        self._live()
        _library.call("pinned_record_stream", _library.allocator(), self.address, device_index(device, stream),
                      handle_of(stream))

    def close(self) -> None:
        """Gives this one's share of the memory up: without other shares the block goes back to the cache.
        Again: nothing."""
        # Not released: torch.frombuffer keeps the view, but no export of it, and would not stop that.
        self._view = None

    def _live(self) -> Any:
        if self._view is None:
            raise InvalidStateError("the pinned memory is closed", _c.ERROR_INVALID_STATE)
        return self._view

    def __len__(self) -> int:
        return self.size

    def __enter__(self) -> PinnedMemory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PinnedMemory({self.address:#x}, {self.size} bytes{', closed' if self._view is None else ''})"


def _free(address: int) -> None:
    _library.call("pinned_free", _library.allocator(), address)


def pinned_memory(size: int) -> PinnedMemory:
    """Hands out pinned host memory, from a cache of cachalot's own: torch.Tensor.pin_memory and data loaders go on
    to use PyTorch's. A size in bytes gives a PinnedMemory::

        with cachalot_cuda.pinned_memory(64 << 20) as memory:
            tensor = torch.frombuffer(memory.view, dtype=torch.float32)
            tensor.copy_(source)
            on_device.copy_(tensor, non_blocking=True)
            memory.record_stream(torch.cuda.current_stream())

    It is cached as PyTorch caches such memory, with the `pinned_` options; where the environment variable
    CACHALOT_PINNED_CONF has an option string, as the memory of a device with these options.

    Raises:
        Error: the driver refuses, also for want of memory, or has no pinned memory.
    """
    return PinnedMemory(size)


def empty_pinned_cache() -> None:
    """Gives all cached pinned memory back to the driver."""
    _library.call("pinned_empty_cache", _library.allocator())


def pinned_stats() -> dict[str, dict[str, int]]:
    """The statistics of pinned memory, as dictionaries in a dictionary. `allocations` and `allocated_bytes` are
    the blocks that were obtained, cached ones too; `active_requests` and `active_bytes` those that are handed
    out or wait for streams: each `current`, `peak`, `allocated` and `freed`. `allocate_times` and `free_times`
    are of the driver's calls in microseconds: `count`, `total`, `min` and `max`."""
    row = _c.PinnedStats()
    _library.call("pinned_get_stats", _library.allocator(), ctypes.byref(row))
    return {name: {field: getattr(getattr(row, name), field) for field, _ in kind._fields_}
            for name, kind in _c.fields(row)}


def reset_pinned_peak_stats() -> None:
    """Sets every peak of pinned memory to its current value."""
    _library.call("pinned_reset_peak_stats", _library.allocator())


def reset_pinned_accumulated_stats() -> None:
    """Sets all sums of pinned memory (allocated, freed) and the times to 0."""
    _library.call("pinned_reset_accumulated_stats", _library.allocator())
