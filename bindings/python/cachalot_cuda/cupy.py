# SPDX-License-Identifier: MIT OR Apache-2.0
"""CuPy on cachalot: the whole process, or what one thread allocates in a with block.

    import cachalot_cuda.cupy
    cachalot_cuda.cupy.install()

Arrays lie on CuPy's current stream and device. No Python runs in an allocation: CuPy calls two functions of the
library, which ask CuPy's own compiled code for its stream.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import cupy
from cupy_backends.cuda import stream as _cupy_stream

from . import _c, _cupy_functions, _process
from .errors import Error, InvalidStateError
from .errors import OutOfMemoryError as _OutOfMemoryError
from .policy import Policy

_former: Any = None  # CuPy's allocator before install()
_ours: Any = None  # that of install()


class OutOfMemoryError(_OutOfMemoryError, cupy.cuda.memory.OutOfMemoryError):
    """CuPy's own error, and so a MemoryError, with cachalot's text and status."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.status, self.driver_code)


def install(config: str | None = None, release: str | None = None, *, driver: str | None = None,
            contexts: str | None = None, track_labels: bool = False, mend: Iterable[str] = (),
            policy: Policy | str | None = None, texts: str | None = None) -> None:
    """Puts CuPy on cachalot, for all threads and devices. Arrays that exist stay where they are. With
    CACHALOT_DISABLE=1 in the environment nothing happens but for a line of the log.

    Call it without options where another host of the process is on cachalot already (PyTorch, which has to be
    the first): then both have one cache and one limit.

    Args:
        config, release, driver, contexts, track_labels, mend: as for cachalot_cuda.torch.install.
        policy: "pytorch", or "serving" and its options; None: CACHALOT_POLICY, else PyTorch's decisions. CuPy
            destroys streams, so "streams=announced" is refused.
        texts: whose words errors, warnings and tables have: "pytorch" or "own"; None: CACHALOT_TEXTS, else PyTorch's.

    Raises:
        InvalidArgumentError: an option is not acceptable.
        InvalidStateError: CuPy is on cachalot already, options are given for an allocator that exists, or announced
            streams were promised for it.
        Error: there is no driver, or the CuPy that runs is not known.
        ValueError: this is called inside of cupy.cuda.using_allocator.
    """
    global _former, _ours
    if _process.is_disabled_for("CuPy"):
        return
    if is_installed():
        raise InvalidStateError("CuPy is on cachalot already", _c.ERROR_INVALID_STATE)
    former = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(former)  # raises where install() cannot, before there is an allocator
    ours = allocator(config=config, release=release, driver=driver, contexts=contexts, track_labels=track_labels,
                     mend=mend, policy=policy, texts=texts)
    cupy.cuda.set_allocator(ours.malloc)
    _former, _ours = former, ours


def uninstall() -> None:
    """Gives CuPy the allocator that it had before install(). Arrays from cachalot stay valid, and go back to it.

    Raises:
        InvalidStateError: CuPy is not on cachalot, or this is called inside of cupy.cuda.using_allocator.
    """
    global _former, _ours
    if _process.is_disabled_for("CuPy"):
        return
    if not is_installed():
        raise InvalidStateError("CuPy is not on cachalot", _c.ERROR_INVALID_STATE)
    cupy.cuda.set_allocator(_former)
    _former = _ours = None


def is_installed() -> bool:
    """Whether install() is in force for this thread, and no cupy.cuda.set_allocator() has come after it."""
    return _ours is not None and cupy.cuda.get_allocator() == _ours.malloc


@contextlib.contextmanager
def using(**options: Any) -> Iterator[None]:
    """Puts what this thread allocates inside of the with block on cachalot, whatever serves other threads.

    Args:
        options: those of install().
    """
    if _process.is_disabled_for("CuPy"):
        yield
        return
    with cupy.cuda.using_allocator(allocator(**options).malloc):
        yield


def allocator(**options: Any) -> Any:
    """A cupy.cuda.CFunctionAllocator over the allocator of the process, whose method `malloc` is what
    cupy.cuda.set_allocator takes.

    Args:
        options: those of install().
    """
    parameter = _parameter(_process.allocator_for("CuPy", **options).value)
    return cupy.cuda.CFunctionAllocator(ctypes.addressof(parameter), *_cupy_functions.addresses(), parameter)


@functools.lru_cache(maxsize=None)  # one is enough
def _parameter(allocator_address: int) -> _cupy_functions.Parameter:
    return _cupy_functions.parameter(allocator_address, _current_stream_function(), OutOfMemoryError)


def _current_stream_function() -> int:
    """The address of CuPy's C function for the current stream of the calling thread."""
    name, signature = "get_current_stream_ptr", b"intptr_t (void)"
    form = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    try:
        return form(("PyCapsule_GetPointer", ctypes.pythonapi))(_cupy_stream.__pyx_capi__[name], signature)
    except (AttributeError, KeyError, ValueError):
        raise Error(f"CuPy {cupy.__version__} has no C function {name} of the form {signature.decode()}",
                    _c.ERROR_NOT_SUPPORTED) from None
