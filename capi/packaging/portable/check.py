#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the libraries and the program of a prefix that build.sh has made, prints what each needs of the system, and fails
where that is more than is promised, or where the text of a licence is missing.

    check.py PREFIX [--libraries] [--self-test]
        --libraries   there is no program, and no text of a licence
        --self-test   expects to find a fault in each file under bounds that are too low
"""

import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from parts import TEXTS, parts_of

# What is promised of each file, as docs/releasing.md says it: the newest versions that it may need, and what it defines
# for others. A file without GLIBCXX is one without a C++ library of the system's.
CPP_OF_GCC_5 = {"GLIBCXX": (3, 4, 21), "CXXABI": (1, 3, 9), "GCC": (4, 8, 0)}
OF_LIBRARIES = re.compile(r"cachalot_|la_|CACHALOT_|_ZN8cachalot4capi\w*_cached")
PROMISES = {
    re.compile(r"libcachalot_(libtorch|onnxruntime)\.so"): ({"GLIBC": (2, 17), **CPP_OF_GCC_5}, OF_LIBRARIES),
    re.compile(r"libcachalot_pluggable\.so"): ({"GLIBC": (2, 27), **CPP_OF_GCC_5}, OF_LIBRARIES),
    re.compile(r"libcachalot_audit\.so"): ({"GLIBC": (2, 17)}, OF_LIBRARIES),
    re.compile(r"libcachalot\.(so|a)"): ({"GLIBC": (2, 27)}, OF_LIBRARIES),
    re.compile(r"libcuda\.so"): ({"GLIBC": (2, 27)}, re.compile(r"cu[A-Z]|CACHALOT_")),
    re.compile(r"cachalot$"): ({"GLIBC": (2, 28)}, re.compile(r"_IO_stdin_used|environ|stdin|stdout|stderr")),
}
CPP_LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1")


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *map(str, arguments)], check=True, text=True, capture_output=True).stdout


def needed_versions(path):
    """The newest version of each kind that the file needs."""
    found = {}
    section = readelf("--version-info", path).partition(".gnu.version_r")[2]
    for kind, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)", section):
        number = tuple(map(int, version.split(".")))
        found[kind] = max(found.get(kind, (0,)), number)
    return found


def global_symbols(path):
    """The names that the file defines for others."""
    table = "--syms" if path.suffix == ".a" else "--dyn-syms"
    row = r": \w+ +\d+ \w+ +(?:GLOBAL|WEAK|UNIQUE) +\w+ +(?:\[.*\] +)?(?!UND)\w+ ([^@\s]+)"
    return re.findall(row, readelf(table, path))


def text(number):
    return ".".join(map(str, number))


def faults(path, is_self_test):
    bounds, allowed = next(promise for files, promise in PROMISES.items() if files.match(path.name))
    if is_self_test:
        bounds = {}
    for kind, number in needed_versions(path).items():
        if number > bounds.get(kind, (0,)):
            yield f"it needs {kind}_{text(number)}, newer than {text(bounds.get(kind, (0,)))}"
    others = [name for name in global_symbols(path) if not allowed.match(name)]
    if others:
        yield f"it defines {others[0]} and {len(others) - 1} others for all"
    if "GLIBCXX" not in bounds:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path))
        yield from (f"it needs {name}" for name in needed if name in CPP_LIBRARIES)


def without_text(prefix, arch):
    """The parts whose licences are not in the prefix."""
    texts = {part.name: prefix / TEXTS / part.name for part in parts_of(arch)}
    return [name for name, path in texts.items() if not path.is_file() or not path.read_text().strip()]


def main():
    prefix = pathlib.Path(sys.argv[1])
    is_self_test = "--self-test" in sys.argv
    files = [path for path in sorted((prefix / "lib").rglob("lib*"))
             if path.is_file() and not path.is_symlink() and re.search(r"\.(a|so[\d.]*)$", path.name)]
    has_program = "--libraries" not in sys.argv
    if has_program:
        files.append(prefix / "bin/cachalot")
    found = {path: list(faults(path, is_self_test)) for path in files}
    for path, lines in found.items():
        versions = " ".join(f"{kind}_{text(number)}" for kind, number in needed_versions(path).items())
        print(f"{path.relative_to(prefix)}: {path.stat().st_size} bytes, {versions or 'any system'}")
        for line in lines:
            print(f"{path}: {line}", file=sys.stderr)
    if is_self_test:
        blind = [path.name for path in files if path.suffix != ".a" and not found[path]]
        if has_program and len(without_text(prefix / "nowhere", prefix.name)) < 10:
            blind.append(TEXTS)
        sys.exit(f"no fault is found in {blind}" if blind or not files else 0)
    missing = without_text(prefix, prefix.name) if has_program else []
    for name in missing:
        print(f"{prefix / TEXTS}: the licence of {name} is missing", file=sys.stderr)
    sys.exit(1 if missing or any(found.values()) or len(files) < 4 else 0)


if __name__ == "__main__":
    main()
