# SPDX-License-Identifier: MIT OR Apache-2.0
"""The library's remarks as records of the module logging.

A remark may come while a thread has locks of the library, for which another thread with the interpreter's lock may
wait. So no Python runs there: the library writes the remark to a pipe, which a thread reads.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
from typing import Any

from . import _c, _library

_logger: logging.Logger | None = None

_KINDS = {str(level): kind for level, kind in _c.LOG_KINDS.items()}
_SEVERITIES = {"difference": logging.INFO, "damage": logging.ERROR}  # of all others: WARNING
_LAST = b"0 \n"  # no level of the library


def use_logging(logger: logging.Logger | None = None) -> None:
    """Gives the remarks of allocators that get their options from now on to a logger: call it before
    cachalot_cuda.torch.install() and its siblings.

    A warning of PyTorch's and an advice are of the level WARNING, a mended defect (docs/differences.md) is INFO, damage
    of a block is ERROR; the attribute `kind` of a record is "warning", "advice", "difference" or "damage". Records come
    a moment after the call, on a thread of their own.

    Args:
        logger: None: the one named "cachalot".
    """
    global _logger
    _logger = logger or logging.getLogger("cachalot")


def options() -> dict[str, Any]:
    """The fields of AllocatorOptions that have the remarks go to the logger; none where use_logging was not called."""
    if _logger is None:
        return {}
    return {"log": _library.address_of("cachalot_pluggable_log"), "log_user_data": _pipe_to(_logger)}


@functools.lru_cache(maxsize=None)  # never closed: an allocator may live as long as the process
def _pipe_to(logger: logging.Logger) -> int:
    """The descriptor of a pipe whose lines the logger gets."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=_forward, args=(reader, logger), name="cachalot-logs", daemon=True)
    thread.start()
    atexit.register(_drain, writer, thread)
    return writer


def _forward(reader: int, logger: logging.Logger) -> None:
    with open(reader, "rb") as lines:
        for line in iter(lines.readline, _LAST):
            level, _, message = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
            kind = _KINDS.get(level, level)
            logger.log(_SEVERITIES.get(kind, logging.WARNING), "%s", message, extra={"kind": kind})


def _drain(writer: int, thread: threading.Thread) -> None:
    """Has what was remarked so far logged before the interpreter ends."""
    if not _library.is_forked():  # the reader is a thread of the parent
        os.set_blocking(writer, True)
        os.write(writer, _LAST)
        thread.join()
        os.set_blocking(writer, False)  # nobody reads what comes later
