# SPDX-License-Identifier: MIT OR Apache-2.0
"""What others wrote and a prefix of portable/build.sh has inside: for its bill of materials and for the check that each
licence's text is there, under its part's name."""

import json
import os
import pathlib
import re
import subprocess
import tomllib
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
UNWINDER = ROOT / "capi/proxy/unwinder"
PAGE = ROOT / "capi/cli/page/vendor"
ZIG = ROOT / "build/zig/ziglang/zig"
TEXTS = "share/doc/cachalot/licenses"

# What the program cachalot is linked with: the name of pkg-config's file, and the licence.
PROGRAM = {"zlib": "Zlib", "liblzma": "LicenseRef-Public-Domain", "sqlite3": "blessing", "nlohmann_json": "MIT",
           "CLI11": "BSD-3-Clause", "cpp-httplib": "MIT"}
# LLVM's C++ library, which Zig's compiler links into libraries and programs.
LLVM = ("libc++", "libc++abi", "libunwind")


class Part(typing.NamedTuple):
    name: str
    version: str
    licence: str
    location: str = ""
    sha256: str = ""  # of the package at the location


# The Cargo that CMake finds first.
CARGO_HOME = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
ENVIRONMENT = {**os.environ, "PATH": f"{CARGO_HOME / 'bin'}:{os.environ['PATH']}"}


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True,
                          env=ENVIRONMENT).stdout


def compiler_parts():
    version = re.search(r"clang version ([\d.]+)", output_of(ZIG, "c++", "--version"))[1]
    for name in LLVM:
        yield Part(name, version, "Apache-2.0 WITH LLVM-exception")
    yield Part("zig-compiler-rt", output_of(ZIG, "version").strip(), "MIT")


def program_parts(arch):
    """What portable/debian.sh has fetched for the machine."""
    usr = ROOT / "build/portable/debian" / arch / "usr"
    for name, licence in PROGRAM.items():
        (description,) = [path for folder in ("share", f"lib/{arch}-linux-gnu")
                          for path in [usr / folder / "pkgconfig" / f"{name}.pc"] if path.exists()]
        yield Part(name, re.search(r"^Version: (\S+)", description.read_text(), re.MULTILINE)[1], licence)


def page_parts():
    """What draws the pages of reports, by the table beside it."""
    sums = (PAGE / "SHA256SUMS").read_text()
    row = r"^\| \[(\S+)\]\((\S+)\) \| (\S+) \| (\S+) \|"
    rows = re.findall(row, (PAGE / "README.md").read_text(), re.MULTILINE)
    folders = sorted(path.name for path in PAGE.iterdir() if path.is_dir())
    if sorted(name for name, *_ in rows) != folders:
        raise RuntimeError(f"{PAGE / 'README.md'} has no row for some of {folders}")
    for name, location, version, licence in rows:
        digest = re.search(rf"^(\w+)  {re.escape(f'{name}-{version}')}\.tgz$", sums, re.MULTILINE)[1]
        yield Part(name, version, licence, f"{location}/v/{version}", digest)


def unwinder_parts():
    """The crates that the unwinder needs, by Cargo's own word, and what Rust adds."""
    graph = json.loads(output_of("cargo", "metadata", "--format-version=1", "--locked", "--manifest-path",
                                 UNWINDER / "Cargo.toml"))
    licences = {crate["name"]: crate["license"].replace("/", " OR ") for crate in graph["packages"]}
    for crate in tomllib.loads((UNWINDER / "Cargo.lock").read_text())["package"]:
        if "source" in crate:
            yield Part(crate["name"], crate["version"], licences[crate["name"]],
                       f"https://crates.io/crates/{crate['name']}/{crate['version']}", crate["checksum"])
    yield Part("rust", re.search(r"[\d.]+", output_of("rustc", "--version"))[0], "MIT OR Apache-2.0")


def parts_of(arch):
    yield from compiler_parts()
    yield from program_parts(arch)
    yield from page_parts()
    if arch == "x86_64":  # the unwinder is for this machine only
        yield from unwinder_parts()
