#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads every library and program in folders and prints what an attacker could use, one line each.

    check_binaries.py FOLDER...
    check_binaries.py --self-test    builds a library for each fault, and expects it to be found

Exit status: 0 clean, 1 something was found, 2 the call is wrong, or there is nothing to read.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXECUTABLE, SHARED = 2, 3  # the values of e_type that a loader takes


def is_loaded(path):
    """Whether a file is a library or a program; one that another test has just removed is not."""
    try:
        with open(path, "rb") as file:
            head = file.read(18)
    except FileNotFoundError:
        return False
    return head[:4] == b"\x7fELF" and len(head) == 18 and head[16] in (EXECUTABLE, SHARED)


def binaries_under(folder):
    for place, _, names in os.walk(folder):
        for name in names:
            path = pathlib.Path(place, name)
            if not path.is_symlink() and path.is_file() and is_loaded(path):
                yield path


class Binary:
    """What readelf says of a file."""

    def __init__(self, path):
        self.text = subprocess.run(["readelf", "--wide", "--dynamic", path], check=True, text=True,
                                   capture_output=True, env={**os.environ, "LC_ALL": "C"}).stdout


def check_search_path(binary):
    """The loader takes an empty or relative element from the folder in which the program is started."""
    for path in re.findall(r"\((?:RUNPATH|RPATH)\) .*\[(.*)\]", binary.text):
        for element in path.split(":"):
            if not re.match(r"/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)", element):
                yield f"the loader looks in the current folder: '{element}' in {path}"


CHECKS = (check_search_path,)


def faults(folder):
    """What is wrong with the files in a folder, and how many there are."""
    lines, count = [], 0
    for path in sorted(binaries_under(folder)):
        binary = Binary(path)
        lines += [f"{path}: {fault}" for check in CHECKS for fault in check(binary)]
        count += 1
    return lines, count


PLANTED = {
    check_search_path: [["-Wl,-rpath,/somewhere:"], ["-Wl,-rpath,:/somewhere"], ["-Wl,-rpath,lib"],
                        ["-Wl,-rpath,/somewhere:../lib", "-Wl,--disable-new-dtags"], ["-Wl,-rpath,$ORIGINAL"]],
}
CLEAN = [["-Wl,-rpath,$ORIGIN:$ORIGIN/../lib"], ["-Wl,-rpath,/somewhere"], []]


def build(folder, flags):
    source, library = folder / "planted.c", folder / "planted.so"
    source.write_text("int answer(void);\nint answer(void) { return 42; }\n")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", library, *flags], check=True)
    return Binary(library)


def self_test():
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        for check in CHECKS:
            for flags in PLANTED[check]:
                if not list(check(build(pathlib.Path(name), flags))):
                    wrong.append(f"{check.__name__} does not find {flags}")
        for flags in CLEAN:
            build(pathlib.Path(name), flags)
            wrong += faults(name)[0]
    print("\n".join(wrong) or f"self-test: {sum(map(len, PLANTED.values()))} faults found")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 2 or any(not os.path.isdir(folder) for folder in sys.argv[1:]):
        print(__doc__, file=sys.stderr)
        return 2
    total = 0
    for folder in sys.argv[1:]:
        lines, count = faults(folder)
        if lines:
            print("\n".join(lines))
            return 1
        total += count
    print(f"{total} libraries and programs, nothing found")
    return 0 if total else 2


if __name__ == "__main__":
    sys.exit(main())
