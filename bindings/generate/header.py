# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the public header by libclang into a model that every writer of this folder uses."""

import contextlib
import pathlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from clang.cindex import Cursor, CursorKind, Index, TranslationUnit, TypeKind

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEADERS = ROOT / "capi/include"


class HeaderError(Exception):
    """The header cannot be read, or has something that no rule here covers."""


@dataclass(frozen=True)
class Type:
    """A type of the interface: `const cachalot_stats*` has the name cachalot_stats, one pointer, const."""

    name: str
    pointers: int = 0
    is_const: bool = False
    length: int = 0
    """Of an array; 0: none."""
    function: "Signature | None" = None
    """Of a pointer to a function that has no name of its own."""

    def __str__(self) -> str:
        if self.function:
            parameters = ", ".join(f"{p.type} {p.name}" for p in self.function.parameters)
            return f"{self.function.returns} (*)({parameters})"
        array = f"[{self.length}]" if self.length else ""
        return f"{'const ' if self.is_const else ''}{self.name}{'*' * self.pointers}{array}"


@dataclass(frozen=True)
class Parameter:
    name: str
    type: Type


@dataclass(frozen=True)
class Signature:
    returns: Type
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Function:
    name: str
    header: str
    signature: Signature
    doc: str


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    offset: int
    size: int
    doc: str


@dataclass(frozen=True)
class Struct:
    name: str
    header: str
    size: int
    fields: tuple[Field, ...]
    doc: str

    @property
    def is_sized(self) -> bool:
        return self.fields[0].name == "struct_size"


@dataclass(frozen=True)
class Constant:
    name: str
    header: str
    value: int
    is_unsigned: bool
    bits: int
    """32 or 64."""
    group: str
    """The enum that it is of, or the text above its group of macros; "": none."""
    doc: str


@dataclass(frozen=True)
class Callback:
    """A named type of function pointer."""

    name: str
    header: str
    signature: Signature
    doc: str


@dataclass(frozen=True)
class Named:
    """An opaque handle, or a name for a scalar type (`type` says which)."""

    name: str
    header: str
    type: str
    doc: str


@dataclass(frozen=True)
class Interface:
    """All that the public header declares, in its order."""

    version: int
    """major * 10000 + minor * 100 + patch."""
    functions: tuple[Function, ...]
    structs: tuple[Struct, ...]
    enums: tuple[Named, ...]
    constants: tuple[Constant, ...]
    callbacks: tuple[Callback, ...]
    handles: tuple[Named, ...]
    scalars: tuple[Named, ...]

    @property
    def number(self) -> int:
        """What a binding compares at load: the version without the patch, which changes no interface."""
        return self.version // 100

    def struct(self, name: str) -> Struct | None:
        return next((struct for struct in self.structs if struct.name == name), None)

    def is_handle(self, name: str) -> bool:
        return any(handle.name == name for handle in self.handles)


@contextlib.contextmanager
def version_folder(headers: pathlib.Path = HEADERS) -> Iterator[str]:
    """A folder with cachalot/version.h, which the build writes otherwise."""
    version = (ROOT / "VERSION").read_text().strip()
    values = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True))
    text = (headers / "cachalot/version.h.in").read_text().replace("@PROJECT_VERSION@", version)
    for name, value in values.items():
        text = text.replace(f"@PROJECT_VERSION_{name}@", value)
    with tempfile.TemporaryDirectory() as folder:
        version_header = pathlib.Path(folder) / "cachalot/version.h"
        version_header.parent.mkdir()
        version_header.write_text(text)
        yield folder


@contextlib.contextmanager
def include_folders(headers: pathlib.Path) -> Iterator[list[str]]:
    """Compiler arguments that find the header, its version and nothing of this machine."""
    with version_folder(headers) as version:
        yield ["--target=x86_64-unknown-linux-gnu", "-std=c99", "-nostdinc", "-isystem",
               str(HERE / "freestanding"), f"-I{headers}", f"-I{version}"]


