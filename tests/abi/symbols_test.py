#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares what a shared library exports with its version scripts and with what the headers declare.

  symbols_test.py --shared-object FILE --map MAP [--map MAP] [--headers FOLDER]
  symbols_test.py --self-test [--cc COMPILER]

Exit code 0: all agree; 1: they differ, and each difference is a line; 2: the call is wrong.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DECLARATION = re.compile(r"CACHALOT_API\b[^;()]*?\b(\w+)\s*\(")
NODE = re.compile(r"(\w[\w.]*)\s*\{\s*global:([^{}]*?)(?:local:[^{}]*)?\}\s*[\w.]*\s*;")


def declared_functions(folder):
    """The functions that the headers of a folder declare as exported."""
    names = set()
    for header in sorted(pathlib.Path(folder).glob("*.h")):
        text = COMMENT.sub("", header.read_text())
        names.update(DECLARATION.findall(re.sub(r"#.*", "", text)))
    return names


def mapped_symbols(path):
    """The symbols of a version script, each with its node."""
    symbols = {}
    for node, names in NODE.findall(COMMENT.sub("", pathlib.Path(path).read_text())):
        symbols.update((name, node) for name in names.replace(";", " ").split())
    return symbols


def exported_symbols(library):
    """The symbols that a library defines for others, each with its version; the versions' own left out."""
    command = ["nm", "--dynamic", "--defined-only", "--with-symbol-versions", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = {}
    for line in lines:
        kind, name = line.split()[-2:]
        symbol, _, version = name.partition("@")
        if kind != "A":
            symbols[symbol] = version.lstrip("@")
    return symbols


def differences(exported, mapped, declared):
    """One line for each disagreement; declared None: there are no headers to compare."""
    lines = []
    for name in sorted(exported.keys() - mapped.keys()):
        lines.append(f"exported, but not in the map: {name}")
    for name in sorted(mapped.keys() - exported.keys()):
        lines.append(f"in the map, but not exported: {name}")
    for name in sorted(exported.keys() & mapped.keys()):
        if exported[name] != mapped[name]:
            lines.append(f"exported as {exported[name] or 'no version'}, "
                         f"but {mapped[name]} in the map: {name}")
    if declared is not None:
        for name in sorted(mapped.keys() - declared):
            lines.append(f"in the map, but not declared: {name}")
        for name in sorted(declared - mapped.keys()):
            lines.append(f"declared, but not in the map: {name}")
    return lines


def compare(library, map_files, headers):
    mapped = {}
    for map_file in map_files:
        mapped.update(mapped_symbols(map_file))
    declared = declared_functions(headers) if headers else None
    exported = exported_symbols(library)
    if not exported:
        return [f"nothing is exported: {library}"]
    return differences(exported, mapped, declared)


# The self-test builds small libraries, right ones and wrong ones, and compares them.

HEADER = """
#define CACHALOT_API __attribute__((visibility("default")))
/* A comment: CACHALOT_API int not_declared(void); */
CACHALOT_API int first(int (*callback)(void), int n);
CACHALOT_API const char*
second(void);
"""
SOURCE = """
#include "small.h"
int first(int (*callback)(void), int n) { return callback() + n; }
const char* second(void) { return ""; }
__attribute__((visibility("default"))) int helper(void) { return 0; }
"""
MAP = "SMALL_1 { /* all */ global: first; second; local: *; };"

CASES = [
    # What is wrong, the header, the source, the map of the comparison, the map of the build, the lines.
    ("nothing", HEADER, SOURCE, MAP, MAP, []),
    ("an extra export", HEADER, SOURCE, MAP, MAP.replace("second;", "second; helper;"),
     ["exported, but not in the map: helper"]),
    ("no map in the build", HEADER, SOURCE, MAP, None,
     ["exported, but not in the map: helper",
      "exported as no version, but SMALL_1 in the map: first",
      "exported as no version, but SMALL_1 in the map: second"]),
    ("a missing export", HEADER, SOURCE, MAP, MAP.replace("second;", ""),
     ["in the map, but not exported: second"]),
    ("a function without a definition", HEADER, SOURCE.replace("second(void) {", "other(void) {"),
     MAP, MAP, ["in the map, but not exported: second"]),
    ("another version", HEADER, SOURCE, MAP, MAP.replace("SMALL_1", "SMALL_2"),
     ["exported as SMALL_2, but SMALL_1 in the map: first",
      "exported as SMALL_2, but SMALL_1 in the map: second"]),
    ("a new function in the header only", HEADER + "CACHALOT_API void third(void);", SOURCE, MAP, MAP,
     ["declared, but not in the map: third"]),
    ("a function that is not declared", HEADER, SOURCE, MAP.replace("second;", "second; helper;"),
     MAP.replace("second;", "second; helper;"), ["in the map, but not declared: helper"]),
    ("a second node of the map, that grows from the first", HEADER,
     SOURCE, "A_1 { global: first; local: *; };\nA_2 { global: second; } A_1;",
     "A_1 { global: first; local: *; };\nA_2 { global: second; } A_1;", []),
    ("an export for all of the C++ library", HEADER, SOURCE, MAP, MAP.replace("second;", "*;"),
     ["exported, but not in the map: helper"]),
]


def build(folder, compiler, header, source, map_text):
    (folder / "small.h").write_text(header)
    (folder / "small.c").write_text(source)
    command = [compiler, "-shared", "-fPIC", "-o", folder / "small.so", folder / "small.c"]
    if map_text is not None:
        (folder / "build.map").write_text(map_text)
        command.append(f"-Wl,--version-script={folder / 'build.map'}")
    subprocess.run(command, check=True, capture_output=True)


def self_test(compiler):
    failures = 0
    for what, header, source, map_text, build_map, expected in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            build(folder, compiler, header, source, build_map)
            (folder / "small.map").write_text(map_text)
            found = compare(folder / "small.so", [folder / "small.map"], folder)
        if found != expected:
            failures += 1
            print(f"{what}: expected {expected}, found {found}")
    print(f"{len(CASES) - failures} of {len(CASES)} cases are as expected")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared-object")
    parser.add_argument("--map", action="append")
    parser.add_argument("--headers")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--cc", default="cc")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 1 if self_test(arguments.cc) else 0
    if not arguments.shared_object or not arguments.map:
        parser.error("--shared-object and --map are needed")
    found = compare(arguments.shared_object, arguments.map, arguments.headers)
    print("\n".join(found) if found else "exports, map and headers agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
