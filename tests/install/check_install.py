#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Installs a build tree, compares the files with expected_files.txt, looks into the libraries and programs
(check_binaries.py), and builds a program on top of it in every way that is offered: find_package, pkg-config; in
projects of C++ and in those that know C alone. FetchContent is configured only: the part `packages` of the long tests
builds what it fetches.

    check_install.py BUILD_FOLDER WORK_FOLDER
    check_install.py --subdirectory WORK_FOLDER   a project that has the sources as a folder of its own
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from check_binaries import cache_entry, checks_for, faults

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
CONSUMER = HERE / "consumer"


def run(*command, **options):
    """Runs a command and returns what it printed; on failure shows that and ends the check."""
    result = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, check=False, **options)
    if result.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def expected_files(build):
    """Rows of a component and a file; a third word says that the file is there where the proxy takes stacks."""
    version = (SOURCE / "VERSION").read_text().strip()
    text = (HERE / "expected_files.txt").read_text()
    for name, value in {
        "LIBDIR": cache_entry(build, "CMAKE_INSTALL_LIBDIR"),
        "TYPE": cache_entry(build, "CMAKE_BUILD_TYPE").lower(),
        "SOVERSION": version.rsplit(".", 1)[0],
        "VERSION": version,
    }.items():
        text = text.replace(f"@{name}@", value)
    rows = [line.split() for line in text.split("\n") if line]
    return rows if cache_entry(build, "CACHALOT_CARGO") else [row for row in rows if row[2:] != ["stacks"]]


