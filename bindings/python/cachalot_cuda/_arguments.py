# SPDX-License-Identifier: MIT OR Apache-2.0
"""What objects of PyTorch and others mean as arguments."""

from __future__ import annotations

import ctypes
import operator
import sys
from typing import Any, Optional, Protocol, Union

from . import _c
from .errors import InvalidArgumentError


class _HasIndex(Protocol):
    @property
    def index(self) -> Optional[int]:
        """The device's number."""


class _HasDeviceId(Protocol):
    @property
    def device_id(self) -> int:
        """The device's number."""


class _HasId(Protocol):
    @property
    def id(self) -> int:
        """The device's number."""


class _OfPyTorch(Protocol):
    @property
    def cuda_stream(self) -> int:
        """The stream's handle."""


class _OfCuPy(Protocol):
    @property
    def ptr(self) -> int:
        """The stream's handle."""


class _OfNumba(Protocol):
    @property
    def handle(self) -> Any:
        """The stream's handle."""


class _OfOthers(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]:
        """A version, and the stream's handle."""


# What functions of this package take for a device and for a stream.
Device = Union[int, str, _HasIndex, _HasDeviceId, _HasId, None]
Stream = Union[int, _OfPyTorch, _OfCuPy, _OfNumba, _OfOthers]

# CUDA has two handles for the legacy default stream, which cachalot knows by the first.
_DEFAULT_STREAM, LEGACY_DEFAULT_STREAM = 0, 1


def device_index(device: Device = None, stream: Stream | None = None) -> int:
    """The number of a device given as a number, as "cuda:1" or as an object of PyTorch (`index`), cuda.core
    (`device_id`), CuPy or Numba (`id`); None, "cuda": that of the stream, where it says which, else PyTorch's current
    device where PyTorch is in use, else 0.

    Raises:
        InvalidArgumentError: it is none of these.
    """
    number = _number_of(device)
    if number is None:
        number = _device_of(stream)
    if number is not None:
        return number
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_initialized() else 0


def _number_of(device: Any) -> int | None:
    """The number of a device; None: it names none."""
    given = device
    if isinstance(given, str):
        given = _number_in(given)
    elif getattr(given, "type", "cuda") == "cuda":
        for name in ("index", "device_id", "id"):
            if hasattr(given, name):
                given = getattr(given, name)
                break
    if given is None:
        return None
    number = _integer(given)
    if number is None or not 0 <= number < 2**31:
        raise InvalidArgumentError(f"device must be a number from 0 to 2**31 - 1, \"cuda:1\", say, or an object of a "
                                   f"device of CUDA, not {device!r}", _c.ERROR_INVALID_ARGUMENT)
    return number


def _number_in(text: str) -> Any:
    kind, _, number = text.partition(":")
    if text == "cuda":
        return None
    return int(number) if kind == "cuda" and number.isascii() and number.isdigit() else text


def _device_of(stream: Any) -> int | None:
    """The number of a stream's device, where it says that: as `device`, or as CuPy's `device_id`, -1 for none."""
    if getattr(stream, "device", None) is not None:
        return _number_of(stream.device)
    number = _integer(getattr(stream, "device_id", None))
    return number if number is not None and number >= 0 else None


def handle_of(stream: Stream) -> int:
    """The handle of a stream of PyTorch, CuPy or Numba, or of any library whose streams have __cuda_stream__; a number
    is one itself. The legacy default stream is 0.

    Raises:
        InvalidArgumentError: it is none of these.
    """
    given: Any = stream
    if hasattr(given, "__cuda_stream__"):
        given = given.__cuda_stream__()[1]
    else:
        for name in ("cuda_stream", "ptr", "handle"):
            if hasattr(given, name):
                given = getattr(given, name)
                break
    if isinstance(given, ctypes.c_void_p):
        given = given.value or 0
    handle = _integer(given)
    if handle is None or not 0 <= handle < 2**64:
        raise InvalidArgumentError(f"stream must be a handle from 0 to 2**64 - 1, or an object that has one, not "
                                   f"{stream!r}", _c.ERROR_INVALID_ARGUMENT)
    return plain_handle(handle)


def owner_handle(stream: Stream) -> int:
    """The handle of the one stream whose block a request is for."""
    handle = handle_of(stream)
    if handle == _c.STREAM_ALL:
        raise InvalidArgumentError("a block is of one stream: STREAM_ALL is for record_stream",
                                   _c.ERROR_INVALID_ARGUMENT)
    return handle


def plain_handle(handle: int) -> int:
    """A handle, with one for the legacy default stream."""
    return _DEFAULT_STREAM if handle == LEGACY_DEFAULT_STREAM else handle


def _integer(value: Any) -> int | None:
    """A number, or an object of cuda.bindings that stands for one; None: it is none."""
    if isinstance(value, (str, bytes, float)) or not hasattr(value, "__int__"):
        return None
    try:
        return operator.index(value) if hasattr(value, "__index__") else int(value)
    except (TypeError, ValueError):
        return None


def whole(name: str, value: int) -> int:
    """unsigned() of what has to be a whole number."""
    if not hasattr(value, "__index__"):
        raise InvalidArgumentError(f"expected {name} to be a whole number, not {value!r}", _c.ERROR_INVALID_ARGUMENT)
    return unsigned(name, value)


def unsigned(name: str, value: float) -> int:
    """ctypes would wrap what is below 0 or too large."""
    if not value >= 0:
        raise InvalidArgumentError(f"expected {name} to be 0 or more", _c.ERROR_INVALID_ARGUMENT)
    return int(min(value, _c.UNLIMITED))
