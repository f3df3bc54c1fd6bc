# SPDX-License-Identifier: MIT OR Apache-2.0
"""How objects that own a part of the library end: by close(), or when nothing refers to them."""

from __future__ import annotations

from .errors import Error


class EndsByItself:
    """What is closed at the latest by its finalizer, without a word if it cannot be.

    In a cycle of references the finalizer may come while something of the object is still live. Then the end of that
    calls _close_if_over, and the object is closed behind its finalizer.
    """

    _is_over = False  # its finalizer has run

    def close(self) -> None:
        """Ends it. Again: nothing."""
        raise NotImplementedError

    def _after_end(self) -> None:
        """What comes behind a close that no program has asked for."""

    def _close_if_over(self) -> None:
        try:
            if self._is_over:
                self.close()
                self._after_end()
        except (Error, AttributeError, TypeError):  # but for Error: the interpreter is going, its modules are empty
            pass

    def __del__(self) -> None:
        self._is_over = True
        self._close_if_over()
