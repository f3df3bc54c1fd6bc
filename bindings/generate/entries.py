# SPDX-License-Identifier: MIT OR Apache-2.0
"""The places at which the library calls back into another language: one C function each."""

from collections.abc import Iterator
from dataclasses import dataclass

from .header import HeaderError, Interface, Signature
from .names import bare
from .roles import Argument, arguments, bound, directions, groups, signature


@dataclass(frozen=True)
class Entry:
    """user_data stands for a function, or for the struct that has it in a field."""

    name: str
    signature: Signature
    owner: str
    """The callback's type, or the struct."""
    field: str
    """"": user_data is the function itself."""


def entries(interface: Interface) -> Iterator[Entry]:
    passed = {a.type.name for f in bound(interface) for a in arguments(interface, f.name, f.signature)
              if a.role == "callback"}
    for c in interface.callbacks:
        if c.name in passed:
            yield Entry(bare(c.name), c.signature, c.name, "")
    given = directions(interface).given
    for struct in interface.structs:
        for group in groups(interface, struct) if struct.name in given else ():
            for f in group.functions:
                called = signature(interface, f.type)
                assert called, "groups() has functions only"
                yield Entry(f"{bare(struct.name)}_{f.name}", called, struct.name, f.name)


def values(interface: Interface, entry: Entry) -> list[Argument]:
    """The arguments behind user_data, which comes first everywhere."""
    user_data, *rest = arguments(interface, entry.name, entry.signature)
    if user_data.name != "user_data":
        raise HeaderError(f"{entry.name}: its first parameter is not user_data")
    return rest
