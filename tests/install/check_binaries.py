#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads every library and program of a build tree and prints what an attacker could use, one line each.

    check_binaries.py BUILD          what hardens is looked for where BUILD was configured for it
    check_binaries.py --self-test    builds a library for each fault, and expects it to be found

Exit status: 0 clean, 1 something was found, 2 the call is wrong, or there is nothing to read.
"""

import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

HARDENING = pathlib.Path(__file__).resolve().parent.parent.parent / "capi/cmake/hardening.txt"
EXECUTABLE, SHARED = 2, 3  # the values of e_type that a loader takes
ENDBR64 = b"\xf3\x0f\x1e\xfa"
# What others load or start; the rest are tests and examples.
SHIPPED = re.compile(r"libcachalot(_pluggable|_libtorch|_onnxruntime)?\.so[\d.]*|libcachalot_jni\.so|cachalot"
                     r"|libcachalot_audit\.so")
PROXY = re.compile(r"/(proxy|cachalot)/libcuda\.so\.1$")  # tests have drivers of that name
# What a hit goes through: a check of the stack there is paid at each of them.
HIT = r"<cachalot_(allocate|free)>:"


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, text=True, capture_output=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def is_loaded(path):
    """Whether a file is a library or a program."""
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and len(head) == 18 and head[16] in (EXECUTABLE, SHARED)


def binaries_under(folder):
    """All but those with which CMake tries the compiler."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "CMakeFiles"]
        for name in names:
            path = pathlib.Path(place, name)
            if not path.is_symlink() and path.is_file() and is_loaded(path):
                yield path


class Binary:
    """What readelf says of a file."""

    def __init__(self, path):
        self.path = path
        self.text = run("readelf", "--wide", "--file-header", "--segments", "--sections", "--dynamic", "--notes",
                        "--dyn-syms", path)
        self.is_program = " INTERP " in self.text
        # Go's linker makes its own, as whoever calls it has said; some have compiled the amalgamation for themselves.
        self.is_of_go = ".note.go.buildid" in self.text
        self.has_amalgamation = self.is_of_go and "[libcachalot." not in self.text
        self.is_shipped = SHIPPED.fullmatch(path.name) is not None or PROXY.search(str(path)) is not None

    def segments(self, kind):
        """Of each: offset, address, size in the file, flags."""
        row = rf"^ +{kind} +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ ([RWE ]{{3}})"
        for *numbers, flags in re.findall(row, self.text, re.MULTILINE):
            yield (*(int(number, 16) for number in numbers), flags)

    def exported_functions(self):
        row = r": (\w+) +\d+ (?:FUNC|IFUNC) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\S+)"
        return [(int(address, 16), name) for address, name in re.findall(row, self.text)]

    def code_at(self, address, size):
        for offset, begin, length, _ in self.segments("LOAD"):
            if begin <= address < begin + length:
                with open(self.path, "rb") as file:
                    file.seek(offset + address - begin)
                    return file.read(size)
        return b""


def check_search_path(binary):
    """The loader takes an empty or relative element from the folder in which the program is started."""
    for path in re.findall(r"\((?:RUNPATH|RPATH)\) .*\[(.*)\]", binary.text):
        for element in path.split(":"):
            if not re.match(r"/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)", element):
                yield f"the loader looks in the current folder: '{element}' in {path}"


def check_relocations(binary):
    """Tables of addresses are filled at the start, and read-only from then on."""
    if not list(binary.segments("GNU_RELRO")):
        yield "its tables of addresses stay writable (no GNU_RELRO)"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", binary.text):
        yield "its functions are bound late (no BIND_NOW)"
    if "(TEXTREL)" in binary.text:
        yield "its code is written to (TEXTREL)"


def check_memory(binary):
    """No memory is written and executed; programs are loaded anywhere."""
    flags = [row[-1] for row in binary.segments("GNU_STACK")]
    if not flags or "E" in flags[0]:
        yield "its stack is executable"
    if any("W" in row[-1] and "E" in row[-1] for row in binary.segments("LOAD")):
        yield "it has memory that is written and executed"
    if binary.is_program and re.search(r"Type: +EXEC ", binary.text):
        yield "it is always loaded at the same address (not PIE)"


