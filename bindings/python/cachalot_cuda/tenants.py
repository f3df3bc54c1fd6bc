# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tenants: users of one allocator, each with memory that the others cannot take, and a limit."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _c, _library
from ._arguments import Device, Stream, unsigned
from ._ending import EndsByItself
from ._interpreter import keep
from .errors import InvalidStateError

if TYPE_CHECKING:
    from .allocator import Allocator, Block


@dataclasses.dataclass(frozen=True)
class Pressure:
    """Why a tenant is asked to give memory back.

    Attributes:
        reason: "limit" (its own request is beyond its limit), "guarantee" (what others are guaranteed would not be
            left) or "device" (the device has no memory left).
        device: of which memory is missing.
        missing_bytes: how many would make room, as far as is known.
        allocated_bytes: what the tenant that is asked has there.
        guaranteed_bytes: what it is guaranteed.
        requester: the name of the tenant that needs memory; "" for requests of none.
        is_guaranteed: whether its request is within its guarantee.
    """

    reason: str
    device: int
    missing_bytes: int
    allocated_bytes: int
    guaranteed_bytes: int
    requester: str
    is_guaranteed: bool


@dataclasses.dataclass(frozen=True)
class TenantStats:
    """What a tenant has on a device.

    Attributes:
        name: its name.
        priority: tenants of lower priority give first.
        guaranteed_bytes: what it can have at any time.
        limit_bytes: what it can have at most; 0: no limit.
        blocks: how many it has.
        allocated_bytes: their sizes.
        max_allocated_bytes: the most that was.
        requested_bytes: what was requested of them.
        num_ooms: its requests that ended as out of memory.
        num_pressure_calls: how often it was asked to give memory back.
        pressure_freed_bytes: by how many bytes what it has sank then.
        asleep_bytes: of its blocks in pools that sleep, which the other figures leave out.
    """

    name: str
    priority: int
    guaranteed_bytes: int
    limit_bytes: int
    blocks: int
    allocated_bytes: int
    max_allocated_bytes: int
    requested_bytes: int
    num_ooms: int
    num_pressure_calls: int
    pressure_freed_bytes: int
    asleep_bytes: int


class Tenant(EndsByItself):
    """A tenant (Allocator.tenant). In a with block all requests of the thread to the allocator are its own, those of
    PyTorch and of other hosts too where the allocator is that of the process::

        models = cachalot_cuda.Allocator.of_process()
        small = models.tenant("small", guaranteed_bytes=2 << 30, limit_bytes=8 << 30)
        with small:
            answer = model(request)

    Args:
        name: for messages, statistics and metrics; less than 64 bytes; "": "tenant N".
        guaranteed_bytes: on each device, at any time.
        limit_bytes: on each device, at most; 0: no limit. Not below the guarantee.
        priority: tenants of lower priority give first.
        on_pressure: a function of a Pressure that frees memory of this tenant and gives the number of bytes, 0 where
            it can free none. It runs on the thread of the request, and must not wait for a thread that waits for
            memory. An exception counts as 0.

    Raises:
        InvalidArgumentError: the limit is below the guarantee, the name is too long, or guarantees together are more
            than a device has.
        Error: the allocator has the backend cudaMallocAsync, or the driver does not tell its memory.
    """

    _handle: ctypes.c_void_p | None = None  # also where a constructor fails

    def __init__(self, allocator: Allocator, name: str = "", *, guaranteed_bytes: int = 0, limit_bytes: int = 0,
                 priority: int = 0, on_pressure: Callable[[Pressure], int] | None = None) -> None:
        self._allocator = allocator  # lives as long as its tenants
        options = _c.TenantOptions(
            name=name.encode(), guaranteed_bytes=unsigned("guaranteed_bytes", guaranteed_bytes),
            limit_bytes=unsigned("limit_bytes", limit_bytes), priority=priority)
        if on_pressure is not None:
            options.pressure = ctypes.cast(_ask_callback, ctypes.c_void_p)
            options.pressure_user_data = next(_numbers)
            options.pressure_destroy = ctypes.cast(_forget_callback, ctypes.c_void_p)
            _asked[options.pressure_user_data] = on_pressure
        handle = ctypes.c_void_p()
        allocator._call("tenant_create", ctypes.byref(options), ctypes.byref(handle))
        self._handle = handle

    def allocate(self, size: int, device: Device = None, stream: Stream = 0) -> Block:
        """As Allocator.allocate, for this tenant."""
        return self._allocator._allocated("allocate_for", self, size, device, stream)

    def stats(self, device: int = 0) -> TenantStats:
        """Its TenantStats on a device."""
        row = _c.TenantStats()
        _library.call("get_tenant_stats", self._live(), device, ctypes.byref(row))
        same = ("priority", "guaranteed_bytes", "limit_bytes", "num_ooms", "num_pressure_calls", "pressure_freed_bytes",
                "asleep_bytes")
        return TenantStats(
            name=row.name.decode("utf-8", "replace"), blocks=row.allocation.current,
            allocated_bytes=row.allocated_bytes.current, max_allocated_bytes=row.allocated_bytes.peak,
            requested_bytes=row.requested_bytes.current, **{field: getattr(row, field) for field in same})

    def set_bytes(self, guaranteed_bytes: int, limit_bytes: int = 0, device: int | None = None) -> None:
        """Guarantee and limit on a device, or on each for None, for later requests. All devices change, or none."""
        _library.call("tenant_set_bytes", self._live(), _c.ALL_DEVICES if device is None else device,
                      unsigned("guaranteed_bytes", guaranteed_bytes), unsigned("limit_bytes", limit_bytes))

    def set_priority(self, priority: int) -> None:
        """The priority for later requests."""
        _library.call("tenant_set_priority", self._live(), priority)

    def close(self) -> None:
        """Ends the tenant. Again: nothing.

        Raises:
            InvalidStateError: it has live blocks, or is the tenant of a thread; nothing has changed.
        """
        if self._handle is not None:
            _library.call("tenant_destroy", self._handle)
            self._handle = None

    def _after_end(self) -> None:
        self._allocator._close_if_over()

    def __enter__(self) -> Tenant:
        _library.call("tenant_begin", self._live())
        return self

    def __exit__(self, *exception: object) -> None:
        _library.call("tenant_end", self._live())

    def _live(self) -> Any:
        if self._handle is None:
            raise InvalidStateError("the tenant is closed", _c.ERROR_INVALID_STATE)
        return self._handle


# Functions by their numbers, for as long as the library may call them, which may be longer than a Tenant is there.
_asked: dict[int, Callable[[Pressure], int]] = {}
_numbers = itertools.count(1)


def _ask(number: int, row: Any) -> int:
    pressure = row.contents
    requester = pressure.requester_name.decode("utf-8", "replace") if pressure.requester else ""
    return _asked[number](Pressure(
        _c.PRESSURES[pressure.reason], pressure.device, pressure.missing_bytes, pressure.allocated_bytes,
        pressure.guaranteed_bytes, requester, bool(pressure.is_guaranteed)))


def _forget(number: int) -> None:
    del _asked[number]


_ask_callback, _forget_callback = _c.PRESSURE_FUNCTION(_ask), _c.DESTROY_FUNCTION(_forget)
keep(_ask_callback, _forget_callback)  # threads of daemons call them while the interpreter exits
