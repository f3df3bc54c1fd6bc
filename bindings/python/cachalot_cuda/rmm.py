# SPDX-License-Identifier: MIT OR Apache-2.0
"""RMM on cachalot, and what takes its memory from RMM: cuDF, cuML, XGBoost.

    import cachalot_cuda.rmm
    rmm.mr.set_current_device_resource(cachalot_cuda.rmm.resource())

Requests carry RMM's stream. A block that is given back on another stream than its own is handed out again when
the work is done that this stream had been given by then. RMM's resource for functions calls two of the library's,
so that none of Python's own run for a request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rmm.mr
from rmm._cuda.gpu import getDevice

from . import _c, _process, _rmm_functions
from ._arguments import Device, device_index
from .errors import OutOfMemoryError as _OutOfMemoryError


class OutOfMemoryError(_OutOfMemoryError, MemoryError):
    """What RMM turns into rmm::out_of_memory for callers in C++, and into a MemoryError for those in Python, with this
    text."""

    def __init__(self, message: str, status: int = _c.ERROR_OUT_OF_MEMORY, driver_code: int = 0) -> None:
        super().__init__(message, status, driver_code)


def resource(device: Device = None, **options: Any) -> Any:
    """A rmm.mr.CallbackMemoryResource over the allocator of the process. With CACHALOT_DISABLE=1 in the environment
    RMM's own resource for cudaMalloc, and a line of the log.

    Args:
        device: None: the current one, which RMM takes a resource for.
        options: those of cachalot_cuda.cupy.install, and so are the errors.
    """
    if _process.is_disabled_for("RMM"):
        return rmm.mr.CudaMemoryResource()
    _prepare(_process.allocator_for("RMM", **options).value)
    return rmm.mr.CallbackMemoryResource(*_functions(getDevice() if device is None else device_index(device)))


@functools.lru_cache(maxsize=None)  # once
def _prepare(allocator_address: int) -> None:
    _rmm_functions.prepare(allocator_address, OutOfMemoryError)


@functools.lru_cache(maxsize=None)  # one pair for each device
def _functions(device: int) -> tuple[Callable[..., int], Callable[..., None]]:
    return _rmm_functions.functions(device)