def check_branches(binary):
    """x86-64: a shadow stack keeps returns, and calls by address arrive at functions only."""
    if "Advanced Micro Devices X86-64" not in binary.text:
        return
    if not re.search(r"x86 feature:.*\bSHSTK\b", binary.text):
        yield "it takes the shadow stack from a process (no SHSTK)"
    if not binary.is_program:
        for address, name in binary.exported_functions():
            if binary.code_at(address, 4) != ENDBR64:
                yield f"{name} does not begin with endbr64"


def check_guards(binary):
    """What is shipped has functions with arrays, and so has the amalgamation."""
    if (binary.is_shipped or binary.has_amalgamation) and not re.search(r" UND __stack_chk_fail\b", binary.text):
        yield "overwritten stacks go unseen (no __stack_chk_fail)"


def check_fortified(binary):
    """Java's glue calls nothing that has such a check."""
    if not binary.is_shipped or binary.path.name == "libcachalot_jni.so":
        return
    if not re.search(r" UND __(?!stack)\w+_chk\b", binary.text):
        yield "the C library's checks of sizes are off (_FORTIFY_SOURCE)"


def check_hits(binary):
    """See Note [Registers of a hit]. The copy in Java's jar has no names."""
    if not re.fullmatch(r"libcachalot\.so[\d.]*", binary.path.name) or "X86-64" not in binary.text:
        return
    if " .symtab " not in binary.text:
        return
    code = run("objdump", "--disassemble", "--demangle", "--no-show-raw-insn", binary.path)
    functions = [text for text in code.split("\n\n") if re.search(HIT, text.split("\n", 1)[0])]
    if len(functions) < 2:
        yield f"{len(functions)} of 2 functions of a hit were found: they have other names now"
    for text in functions:
        if "%fs:0x28" in text:
            yield f"each hit checks its stack: {text.split(chr(10), 1)[0]}"


HARDENED = (check_relocations, check_memory, check_branches, check_guards)
# What cgo's flags bring about.
OF_GO = (check_search_path, check_relocations, check_guards)


def cache_entry(build, name):
    for line in (build / "CMakeCache.txt").read_text().split("\n"):
        if line.startswith(name + ":"):
            return line.split("=", 1)[1]
    return sys.exit(f"{build}: no {name} in the cache")


def checks_for(build):
    """Those that a build tree was configured for."""
    if cache_entry(build, "CACHALOT_HARDENING") != "ON" or cache_entry(build, "CACHALOT_SANITIZE"):
        return (check_search_path,)
    kind = cache_entry(build, "CMAKE_BUILD_TYPE")
    optimized = (check_fortified, check_hits) if cache_entry(build, f"CACHALOT_COMPILES_FORTIFIED_{kind}") else ()
    return (check_search_path, *HARDENED, *optimized)


def wanted_of(binary, checks):
    if binary.has_amalgamation:
        return [check for check in checks if check in OF_GO]
    return (check_search_path,) if binary.is_of_go else checks


def faults(folder, checks):
    """What is wrong with the files in a folder, and how many there are."""
    lines, count = [], 0
    for path in sorted(binaries_under(folder)):
        binary = Binary(path)
        lines += [f"{path}: {fault}" for check in wanted_of(binary, checks) for fault in check(binary)]
        count += 1
    return lines, count


