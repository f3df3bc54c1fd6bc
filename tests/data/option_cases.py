#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks PyTorch's own parser for the answers in option_cases.txt.

    option_cases.py ORACLE_2_11 ORACLE_2_15 < option_cases.txt > new_option_cases.txt

The two arguments are built oracles (tests/oracle). Reads the strings of the file and writes them again, each
with the answers under it: what was set that is not a default, warnings, the error.
"""

import re
import subprocess
import sys
import tempfile

DEVICE_BYTES = 1 << 33
CLASSES = ["other", "a", "b"]  # whose reserve is asked for; "other" has none of its own
DEFAULTS = {"max_split": "-1", "threads": "1", "large_segment": "20971520", "fraction": "1",
            "non_split_rounding": "20971520", "max_round_threshold": str(2**64 - 1),
            "max_cached_size": str(2**64 - 1), "round": " ".join(["0"] * 16)}
OWN_TEXTS = {"Index out of bounds in ConfigTokenizer": "error ends too early",
             "Expected closing bracket ']' in ConfigTokenizer": "error ends too early",
             "Allocator backend parsed at runtime": "error other backend"}


def ask(oracle, steps, release):
    """The indented lines of the oracle, by step; None if the process ended when it loaded the string."""
    script = [f"device {DEVICE_BYTES} 1"]
    for word, text in steps:
        script += [f"config {text}"] if word == "create" else [f"set {text}"]
        script += ["settings"]
        if release == "2.15":
            script += [f"reserve_of {name}" for name in CLASSES]
    with tempfile.NamedTemporaryFile("w", encoding="latin-1") as file, \
            tempfile.NamedTemporaryFile(encoding="latin-1", mode="r") as out:
        file.write("\n".join(script) + "\n")
        file.flush()
        subprocess.run([oracle, file.name, out.name, "nodevice"], stderr=subprocess.DEVNULL, check=False)
        lines = out.read().split("\n")
    if lines == [""]:
        return None
    return by_step(lines)


def by_step(lines):
    answers = []
    for line in lines:
        if line.startswith(("config", "set ")) or line == "set":
            answers.append([])
        elif line == "end":
            break
        elif line.startswith(" ") and answers and not line.startswith((" T", " =")):
            answers[-1].append(line[1:])
    return answers


def changed_settings(line):
    """Of one or more lines of `settings`: name and value of what is not a default."""
    line = re.sub(r'set string ".*" max_split', "max_split", line)
    found = re.findall(r"(round(?= \d+ \d)|\w+) ((?:(?<=round )\d+(?: \d+){15})|\S+)", line)
    return [f"{name}={value.replace(' ', ',')}" for name, value in found
            if value != DEFAULTS.get(name, "0")]


def error_text(line):
    text = re.match(r"E (?:init )?\w+ (.*)", line).group(1)
    for part, own in OWN_TEXTS.items():
        if part in text:
            return own
    return f'error "{text}"'


def answer(lines):
    if any("with backend:cudaMallocAsync is not meaningful" in line for line in lines):
        return ["chooses cudaMallocAsync"]
    answers, values = [], []
    for line in lines:
        if line.startswith("W "):
            answers.append(f'warning "{line[2:]}"')
        elif line.startswith("E "):
            answers.append(error_text(line))
        elif line.startswith("# reserve "):
            name, size, known = re.match(r'# reserve "(.*)" (\w+) (\w+)', line).groups()
            if size != "none" and (known == "known" or name == "other"):
                values.append(f"reserve.{name}={size}" if known == "known" else f"reserve={size}")
        else:
            values += changed_settings(line[2:])
    return answers + ["settings " + (" ".join(values) or "default")]


def read_cases(text):
    """Lists of steps (word, string); the comments and empty lines before each list go with it."""
    head, cases = [], []
    for line in text.split("\n"):
        word = line.split(" ")[0]
        if word in ("create", "set"):
            cases.append((head, [(word, line[len(word) + 1:])]))
            head = []
        elif word == "then":
            cases[-1][1].append((word, line[5:]))
        elif not line.startswith(" "):
            head.append(line)
    return cases


def main():
    for head, steps in read_cases(sys.stdin.read().rstrip("\n")):
        if head:
            print(*head, sep="\n")
        old, new = (ask(sys.argv[i], steps, release) for i, release in ((1, "2.11"), (2, "2.15")))
        for i, (word, text) in enumerate(steps):
            print(f"{word} {text}".rstrip(" "))
            both = [["error ends too early"] if a is None else without_settings(word, answer(a[i]))
                    for a in (old, new)]
            marks = [("*", both[0])] if both[0] == both[1] else [("2.11", both[0]), ("2.15", both[1])]
            for mark, lines in marks:
                print(*(f"  {mark} {line}" for line in lines), sep="\n")


def without_settings(word, lines):
    """An allocator that was not made has none."""
    failed = word == "create" and any(line.startswith("error") for line in lines)
    return [line for line in lines if not (failed and line.startswith("settings"))]


if __name__ == "__main__":
    main()
