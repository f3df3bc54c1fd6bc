#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the host pays for a request of CuPy's and its free, by CuPy's own pool and by cachalot, without a GPU: both
caches hit, over devices that are addresses only.

Usage: [CACHALOT_LIB_DIR=build/release] build/hosts/bin/python tests/hosts/cupy_cost.py
"""
import ctypes
import pathlib
import sys
import timeit

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"
sys.path[:0] = [str(PACKAGE), str(PACKAGE / "tests")]

import cupy_without_gpu  # noqa: E402  before cupy

MIB = 1 << 20
PAGE = 2 * MIB
ROUNDS, COUNT = 15, 4000

next_address = 1 << 40


def driver_malloc(size, _):
    global next_address
    address, next_address = next_address, next_address + (size + PAGE - 1) // PAGE * PAGE
    return address


cupy_without_gpu.replace("malloc", ctypes.c_ssize_t, [ctypes.c_size_t, ctypes.c_int], driver_malloc)
cupy_without_gpu.replace("free", ctypes.py_object, [ctypes.c_ssize_t, ctypes.c_int], lambda *_: None)

import cupy  # noqa: E402
import cachalot_cuda.cupy  # noqa: E402


def pair():
    """A request of 1 MiB and its free."""
    cupy.cuda.alloc(MIB)


def temporaries():
    """Five requests of 4 MiB, each freed when the one after the next is there, as in a formula."""
    allocate = cupy.cuda.alloc
    first, second = allocate(4 * MIB), allocate(4 * MIB)
    for _ in range(3):
        first, second = second, allocate(4 * MIB)


def main():
    ways = {"CuPy's pool": cupy.cuda.MemoryPool().malloc,
            "cachalot": cachalot_cuda.cupy.allocator(driver="sim:80GiB").malloc}
    for load in (pair, temporaries):
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):  # in turns, since other programs run too
            for way, allocate in ways.items():
                with cupy.cuda.using_allocator(allocate):
                    kept = [cupy.cuda.alloc(MIB) for _ in range(3)]
                    best[way] = min(best[way], timeit.timeit(load, number=COUNT) / COUNT)
                    del kept
        print(load.__name__, ", ".join(f"{way} {seconds * 1e9:,.0f} ns" for way, seconds in best.items()))


if __name__ == "__main__":
    main()
