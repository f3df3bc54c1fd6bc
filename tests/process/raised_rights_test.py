#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program that runs with more rights than its caller takes nothing from the environment.

  raised_rights_test.py LIBRARY PROGRAM   the shared library; a program that names its default driver

The library must ask by secure_getenv; our own code by nothing else, NVTX's, which is only there
when a program chooses it, by getenv. Where this runs as root, on a file system
that knows the set-user-id bit, a copy of the program with that bit must not heed CACHALOT_DRIVER.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def imports(library):
    lines = subprocess.run(["nm", "-D", "--undefined-only", library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.strip()}


def driver_of(program):
    run = subprocess.run([program], env={"CACHALOT_DRIVER": "sim:1GiB"}, check=True,
                         capture_output=True, text=True)
    return run.stdout.strip()


def main():
    library, program = sys.argv[1:]
    found = imports(library)
    own = [path for path in (ROOT / "capi/src").glob("*.cpp")
           if re.search(r"(?<!secure_)getenv\(", path.read_text())]
    if "secure_getenv" not in found or own:
        print("the environment is not asked by secure_getenv alone", *own)
        return 1
    if driver_of(program) != "sim":
        print(f"an ordinary program opens {driver_of(program)}, not sim")
        return 1
    if os.geteuid() != 0:
        print("not root: the program with raised rights is left out")
        return 0
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        copy = pathlib.Path(name) / "raised"
        shutil.copy(program, copy)
        os.chown(copy, 65534, 65534)
        os.chmod(copy, 0o4755)
        if os.statvfs(name).f_flag & os.ST_NOSUID:
            print("no set-user-id here: the program with raised rights is left out")
            return 0
        found = driver_of(copy)
    if found == "sim":
        print("a program with raised rights heeds CACHALOT_DRIVER")
        return 1
    print(f"ordinary: sim; with raised rights: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
