# SPDX-License-Identifier: MIT OR Apache-2.0
"""How names of the header read in other languages; all without their prefix."""


def camel(name: str) -> str:
    """allocator_create -> allocatorCreate"""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def pascal(name: str) -> str:
    """allocator_create -> AllocatorCreate, SIM_CALL_FREE -> SimCallFree, RELEASE_2_11 -> Release2_11"""
    text = ""
    for part in name.lower().split("_"):
        text += ("_" if text[-1:].isdigit() and part.isdigit() else "") + part.capitalize()
    return text


def bare(name: str) -> str:
    """The name without cachalot_ or CACHALOT_, and without _fn."""
    return name[len("cachalot_"):].removesuffix("_fn")
