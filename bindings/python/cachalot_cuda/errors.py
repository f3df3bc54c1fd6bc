# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can go wrong."""


class LibraryNotFoundError(ImportError):
    """libcachalot_pluggable.so could not be loaded; the message says what was tried."""


class Error(RuntimeError):
    """A call of the library failed.

    Attributes:
        status: the number of the status (cachalot_status in the C header).
        driver_code: the device driver's own code, 0 if it was not the driver.
    """

    def __init__(self, message, status, driver_code=0):
        super().__init__(message)
        self.status = status
        self.driver_code = driver_code


class InvalidArgumentError(Error, ValueError):
    """An argument or an option string is not acceptable; nothing has changed."""


class InvalidStateError(Error):
    """The call does not fit the present state."""
