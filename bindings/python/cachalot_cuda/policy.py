# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whose decisions are made, memory that stays where it is, and streams that end."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import typing
from typing import Any

from . import _c, _library
from ._arguments import Device, Stream, device_index, handle_of
from .errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Policy:
    """PyTorch's decisions, or those of cachalot's serving policy, which needs less memory (docs/policy.md).

    str() gives the text that parse() reads, which is that of the environment variable CACHALOT_POLICY.

    Attributes:
        name: "pytorch" or "serving"; thrift, borrow and streams are options of the latter.
        thrift: idle pages of the cache serve before new ones, so that no more is reserved than is needed.
        borrow: when cached memory of one stream is lent to another, which waits for its work on the device:
            "first" (before new pages are obtained: the least memory), "at_limit" (where no new page is to be
            had) or "never".
        streams: "announced" promises that stream_ended is called before a stream is destroyed, or that none
            is: then the borrower waits for the lender's stream alone, by its handle; CUDA's driver ends the
            process at the handle of a stream that is gone. "unannounced": the borrower waits for all work
            that the device has been given. None is "announced" where cachalot_cuda.torch makes the allocator,
            since PyTorch destroys no stream of its own, and "unannounced" elsewhere.
        page_bytes: a power of two, a multiple of the driver's granularity, at most 1 GiB; None: 2 MiB, or
            the granularity if that is more. With "pytorch" it is the page of expandable segments, and None
            means PyTorch's: with any other the events are not PyTorch's any more.
    """

    name: str = "pytorch"
    thrift: bool = False
    borrow: str = "first"
    streams: typing.Optional[str] = None
    page_bytes: typing.Optional[int] = None

    @classmethod
    def parse(cls, text: str) -> Policy:
        """The policy of a text like "serving,thrift,page=8MiB,borrow=at_limit,streams=announced". An
        InvalidArgumentError for any other text says what was expected."""
        return cls._of(_read(text), _names_streams(text))

    @classmethod
    def _of(cls, row: _c.Policy, names_streams: bool) -> Policy:
        words = {number: word for word, number in _c.POLICIES.items()}
        borrows = {number: word for word, number in _c.BORROWS.items()}
        streams = {number: word for word, number in _c.STREAMS.items()}
        return cls(words[row.policy], bool(row.thrift), borrows[row.borrow],
                   streams[row.streams] if names_streams else None, row.page_bytes or None)

    def __str__(self) -> str:
        text = self.name + ",thrift" * self.thrift
        if self.page_bytes is not None:
            text += ",page=" + _size_text(self.page_bytes)
        if self.borrow != "first":
            text += f",borrow={self.borrow}"
        return text if self.streams is None else f"{text},streams={self.streams}"


def _read(text: str) -> _c.Policy:
    """A policy's text as a row of the C interface."""
    row = _c.Policy()
    _library.call("policy_read", text.encode(), ctypes.byref(row))
    return row


def _names_streams(text: str) -> bool:
    return ",streams=" in text


def _size_text(size: int) -> str:
    """A whole number of the largest unit that there is."""
    units = ["GiB", "MiB", "KiB", "B"]
    while len(units) > 1 and size % 1024 == 0:
        size //= 1024
        units.pop()
    return f"{size}{units[-1]}"


def options_of(policy: Policy | str | None, streams_last: bool = False) -> dict[str, Any]:
    """The fields of the C interface's options for a Policy, its text, or None for the environment's.

    Args:
        streams_last: no stream ends before the process: then the serving policy gets the promise of announced
            streams, unless its text says what it gets.
    """
    text = str(policy) if policy is not None else os.environ.get("CACHALOT_POLICY", "")
    try:
        row = _read(text)
    except InvalidArgumentError:
        if policy is not None:
            raise
        return {}  # nothing is set, or the library refuses it when it makes the allocator
    if streams_last and row.policy == _c.POLICIES["serving"] and not _names_streams(text):
        row.streams = _c.STREAMS["announced"]
    return {name: getattr(row, name) for name in ("policy", "thrift", "borrow", "streams", "page_bytes")}


