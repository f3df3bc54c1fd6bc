# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes what the bindings have of the public header: their low layers, the list of what it declares, the
check of its layout, and the table of places."""

import argparse
import os
import pathlib
import sys
import unittest

from . import abi_check, go, header, java, manifest, places, rust

COMMAND = "bindings/generate/run"


def generate(headers: pathlib.Path, root: pathlib.Path) -> tuple[dict[str, str], list[str]]:
    """Path -> text of every generated file, and what is wrong with the bindings written by hand."""
    interface = header.read(headers)
    files: dict[str, str] = {}
    for writer in (manifest, abi_check, go, java):
        files |= writer.write(interface)
    problems = []
    try:
        files |= rust.write(interface, headers)
    except rust.NoBindgen:
        print(f"{rust.OUTPUT}: bindgen is missing, so this file is left as it is", file=sys.stderr)
        if "CI" in os.environ:
            problems.append("bindgen is missing, and CI is set")
    table, missing = places.write(interface, root)
    return files | table, problems + missing


def write(files: dict[str, str], root: pathlib.Path) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def outdated(files: dict[str, str], root: pathlib.Path) -> list[str]:
    return [f"{path} is outdated; run: {COMMAND}" for path, text in files.items()
            if not (root / path).is_file() or (root / path).read_text() != text]


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, epilog=(
        "Exit status: 0 all is well, 1 a file is outdated or a function has no place, 2 the call is wrong."))
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="write nothing; say which files are outdated")
    mode.add_argument("--self-test", action="store_true", help="change a copy of the header, and see it everywhere")
    arguments = parser.parse_args()
    if arguments.self_test:
        suite = unittest.defaultTestLoader.loadTestsFromName(f"{__package__}.self_test")
        return 0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1
    try:
        files, problems = generate(header.HEADERS, header.ROOT)
    except header.HeaderError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.check:
        problems = outdated(files, header.ROOT) + problems
    else:
        write(files, header.ROOT)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
