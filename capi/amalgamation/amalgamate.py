#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes one source file of the library and one header of its interface: cachalot.cpp and cachalot.h.

    amalgamate.py FOLDER        writes both into FOLDER
    amalgamate.py --go FOLDER   the same for Go: cachalot.cpp has the build tag cachalot_bundled

Every header stands where it is first included. A file whose text is right already is not written, so builds that
compare times do nothing. Exit status: 0 both are there, 1 the sources do not fit into one file, 2 the call is wrong.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INTERFACE = ROOT / "capi/include"
ROOTS = [ROOT / "core", ROOT / "capi/src", INTERFACE]
SPDX = "SPDX-License-Identifier: MIT OR Apache-2.0"

INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<[^>]+>)')
DROPPED = re.compile(rf"(//|/\*) {SPDX}( \*/)?$|#pragma once$")

# The system's headers come first: what they declare is visible.
BEFORE = """
#pragma GCC visibility push(hidden)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"  // zero means default in every struct
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wrestrict"  // GCC 12 sees an overlap that cannot be (its bug 105651)
#endif
#ifndef CACHALOT_API
#define CACHALOT_API
#endif
#include "cachalot.h"
"""
AFTER = """
#pragma GCC diagnostic pop
#pragma GCC visibility pop
"""
ABOUT_SOURCE = """
Compile it for Linux with `c++ -std=c++20 -pthread -O2`, and link with `-pthread`. What it defines is hidden from other
libraries of the process; -DCACHALOT_API='__attribute__((visibility("default")))' makes a shared library offer the
interface to them. -DCACHALOT_HAS_NVTX builds NVTX's memory API in; its headers have to be found.
"""
ABOUT_HEADER = """
For C99 and C++11. Before the inclusion, #define CACHALOT_INCLUDE_CUDA adds wrappers for CUDA's own types, and
#define CACHALOT_INCLUDE_TEXT functions that allocate the texts which they give.
"""


class Failure(Exception):
    """The sources do not fit into one file; the text says why."""


def relative(path):
    return path.relative_to(ROOT)


def read_lines(path):
    """The lines of a file; of version.h, which the build makes, those that it would have."""
    if path.exists():
        return path.read_text(encoding="utf-8").splitlines()
    version = read_version()
    values = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split(".")))
    text = path.with_name(path.name + ".in").read_text(encoding="utf-8").replace("@PROJECT_VERSION@", version)
    return re.sub(r"@PROJECT_VERSION_(\w+)@", lambda found: values[found.group(1)], text).splitlines()


def read_version():
    return (ROOT / "VERSION").read_text(encoding="utf-8").strip()


def find_header(includer, name):
    for folder in [includer.parent, *ROOTS]:
        path = folder / name
        if path.exists() or path.with_name(path.name + ".in").exists():
            return path
    raise Failure(f"{relative(includer)}: there is no {name}")


class Writer:
    """Puts files behind each other, each with the headers that none before it has included."""

    def __init__(self, given=()):
        self.written = set(given)
        self.system = set()  # inclusions of the system's headers, which the caller puts first
        self.lines = []

    def add(self, path):
        self.written.add(path)
        self.lines += ["", f"/* ---- {relative(path)} ---- */"]
        depth = 0  # of #if
        for line in read_lines(path):
            depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
            include = INCLUDE.match(line)
            if include and include.group(1):
                header = find_header(path, include.group(1))
                if header not in self.written:
                    self.add(header)
            elif include and depth == 0:
                self.system.add(line.strip())
            elif not DROPPED.match(line):
                self.lines.append(line)

    def text(self):
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)) + "\n"


def sources():
    return [path for folder in ROOTS for path in sorted(folder.rglob("*.cpp"))]


def own_names(text):
    """What a file declares in its anonymous namespaces; clang-format puts each declaration at a line's begin."""
    for body in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.MULTILINE | re.DOTALL):
        body = re.sub(r"^(//|#|template|static_assert).*", "", body, flags=re.MULTILINE)
        for declaration in re.findall(r"^[A-Za-z][^({;=]*(?:operator.*?)?(?=[({;=])", body, re.MULTILINE):
            declaration = re.sub(r"\[\w*\]| final\b| :.*", "", declaration)
            name = re.search(r"([\w:~]+)\s*$", declaration)
            if name and "::" not in name.group(1) and "operator" not in declaration:
                yield name.group(1)


def check_names(paths):
    """In one file a name that two declare for themselves is an error, or worse, an overload."""
    owners = collections.defaultdict(list)
    for path in paths:
        for name in set(own_names(path.read_text(encoding="utf-8"))):
            owners[name].append(str(relative(path)))
    for name, files in owners.items():
        if len(files) > 1:
            raise Failure(f"{' and '.join(files)} both have a {name} of their own: rename one")


def check_macros(paths):
    for path in paths:
        text = path.read_text(encoding="utf-8")
        left = set(re.findall(r"#define (\w+)", text)) - set(re.findall(r"#undef (\w+)", text))
        if left:
            raise Failure(f"{relative(path)}: #undef {', '.join(sorted(left))} at its end")


def comment(text):
    return "".join(f"// {line}".rstrip() + "\n" for line in text.strip().split("\n"))


def head(what, about):
    licence = (ROOT / "LICENSE-MIT").read_text(encoding="utf-8").split("\n", 1)[1]
    made = f"cachalot {read_version()}: {what}\n\nCode generated by capi/amalgamation/amalgamate.py. DO NOT EDIT."
    return comment("\n".join([SPDX, made, about, "MIT, or Apache 2.0 (apache.org/licenses/LICENSE-2.0).", licence]))


def make_header():
    """The interface; what its main header leaves out is there for those who define a macro."""
    writer = Writer()
    writer.add(INTERFACE / "cachalot/cachalot.h")
    for path in sorted(INTERFACE.rglob("*.h")):
        if path not in writer.written:
            writer.lines += ["", f"#ifdef CACHALOT_INCLUDE_{path.stem.upper()}"]
            writer.add(path)
            writer.lines += [f"#endif /* CACHALOT_INCLUDE_{path.stem.upper()} */"]
    return head("its interface in one header.", ABOUT_HEADER) + writer.text(), writer.written


def make_source(given, constraint):
    paths = sources()
    check_names(paths)
    check_macros(paths)
    writer = Writer(given)
    for path in paths:
        if path not in writer.written:
            writer.add(path)
    parts = [head("the library in one file.", ABOUT_SOURCE), constraint, "\n".join(sorted(writer.system)) + "\n",
             BEFORE, writer.text(), AFTER]
    return "\n".join(part.strip("\n") + "\n" for part in parts if part)


def write(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main(arguments):
    constraint = "//go:build cachalot_bundled" if arguments[:1] == ["--go"] else ""
    folders = arguments[1 if constraint else 0:]
    if len(folders) != 1 or folders[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        header, given = make_header()
        source = make_source(given, constraint)
    except Failure as failure:
        print(f"amalgamate.py: {failure}", file=sys.stderr)
        return 1
    folder = pathlib.Path(folders[0])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "cachalot.h", header)
    write(folder / "cachalot.cpp", source)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
