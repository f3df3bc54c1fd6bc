# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the C++ of core and capi by libclang: functions, classes, and the tokens of each line.

All sources are read as one, as the amalgamation has them, which takes ten seconds; one after the other they
would take minutes. What `#if` leaves out on this machine is not seen. The program `cachalot` (capi/cli) is left
out, since its libraries may be missing, and so is cuda.h, which needs the CUDA Toolkit.
"""

import contextlib
import os
import pathlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from bindings.generate.header import version_folder
from clang.cindex import (AccessSpecifier, Cursor, CursorKind, Diagnostic, Index, SourceLocation, SourceRange,
                          TokenKind, TranslationUnit)
from clang.cindex import File as ClangFile

FOLDERS = ("core", "capi/src", "capi/pluggable", "capi/include")
LEFT_OUT = ("capi/include/cachalot/cuda.h",)

FUNCTIONS = {CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR,
             CursorKind.CONVERSION_FUNCTION, CursorKind.FUNCTION_TEMPLATE}
CLASSES = {CursorKind.CLASS_DECL, CursorKind.STRUCT_DECL, CursorKind.CLASS_TEMPLATE,
           CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION}
SCOPES = {CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL}

# Functions of a struct of values at most; one with more of them has a life of its own.
FUNCTIONS_OF_VALUES = 3


class CodeError(Exception):
    """The sources cannot be read."""


@dataclass(frozen=True)
class Function:
    name: str
    path: str
    line: int
    lines: int
    body: str
    """Its tokens, with one blank between two; no comments."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Class:
    name: str
    path: str
    fields: int
    functions: int
    """Those that are written: neither defaulted nor deleted."""
    is_public: bool
    """All of its fields."""

    @property
    def is_values(self) -> bool:
        """A table of values: options, statistics, one row of a report. It may be as wide as its subject."""
        return self.is_public and self.functions <= FUNCTIONS_OF_VALUES


@dataclass(frozen=True)
class File:
    path: str
    lines: int
    code: dict[int, str]
    """Tokens of each line that has any, with one blank between two; no comments."""
    comments: set[int] = field(repr=False)
    """Lines with a comment, or a part of one."""

    @property
    def comment_lines(self) -> int:
        """Lines with nothing but a comment."""
        return len(self.comments - self.code.keys())


@dataclass
class Code:
    files: list[File]
    functions: list[Function]
    classes: list[Class]


def read(root: pathlib.Path) -> Code:
    paths = source_paths(root)
    with include_folders(root) as arguments:
        unit = parse(root, paths, arguments)
        files = [file_of(unit, root, path) for path in paths]
        cursors = list(own_cursors(unit, root, set(paths)))
    return Code(files, [function_of(c, root) for c in cursors if c.kind in FUNCTIONS],
                [class_of(c, root) for c in cursors if c.kind in CLASSES])


def source_paths(root: pathlib.Path) -> list[str]:
    found = [str(path.relative_to(root)) for folder in FOLDERS for path in (root / folder).rglob("*")
             if path.suffix in (".h", ".cpp")]
    return sorted(path for path in found if path not in LEFT_OUT)


@contextlib.contextmanager
def include_folders(root: pathlib.Path) -> Iterator[list[str]]:
    own = [f"-I{root / folder}" for folder in ("core", "capi/include", "capi/src")]
    system = [argument for folder in system_folders() for argument in ("-isystem", folder)]
    with version_folder() as version:
        yield ["-std=c++20", "-nostdinc", *own, f"-I{version}", *system]


def system_folders() -> list[str]:
    """Where the compiler of this machine looks for headers: libclang's package brings none."""
    run = subprocess.run(["c++", "-x", "c++", "-E", "-v", "/dev/null"], capture_output=True, text=True,
                         env={**os.environ, "LC_ALL": "C"}, check=True)
    listed = run.stderr.split("#include <...> search starts here:\n")[1].split("End of search list.")[0]
    return [line.strip() for line in listed.splitlines()]


