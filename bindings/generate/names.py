# SPDX-License-Identifier: MIT OR Apache-2.0
"""How names of the header read in other languages; all without their prefix."""


def camel(name: str) -> str:
    """allocator_create -> allocatorCreate"""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def pascal(name: str) -> str:
    """allocator_create -> AllocatorCreate"""
    return "".join(part.capitalize() for part in name.split("_"))


def bare(name: str) -> str:
    """The name without cachalot_ or CACHALOT_."""
    return name[len("cachalot_"):]
