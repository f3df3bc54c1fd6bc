# SPDX-License-Identifier: MIT OR Apache-2.0
"""The library's two functions for CuPy (capi/pluggable/cupy.cpp), and the parameter that they get."""

from __future__ import annotations

import ctypes
import gc

from . import _library
from .errors import Error

# What they call of the interpreter.
_PYTHON_FUNCTIONS = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_CallNoArgs", "Py_BuildValue",
                     "PyErr_SetObject", "Py_DecRef", "PyErr_Clear")


class Parameter(ctypes.Structure):
    """struct Cupy of cupy.cpp."""

    _fields_ = [(name, ctypes.c_void_p) for name in (
        "allocator", "get_current_stream", *_PYTHON_FUNCTIONS, "out_of_memory", "other_error", "collect_garbage")]


def parameter(allocator: int, get_current_stream: int, out_of_memory: type[BaseException]) -> Parameter:
    """The parameter for an allocator and a C function, by their addresses, and the type of out-of-memory errors. It is
    there for good: arrays of CuPy's keep its address alone, and some end after all modules of Python."""
    python = (ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in _PYTHON_FUNCTIONS)
    made = Parameter(allocator, get_current_stream, *python, id(out_of_memory), id(Error), id(gc.collect))
    for kept in (made, out_of_memory, Error, gc.collect):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return made


def addresses() -> list[int]:
    """Those of the functions that allocate and free."""
    return [_library.address_of("cachalot_pluggable_cupy_" + name) for name in ("alloc", "free")]