def policy() -> Policy:
    """The Policy in force, with the size of its pages. It lasts as long as the process."""
    row = _c.Policy()
    _library.call("get_policy", _library.allocator(), ctypes.byref(row))
    return Policy._of(row, row.policy == _c.POLICIES["serving"])


@dataclasses.dataclass(frozen=True)
class PolicyStats:
    """What the policy has done on a device: sums since the allocator was made, which nothing resets, but for
    pinned_bytes; 0 where PyTorch's decisions are made.

    Attributes:
        pages_created: pages obtained from the driver.
        pages_moved: pages that went from cached blocks to where they were missing.
        pages_released: pages given back to the driver.
        blocks_borrowed: requests served by a cached block of another stream.
        stream_waits: how often a stream was made to wait for another, on the device.
        host_waits: how often a call waited for a stream or the device.
        pinned_bytes: bytes of pages and plain segments that are pinned now (pin), under either policy.
    """

    pages_created: int
    pages_moved: int
    pages_released: int
    blocks_borrowed: int
    stream_waits: int
    host_waits: int
    pinned_bytes: int


def policy_stats(device: Device = None) -> PolicyStats:
    """The PolicyStats of a device."""
    row = _c.PolicyStats()
    _library.call("get_policy_stats", _library.allocator(), device_index(device), ctypes.byref(row))
    return PolicyStats(**{field.name: getattr(row, field.name) for field in dataclasses.fields(PolicyStats)})


class Pin:
    """Memory that stays where it is until this is closed or its with block is left (pin).

    Attributes:
        address: the first byte.
        size: how many bytes from there on.
    """

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self._is_open = False
        _library.call("pin", _library.allocator(), address, size)
        self._is_open = True

    def close(self) -> None:
        """Ends the pin. Again: nothing."""
        if self._is_open:
            self._is_open = False
            _library.call("unpin", _library.allocator(), self.address, self.size)

    def __enter__(self) -> Pin:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Pin({self.address:#x}, {self.size} bytes{'' if self._is_open else ', closed'})"


def pin(memory: Any, size: int | None = None) -> Pin:
    """Keeps memory where it is until the Pin is closed: the segment or the pages under it are neither given
    back to the driver nor moved, also after the tensor or block was freed. Blocks come and go there as
    before. For memory that others have registered: RDMA (nixl, UCX, MPI), dma-buf, NCCL's user buffers,
    handles given to other processes::

        with cachalot_cuda.pin(tensor):
            agent.register_memory(tensor)
            ...
            agent.deregister_memory(tensor)

    A Pin that nobody closes lasts as long as the process.

    Args:
        memory: a tensor, or an address within a live block of cachalot.
        size: bytes from the address, or from the tensor's first element, on; None: all of the tensor's
            storage.

    Raises:
        InvalidArgumentError: the part does not lie in one live block, or its block bypassed the cache.
    """
    if hasattr(memory, "data_ptr"):
        storage = memory if size is not None else memory.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes() if size is None else size
    elif size is None:
        raise InvalidArgumentError("expected a size beside an address", _c.ERROR_INVALID_ARGUMENT)
    else:
        address = memory
    for name, value in (("memory", address), ("size", size)):
        if not 0 <= value <= _c.UNLIMITED:
            raise InvalidArgumentError(f"{name} must be from 0 to 2**64 - 1, not {value}", _c.ERROR_INVALID_ARGUMENT)
    return Pin(address, size)


def stream_ended(stream: Stream, device: Device = None) -> None:
    """Tells that a stream is about to be destroyed and that no more work comes of it. Waits for its work; then
    nothing waits for the stream any more, also not for blocks of its that are freed later.

    Where announced streams are promised (Policy.streams), as they are on PyTorch, call it before a stream that
    is not PyTorch's own (torch.cuda.ExternalStream) is destroyed: a borrower of its memory would wait for it
    by its handle. PyTorch's own streams last as long as the process. With PyTorch's decisions nothing happens.

    Args:
        stream: a torch.cuda.Stream, or the handle of a stream as a number.
        device: the stream's; None: what the stream says, else as for the statistics.

    Raises:
        InvalidStateError: a capture may be under way on the device.
        Error: the stream's work has failed; nothing has changed.
    """
    _library.call("stream_ended", _library.allocator(), device_index(device, stream), handle_of(stream))
