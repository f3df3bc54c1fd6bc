#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Takes a GPU's memory away, so that a program finds a smaller device; a process by itself for what stays.

    ballast.py       reads lines: a number of bytes to leave free, or 0 to give all back; answers each with
                     the bytes that are free then
"""

import ctypes
import sys

PAGE = 2 << 20


class Driver:
    """The few functions of libcuda that this needs, in the first device's primary context."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            raise MemoryError(f"{name}: CUDA error {code}")

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def release(self, address):
        self.call("cuMemFree_v2", address)


class Ballast:
    def __init__(self, driver=None):
        self.driver = driver or Driver()
        self.held = []

    def leave(self, wanted):
        """Takes so much that at most so many bytes are free, and less than two pages fewer; returns what is free.
        MemoryError: there is less than that."""
        self.release()
        surplus = self.driver.free_bytes() - wanted
        if surplus < 0:
            raise MemoryError(f"{-surplus} bytes fewer are free than are to be left")
        if surplus:
            self.held.append(self.driver.allocate(-(-surplus // PAGE) * PAGE))
        return self.driver.free_bytes()

    def release(self):
        while self.held:
            self.driver.release(self.held.pop())


def main():
    ballast = Ballast()
    for line in sys.stdin:
        wanted = int(line)
        if wanted:
            print(ballast.leave(wanted), flush=True)
        else:
            ballast.release()
            print(ballast.driver.free_bytes(), flush=True)


if __name__ == "__main__":
    main()