def files_under(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def check_components(build, work):
    """Each component alone, then all: exactly the files that are expected."""
    expected = expected_files(build)
    for component in sorted({row[0] for row in expected}):
        prefix = work / "components" / component
        run("cmake", "--install", build, "--prefix", prefix, "--component", component)
        compare(component, files_under(prefix), {row[1] for row in expected if row[0] == component})
    prefix = work / "prefix"
    run("cmake", "--install", build, "--prefix", prefix)
    compare("all components", files_under(prefix), {row[1] for row in expected})
    lines, count = faults(prefix, checks_for(build))
    if lines or not count:
        sys.exit("\n".join(lines) or f"{prefix}: no libraries and programs")
    return prefix


def compare(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: unexpected {sorted(found - expected)}, missing {sorted(expected - found)}")


def configure_consumer(folder, *options):
    run("cmake", "-S", CONSUMER, "-B", folder, "-G", "Ninja", *options)


def build_consumer(folder, *options):
    """Builds it, and runs it there, installed, and installed and moved where it brings the library."""
    configure_consumer(folder, *options)
    run("cmake", "--build", folder)
    run("ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error")
    prefix = folder.with_name(folder.name + "_prefix")
    run("cmake", "--install", folder, "--prefix", prefix)
    if list(prefix.glob("lib/libcachalot.so.*")):
        prefix = prefix.rename(prefix.with_name(prefix.name + "_moved"))
        shutil.rmtree(folder)
    for program in (prefix / "bin").iterdir():
        run(program, env=without_library_path())


def without_library_path():
    return {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def check_find_package(prefix, work):
    """From another place than it was installed to; and a wrong version is refused."""
    moved = work / "moved"
    shutil.move(prefix, moved)
    version = (SOURCE / "VERSION").read_text().strip()
    installed = [f"-DCMAKE_PREFIX_PATH={moved}", f"-DCONSUMER_VERSION={version}"]
    build_consumer(work / "find_package", *installed)
    build_consumer(work / "find_package_c", *installed, "-DCONSUMER_LANGUAGES=C")
    check_runtime_once(work / "find_package")
    for wrong in ("0.99", "99.0"):
        refused = subprocess.run(
            ["cmake", "-S", CONSUMER, "-B", work / "wrong", f"-DCMAKE_PREFIX_PATH={moved}",
             f"-DCONSUMER_VERSION={wrong}"], capture_output=True, check=False)
        if refused.returncode == 0:
            sys.exit(f"version {wrong} should have been refused")
    return moved


def check_runtime_once(consumer):
    """A program in C++ has its runtime from the compiler, and no second time from the package."""
    commands = run("ninja", "-C", consumer, "-t", "commands", "consumer_cachalot_static_cpp")
    if "-lstdc++" in commands:
        sys.exit(f"the package adds the runtime of C++ to programs in C++:\n{commands}")


def check_pkg_config(prefix, libdir, work):
    """A compiler call from what pkg-config says, against the shared and against the static library."""
    folder = prefix / libdir
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder / "pkgconfig"), "LD_LIBRARY_PATH": str(folder)}
    for kind, options, libraries in (("shared", [], None), ("static", ["--static"], "-l:libcachalot.a")):
        flags = run("pkg-config", *options, "--cflags", "--libs", "cachalot", env=environment).split()
        if libraries:
            flags = [libraries if flag == "-lcachalot" else flag for flag in flags]
        program = work / f"pkg_config_{kind}"
        run("cc", "-std=c99", "-Wall", "-Werror", CONSUMER / "main.c", "-o", program, *flags)
        run(program, env=environment)


def check_search_path(prefix, libdir, work):
    """The ways of docs/c-api.md by which a linked program finds the library, without one of the environment."""
    folder, program = prefix / libdir, work / "app/bin/first"
    (work / "app/lib").mkdir(parents=True)
    program.parent.mkdir()
    flags = run("pkg-config", "--cflags", "--libs", "cachalot",
                env={**os.environ, "PKG_CONFIG_PATH": str(folder / "pkgconfig")}).split()
    for search_path in (folder, "$ORIGIN/../lib"):
        run("cc", CONSUMER / "main.c", "-o", program, *flags, f"-Wl,-rpath,{search_path}")
        if search_path != folder:
            for library in folder.glob("libcachalot.so.*"):
                shutil.copy(library, work / "app/lib", follow_symlinks=False)
            program = (work / "app").rename(work / "app_moved") / "bin/first"
            folder.rename(folder.with_name("elsewhere"))
        run(program, env=without_library_path())
    folder.with_name("elsewhere").rename(folder)


def check_fetched(work):
    """The source archive of a release."""
    archive = pathlib.Path(run(SOURCE / "capi/packaging/source.sh", work).strip().split("\n")[-1])
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    configure_consumer(work / "fetched", f"-DCONSUMER_ARCHIVE=file://{archive}", f"-DCONSUMER_SHA256={digest}",
                       "-DCONSUMER_LANGUAGES=C")


def check_record(build, prefix, work):
    """The installed program finds the installed library that records."""
    folder = build / "tests" / "proxy"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder / "drivers"), "TMPDIR": str(work)}
    recording = work / "run.trace"
    run(prefix / "bin" / "cachalot", "record", "-q", "-o", recording, "--", folder / "program", "open", env=environment)
    if recording.read_text().splitlines()[1][:2] != "a,":
        sys.exit(f"{recording}: the request of a program is not in it")


def check_subdirectory(work):
    """In bundles and unoptimized: it is about how the projects fit together."""
    build_consumer(work / "add_subdirectory", f"-DCONSUMER_SOURCE={SOURCE}", "-DCMAKE_UNITY_BUILD=ON",
                   "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0")


def check_installed(build, work):
    prefix = check_find_package(check_components(build, work), work)
    run(prefix / "bin" / "cachalot", "--version")
    check_record(build, prefix, work)
    check_pkg_config(prefix, cache_entry(build, "CMAKE_INSTALL_LIBDIR"), work)
    check_search_path(prefix, cache_entry(build, "CMAKE_INSTALL_LIBDIR"), work)
    check_fetched(work)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    build, work = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if build == "--subdirectory":
        check_subdirectory(work)
    else:
        check_installed(pathlib.Path(build).resolve(), work)
    shutil.rmtree(work)
    print("install: as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
