#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares the binary interface with the one that is checked in (tests/abi/baseline).

  tests/abi/baseline.py check build/release   what was added is fine; a change or a removal is not
  tests/abi/baseline.py renew build/release   writes the baseline anew
  tests/abi/baseline.py self-test             plants each kind of difference in a small library
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "capi/include/cachalot"

# Nothing of where and how the library was built, so that two machines write the same file.
ABIDW = ["abidw", "--drop-private-types", "--exported-interfaces-only", "--no-show-locs",
         "--no-comp-dir-path", "--no-corpus-path", "--no-parameter-names", "--no-elf-needed",
         "--no-architecture", "--type-id-style", "hash"]
ABIDIFF = ["abidiff", "--no-added-syms", "--no-default-suppression", "--suppressions",
           HERE / "baseline.supp"]

# baseline -> library of the build tree. The functions for PyTorch take C++ types, which are those of
# PyTorch's compiler: of these the symbols alone are compared.
LIBRARIES = {"libcachalot.abi": "tests/abi/libcachalot_abi.so",
             "libcachalot_pluggable.abi": "libcachalot_pluggable.so"}


def interface(library, headers, out):
    folders = [part for folder in headers for part in ("--headers-dir", folder)]
    subprocess.run([*ABIDW, *folders, "--out-file", out, library], check=True)
    # abidw leaves a source's folder out only where the compiler ran in the folder of the build.
    text = pathlib.Path(out).read_text()
    pathlib.Path(out).write_text(re.sub(r" path='[^']*/(tests/abi/|capi/|core/)", r" path='\1", text))


def structs(abi):
    """Each struct's fields: place, name, and the type's id, which is made of the type's name."""
    return {struct.get("name"): [(field.get("layout-offset-in-bits"), variable.get("name"),
                                  variable.get("type-id"))
                                 for field in struct.iter("data-member")
                                 for variable in field.iter("var-decl")]
            for struct in xml.etree.ElementTree.parse(abi).iter("class-decl")}


def changed_fields(baseline, now):
    """Where abidiff is told that a struct may grow, it does not look at the last field's type."""
    after = structs(now)
    return "".join(f"{name}: a field of it is not what it was\n"
                   for name, fields in structs(baseline).items()
                   if name in after and after[name][:len(fields)] != fields)


def differences(baseline, library, headers):
    """A report; empty: all that was there is there, and as it was."""
    with tempfile.TemporaryDirectory() as folder:
        now = pathlib.Path(folder) / "now.abi"
        interface(library, headers, now)
        run = subprocess.run([*ABIDIFF, baseline, now], capture_output=True, text=True)
        fields = changed_fields(baseline, now)
    if run.returncode & 3:
        raise RuntimeError(f"abidiff failed: {run.stdout}{run.stderr}")
    return (run.stdout if run.returncode else "") + fields


def check(build):
    found = 0
    for name, library in LIBRARIES.items():
        report = differences(HERE / "baseline" / name, build / library,
                             [HEADERS, build / "capi/include/cachalot"])
        if report:
            found += 1
            print(f"{library} differs from tests/abi/baseline/{name}:\n{report}"
                  "If that is meant: tests/abi/baseline.py renew BUILD_FOLDER")
    return 1 if found else 0


def renew(build):
    for name, library in LIBRARIES.items():
        interface(build / library, [HEADERS, build / "capi/include/cachalot"],
                  HERE / "baseline" / name)
    return 0


HEADER = """#include <stddef.h>
#define API __attribute__((visibility("default")))
typedef struct cachalot_row { size_t struct_size; int first; int second; } cachalot_row;
typedef enum cachalot_status { OK = 0, BAD = 1 } cachalot_status;
typedef struct cachalot_thing cachalot_thing;
API cachalot_status cachalot_get(const cachalot_thing* thing, cachalot_row* out);
API cachalot_status cachalot_put(cachalot_thing* thing, const cachalot_row* in);
"""
SOURCE = """#include "small.h"
struct cachalot_thing { int hidden; };
cachalot_status cachalot_get(const cachalot_thing* t, cachalot_row* out) { out->first = t->hidden; return OK; }
cachalot_status cachalot_put(cachalot_thing* t, const cachalot_row* in) { t->hidden = in->first; return OK; }
"""
# what, replacements in the header, replacements in the source, whether it may be
CASES = [
    ("nothing", {}, {}, True),
    ("a hidden struct", {}, {"int hidden": "long more; int hidden"}, True),
    ("a new function", {"API cachalot_status cachalot_put": "API void cachalot_new(void);\nAPI cachalot_status cachalot_put"},
     {"cachalot_status cachalot_put": "void cachalot_new(void) {}\ncachalot_status cachalot_put"}, True),
    ("a field at the end", {"int second;": "int second; long third;"}, {}, True),
    ("a value at the end", {"BAD = 1": "BAD = 1, WORSE = 2"}, {}, True),
    ("a function less", {"API cachalot_status cachalot_put": "cachalot_status cachalot_put"},
     {"cachalot_status cachalot_put": "static cachalot_status other"}, False),
    ("another type of a parameter", {"cachalot_put(cachalot_thing* thing": "cachalot_put(char* thing"},
     {"cachalot_put(cachalot_thing* t, const cachalot_row* in) { t->hidden": "cachalot_put(char* t, const cachalot_row* in) { *t"}, False),
    ("a field before the end", {"int second;": "int between; int second;"}, {}, False),
    ("another type of a field", {"int second;": "double second;"}, {}, False),
    ("a field less", {"int second;": ""}, {}, False),
    ("another number of a value", {"BAD = 1": "BAD = 7"}, {}, False),
]


def build_small(folder, header_changes, source_changes):
    folder.mkdir()
    header, source = HEADER, SOURCE
    for old, new in header_changes.items():
        header = header.replace(old, new)
    for old, new in source_changes.items():
        source = source.replace(old, new)
    (folder / "small.h").write_text(header)
    (folder / "small.c").write_text(source)
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-fvisibility=hidden", "-o", folder / "small.so",
                    folder / "small.c"], check=True)
    return folder / "small.so"


def self_test():
    failures = 0
    for what, header_changes, source_changes, may_be in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            old = build_small(folder / "old", {}, {})
            new = build_small(folder / "new", header_changes, source_changes)
            interface(old, [folder / "old"], folder / "old.abi")
            report = differences(folder / "old.abi", new, [folder / "new"])
        if (report == "") != may_be:
            failures += 1
            print(f"{what}: {'refused' if may_be else 'not noticed'}\n{report}")
    print(f"{len(CASES) - failures} of {len(CASES)} cases are as expected")
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["self-test"]:
        return self_test()
    if len(sys.argv) == 3 and sys.argv[1] in ("check", "renew"):
        return {"check": check, "renew": renew}[sys.argv[1]](pathlib.Path(sys.argv[2]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
