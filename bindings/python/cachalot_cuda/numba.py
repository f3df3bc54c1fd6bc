# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numba on cachalot: an External Memory Management plug-in for numba-cuda.

    NUMBA_CUDA_MEMORY_MANAGER=cachalot_cuda.numba python program.py

or, before the first use of CUDA,

    numba.cuda.set_memory_manager(cachalot_cuda.numba.MemoryManager)

The options are those of the environment, unless the process has an allocator already: another host's (PyTorch,
CuPy), or cachalot_cuda.numba.install(...)'s.

Blocks are the default stream's. Numba tells a plug-in no stream, and a block that is freed may still be in use on
any, so it is handed out again when the work is done that all streams had been given by then; nothing waits for
that. Pinned, mapped and managed memory stay Numba's own.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as _bindings
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError, driver as _driver

from . import _blocks, _c, _library, _process, share, statistics
from .allocator import Allocator
from .errors import Error, InvalidStateError
from .errors import OutOfMemoryError as _OutOfMemoryError


class OutOfMemoryError(_OutOfMemoryError, CudaAPIError):
    """Numba's own error with the driver's code for want of memory, and cachalot's text."""

    def __init__(self, message: str, status: int = _c.ERROR_OUT_OF_MEMORY, driver_code: int = 0) -> None:
        super().__init__(message, status, driver_code)
        self.code, self.msg = _bindings.CUresult.CUDA_ERROR_OUT_OF_MEMORY, message


def install(config: str | None = None, release: str | None = None, **options: Any) -> None:
    """Puts Numba on cachalot, before its first use of CUDA: with options, where the environment's are not wanted. With
    CACHALOT_DISABLE=1 in the environment nothing happens but for a line of the log.

    Args:
        config, release, options: as for cachalot_cuda.cupy.install, and so are the errors.

    Raises:
        InvalidStateError: Numba has a CUDA context already, in any thread.
        Error: the allocator has the backend cudaMallocAsync, which cannot wait for all streams.
    """
    if _process.is_disabled_for("Numba"):
        return
    if any(device.primary_context is not None for device in _driver.devices.values()):
        raise InvalidStateError("cachalot_cuda.numba.install() must come before Numba's first use of CUDA",
                                _c.ERROR_INVALID_STATE)
    _join(config=config, release=release, **options)
    cuda.set_memory_manager(MemoryManager)


class MemoryManager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
    """What numba.cuda.set_memory_manager takes: device memory of one context from the allocator of the process."""

    def initialize(self) -> None:
        """Makes the allocator of the process, if there is none yet. Each thread that takes the context calls it."""
        _join_once()
        device = self._device
        if device in _reset:
            _reset.discard(device)
            _retain_unless_active(device)

    @property
    def _device(self) -> int:
        """The number of the context's device. A context that a program attaches may have the driver's own type of
        device, which is a number."""
        device = self.context.device
        return int(getattr(device, "id", device))

    def memalloc(self, size: int) -> Any:
        """A numba.cuda.MemoryPointer of so many bytes. Where memory is short, what Numba has put off to free is
        freed, and then it is an OutOfMemoryError."""
        address = self._attempt_allocation(functools.partial(_allocate, size, self._device))
        block = self.allocations[address] = _Block(address, size)
        return cuda.MemoryPointer(self.context, _bindings.CUdeviceptr(address), size,
                                  finalizer=functools.partial(_end, self.allocations, address, weakref.ref(block)))

    def get_memory_info(self) -> Any:
        """Bytes of the device that are free, cached ones too and within the allocator's limit, and that there are."""
        free, total = _driver.cuMemGetInfo()
        device = self._device
        row = statistics.row_of(_library.allocator(), device)
        allocated = row.allocated_bytes.all.current
        free += row.reserved_bytes.all.current - allocated
        limit = Allocator.of_process().memory_limit(device)
        if limit is not None:
            free = min(free, max(0, limit - allocated))
        return cuda.MemoryInfo(free=free, total=total)

    def reset(self) -> None:
        """Frees all memory of this context, which is about to end: the cache of the device goes back to the driver,
        and no event of it is kept. Blocks that other hosts of the process have on the device end with the context."""
        super().reset()
        device = self._device
        _reset.add(device)
        _blocks.release_context(device)

    def get_ipc_handle(self, memory: Any) -> Any:
        """CUDA's handle of the segment for memory of plain segments; a TicketHandle for expandable ones, which CUDA
        has no such handle for."""
        block = self.allocations.get(int(memory.owner.handle)) if isinstance(memory.owner, _POINTERS) else None
        if not isinstance(block, _Block) or _blocks.has_plain_segment(block.address):
            return super().get_ipc_handle(memory)
        offset = int(memory.handle) - block.address
        return TicketHandle(memory, block.ticket, memory.size, self.context.device.get_device_identity(), offset)

    @property
    def interface_version(self) -> int:
        """That of the plug-in interface."""
        return 1


