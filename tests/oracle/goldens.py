#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the expected files of tests/golden again, from their names, and compares or writes them.

Usage: goldens.py --oracle FOLDER --torch RELEASE [--write] [FILE...]
Without FILE all files of the release are made. FILE is a path below tests/golden/RELEASE, also of a
file that is not there yet. tests/golden/README.md explains the names.

Exit status: 0 all are as the oracle makes them, 1 one is not, 2 the call is wrong.
"""

import argparse
import gzip
import lzma
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gen
import gen_checkpoints
import gen_pinned
import gen_rough
import gen_sharing
import trace2script
from fuzz import find_oracle

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
TRACES = HERE.parent / "traces"

# By the first word of a file's name: the generator, and the length of its scripts.
GENERATORS = {
    **{None: (gen, 700), "rough": (gen_rough, 400)},
    **{"checkpoints": (gen_checkpoints, 300), "pinned": (gen_pinned, 300)},
    "sharing": (gen_sharing, 300),
}
OPENERS = {".gz": gzip.open, ".xz": lzma.open}

RANDOM_NAME = re.compile(r"(?:(rough|checkpoints|pinned|sharing)-)?(\d+)-(\w+)-(\d+)$")
RUN_NAME = re.compile(r"run-(\w+?)-(default|\w+-\w+)$")
# The process id, and padding bytes that are never set, stand in what a process shares.
SHARED = re.compile(r"^( # share \d+ \w{2}6[35]).*$", re.MULTILINE)


def random_script(match, release):
    name, line, profile, seed = match.groups()
    options = (GOLDEN / release / "options.txt").read_text().split("\n")
    generator, operations = GENERATORS[name]
    config = options[int(line) - 1]
    return generator.generate(profile, int(seed), operations, config, release)


def run_script(match, release):
    workload, options = match.groups()
    config = "" if options == "default" else options.replace("-", ":")
    # Only the recorded options and release obtain segments in the recorded order.
    free = bool(config) or release != "2.11"
    lines = trace2script.script(str(TRACES / f"{workload}.csv.xz"), config, free=free)
    return "".join(line + "\n" for line in lines)


def script_of(path, release):
    name = path.name.split(".")[0]
    if path.parent.name == "cases":
        return (HERE / "cases" / f"{name}.txt").read_text()
    if match := RUN_NAME.match(name):
        return run_script(match, release)
    if match := RANDOM_NAME.match(name):
        return random_script(match, release)
    return None


def program_of(path):
    return "oracle_pinned" if "pinned" in path.name else "oracle"


def expected_text(oracle, script):
    with tempfile.TemporaryDirectory(prefix="goldens-") as folder:
        path, out = Path(folder) / "script.txt", Path(folder) / "expected.txt"
        path.write_text(script)
        # A case may use words of a newer release: the file then ends there. The order in which a restore
        # goes through a pool is that of addresses of the process, so they are always the same.
        command = ["setarch", "-R", oracle, path, out]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
        return out.read_text() if out.exists() else ""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data, 9, mtime=0))
    else:
        path.write_bytes(lzma.compress(data, preset=9))


def read(path):
    with OPENERS[path.suffix](path, "rt") as file:
        return file.read()


def is_same(path, text):
    return path.exists() and SHARED.sub(r"\1", read(path)) == SHARED.sub(r"\1", text)


def all_files(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in OPENERS)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--oracle", type=Path, required=True, help="the folder of fetch.sh")
    parser.add_argument("--torch", choices=["2.11", "2.15"], required=True)
    parser.add_argument("--write", action="store_true", help="write the files instead")
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    folder = GOLDEN / arguments.torch
    different = 0
    paths = [folder / name for name in arguments.files] or all_files(folder)
    for path in paths:
        script = script_of(path, arguments.torch)
        if script is None or path.suffix not in OPENERS:
            parser.error(f"{path}: not a name of an expected file")
        oracle = find_oracle(arguments.oracle, program_of(path))
        if oracle is None:
            parser.error(f"no {program_of(path)} in {arguments.oracle}: run fetch.sh first")
        text = expected_text(oracle, script)
        if arguments.write:
            write(path, text)
        elif not is_same(path, text):
            different += 1
            print(f"{path}: differs")
    print(f"{len(paths)} expected files of torch {arguments.torch}, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
