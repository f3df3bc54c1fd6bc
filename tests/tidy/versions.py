# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that each place of the version names that of the file VERSION; tidy.py runs it.

The places are those that capi/packaging/set_version.py writes.
"""

import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "capi/packaging"))
import set_version  # noqa: E402

# Lists of other projects' packages, any of which can have the same version.
LISTS = (".lock", ".sum", ".xml", ".toml", ".mod", "requirements.txt")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_version(tree):
    """Each place of the version agrees with the file VERSION, and the version stands in no other place."""
    version = tree.texts["VERSION"].strip()
    used = set()
    for path, text in tree.texts.items():
        known = set()
        for place, found in set_version.numbers(path, text):
            used.add(place)
            known.add(found.start(1))
            if found.group(1) != set_version.written(place, version):
                yield f"{path}:{line_of(text, found.start(1))}: {found.group(1)} is not the version, {version}"
        if path.startswith(set_version.OTHERS) or path.endswith(LISTS):
            continue
        for found in re.finditer(rf"{re.escape(version)}(?!\w|\.\d)(?<![\d.]{re.escape(version)})", text):
            if found.start() not in known:
                yield f"{path}:{line_of(text, found.start())}: set_version.py has no place for this version"
    for files, before, _ in (place for place in set_version.PLACES if place not in used):
        yield f"capi/packaging/set_version.py: no file of {files} has the place {before}"


HASH_SPDX = "# SPDX-License-Identifier: MIT OR Apache-2.0\n"
PLACED = {
    "VERSION": "7.8.9\n",
    "docs/version.h": "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
                      '// The library that is loaded, for example "7.8.9"; for example "cachalot 7.8.9".\n'
                      '// Of others: "7.8", 1.2.3.\n',
    "docs/CMakeLists.txt": HASH_SPDX + "find_package(cachalot 7.8 REQUIRED)\n",
    "docs/pod.yaml": "# https://example.org/releases/v7.8.9/cachalot-7.8.9.tar.gz, libcachalot_jni.so.7.8\n"
                     "image: cachalot:7.8.9\n",
    "bindings/python/cachalot_cuda/_library.py": HASH_SPDX + "INTERFACE = 708\n",
    "bindings/rust/Cargo.toml": '[package]\nversion = "0.0.0"\n[workspace.package]\nversion = "7.8.9"\n',
    "bindings/rust/a/Cargo.toml": 'cachalot-sys = { path = "../b", version = "=7.8.9" }\n'
                                  'serde = { version = "1.2.3" }\n',
    "bindings/rust/Cargo.lock": 'name = "a"\nversion = "7.8.9"\n\nname = "cachalot-sys"\nversion = "7.8.9"\n',
    "bindings/rust/prebuilt.sh": "#!/bin/sh\n" + HASH_SPDX + 'cachalot = "7.8"\n',
    "bindings/java/pom.xml": "<cachalot.version>7.8.9</cachalot.version>\n"
                             "<artifactId>cachalot</artifactId>\n<version>7.8.9</version>\n",
    "bindings/go/go.mod": "require cachalot.io/go v7.8.9\nrequire cachalot.io/go/a v0.0.0\n"
                          "require example.org/go v1.2.3\n",
    "CHANGELOG.md": "cachalot-1.2.3\n",
}
FAULTS = [("version", path, PLACED[path].replace(old, new)) for path, old, new in [
    ("docs/version.h", 'loaded, for example "7.8.9"', 'loaded, for example "7.8.8"'),
    ("docs/version.h", '"cachalot 7.8.9"', '"cachalot 7.9.9"'),
    ("docs/version.h", "1.2.3", "7.8.9"),
    ("docs/CMakeLists.txt", "7.8", "7.7"),
    ("docs/pod.yaml", "v7.8.9", "v7.8.10"),
    ("docs/pod.yaml", "-7.8.9", "-7.8.10"),
    ("docs/pod.yaml", "so.7.8", "so.8.8"),
    ("docs/pod.yaml", ":7.8.9", ":6.8.9"),
    ("bindings/python/cachalot_cuda/_library.py", "708", "70"),
    ("bindings/rust/Cargo.toml", "7.8.9", "7.8.8"),
    ("bindings/rust/a/Cargo.toml", "=7.8.9", "7.8.8"),
    ("bindings/rust/Cargo.lock", 'sys"\nversion = "7.8.9', 'sys"\nversion = "7.8.8'),
    ("bindings/rust/prebuilt.sh", "7.8", "7.7"),
    ("bindings/java/pom.xml", "<version>7.8.9", "<version>7.8.8"),
    ("bindings/java/pom.xml", "<cachalot.version>7.8.9", "<cachalot.version>7.8.8"),
    ("bindings/go/go.mod", "7.8.9", "7.8.8"),
]]
