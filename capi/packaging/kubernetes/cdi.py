#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints the CDI specification that gives containers the cachalot of an installation prefix of the node.

    cdi.py PREFIX [--output FOLDER] > /etc/cdi/cachalot.json

Devices: cachalot.io/run=wait, cachalot.io/run=event and, with --output, cachalot.io/run=record. A container that asks
for one finds the prefix at /opt/cachalot, read-only, and the variables that lead its programs to it
(docs/kubernetes.md).
"""

import argparse
import json
import pathlib
import sys

INSIDE = "/opt/cachalot"
OUTPUT = "/var/lib/cachalot"


def mount(host, container, mode):
    return {"hostPath": str(host), "containerPath": container, "options": [mode, "rbind", "nosuid", "nodev"]}


def devices(has_output):
    metrics = [f"CACHALOT_RUN_METRICS={OUTPUT}/%p.prom"] if has_output else []
    modes = {"wait": ["CACHALOT_RUN_FREE=wait", *metrics], "event": ["CACHALOT_RUN_FREE=event", *metrics]}
    if has_output:
        modes["record"] = [f"CACHALOT_RECORD={OUTPUT}/%p.trace"]
    return [{"name": name, "containerEdits": {"env": variables}} for name, variables in modes.items()]


def specification(prefix, output):
    mounts = [mount(prefix, INSIDE, "ro")]
    if output:
        mounts.append(mount(output, OUTPUT, "rw"))
    return {
        "cdiVersion": "0.6.0",
        "kind": "cachalot.io/run",
        "containerEdits": {"env": [f"LD_AUDIT={INSIDE}/lib/cachalot/libcachalot_audit.so"], "mounts": mounts},
        "devices": devices(output is not None),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=pathlib.Path, help="where cachalot is installed on the node")
    parser.add_argument("--output", type=pathlib.Path, help="a folder of the node that containers write metrics and "
                        "recordings to; without it there is no device `record`")
    given = parser.parse_args()
    library = given.prefix / "lib/cachalot/libcachalot_audit.so"
    if not library.is_file():
        sys.exit(f"cdi.py: no cachalot in {given.prefix}: {library} is missing")
    print(json.dumps(specification(given.prefix.absolute(), given.output and given.output.absolute()), indent=2))


if __name__ == "__main__":
    main()
