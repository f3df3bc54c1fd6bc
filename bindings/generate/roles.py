# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the parameters of a function are to its caller: the conventions of docs/c-api.md, read from types and
names. A parameter that no rule here covers is an error, so that nobody binds it by guess."""

from collections.abc import Iterator
from dataclasses import dataclass

from .header import Field, Function, HeaderError, Interface, Parameter, Signature, Struct, Type
from .places import LEFT_OUT

SCALARS = {"int32_t", "uint32_t", "int64_t", "uint64_t", "size_t", "double", "uint8_t",
           "cachalot_address", "cachalot_stream"}

# Callbacks without a destroy function: whether the library calls them after the function has returned.
OUTLIVES_CALL = {"cachalot_allocator_options": True, "cachalot_replay_options": False,
                 "cachalot_read_fn": False, "cachalot_write_fn": False}


@dataclass(frozen=True)
class Argument:
    """One thing that a caller gives or gets; `parameters` are those of C that it is made of."""

    role: str
    parameters: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        return self.parameters[0].name

    @property
    def type(self) -> Type:
        return self.parameters[0].type

    @property
    def is_result(self) -> bool:
        return self.role.startswith("out ")


# Role -> the types of its parameters in a row: {S} a scalar, {T} a struct, {H} a handle. The first that fits
# counts.
ROWS = [
    ("out text", ["char*", "size_t", "size_t*"]),
    ("out bytes", ["void*", "size_t", "size_t*"]),
    ("out rows", ["{T}*", "size_t", "size_t*"]),
    ("array", ["const {S}*", "size_t"]),
    ("bytes", ["const void*", "size_t"]),
    ("fill text", ["char*", "size_t"]),
    ("fill bytes", ["void*", "size_t"]),
    ("out borrowed text", ["const char**"]),
    ("out handle", ["{H}**"]),
    ("out memory", ["void**"]),
    ("out struct", ["{T}*"]),
    ("out scalar", ["{S}*"]),
    ("struct", ["const {T}*"]),
    ("id", ["{T}"]),
    ("handle", ["const {H}*"]),
    ("handle", ["{H}*"]),
    ("text", ["const char*"]),
    ("memory", ["void*"]),
    ("scalar", ["{S}"]),
]


def kind(interface: Interface, type_: Type) -> str:
    """The type with its name replaced by what it is."""
    name = "{S}" if type_.name in SCALARS else "{T}" if interface.struct(type_.name) else \
        "{H}" if interface.is_handle(type_.name) else type_.name
    return str(Type(name, type_.pointers, type_.is_const))


def fits(interface: Interface, parameters: tuple[Parameter, ...], types: list[str]) -> bool:
    return len(parameters) >= len(types) and all(
        expected in (str(p.type), kind(interface, p.type)) for p, expected in zip(parameters, types, strict=False))


def arguments(interface: Interface, name: str, signature: Signature) -> list[Argument]:
    """All arguments but the error record, in order."""
    rest = signature.parameters
    found = []
    while rest:
        if str(rest[0].type) == "cachalot_error*":
            rest = rest[1:]
            continue
        argument = callback(interface, rest) or next(
            (Argument(role, rest[:len(types)]) for role, types in ROWS if fits(interface, rest, types)), None)
        if not argument:
            raise HeaderError(f"{name}: no rule for the parameter {rest[0].type} {rest[0].name}")
        found.append(argument)
        rest = rest[len(argument.parameters):]
    return found


def callback(interface: Interface, rest: tuple[Parameter, ...]) -> Argument | None:
    """A function, its user_data, and its destroy function if there is one."""
    if not any(c.name == rest[0].type.name for c in interface.callbacks):
        return None
    count = 3 if len(rest) > 2 and rest[2].name == "destroy" else 2
    if count == 2 and rest[0].type.name not in OUTLIVES_CALL:
        raise HeaderError(f"{rest[0].type.name}: OUTLIVES_CALL does not say how long it is called")
    return Argument("callback", rest[:count])


def takes_error(function: Function) -> bool:
    return any(str(p.type) == "cachalot_error*" for p in function.signature.parameters)


def bound(interface: Interface) -> Iterator[Function]:
    return (f for f in interface.functions if f.name not in LEFT_OUT)


@dataclass(frozen=True)
class Directions:
    """The structs that callers give, and those that they get, with all that are inside of them."""

    given: frozenset[str]
    got: frozenset[str]


def directions(interface: Interface) -> Directions:
    given: set[str] = set()
    got: set[str] = {"cachalot_error"}  # has no structs inside

    def mark(name: str, marked: set[str]) -> None:
        struct = interface.struct(name)
        if struct and name not in marked:
            marked.add(name)
            for field in struct.fields:
                mark(field.type.name, marked)

    for f in bound(interface):
        for argument in arguments(interface, f.name, f.signature):
            mark(argument.type.name, got if argument.is_result else given)
    for c in interface.callbacks:
        for parameter in c.signature.parameters:
            mark(parameter.type.name, got)
    return Directions(frozenset(given), frozenset(got))


# ---- Fields of structs. ----


def is_own(field: Field) -> bool:
    """Whether a field says something: its struct's size and padding do not."""
    return field.name != "struct_size" and not field.name.startswith("reserved_")


@dataclass(frozen=True)
class Group:
    """Functions of a struct that share a user_data, and who ends it."""

    functions: tuple[Field, ...]
    user_data: Field
    destroy: Field | None


def groups(interface: Interface, struct: Struct) -> list[Group]:
    """The struct's callbacks: each user_data ends a group, and a destroy function has the prefix of its own."""
    found: list[Group] = []
    functions: list[Field] = []
    for field in struct.fields:
        if field.name.endswith("user_data"):
            found.append(Group(tuple(functions), field, None))
            functions = []
        elif field.name.endswith("destroy"):
            user_data = field.name.removesuffix("destroy") + "user_data"
            found = [Group(g.functions, g.user_data, field) if g.user_data.name == user_data else g for g in found]
        elif signature(interface, field.type):
            functions.append(field)
    for group in found:
        if not group.destroy and struct.name not in OUTLIVES_CALL:
            raise HeaderError(f"{struct.name}: OUTLIVES_CALL does not say how long its functions are called")
    return found


def signature(interface: Interface, type_: Type) -> Signature | None:
    """What a callback looks like, whether its type has a name or not."""
    return type_.function or next((c.signature for c in interface.callbacks if c.name == type_.name), None)
