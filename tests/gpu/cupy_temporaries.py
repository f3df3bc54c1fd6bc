# SPDX-License-Identifier: MIT OR Apache-2.0
"""A load of CuPy in which each operation is a temporary."""


def temporaries(cupy, rounds, note=lambda: None):
    """Element-wise arithmetic and products. Gives a sum of the results; note is called every 50 rounds."""
    base = cupy.arange(1 << 20, dtype=cupy.float32)
    total = 0.0
    for i in range(rounds):
        first = base * 2 + i
        second = (first - cupy.sqrt(first)).reshape(1024, 1024)
        third = second @ second.T
        if i % 50 == 0:
            total += float(third.sum()) + float(second.max())
            note()
    return total
