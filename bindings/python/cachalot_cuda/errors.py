# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can go wrong."""

from __future__ import annotations

class LibraryNotFoundError(ImportError):
    """libcachalot_pluggable.so could not be loaded; the message says what was tried."""


class Error(RuntimeError):
    """A call of the library failed.

    Attributes:
        status: the number of the status (cachalot_status in the C header).
        driver_code: the device driver's own code, 0 if it was not the driver.
    """

    def __init__(self, message: str, status: int, driver_code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.driver_code = driver_code


class InvalidArgumentError(Error, ValueError):
    """An argument or an option string is not acceptable; nothing has changed."""


class OutOfMemoryError(Error):
    """There is not enough memory of the device."""


class InvalidStateError(Error):
    """The call does not fit the present state."""
