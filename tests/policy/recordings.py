#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recorded runs through the serving policy and through a model of its rules, on the smallest device on which each
finishes, with and without thrift.

    recordings.py [--fault NAME] MODEL FITS TRACE...

MODEL is the program cachalot_policy_model, FITS the file that fits.py has written. Exit status: 0, or 1 where model and
library differ or a request fails. With a fault in the model 0 where each run finds it.
"""

import argparse
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile

THRIFT = {"serving": [], "serving, thrift": ["--thrift"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("fits", type=pathlib.Path)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--fault", default="")
    arguments = parser.parse_args()
    rows = json.loads(arguments.fits.read_text())
    fine = True
    for trace in arguments.traces:
        name = pathlib.Path(trace).name.split(".")[0]
        own = [row for row in rows if row["trace"] == name and row["contender"] in THRIFT]
        if not own:
            sys.exit(f"{arguments.fits} has no row of {name}")
        with tempfile.NamedTemporaryFile() as file:
            file.write(lzma.open(trace).read())
            file.flush()
            for row in own:
                command = [arguments.model, "--recording", file.name, "--capacity", str(row["capacity"]),
                           "--fault", arguments.fault, *THRIFT[row["contender"]]]
                done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False)
                print(f"{name}, {row['contender']}, {row['capacity']} MiB: {done.stdout}", end="", flush=True)
                serves_all = ", 0 times out of memory" in done.stdout
                fine = fine and done.returncode == 0 and (serves_all or arguments.fault != "")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
