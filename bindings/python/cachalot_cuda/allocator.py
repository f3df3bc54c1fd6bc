# SPDX-License-Identifier: MIT OR Apache-2.0
"""An allocator for programs without PyTorch, CuPy, Numba or RMM, and its blocks.

    with cachalot_cuda.Allocator("expandable_segments:True") as allocator:
        with allocator.allocate(1 << 20, stream=stream) as block:
            launch(kernel, stream, block.address)
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _c, _library, _process, share, statistics
from ._arguments import LEGACY_DEFAULT_STREAM, Device, Stream, device_index, handle_of, owner_handle, unsigned, whole
from ._ending import EndsByItself
from .errors import InvalidStateError
from .policy import Policy
from .pools import Pool
from .report import report_of
from .tenants import Tenant


class Block(share.Block):
    """A block of an allocator (Allocator.allocate), which goes back when it is closed or nothing refers to it.

    torch.as_tensor, cupy.asarray and numba.cuda.as_cuda_array take it as bytes of the device, and wait for its stream
    where they work on another one. They do not keep it: it must outlive what is made of it.

    Attributes:
        address: the first byte.
        size: bytes.
        device: where it lies.
        stream: the handle of the stream whose block it is.
    """

    def __init__(self, allocator: Allocator, tenant: Tenant | None, address: int, size: int, device: int,
                 stream: int) -> None:
        super().__init__(address, address, size, functools.partial(_free, allocator, tenant))
        self._owner = allocator  # lives as long as its blocks, and so does the tenant
        self.device, self.stream = device, stream

    def _allocator(self) -> ctypes.c_void_p:
        return self._owner._live()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # The interface does not allow 0.
        return {**super().__cuda_array_interface__, "stream": self.stream or LEGACY_DEFAULT_STREAM}

    def record_stream(self, stream: Stream) -> None:
        """Says that another stream uses the block: closed, it is handed out again when the work is done that this
        stream had been given by then. Nothing waits here.

        Args:
            stream: of the block's device: an object with a handle (handle_of), or the handle as a number.
        """
        self._owner._call("record_stream", self._live(), handle_of(stream))


def _free(allocator: Allocator, tenant: Tenant | None, address: int) -> None:
    allocator._call("free", address)
    if tenant is not None:
        tenant._close_if_over()
    allocator._close_if_over()


class Allocator(EndsByItself):
    """A caching allocator over all devices, with a cache, statistics and limits of its own. Any thread.

    The functions of this package, and PyTorch, CuPy, Numba and RMM, are on the allocator of the process
    (of_process) instead.

    Args:
        config, release, contexts, track_labels, mend: as for cachalot_cuda.torch.install.
        driver: where memory comes from: "cuda", "host:8GiB" or "sim:80GiB", say; None: CACHALOT_DRIVER, else the GPUs
            if there are any, else the host's memory.
        policy, texts: as for cachalot_cuda.cupy.install.

    Raises:
        InvalidArgumentError: an option is not acceptable.
        Error: there is no such driver.
    """

    _handle: ctypes.c_void_p | None = None  # also where a constructor fails

    def __init__(self, config: str | None = None, release: str | None = None, *, driver: str | None = None,
                 contexts: str | None = None, track_labels: bool = False, mend: Iterable[str] = (),
                 policy: Policy | str | None = None, texts: str | None = None) -> None:
        self._end: Callable[[ctypes.c_void_p], None] = functools.partial(_library.call, "allocator_destroy")
        row = _process.options(config, release, contexts=contexts, track_labels=track_labels, mend=mend, policy=policy,
                               texts=texts)
        self._handle = _created(driver, row)

    @classmethod
    def of_process(cls) -> Allocator:
        """The allocator of the process, that of its hosts, made now if there is none. close() leaves it alone."""
        self = cls.__new__(cls)
        self._handle, self._end = _library.allocator(), lambda _: None
        return self

    def allocate(self, size: int, device: Device = None, stream: Stream = 0) -> Block:
        """A Block of so many bytes, from the cache if it has one.

        Args:
            size: bytes.
            device: its number; None: what the stream says, else 0 or PyTorch's current one where it is in use.
            stream: whose block it is: an object with a handle (cuda_stream, ptr or handle, or __cuda_stream__), or
                the handle as a number; 0: the default stream. Work on this stream may use the block at once.

        Raises:
            OutOfMemoryError: there is not enough memory.
            InvalidArgumentError: there is no such device, or no memory can be that large.
        """
        return self._allocated("allocate", None, size, device, stream)

    def _allocated(self, name: str, tenant: Tenant | None, size: int, device: Device, stream: Stream) -> Block:
        device, stream, address = device_index(device, stream), owner_handle(stream), ctypes.c_uint64()
        of = () if tenant is None else (tenant._live(),)
        self._call(name, *of, whole("size", size), device, stream, ctypes.byref(address))
        return Block(self, tenant, address.value, size, device, stream)

    def tenant(self, name: str = "", **options: Any) -> Tenant:
        """A new Tenant of this allocator; options are those of Tenant."""
        return Tenant(self, name, **options)

    def pool(self, device: Device = None, **options: Any) -> Pool:
        """A new Pool of this allocator; options are those of Pool."""
        return Pool(self, device_index(device), **options)

    # ---- What it has

    def stats(self, device: int = 0) -> dict[str, int]:
        """The statistics as torch.cuda.memory_stats has them: names like "active.all.current", sorted."""
        return statistics.named_stats(self._live(), device)

    def memory_allocated(self, device: int = 0) -> int:
        """Bytes handed out."""
        return statistics.row_of(self._live(), device).allocated_bytes.all.current

    def memory_reserved(self, device: int = 0) -> int:
        """Bytes obtained from the driver."""
        return statistics.row_of(self._live(), device).reserved_bytes.all.current

    def memory_summary(self, device: int = 0, abbreviated: bool = False) -> str:
        """The table of torch.cuda.memory_summary; abbreviated: without the rows by kind of pool."""
        return _library.text("memory_summary", self._live(), device, int(abbreviated))

    def metrics(self) -> str:
        """The statistics of all devices as a page for Prometheus."""
        return _library.text("metrics_text", self._live())

    def report(self, size: int = 0, device: Device = None, stream: Stream = 0) -> dict[str, Any]:
        """The holders of a device's memory, and the obstacles of a request, as cachalot_cuda.report."""
        return report_of(self._live(), size, device, stream)

    def reset_peak_stats(self, device: int = 0) -> None:
        """Sets every peak to its current value."""
        self._call("reset_peak_stats", device)

    # ---- The cache, limits, options

    def empty_cache(self) -> None:
        """Gives all cached memory of all devices back to the driver."""
        self._call("empty_cache")

    @contextlib.contextmanager
    def empty_cache_on_exit(self) -> Iterator[None]:
        """Empties the cache when the with block is left, also by an exception."""
        try:
            yield
        finally:
            self.empty_cache()

    def trim(self, device: int = 0, keep_bytes: int = 0, min_idle: float = 0.0) -> int:
        """Gives cached memory of a device back to the driver, longest idle first, and waits for no stream. Gives the
        number of bytes. The arguments are those of cachalot_cuda.trim."""
        return statistics.trim_of(self._live(), device, keep_bytes, min_idle)

    def set_memory_limit(self, bytes: int | None, device: int = 0) -> None:
        """What may be obtained from a device. Bytes; None: no limit. Releases nothing."""
        self._call("set_memory_limit", device, _c.UNLIMITED if bytes is None else unsigned("bytes", bytes))

    def memory_limit(self, device: int = 0) -> int | None:
        """The limit in force, in bytes; None: there is none."""
        limit = ctypes.c_uint64()
        self._call("memory_limit", device, ctypes.byref(limit))
        return None if limit.value == _c.UNLIMITED else limit.value

    def update_config(self, config: str) -> None:
        """Sets the options that a string in PyTorch's grammar names, and leaves all others as they are."""
        self._call("update_config", config.encode())

    # ---- Its end

    def close(self) -> None:
        """Gives all memory back to the driver. Again: nothing.

        Raises:
            InvalidStateError: blocks are live; nothing has changed.
        """
        if self._handle is not None:
            self._end(self._handle)
            self._handle = None

    def __enter__(self) -> Allocator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _live(self) -> Any:
        if self._handle is None:
            raise InvalidStateError("the allocator is closed", _c.ERROR_INVALID_STATE)
        return self._handle

    def _call(self, name: str, *arguments: Any) -> None:
        _library.call(name, self._live(), *arguments)


def _created(driver: str | None, row: _c.AllocatorOptions) -> ctypes.c_void_p:
    opened, handle = ctypes.c_void_p(), ctypes.c_void_p()
    _library.call("driver_open", None if driver is None else driver.encode(), ctypes.byref(opened))
    try:
        row.driver = opened
        _library.call("allocator_create", ctypes.byref(row), ctypes.byref(handle))
    finally:
        _library.load().cachalot_driver_destroy(opened)  # the allocator keeps it alive
    return handle
