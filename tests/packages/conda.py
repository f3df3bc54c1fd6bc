#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds conda's package of a recipe by rattler-build, runs the recipe's tests, and prints what both say. The channels
of conda are not asked: an own one has an empty package of each name that the recipe requires, and the system's
compiler and libraries stand in.

    conda.py RECIPE FOLDER
"""

import json
import pathlib
import shutil
import sys

import rattler_build

COMPILERS = {"c_compiler": ["gcc"], "cxx_compiler": ["gxx"], "rust_compiler": ["rust"],
             "rust_compiler_version": ["1.88"], "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"],
             "c_compiler_version": ["12"], "cxx_compiler_version": ["12"]}
# Each is there in a version that satisfies every requirement.
STANDINS = ["gcc_linux-64", "gxx_linux-64", "rust_linux-64", "sysroot_linux-64", "cmake", "ninja", "pkg-config", "cli11",
            "cpp-httplib", "liblzma-devel", "libsqlite", "nlohmann_json", "zlib"]
VERSIONS = {"gcc_linux-64": "12.0", "gxx_linux-64": "12.0", "rust_linux-64": "1.88.0", "sysroot_linux-64": "2.28"}


def make_channel(folder):
    """Its index is written by hand, since rattler-build indexes what it has built alone."""
    shutil.rmtree(folder, ignore_errors=True)
    packages = {}
    for name in STANDINS:
        version = VERSIONS.get(name, "99.0")
        path = pathlib.Path(rattler_build.assemble_package(name, version, "linux-64", "0", folder / "linux-64").path)
        packages[path.name] = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": [],
                               "subdir": "linux-64", "size": path.stat().st_size}
    for subdir, found in (("linux-64", packages), ("noarch", {})):
        index = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": found, "repodata_version": 1}
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        (folder / subdir / "repodata.json").write_text(json.dumps(index))


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    recipe, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    make_channel(folder / "channel")
    results = rattler_build.Stage0Recipe.from_file(recipe).run_build(
        variant_config=rattler_build.VariantConfig(COMPILERS), output_dir=folder / "output",
        tool_config=rattler_build.ToolConfiguration(test_strategy="native"),
        channels=[(folder / "channel").as_uri()], env_isolation=rattler_build.EnvironmentIsolation.NONE)
    for result in results:
        print(*result.log, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
