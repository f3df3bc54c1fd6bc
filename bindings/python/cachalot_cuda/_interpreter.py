# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the library's functions for hosts in Python call of the interpreter (capi/pluggable/interpreter.h)."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _library
from .errors import Error

_FUNCTIONS = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_CallNoArgs", "Py_BuildValue", "PyErr_SetObject",
              "Py_DecRef", "PyErr_Clear")


class Interpreter(ctypes.Structure):
    """struct Interpreter of interpreter.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in (*_FUNCTIONS, "out_of_memory", "other_error")]


def interpreter(out_of_memory: type[BaseException]) -> Interpreter:
    """The struct, with the type of out-of-memory errors."""
    keep(out_of_memory, Error)
    return Interpreter(*map(address_of, _FUNCTIONS), id(out_of_memory), id(Error))


def address_of(name: str) -> int:
    """The address of a function of the interpreter."""
    return _library.address_of(name, ctypes.pythonapi)


def keep(*objects: Any) -> None:
    """Keeps objects for good: hosts keep addresses alone, and some call after all modules of Python have ended."""
    for kept in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
