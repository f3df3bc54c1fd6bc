#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes fresh scripts, asks PyTorch's own allocator and compares the library with its answers.

Every profile of the generators meets every option string of tests/golden/RELEASE/options.txt, in a
random order, each script with a seed of its own. A script on which the oracle itself crashes is
skipped and counted. Scripts that show a difference are kept, each with a command that repeats it.

Exit status: 0 no difference, 1 a difference, 2 the call or a script is wrong.
"""

import argparse
import itertools
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import gen
import gen_async
import gen_checkpoints
import gen_pinned
import gen_rough
import gen_sharing

HERE = Path(__file__).resolve().parent
GENERATORS = {
    **{"gen": gen, "rough": gen_rough, "async": gen_async},
    **{"checkpoints": gen_checkpoints, "pinned": gen_pinned, "sharing": gen_sharing},
}
# Not among "all": its oracle is another program.
PROGRAMS = {"pinned": "oracle_pinned"}
BATCH = 12
PROGRESS_SECONDS = 15
# An oracle whose memory is no longer sound may also hang.
ORACLE_SECONDS = 120
VERIFY_SECONDS = 600

COUNTS = re.compile(r"(\d+) files, (\d+) operations, (\d+) lines compared, (\d+) differences")
MENDED = re.compile(r"mended (\w+): (\d+)")
EXEMPT = re.compile(r"(\d+) operations exempt")
TABLE_ROW = re.compile(r"^(\w+) +(\d+) +(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    generator: str
    profile: str
    seed: int
    operations: int
    config: str
    release: str

    def name(self):
        return f"{self.generator}-{self.profile}-{self.seed}.txt"

    def text(self):
        generate = GENERATORS[self.generator].generate
        return generate(self.profile, self.seed, self.operations, self.config, self.release)

    def command(self):
        """The shell command that writes the script."""
        arguments = [self.profile, self.seed, self.operations, self.config, self.release]
        path = HERE / Path(GENERATORS[self.generator].__file__).name
        return shlex.join(map(str, [path, *arguments]))


@dataclass
class Outcome:
    """What became of some scripts."""

    scripts: int = 0
    operations: int = 0
    lines: int = 0
    mended: Counter = field(default_factory=Counter)
    exempt: int = 0
    # By operation: how often it was done, and lines of its answers.
    done: Counter = field(default_factory=Counter)
    answers: Counter = field(default_factory=Counter)
    # Commands of scripts, and texts about the others.
    crashed: list = field(default_factory=list)
    different: list = field(default_factory=list)
    faulty: list = field(default_factory=list)

    def add(self, other):
        self.scripts += other.scripts
        self.crashed += other.crashed
        self.operations += other.operations
        self.lines += other.lines
        self.mended += other.mended
        self.exempt += other.exempt
        self.done += other.done
        self.answers += other.answers
        self.different += other.different
        self.faulty += other.faulty

    def table(self):
        """How often each operation was done, as a table in Markdown."""
        rows = [f"| `{name}` | {self.done[name]} | {self.answers[name]} |" for name in self.done]
        return "\n".join(["| operation | done | lines compared |", "| --- | --- | --- |", *rows])

    def text(self):
        parts = [
            f"{self.scripts} scripts",
            f"{self.operations} operations",
            f"{self.lines} lines compared",
            f"{len(self.different)} different",
        ]
        early = ", ".join(f"{defect}: {count}" for defect, count in sorted(self.mended.items()))
        if early:
            parts.append(f"{sum(self.mended.values())} ended early at a mended defect ({early})")
        if self.exempt:
            parts.append(f"{self.exempt} operations exempt")
        if self.crashed:
            parts.append(f"{len(self.crashed)} skipped, since the oracle crashed")
        if self.faulty:
            parts.append(f"{len(self.faulty)} refused")
        return ", ".join(parts)


@dataclass(frozen=True)
class Tools:
    oracle: str
    verify: str
    release: str
    keep: str
    unobserved: bool

    def verify_command(self, paths):
        options = ["--torch", self.release, "--table"] + ["--unobserved"] * self.unobserved
        return [self.verify, *options, *map(str, paths)]

    def repeat_command(self, script):
        oracle = shlex.join([self.oracle, "script.txt", "expected.txt"])
        verify = shlex.join(self.verify_command(["expected.txt"]))
        return f"{script.command()} > script.txt && {oracle} && {verify}"


def ask_oracle(tools, script, folder):
    """The path of the expected file, or None if the oracle crashed."""
    path, expected = folder / "script.txt", folder / script.name()
    path.write_text(script.text())
    try:
        run = subprocess.run(
            [tools.oracle, path, expected], capture_output=True, timeout=ORACLE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None
    if run.returncode > 0:
        message = run.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"{script.command()}: the oracle refuses it: {message}")
    return expected if run.returncode == 0 else None


def verify(tools, paths):
    """The exit status and the output; a status below 0 or above 2 is a crash."""
    try:
        run = subprocess.run(
            tools.verify_command(paths),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERIFY_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no answer after {VERIFY_SECONDS} seconds\n"
    return run.returncode, run.stdout.decode(errors="replace")


def count_into(outcome, output):
    """Reads the summary, the last line. False if there is none."""
    counts = COUNTS.findall(output)
    if not counts:
        return False
    _, operations, lines, _ = map(int, counts[-1])
    outcome.operations += operations
    outcome.lines += lines
    summary = output.rstrip().rsplit("\n", 1)[-1]
    outcome.mended.update({defect: int(count) for defect, count in MENDED.findall(summary)})
    outcome.exempt += sum(map(int, EXEMPT.findall(summary)))
    for operation, done, answers in TABLE_ROW.findall(output):
        outcome.done[operation] += int(done)
        outcome.answers[operation] += int(answers)
    return True


def keep_failure(tools, script, expected, output):
    """Keeps what shows the failure and returns a text that tells of it."""
    folder = Path(tools.keep)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / expected.name
    kept.write_bytes(expected.read_bytes())
    return f"{output.rstrip()}\n  kept: {kept}\n  repeat: {tools.repeat_command(script)}"


def compare(tools, scripts):
    """Compares one batch; one script after the other if there is anything wrong with it."""
    outcome = Outcome(scripts=len(scripts))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        expected = {}
        for script in scripts:
            path = ask_oracle(tools, script, Path(name))
            if path is None:
                outcome.crashed.append(script.command())
            else:
                expected[path] = script
        if not expected:
            return outcome
        status, output = verify(tools, expected)
        if status == 0 and count_into(outcome, output):
            return outcome
        for path, script in expected.items():
            status, output = verify(tools, [path])
            counted = count_into(outcome, output)
            if status == 2:
                outcome.faulty.append(keep_failure(tools, script, path, output))
            elif status != 0 or not counted:
                outcome.different.append(keep_failure(tools, script, path, output))
    return outcome


def fresh_scripts(arguments, options):
    """Endless: all generators, profiles and option strings in turn, with new seeds each time."""
    of_all = [name for name in GENERATORS if name not in PROGRAMS]
    names = of_all if arguments.generator == "all" else [arguments.generator]
    combinations = [
        (name, profile, config)
        for name in names
        for profile in GENERATORS[name].PROFILES
        for config in options
    ]
    order = random.Random(arguments.seed)
    seeds = itertools.count(arguments.seed * 1_000_000)
    while True:
        order.shuffle(combinations)
        for name, profile, config in combinations:
            operations = arguments.operations
            yield Script(name, profile, next(seeds), operations, config, arguments.torch)


def report_failures(outcome):
    for command in outcome.crashed:
        print(f"skipped, since the oracle crashed: {command}", flush=True)
    for text in outcome.different + outcome.faulty:
        print(text, flush=True)


def fuzz(arguments, tools, options):
    """Runs batches on all jobs until the time or the number of scripts is used up."""
    scripts = fresh_scripts(arguments, options)
    if arguments.scripts:
        scripts = itertools.islice(scripts, arguments.scripts)
    end = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    total, shown = Outcome(), time.monotonic()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        running = set()
        while True:
            while len(running) < arguments.jobs and time.monotonic() < end:
                batch = list(itertools.islice(scripts, BATCH))
                if not batch:
                    break
                running.add(pool.submit(compare, tools, batch))
            if not running:
                return total
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                report_failures(future.result())
                total.add(future.result())
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                print(f"  {total.text()}", flush=True)


def find_oracle(folder, program="oracle"):
    """In a folder of fetch.sh, or in a build folder itself."""
    for path in (folder / "build" / program, folder / program):
        if os.access(path, os.X_OK):
            return str(path.resolve())
    return None


def fail(message):
    print(f"fuzz.py: {message}", file=sys.stderr)
    return 2


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--oracle", type=Path, required=True, help="the folder of fetch.sh")
    parser.add_argument("--torch", choices=["2.11", "2.15"], default="2.15")
    parser.add_argument("--verify", type=Path, required=True, help="the program cachalot_verify")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float)
    length.add_argument("--scripts", type=int, help="1000 if no length is given")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1_000_000))
    parser.add_argument("--generator", choices=[*GENERATORS, "all"], default="all")
    parser.add_argument("--operations", type=int, default=2000, help="of a script (2000)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--unobserved", action="store_true", help="no observers: the fast road")
    parser.add_argument("--table", action="store_true", help="how often each operation was done")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    arguments = parser.parse_args()
    if not arguments.minutes and not arguments.scripts:
        arguments.scripts = 1000
    return arguments


def main():
    arguments = parse_arguments()
    if not os.access(arguments.verify, os.X_OK):
        return fail(f"{arguments.verify} is no program")
    program = PROGRAMS.get(arguments.generator, "oracle")
    oracle = find_oracle(arguments.oracle, program)
    if oracle is None:
        return fail(f"no {program} in {arguments.oracle}: run fetch.sh first")
    verify_path, keep = str(arguments.verify.resolve()), str(arguments.keep.resolve())
    tools = Tools(oracle, verify_path, arguments.torch, keep, arguments.unobserved)
    options = HERE.parent / "golden" / arguments.torch / "options.txt"
    print(f"torch {arguments.torch}, seed {arguments.seed}", flush=True)
    try:
        total = fuzz(arguments, tools, options.read_text().split("\n")[:-1])
    except RuntimeError as error:
        return fail(error)
    print(f"torch {arguments.torch}, seed {arguments.seed}: {total.text()}")
    if arguments.table:
        print(total.table())
    if total.different:
        return 1
    return 2 if total.faulty else 0


if __name__ == "__main__":
    sys.exit(main())