def read(headers: pathlib.Path = HEADERS) -> Interface:
    """The interface that cachalot/cachalot.h of this folder declares."""
    with include_folders(headers) as arguments:
        unit = parse('#include "cachalot/cachalot.h"\n', arguments)
        cursors = [c for c in unit.cursor.get_children()
                   if c.location.file and pathlib.Path(c.location.file.name).parent.name == "cachalot"]
        constants = [*enum_constants(cursors), *macro_constants(cursors, arguments)]
    values = {constant.name: constant.value for constant in constants}
    typedefs = [c for c in cursors if c.kind == CursorKind.TYPEDEF_DECL]
    structs = [c for c in cursors if c.kind == CursorKind.STRUCT_DECL and c.is_definition()]
    defined = {c.spelling for c in structs}
    return Interface(
        version=values["CACHALOT_VERSION_NUMBER"],
        functions=tuple(function_of(c) for c in cursors if c.kind == CursorKind.FUNCTION_DECL),
        structs=tuple(struct_of(c) for c in structs),
        enums=tuple(named(c, "enum") for c in cursors if c.kind == CursorKind.ENUM_DECL),
        constants=tuple(constants),
        callbacks=tuple(callback_of(c) for c in typedefs if is_function_pointer(c)),
        handles=tuple(named(c, "handle") for c in typedefs
                      if c.underlying_typedef_type.get_canonical().kind == TypeKind.RECORD
                      and c.spelling not in defined),
        scalars=tuple(named(c, c.underlying_typedef_type.spelling) for c in typedefs
                      if c.underlying_typedef_type.spelling.endswith("_t")))


def parse(text: str, arguments: list[str]) -> TranslationUnit:
    unit = Index.create().parse(
        "interface.c", args=arguments, unsaved_files=[("interface.c", text)],
        options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    for diagnostic in unit.diagnostics:
        raise HeaderError(str(diagnostic))
    return unit


def named(cursor: Cursor, kind: str) -> Named:
    return Named(cursor.spelling, header_of(cursor), kind, doc_of(cursor))


def header_of(cursor: Cursor) -> str:
    return pathlib.Path(cursor.location.file.name).name


def doc_of(cursor: Cursor) -> str:
    return plain(cursor.raw_comment or "")


def plain(comment: str) -> str:
    """The text of a comment. Of several in a row the last counts, and marks of groups do not."""
    texts = [without_stars(text) for text in re.findall(r"/\*\*(.*?)\*/", comment, re.DOTALL)]
    return next((text for text in reversed(texts) if not re.match(r"@(name|[{}])", text)), "")


def without_stars(text: str) -> str:
    return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() for line in text.split("\n")).strip()


def summary(doc: str) -> str:
    """The first sentence of a comment, on one line."""
    first = " ".join(re.split(r"\n\s*\n|\n\s*@", doc, maxsplit=1)[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z@])", first, maxsplit=1)[0]


def is_function_pointer(cursor: Cursor) -> bool:
    pointee = cursor.underlying_typedef_type.get_canonical().get_pointee()
    return pointee.kind == TypeKind.FUNCTIONPROTO


def type_of(cursor_type, cursor: Cursor | None = None) -> Type:
    """The type of a field or parameter; for a plain pointer to a function, its parameters' names too."""
    pointee = cursor_type.get_pointee()
    if cursor_type.kind == TypeKind.POINTER and pointee.get_canonical().kind == TypeKind.FUNCTIONPROTO:
        return Type("", function=signature_of(pointee.get_canonical(), cursor))
    match = re.fullmatch(r"(const )?(\w+) ?(\**)(?:\[(\d+)\])?", cursor_type.spelling)
    if not match:
        raise HeaderError(f"no rule for the type {cursor_type.spelling}")
    return Type(match[2], len(match[3]), bool(match[1]), int(match[4] or 0))


def signature_of(function_type, cursor: Cursor) -> Signature:
    parameters = [c for c in cursor.get_children() if c.kind == CursorKind.PARM_DECL]
    return Signature(type_of(returns_of(function_type, cursor)),
                     tuple(Parameter(p.spelling, type_of(p.type, p)) for p in parameters))


def returns_of(function_type, cursor: Cursor):
    """The result as it is spelled: the canonical type no longer knows the header's own names."""
    if cursor.kind == CursorKind.FUNCTION_DECL:
        return cursor.result_type
    outer = cursor.underlying_typedef_type if cursor.kind == CursorKind.TYPEDEF_DECL else cursor.type
    return outer.get_pointee().get_result() if outer.get_pointee().get_result().spelling \
        else function_type.get_result()


def function_of(cursor: Cursor) -> Function:
    return Function(cursor.spelling, header_of(cursor), signature_of(cursor.type, cursor), doc_of(cursor))


