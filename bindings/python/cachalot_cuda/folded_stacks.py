# SPDX-License-Identifier: MIT OR Apache-2.0
"""The holders of the memory, as the folded stacks that flame graphs are drawn from: flamegraph.pl, inferno and
speedscope read them.

The text is that which torch.cuda.memory._save_segment_usage and _save_memory_usage give to flamegraph.pl.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import history

# What shows the interpreter or the unwinding and not the program, as parts of a frame's name and of its file.
_OMITTED_NAMES = ("unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "__libc_start_main",
                  "PyEval_", "PyObject_", "PyFunction_")
_OMITTED_FILES = ("core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c", "Objects/call.c",
                  "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h")


def save_segment_usage(path: str | os.PathLike[str], snapshot: dict[str, Any] | None = None) -> None:
    """Writes one line for each block: its stream, its segment, its state, the frames that allocated it, and
    the bytes that were asked for. Bytes of the block beyond the request are a line of their own, `<gaps>`.

    Args:
        snapshot: of cachalot_cuda.snapshot or torch.cuda.memory._snapshot; None: one is taken now.
    """
    _save(path, snapshot, lambda segment: f"stream_{segment['stream']};seg_{segment['address']}")


def save_memory_usage(path: str | os.PathLike[str], snapshot: dict[str, Any] | None = None) -> None:
    """The same without the segments: all memory of a stream together."""
    _save(path, snapshot, lambda segment: f"stream_{segment['stream']}")


def _save(path: str | os.PathLike[str], snapshot: dict[str, Any] | None, root: Callable[[dict[str, Any]], str]) -> None:
    if snapshot is None:
        snapshot = history.snapshot(with_history=False)
    with open(path, "w", encoding="utf-8") as file:
        for segment in snapshot["segments"]:
            for block in segment["blocks"]:
                file.write(_lines(f"{root(segment)};{block['state']}", block))


def _lines(root: str, block: dict[str, Any]) -> str:
    line = f"{root};{_frames(block['frames'])} {block['requested_size']}\n"
    gaps = block["size"] - block["requested_size"]
    return line + f"{root};<gaps> {gaps}\n" if gaps else line


def _frames(frames: list[dict[str, Any]]) -> str:
    if not frames:
        return "<non-python>"
    return ";".join(_frame(frame) for frame in reversed(frames) if _is_shown(frame))


def _frame(frame: dict[str, Any]) -> str:
    file = frame["filename"].rpartition("/")[2]
    return f"{file}:{frame['line']}:{frame['name']}"


def _is_shown(frame: dict[str, Any]) -> bool:
    return not (any(part in frame["name"] for part in _OMITTED_NAMES)
                or any(part in frame["filename"] for part in _OMITTED_FILES))
