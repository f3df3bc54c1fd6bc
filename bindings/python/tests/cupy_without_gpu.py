# SPDX-License-Identifier: MIT OR Apache-2.0
"""CuPy itself on a machine without a GPU: import this before cupy.

CuPy's modules reach the CUDA runtime through the C functions that cupy_backends.cuda.api.runtime offers. Some of
them are replaced here, so that its memory, stream and array modules run over the host's memory. There are two
devices. Kernels, libraries and copies between devices are not there.
"""

import ctypes

import cupy_backends.cuda.api.runtime as runtime

_ANY = ctypes.py_object
_kept = []  # callbacks and names that C code points to
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, _ANY)(("PyCapsule_GetName", ctypes.pythonapi))
_new_capsule = ctypes.PYFUNCTYPE(_ANY, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))

device = 0  # the current one


def replace(name, result, arguments, function):
    """Puts a function in the place of one of the runtime's, before the module that calls it is imported."""
    callback = ctypes.PYFUNCTYPE(result, *arguments)(function)
    form = ctypes.create_string_buffer(_get_name(runtime.__pyx_capi__[name]))
    _kept.extend([callback, form])
    runtime.__pyx_capi__[name] = _new_capsule(ctypes.cast(callback, ctypes.c_void_p), ctypes.addressof(form), None)


def _set_device(number, *_):
    global device
    device = number


def _copy(to, source, size, *_):
    ctypes.memmove(to, source, size)


_INT, _WORD = ctypes.c_int, ctypes.c_ssize_t
replace("getDevice", _INT, [_INT], lambda _: device)
replace("getDeviceCount", _INT, [_INT], lambda _: 2)
replace("setDevice", _ANY, [_INT, _INT], _set_device)
replace("memcpyAsync", _ANY, [_WORD, _WORD, _WORD, _INT, _WORD, _INT], _copy)
replace("memcpy", _ANY, [_WORD, _WORD, _WORD, _INT, _INT], _copy)
replace("streamIsCapturing", _INT, [_WORD, _INT], lambda *_: 0)
replace("streamSynchronize", _ANY, [_WORD, _INT], lambda *_: None)