def callback_of(cursor: Cursor) -> Callback:
    pointee = cursor.underlying_typedef_type.get_pointee()
    return Callback(cursor.spelling, header_of(cursor), signature_of(pointee, cursor), doc_of(cursor))


def struct_of(cursor: Cursor) -> Struct:
    fields = tuple(Field(c.spelling, type_of(c.type, c), c.get_field_offsetof() // 8, c.type.get_size(),
                         doc_of(c))
                   for c in cursor.get_children() if c.kind == CursorKind.FIELD_DECL)
    return Struct(cursor.spelling, header_of(cursor), cursor.type.get_size(), fields, doc_of(cursor))


def enum_constants(cursors: list[Cursor]) -> Iterator[Constant]:
    for enum in cursors:
        if enum.kind == CursorKind.ENUM_DECL:
            for c in enum.get_children():
                if not c.spelling.endswith("_FORCE_INT32"):
                    yield Constant(c.spelling, header_of(c), c.enum_value, False, 32, enum.spelling, doc_of(c))


# ---- Macros: libclang has their words and places; values and types it has once they are used. ----


def macro_constants(cursors: list[Cursor], arguments: list[str]) -> list[Constant]:
    """Every macro that is a number, in the order of the headers."""
    found = {}
    for header in dict.fromkeys(c.location.file.name for c in cursors):
        found.update(macros_of(pathlib.Path(header)))
    found.update(macros_of(next(pathlib.Path(a[2:]) / "cachalot/version.h" for a in reversed(arguments)
                                if a.startswith("-I"))))
    lines = ['#include "cachalot/cachalot.h"']
    for name in found:
        lines += [f"enum {{ low_{name} = (int)({name}), high_{name} = (int)((long)({name}) >> 32) }};",
                  f"__typeof__({name}) type_{name};"]
    halves, types = {}, {}
    for c in parse("\n".join(lines) + "\n", arguments).cursor.get_children():
        if c.kind == CursorKind.ENUM_DECL:
            for value in c.get_children():
                halves[value.spelling] = value.enum_value
        elif c.kind == CursorKind.VAR_DECL:
            types[c.spelling.removeprefix("type_")] = c.type.get_canonical()
    return [macro_constant(name, halves, types[name], *texts) for name, texts in found.items()]


def macro_constant(name: str, halves: dict[str, int], type_, header: str, group: str, doc: str) -> Constant:
    bits = 8 * type_.get_size()
    is_unsigned = type_.spelling.startswith("unsigned")
    value = halves[f"high_{name}"] * 2**32 + halves[f"low_{name}"] % 2**32
    return Constant(name, header, value % 2**bits if is_unsigned else value, is_unsigned, bits, group, doc)


MACRO = re.compile(r"#define (CACHALOT_\w+)[ \t\\\n]+([-(\w](?:[^\\\n]|\\[\s\S])*)"
                   r"((?:\n +/\*[^*][^\n]*\*/$)*)", re.MULTILINE)
OTHERS = re.compile(r"__attribute__|CACHALOT_\w+_INIT$")


def macros_of(header: pathlib.Path) -> dict[str, tuple[str, str, str]]:
    """Name -> header, group, text, of each macro that stands for a number."""
    text = header.read_text()
    found = {}
    for match in MACRO.finditer(text):
        name, body, more = match.groups()
        if OTHERS.search(name) or OTHERS.search(body):
            continue
        trailing = " ".join(c.strip() for c in re.findall(r"/\*(.*?)\*/", body + more, re.DOTALL))
        before = text[:match.start()]
        above = re.search(r"/\*\*((?!\*/).)*\*/\n\Z", before, re.DOTALL)
        doc = " ".join(trailing.replace("\\", " ").split()) or (plain(above[0]) if above else "")
        found[name] = (header.name, group_at(before), doc)
    return found


def group_at(text: str) -> str:
    """The title of the group of macros that is open at the end of a text."""
    begin, end = text.rfind("/** @{ */"), text.rfind("/** @} */")
    if begin <= end:
        return ""
    title = re.search(r"/\*\*\s*(?:\*\s*)?@name ((?:(?!\*/).)*)\*/\s*\Z", text[:begin], re.DOTALL)
    return " ".join(without_stars(title[1]).split()) if title else ""
