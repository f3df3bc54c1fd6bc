#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Unpacks the archive of the amalgamation in an empty tree and builds the README's programs with it, as its reader would.

    check_amalgamation.py [--all] COMPILER OBJECT...
      OBJECT: those of cachalot_verify and what it links, for the golden files: the cases, or with --all all of them
    check_amalgamation.py --self-test          plants what does not fit into one file, and expects it to be named

Exit status: 0 all is well, 1 something is not, 2 the call is wrong.
"""

import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
AMALGAMATE = SOURCE / "capi/amalgamation/amalgamate.py"
ARCHIVE = SOURCE / "capi/packaging/amalgamation.sh"
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "CACHALOT_DRIVER": "sim:1GiB"}
# Diagnostics change no code: the flags that count are the documented two.
FLAGS = ["-std=c++20", "-pthread"]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def run(*command):
    """Runs a command and returns what it printed; on failure shows that and ends the check."""
    result = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            check=False, env=ENVIRONMENT)
    if result.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def first_program(language):
    return re.search(rf"```{language}\n(.*?)```", (SOURCE / "README.md").read_text(), re.DOTALL).group(1)


def check_header(compiler, folder):
    """C99 and C++11 take it, twice, with each part that a macro adds and without."""
    for language, standard in (("c", "c99"), ("c++", "c++11")):
        for macro in ((), ("-DCACHALOT_INCLUDE_CUDA",), ("-DCACHALOT_INCLUDE_TEXT",)):
            source = folder / f"header.{language}"
            source.write_text('#include <cachalot/cachalot.h>\n#include <cachalot/cachalot.h>\nint main(void) {\n'
                              '#ifdef CACHALOT_INCLUDE_CUDA\n  return (int)cachalot_cuda_stream(NULL);\n#endif\n'
                              '#ifdef CACHALOT_INCLUDE_TEXT\n  return (int)cachalot_metrics_text_dup(NULL, NULL, NULL);\n'
                              '#endif\n}\n')
            run(compiler, "-x", language, f"-std={standard}", "-pedantic-errors", *WARNINGS, *macro, f"-I{folder}",
                "-fsyntax-only", source)


def check_visibility(library):
    """What has the library's names stays inside of what it is linked into."""
    symbols = re.findall(r" GLOBAL +(\w+) +(\w+) (\S+)$", run("readelf", "--syms", "--wide", library), re.MULTILINE)
    defined = [(visibility, name) for visibility, section, name in symbols if section != "UND"]
    shown = [name for visibility, name in defined if visibility != "HIDDEN"]
    if shown or not any(name == "cachalot_allocate" for _, name in defined):
        sys.exit(f"of {len(defined)} symbols these are visible to others: {shown}")


def check_first_program(compiler, folder, library, language, *flags):
    source, program = folder / "first", folder / f"first_{language}"
    source.write_text(first_program(language))
    run(compiler, *flags, *WARNINGS, f"-I{folder}", "-c", source, "-o", folder / "first.o")
    run(compiler, "-pthread", folder / "first.o", library, "-o", program)
    run(program)


def check_cpp_headers(compiler, folder):
    source = folder / "resource.cpp"
    source.write_text("#include <cachalot/memory_resource.hpp>\ncachalot::cuda::Resource<> resource(nullptr);\n")
    run(compiler, "-std=c++20", "-pedantic-errors", *WARNINGS, f"-I{folder}", "-fsyntax-only", source)


def check_golden(compiler, folder, library, objects, files_of_all):
    """In one file a call can mean a function of another source, and compile."""
    verify = folder / "verify"
    run(compiler, "-pthread", *objects, library, "-lz", "-llzma", "-o", verify)
    for release in ("2.11", "2.15"):
        golden = SOURCE / "tests/golden" / release
        files = sorted((golden if files_of_all else golden / "cases").rglob("*.txt.?z"))
        for mode in ([], ["--unobserved"]):
            said = run(verify, "--torch", release, *mode, *files)
            print(release, *mode, said.rstrip().rsplit("\n", 1)[-1])


def unpack(folder):
    """The archive of a release, which has the same bytes whenever it is made, and whatever others may read."""
    made = []
    for mask in (0o022, 0o077):
        previous = os.umask(mask)
        made.append(pathlib.Path(run(ARCHIVE, folder / f"{mask:o}").strip()).read_bytes())
        os.umask(previous)
    if made[0] != made[1]:
        sys.exit(f"{ARCHIVE}: two runs differ")
    with tarfile.open(fileobj=io.BytesIO(made[0])) as archive:
        archive.extractall(folder)


def check(compiler, objects, files_of_all):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source, library = folder / "cachalot/cachalot.cpp", folder / "cachalot.o"
        unpack(folder)
        check_header(compiler, folder)
        run(compiler, *FLAGS, *WARNINGS, "-c", source, "-o", library)
        check_visibility(library)
        check_first_program(compiler, folder, library, "c", "-x", "c", "-std=c99")
        check_cpp_headers(compiler, folder)
        check_first_program(compiler, folder, library, "cpp", "-x", "c++", "-std=c++20")
        check_golden(compiler, folder, library, objects, files_of_all)
    print(f"{compiler}: as expected")


OWN = "namespace cachalot {\nnamespace {\n\n%s\n\n}  // namespace\n}  // namespace cachalot\n"
PLANTED = {
    "core/base/planted.cpp and core/device/planted.cpp both have a planted of their own":
        {"core/base/planted.cpp": OWN % "int planted(int a) { return a; }",
         "core/device/planted.cpp": OWN % "template <class T>\nconst T& planted(\n    const T& a) {\n  return a;\n}"},
    "both have a kPlanted of their own":
        {"core/base/planted.cpp": OWN % "constexpr int kPlanted[3] = {1};",
         "capi/src/planted.cpp": OWN % "using kPlanted = int;"},
    "both have a Planted of their own":
        {"core/base/planted.cpp": OWN % "struct Planted final : Base {\n  int a;\n};",
         "core/replay/deep/planted.cpp": OWN % "class Planted {};"},
    "core/base/planted.cpp: #undef PLANTED at its end": {"core/base/planted.cpp": "#define PLANTED 1\n"},
    "core/base/planted.cpp: there is no base/planted.h": {"core/base/planted.cpp": '#include "base/planted.h"\n'},
}


def planted_result(files):
    """What the script says of a copy of the sources with these files besides."""
    with tempfile.TemporaryDirectory() as name:
        copy = pathlib.Path(name)
        for folder in ("core", "capi"):
            shutil.copytree(SOURCE / folder, copy / folder)
        for file in ("VERSION", "LICENSE-MIT"):
            shutil.copy(SOURCE / file, copy)
        for path, text in files.items():
            (copy / path).parent.mkdir(exist_ok=True)
            (copy / path).write_text(text)
        return subprocess.run([copy / AMALGAMATE.relative_to(SOURCE), copy / "out"], text=True, capture_output=True,
                              check=False)


def self_test():
    wrong = []
    if planted_result({}).returncode != 0:
        wrong.append("the sources as they are do not fit into one file")
    for said, files in PLANTED.items():
        result = planted_result(files)
        if result.returncode != 1 or said not in result.stderr:
            wrong.append(f"planted '{said}', found '{result.stderr}'")
    print("\n".join(wrong) or f"self-test: {len(PLANTED)} faults found")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    files_of_all = arguments[:1] == ["--all"]
    if files_of_all:
        arguments = arguments[1:]
    if len(arguments) < 2 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    check(arguments[0], arguments[1:], files_of_all)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