# Looked for by NUMBA_CUDA_MEMORY_MANAGER.
_numba_memory_manager = (cuda.cudadrv.driver.NumbaCUDAMemoryManager
                         if os.environ.get("NUMBA_CUDA_MEMORY_MANAGER") == __name__
                         and _process.is_disabled_for("Numba") else MemoryManager)

_reset: set[int] = set()  # devices whose context a reset may have ended


def _retain_unless_active(device: int) -> None:
    """Numba releases the primary context at each reset. It takes the context through cuda.core, which retains it only
    once in a process, and returns the same handle later although nobody holds the context."""
    _, _, is_active = _bindings.cuDevicePrimaryCtxGetState(device)
    if not is_active:
        _bindings.cuDevicePrimaryCtxRetain(device)


_POINTERS = (cuda.MemoryPointer, cuda.cudadrv.driver.OwnedPointer)


class TicketHandle(cuda.IpcHandle):
    """An IPC handle that opens a block by its ticket (cachalot_cuda.open_block). It can be pickled for the other
    process, which must be of the same user; its text is a secret."""

    def open_direct(self, context: Any) -> Any:
        """The memory in this process, until close()."""
        if self._impl is not None:
            raise ValueError("IpcHandle is already opened")
        block = share.open_block(self.handle, context.device.id)
        self._impl: Any = block
        return cuda.MemoryPointer(context, _bindings.CUdeviceptr(block.address + self.offset), self.size, owner=block)

    open = open_direct

    def open_staged(self, context: Any) -> None:
        """Not supported: the devices have to reach each other."""
        raise NotImplementedError("blocks of expandable segments cannot be opened by way of the host")

    def __reduce__(self) -> tuple[Any, ...]:
        return TicketHandle, (None, self.handle, self.size, self.source_info, self.offset)


class _Block:
    """A block that goes back when nothing refers to this any more."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self._shared: share.SharedBlock | None = None

    @property
    def ticket(self) -> str:
        """The text by which others open it."""
        if self._shared is None:
            self._shared = share.share(self.address, self.size)
        return self._shared.ticket

    def __del__(self) -> None:
        try:
            _blocks.record_stream(self.address, _c.STREAM_ALL)
            if self._shared is None:
                _blocks.free(self.address)
            else:
                self._shared.close()
        except Error:
            if not _library.is_forked():
                raise


def _end(allocations: dict[int, Any], address: int, block: Callable[[], _Block | None]) -> None:
    """Ends a block of Numba's, unless a reset has: then another one may have its address."""
    mine = block()
    if mine is not None and allocations.get(address) is mine:
        del allocations[address]


def _join(**options: Any) -> None:
    _process.allocator_for("Numba", check_backend=_require_native, **options)


def _require_native(backend: str) -> None:
    if backend == "cudaMallocAsync":
        raise Error("Numba cannot be on backend:cudaMallocAsync, which cannot wait for the work of all streams",
                    _c.ERROR_NOT_SUPPORTED)


_join_once = functools.lru_cache(maxsize=None)(_join)


def _allocate(size: int, device: int) -> int:
    try:
        return _blocks.allocate(size, device, 0)
    except _OutOfMemoryError as error:
        raise OutOfMemoryError(str(error), error.status, error.driver_code) from None
