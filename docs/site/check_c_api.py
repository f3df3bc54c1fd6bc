#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks whether Doxygen's pages have all that the header declares, each function and struct with a text.

    check_c_api.py XML_FOLDER INTERFACE
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def has_text(element):
    return any("".join(element.find(kind).itertext()).strip() for kind in ("briefdescription", "detaileddescription"))


def described(folder):
    """Whether each name has a text."""
    names = {}
    for path in folder.glob("*.xml"):
        root = ElementTree.parse(path).getroot()
        for compound in root.iter("compounddef"):
            if compound.get("kind") == "struct":
                names[compound.findtext("compoundname")] = has_text(compound)
        for kind in ("memberdef", "enumvalue"):
            for member in root.iter(kind):
                names[member.findtext("name")] = has_text(member)
    return names


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    names = described(pathlib.Path(sys.argv[1]))
    interface = json.loads(pathlib.Path(sys.argv[2]).read_text())
    faults, count = [], 0
    for kind in ("functions", "structs", "callbacks", "handles", "scalars", "enums", "constants"):
        for entry in interface[kind]:
            name = entry["name"]
            count += 1
            if name not in names:
                faults.append(f"the C API lacks {name}")
            elif kind in ("functions", "structs", "callbacks") and not names[name]:
                faults.append(f"{name} has no text in the C API")
    print("\n".join(faults) or f"The C API has all {count} names.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
