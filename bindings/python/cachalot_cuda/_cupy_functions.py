# SPDX-License-Identifier: MIT OR Apache-2.0
"""The library's two functions for CuPy (capi/pluggable/cupy.cpp), and the parameter that they get."""

from __future__ import annotations

import ctypes
import gc

from . import _library
from ._interpreter import Interpreter, interpreter, keep


class Parameter(ctypes.Structure):
    """struct Cupy of cupy.cpp."""

    _fields_ = [("interpreter", Interpreter), ("allocator", ctypes.c_void_p), ("get_current_stream", ctypes.c_void_p),
                ("collect_garbage", ctypes.c_void_p)]


def parameter(allocator: int, get_current_stream: int, out_of_memory: type[BaseException]) -> Parameter:
    """The parameter for an allocator and a C function, by their addresses, and the type of out-of-memory errors. It is
    there for good."""
    made = Parameter(interpreter(out_of_memory), allocator, get_current_stream, id(gc.collect))
    keep(made, gc.collect)
    return made


def addresses() -> list[int]:
    """Those of the functions that allocate and free."""
    return [_library.address_of("cachalot_pluggable_cupy_" + name) for name in ("alloc", "free")]
