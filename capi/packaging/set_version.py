#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a version into every file that names the project's own.

    set_version.py MAJOR.MINOR.PATCH

tests/tidy compares the same places with the file VERSION. The bindings' generated files take the version's parts from
the header: bindings/generate/run writes them after this.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Files whose numbers do not follow VERSION: they say what a version was, or plant another one.
OTHERS = ("CHANGELOG.md", "docs/releasing.md", "tests/abi/older/", "tests/tidy/versions.py")

# What is written of a version MAJOR.MINOR.PATCH, each with the expression that finds it. What is never published has
# the version 0.0.0.
FORMS = {
    "full": (r"(?!0\.0\.0)(\d+\.\d+\.\d+)(?!\d)", lambda major, minor, patch: f"{major}.{minor}.{patch}"),
    "minor": (r"(\d+\.\d+)(?!\.?\d)", lambda major, minor, patch: f"{major}.{minor}"),
    "interface": (r"(\d+)\b", lambda major, minor, patch: str(int(major) * 100 + int(minor))),
}

# The places: an expression for whole paths, one for what stands before the number, and the number's form.
PLACES = [
    (r"(.*/)?VERSION", r"^", "full"),
    # What is made of the version: file names, images, packages.
    (r".*", r"cachalot[:/-]v?", "full"),
    (r".*", r"releases/v", "full"),
    (r".*", r"libcachalot\w*\.so\.", "minor"),
    # Examples in the headers, which the bindings repeat.
    (r".*", r'library that is loaded, for example \\?"', "full"),
    (r".*", r'for example \\?"cachalot ', "full"),
    # CMake
    (r".*", r"find_package\(cachalot ", "minor"),
    # Python
    (r"bindings/python/cachalot_cuda/_library\.py", r"^INTERFACE = ", "interface"),
    # Rust
    (r"bindings/rust/Cargo\.toml", r'^\[workspace\.package\]\nversion = "', "full"),
    (r".*/Cargo\.toml", r'^cachalot[\w-]* = \{.*\bversion = "=?', "full"),
    (r".*/Cargo\.lock", r'^name = "cachalot(?:-sys|-prebuilt)?"\nversion = "', "full"),
    (r"bindings/rust/prebuilt\.sh", r'^cachalot = "', "minor"),
    # Java
    (r".*(?:pom\.xml|\.md)", r"<artifactId>cachalot(?:-parent|-micrometer)?</artifactId>\s*<version>", "full"),
    (r".*/pom\.xml", r"<cachalot\.version>", "full"),
    # Go
    (r".*/go\.mod", r"\bcachalot\S*/go(?:/metrics)? v", "full"),
]


def numbers(path, text):
    """The numbers of a file that follow VERSION: the place of each, and its match, whose group is the number."""
    if path.startswith(OTHERS):
        return
    for place in PLACES:
        files, before, form = place
        if re.fullmatch(files, path):
            for found in re.finditer(before + FORMS[form][0], text, re.MULTILINE):
                yield place, found


def written(place, version):
    """What stands in a place when the project has this version."""
    return FORMS[place[2]][1](*version.split("."))


def with_version(path, text, version):
    for place, found in sorted(numbers(path, text), key=lambda number: -number[1].start(1)):
        text = text[:found.start(1)] + written(place, version) + text[found.end(1):]
    return text


def main(arguments):
    if len(arguments) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", arguments[0]):
        print(__doc__, file=sys.stderr)
        return 2
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for path in filter(None, listed.split("\0")):
        file = ROOT / path
        if file.is_symlink() or not file.is_file():
            continue
        data = file.read_bytes()
        if b"\0" in data:
            continue
        text = data.decode("utf-8", errors="surrogateescape")
        changed = with_version(path, text, arguments[0])
        if changed != text:
            file.write_bytes(changed.encode("utf-8", errors="surrogateescape"))
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
