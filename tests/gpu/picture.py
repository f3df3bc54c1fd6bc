# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the scripts share that draw a file of measurements."""
import sys


def draw_file(arguments, usage, read, draw):
    """arguments: a file and a picture. read: gives what draw draws, or raises ValueError. Gives the exit status."""
    if len(arguments) != 2:
        print(usage, file=sys.stderr)
        return 2
    try:
        measured = read(arguments[0])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    draw(measured, arguments[1])
    return 0
