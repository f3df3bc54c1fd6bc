# SPDX-License-Identifier: MIT OR Apache-2.0
"""Modules of Python that are Debian's packages, which are for Debian's interpreter."""
import importlib.util
import os
import sys

DEBIAN = "/usr/bin/python3"


def need(module, package):
    """Goes on in Debian's interpreter where this one lacks the module. Without the package the program ends: with 1 where CI
    is set, else with 77, which counts as skipped."""
    if importlib.util.find_spec(module) is not None:
        return
    if os.path.exists(DEBIAN) and os.path.realpath(sys.executable) != os.path.realpath(DEBIAN):
        os.execv(DEBIAN, [DEBIAN] + sys.argv)
    print(f"{module} is missing (Debian: {package})")
    sys.exit(1 if "CI" in os.environ else 77)
