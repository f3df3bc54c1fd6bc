# SPDX-License-Identifier: MIT OR Apache-2.0
"""Blocks between processes of one machine and one user, without a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

from . import _blocks, _c, _library
from ._arguments import Device, Stream, device_index, owner_handle, whole
from .errors import Error, InvalidStateError


_B = TypeVar("_B", bound="Block")


class Block:
    """A block with an end: close(), or that of a with block.

    torch.as_tensor, cupy.asarray and numba.cuda.as_cuda_array take it as bytes of the device, and do not keep it:
    it must outlive what is made of it.

    Attributes:
        address: the first byte in this process.
        size: bytes.
    """

    _handle: Any = None  # also where a constructor fails

    def __init__(self, handle: Any, address: int, size: int, end: Callable[[Any], object]) -> None:
        self._handle, self._end = handle, end
        self.address, self.size = address, size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._live()
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    @property
    def view(self) -> memoryview:
        """The bytes as a memoryview that can be written, where the driver is the host's.

        Raises:
            Error: it is another one.
        """
        self._live()
        library = _library.load()
        driver = library.cachalot_driver_name(library.cachalot_allocator_driver(self._allocator()))
        if driver != b"host":
            raise Error("only blocks of the driver 'host' are bytes of this process", _c.ERROR_NOT_SUPPORTED)
        return memoryview((ctypes.c_ubyte * self.size).from_address(self.address)).cast("B")

    def _allocator(self) -> ctypes.c_void_p:
        return _library.allocator()

    def close(self) -> None:
        """Ends it. Again: nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._end(handle)

    def _live(self) -> Any:
        if self._handle is None:
            raise InvalidStateError("the block is closed", _c.ERROR_INVALID_STATE)
        return self._handle

    def __len__(self) -> int:
        return self.size

    def __enter__(self: _B) -> _B:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Error:
            if not _library.is_forked():
                raise
        except (AttributeError, TypeError):  # the interpreter is going, its modules are empty
            pass

    def __repr__(self) -> str:
        state = ", closed" if self._handle is None else ""
        return f"{type(self).__name__}({self.address:#x}, {self.size} bytes{state})"


class SharedBlock(Block):
    """A block that other processes can open by its ticket (shared_block). It is freed when it is closed and no
    process has it open any more, however those processes end."""

    @property
    def ticket(self) -> str:
        """The text by which other processes of this user open the block: a secret."""
        return _library.text("shared_block_ticket", self._live())

    @property
    def users(self) -> int:
        """How often it is open."""
        return _library.load().cachalot_shared_block_users(self._live())


class OpenedBlock(Block):
    """A block of another process, which stays there until this is closed (open_block). close() waits for the
    work of the device."""

    @property
    def has_sharer(self) -> bool:
        """Whether the process that shares it is still there."""
        return _library.load().cachalot_opened_block_has_sharer(self._live()) != 0


def shared_block(size: int, device: Device = None, stream: Stream = 0) -> SharedBlock:
    """Allocates a block of so many bytes for other processes::

        with cachalot_cuda.shared_block(64 << 20) as block:
            torch.as_tensor(block, device="cuda").fill_(7)
            worker.send(block.ticket)

    Args:
        size: bytes.
        device: None: what the stream says, else as for the statistics.
        stream: whose block it is: a torch.cuda.Stream, or the handle of a stream as a number; 0: the default stream.

    Raises:
        Error: there is no memory, or that of the driver cannot be shared.
    """
    address = _blocks.allocate(whole("size", size), device_index(device, stream), owner_handle(stream))
    try:
        return share(address, size)
    except Error:
        _blocks.free(address)
        raise


def share(address: int, size: int) -> SharedBlock:
    """A SharedBlock of a live block of so many bytes, which belongs to it from now on. After an Error nothing has
    changed."""
    handle = ctypes.c_void_p()
    _library.call("shared_block_create", _library.allocator(), address, ctypes.byref(handle))
    return SharedBlock(handle, address, size, _library.load().cachalot_shared_block_destroy)


def open_block(ticket: str, device: Device = None) -> OpenedBlock:
    """Opens a block that another process shares, whatever language it is written in::

        with cachalot_cuda.open_block(ticket) as block:
            tensor = torch.as_tensor(block, device="cuda").view(torch.float32)

    Raises:
        InvalidArgumentError: the text is no ticket.
        InvalidStateError: the block or its process is gone.
    """
    handle, address, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
    _library.call("opened_block_create", _library.allocator(), device_index(device), ticket.encode(),
                  ctypes.byref(handle))
    end = _library.load().cachalot_opened_block_destroy
    try:
        _library.call("opened_block_address", handle, ctypes.byref(address), ctypes.byref(size))
    except Error:
        end(handle)
        raise
    return OpenedBlock(handle, address.value, size.value, end)
