#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints the README as the page on PyPI, which has no folders beside it: links into the repository get the
repository's address, at the tag of the version.

    page.py
"""

import pathlib
import posixpath
import re
import tomllib

FOLDER = "bindings/python"
ROOT = pathlib.Path(__file__).resolve().parents[3]
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)")


def main():
    package = ROOT / FOLDER
    repository = tomllib.loads((package / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    version = (ROOT / "VERSION").read_text().strip()

    def absolute(link):
        path = posixpath.normpath(posixpath.join(FOLDER, link[1]))
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({repository}/{kind}/v{version}/{path}"

    print(LINK.sub(absolute, (package / "README.md").read_text()), end="")


if __name__ == "__main__":
    main()
