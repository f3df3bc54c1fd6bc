#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each function of the interface that writes a text has one in cachalot/text.h, which calls it, and there are no others.

  text_functions_test.py

Exit code 0: as it should be; 1: not so.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
READ_ONCE = {"cachalot_sim_read_calls"}  # its text is gone once it is read
DUP = re.compile(r"(\w+)_dup\([^)]*\) \{\s*CACHALOT_TEXT_DUP\(\s*(\w+)\(")


def text_functions():
    interface = json.loads((ROOT / "bindings/interface.json").read_text(encoding="utf-8"))
    return {function["name"] for function in interface["functions"]
            if function["parameters"].get("buffer") == "char*"} - READ_ONCE


def main():
    header = (ROOT / "capi/include/cachalot/text.h").read_text(encoding="utf-8")
    calls = dict(DUP.findall(header))
    expected = {name: name for name in text_functions()}
    for name in sorted(calls.keys() | expected.keys()):
        if calls.get(name) != expected.get(name):
            print(f"{name}_dup calls {calls.get(name)}, expected {expected.get(name)}")
    return int(calls != expected or not expected)


if __name__ == "__main__":
    sys.exit(main())
