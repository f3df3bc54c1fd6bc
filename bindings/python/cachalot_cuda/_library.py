# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finding and calling libcachalot_pluggable.so."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from typing import Any

from . import _c, errors

FILE_NAME = "libcachalot_pluggable.so"

# The binary interface that _c.py was written for: version_number() without the patch.
INTERFACE = 1


def candidates() -> Iterator[str]:
    """Where the library is looked for, in this order."""
    folder = os.environ.get("CACHALOT_LIB_DIR")
    if folder:
        yield os.path.join(folder, FILE_NAME)
    yield os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", FILE_NAME)
    yield FILE_NAME  # the loader's own path


_process = os.getpid()


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """The library as a ctypes object; its `_name` is the path that it was loaded from.

    Raises LibraryNotFoundError with one line for each place that was tried.
    """
    tried = []
    for candidate in candidates():
        try:
            return open_library(candidate)
        except (OSError, AttributeError, errors.LibraryNotFoundError) as error:
            tried.append(f"  {candidate}: {error}")
    raise errors.LibraryNotFoundError(
        f"{FILE_NAME} was not found (set CACHALOT_LIB_DIR to its folder); tried:\n" + "\n".join(tried))


def open_library(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    # First, since a library of another version may lack functions.
    if library.cachalot_version_number() // 100 != INTERFACE:
        library.cachalot_version.restype = ctypes.c_char_p
        version = library.cachalot_version().decode()
        raise errors.LibraryNotFoundError(f"it has version {version}, which this package does not know")
    _c.declare(library)
    return library


def call(name: str, *arguments: Any) -> None:
    """Calls a function of _c.CALLS and raises what it reports."""
    error = _c.Error()
    if getattr(load(), "cachalot_" + name)(*arguments, ctypes.byref(error)) != _c.OK:
        raise exception(error)


def is_forked() -> bool:
    """Whether this process was forked: what its parent has of a device is not this process's to free."""
    return os.getpid() != _process


def exception(error: _c.Error) -> errors.Error:
    """The exception for an error record of the C interface."""
    kinds = {_c.ERROR_INVALID_ARGUMENT: errors.InvalidArgumentError,
             _c.ERROR_INVALID_STATE: errors.InvalidStateError,
             _c.ERROR_OUT_OF_MEMORY: errors.OutOfMemoryError}
    kind = kinds.get(error.status, errors.Error)
    return kind(error.message.decode("utf-8", "replace"), error.status, error.driver_code)


def address_of(name: str, library: ctypes.CDLL | None = None) -> int:
    """The address of a function of a library, for others that call it. None: of cachalot's."""
    address = ctypes.cast(getattr(library or load(), name), ctypes.c_void_p).value
    assert address is not None
    return address


def text(name: str, *arguments: Any) -> str:
    """What a function writes that takes a buffer, its capacity and the place of the length."""
    capacity, length = 4096, ctypes.c_size_t()
    while True:
        buffer = ctypes.create_string_buffer(capacity)
        call(name, *arguments, buffer, capacity, ctypes.byref(length))
        if length.value < capacity:
            return buffer.value.decode("utf-8", "replace")
        capacity = length.value + 1


@functools.lru_cache(maxsize=None)  # it lasts as long as the process
def allocator() -> ctypes.c_void_p:
    """The process's allocator, made if there is none yet."""
    found = ctypes.c_void_p()
    call("pluggable_get_allocator", ctypes.byref(found))
    return found


def device_count() -> int:
    library = load()
    return library.cachalot_driver_device_count(library.cachalot_allocator_driver(allocator()))