def parse(root: pathlib.Path, paths: list[str], arguments: list[str]) -> TranslationUnit:
    """Sources first: what a header lacks is no concern of ours."""
    order = sorted(paths, key=lambda path: path.endswith(".h"))
    text = "".join(f'#include "{root / path}"\n' for path in order)
    all_of_it = str(root / "all_sources.cpp")
    unit = Index.create().parse(all_of_it, args=arguments, unsaved_files=[(all_of_it, text)])
    for diagnostic in unit.diagnostics:
        if diagnostic.severity >= Diagnostic.Error:
            raise CodeError(str(diagnostic))
    return unit


def own_cursors(unit: TranslationUnit, root: pathlib.Path, paths: set[str]) -> Iterator[Cursor]:
    """Functions and classes that are defined in these files; none from within a function."""
    for cursor in unit.cursor.get_children():
        if path_of(cursor, root) in paths:
            yield from definitions(cursor)


def definitions(cursor: Cursor) -> Iterator[Cursor]:
    if cursor.kind in FUNCTIONS:
        if body_of(cursor):
            yield cursor
    elif cursor.kind in CLASSES:
        if cursor.is_definition():
            yield cursor
            for child in cursor.get_children():
                yield from definitions(child)
    elif cursor.kind in SCOPES:
        for child in cursor.get_children():
            yield from definitions(child)


def path_of(cursor: Cursor, root: pathlib.Path) -> str:
    file = cursor.location.file
    if not file:
        return ""
    path = pathlib.Path(file.name)
    return str(path.relative_to(root)) if path.is_relative_to(root) else ""


def body_of(cursor: Cursor) -> Cursor | None:
    return next((c for c in cursor.get_children() if c.kind in (CursorKind.COMPOUND_STMT, CursorKind.CXX_TRY_STMT)),
                None)


def name_of(cursor: Cursor) -> str:
    """With its classes, and the namespaces inside `cachalot`."""
    names = [cursor.spelling]
    parent = cursor.semantic_parent
    while parent and parent.kind != CursorKind.TRANSLATION_UNIT:
        if parent.spelling not in ("", "cachalot"):  # "": anonymous, or extern "C"
            names.append(parent.spelling)
        parent = parent.semantic_parent
    return "::".join(reversed(names))


def function_of(cursor: Cursor, root: pathlib.Path) -> Function:
    extent = cursor.extent
    body = " ".join(t.spelling for t in body_of(cursor).get_tokens() if t.kind != TokenKind.COMMENT)
    return Function(name_of(cursor), path_of(cursor, root), extent.start.line,
                    extent.end.line - extent.start.line + 1, body)


def class_of(cursor: Cursor, root: pathlib.Path) -> Class:
    members = list(cursor.get_children())
    fields = [m for m in members if m.kind == CursorKind.FIELD_DECL]
    functions = [m for m in members if m.kind in FUNCTIONS
                 and not m.is_default_method() and not m.is_deleted_method()]
    return Class(name_of(cursor), path_of(cursor, root), len(fields), len(functions),
                 all(m.access_specifier == AccessSpecifier.PUBLIC for m in fields))


def file_of(unit: TranslationUnit, root: pathlib.Path, path: str) -> File:
    text = (root / path).read_bytes()
    file = ClangFile.from_name(unit, str(root / path))
    whole = SourceRange.from_locations(SourceLocation.from_offset(unit, file, 0),
                                       SourceLocation.from_offset(unit, file, len(text)))
    code: dict[int, list[str]] = {}
    comments: set[int] = set()
    for token in unit.get_tokens(extent=whole):
        if token.kind == TokenKind.COMMENT:
            comments.update(range(token.extent.start.line, token.extent.end.line + 1))
        else:
            code.setdefault(token.location.line, []).append(token.spelling)
    return File(path, text.count(b"\n"), {line: " ".join(tokens) for line, tokens in code.items()}, comments)