PLANTED = {
    check_search_path: [["-Wl,-rpath,/somewhere:"], ["-Wl,-rpath,:/somewhere"], ["-Wl,-rpath,lib"],
                        ["-Wl,-rpath,/somewhere:../lib", "-Wl,--disable-new-dtags"], ["-Wl,-rpath,$ORIGINAL"]],
    check_relocations: [["-Wl,-z,norelro"], ["-Wl,-z,lazy"], ["-DPLANTED_RELOCATION_OF_CODE", "-Wl,-z,notext"]],
    check_memory: [["-Wl,-z,execstack"], ["-DPLANTED_WRITABLE_CODE"]],
    check_branches: [["-fcf-protection=none"], ["-fcf-protection=return"]],
    check_guards: [["-fno-stack-protector"]],
    check_fortified: [["-U_FORTIFY_SOURCE"]],
    check_hits: [["-fstack-protector-all"]],
}
GO_PLANTED = [["-Wl,-rpath,lib"], ["-Wl,-z,norelro"], ["-Wl,-z,lazy"], ["-fno-stack-protector"]]
ONLY_X86 = (check_branches, check_hits)
CLEAN = [["-Wl,-rpath,$ORIGIN:$ORIGIN/../lib"], ["-Wl,-rpath,/somewhere"], []]

SOURCE = """
#include <stdio.h>
extern "C" void cachalot_allocate() {}
extern "C" void cachalot_free() {}
extern "C" int written(int number) { char text[9]; sprintf(text, "%d", number); return text[0]; }
int main() {}
#ifdef PLANTED_GO
__asm__(".section .note.go.buildid, \\"a\\"; .quad 1; .text");
#endif
#ifdef PLANTED_RELOCATION_OF_CODE
__asm__(".text; .quad cachalot_free");
#endif
#ifdef PLANTED_WRITABLE_CODE
__asm__(".section .planted, \\"awx\\"; .quad 1; .text");
#endif
"""


def hardening_flags():
    """As hardening.cmake reads them."""
    row = rf"^[a-z]+ +(?:any|{platform.machine()}) +(-\S+)$"
    return re.findall(row, HARDENING.read_text(), re.MULTILINE)


def build_planted(folder, name, flags):
    source, binary = folder / "planted.cpp", folder / name
    source.write_text(SOURCE)
    run(os.environ.get("CXX", "c++"), "-O2", *hardening_flags(), source, "-o", binary, *flags)
    return Binary(binary)


def planted_faults(folder):
    """What is not found, or found where there is nothing."""
    library = ["-shared", "-fPIC"]
    for check, plants in PLANTED.items():
        if check in ONLY_X86 and platform.machine() != "x86_64":
            continue
        for flags in plants:
            if not list(check(build_planted(folder, "libcachalot.so", [*library, *flags]))):
                yield f"{check.__name__} does not find {flags}"
    if not list(check_memory(build_planted(folder, "cachalot", ["-no-pie"]))):
        yield "check_memory does not find -no-pie"
    build_planted(folder, "cachalot", ["-fPIE", "-pie"])
    yield from planted_go_faults(folder)
    for flags in CLEAN:
        build_planted(folder, "libcachalot.so", [*library, *flags])
        yield from faults(folder, PLANTED)[0]


def planted_go_faults(folder):
    """A program of Go's with the amalgamation inside: what cgo cannot ask for is no fault."""
    go = ["-DPLANTED_GO", "-no-pie", "-fcf-protection=none"]
    for flags in GO_PLANTED:
        binary = build_planted(folder, "consumer", [*go, *flags])
        if not any(fault for check in wanted_of(binary, PLANTED) for fault in check(binary)):
            yield f"a program of Go's may have {flags}"
    build_planted(folder, "consumer", go)


def self_test():
    with tempfile.TemporaryDirectory() as name:
        wrong = list(planted_faults(pathlib.Path(name)))
    count = sum(map(len, PLANTED.values())) + len(GO_PLANTED) + 1
    print("\n".join(wrong) or f"self-test: {count} faults found")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2 or not os.path.isfile(os.path.join(sys.argv[1], "CMakeCache.txt")):
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1])
    checks = checks_for(build)
    lines, count = faults(build, checks)
    print("\n".join(lines) or f"{count} libraries and programs, nothing found by {len(checks)} checks")
    return 1 if lines else 0 if count else 2


if __name__ == "__main__":
    sys.exit(main())
