# SPDX-License-Identifier: MIT OR Apache-2.0
"""The library's two functions for RMM (capi/pluggable/rmm.cpp), as builtin functions of Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from . import _library
from ._interpreter import Interpreter, address_of, interpreter, keep

_FUNCTIONS = ("PyObject_CallMethodObjArgs", "PyTuple_GetItem", "PyLong_AsUnsignedLongLong", "PyErr_Occurred",
              "PyLong_FromUnsignedLongLong")
_CUDA_STREAM = "__cuda_stream__"
_METH_FASTCALL = 0x80


class Parameter(ctypes.Structure):
    """struct Rmm of rmm.cpp."""

    _fields_ = [("interpreter", Interpreter), ("allocator", ctypes.c_void_p),
                *((name, ctypes.c_void_p) for name in _FUNCTIONS), ("cuda_stream", ctypes.c_void_p)]


class _MethodDef(ctypes.Structure):
    """PyMethodDef of Python.h."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


def prepare(allocator: int, out_of_memory: type[BaseException]) -> None:
    """Says once what the functions are for: an allocator, by its address, and the type of out-of-memory errors."""
    parameter = Parameter(interpreter(out_of_memory), allocator, *map(address_of, _FUNCTIONS), id(_CUDA_STREAM))
    keep(parameter, _CUDA_STREAM)
    prepare_library = _library.load().cachalot_pluggable_rmm_prepare
    prepare_library.restype = None
    prepare_library(ctypes.byref(parameter))


def functions(device: int) -> tuple[Callable[..., int], Callable[..., None]]:
    """allocate(size, stream) and deallocate(address, size, stream), for the blocks of a device."""
    return _builtin("allocate", device), _builtin("deallocate", device)


def _builtin(name: str, device: int) -> Any:
    definition = _MethodDef(name.encode(), _library.address_of("cachalot_pluggable_rmm_" + name), _METH_FASTCALL, None)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi))
    made = make(ctypes.addressof(definition), device, None)
    keep(definition, made)
    return made
