#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""No function or type of the C++ headers has a name that the static library has too: a program that is linked with it
would get the one for the other, without a word of the linker's.

  cpp_header_symbols_test.py ARCHIVE COMPILER FLAG... -I FOLDER...   FLAG: of the compiler, to compile every inline function

The headers are compiled once more without their own namespace, where such names have to be found.
Exit code 0: as it should be; 1: not so; 2: the call is wrong.
"""

import pathlib
import subprocess
import sys
import tempfile

HEADERS = pathlib.Path(__file__).resolve().parent.parent.parent / "capi/include/cachalot"
NAMES = ("cachalot.hpp", "memory_resource.hpp")
NAMESPACE = ("inline namespace hpp {\n", "}  // namespace hpp\n")
SOURCE = "".join(f'#include "cachalot/{name}"\n' for name in NAMES) + """
template class cachalot::cuda::Resource<int>;
template class cachalot::cuda::StreamAllocator<int>;
"""


def defined_symbols(path):
    """The names of ours that an object or an archive defines for other objects."""
    command = ["nm", "--defined-only", "--extern-only", "--format=posix", str(path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines if "8cachalot" in line}


def symbols_of_headers(compile_command, folder):
    source, target = folder / "headers.cpp", folder / "headers.o"
    source.write_text(SOURCE)
    subprocess.run([*compile_command, "-c", str(source), "-o", str(target)], check=True)
    return defined_symbols(target)


def without_namespace(folder):
    (folder / "cachalot").mkdir()
    for name in NAMES:
        text = (HEADERS / name).read_text()
        for line in NAMESPACE:
            assert line in text, f"{name}: no {line}"
            text = text.replace(line, "")
        (folder / "cachalot" / name).write_text(text)
    return folder


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    archive, compiler, *flags = arguments
    in_archive = defined_symbols(archive)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        own = symbols_of_headers([compiler, "-std=c++20", "-O0", *flags], folder)
        planted = symbols_of_headers(
            [compiler, "-std=c++20", "-O0", f"-I{without_namespace(folder)}", *flags], folder)
    print(f"{len(own)} names of the headers, {len(in_archive)} of the library's, {len(own & in_archive)} of both; "
          f"{len(planted & in_archive)} without a namespace")
    for symbol in sorted(own & in_archive):
        print(f"in the headers and in the library: {symbol}")
    return 0 if own and in_archive and not own & in_archive and planted & in_archive else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
