# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the code of core and capi, prints a table, and says what is above a limit.

    tests/tidy/counts.sh              prints the table; exit status 1: something is above its limit
    tests/tidy/counts.sh --self-test  plants a fault for each limit and expects it to be found

The limits stand below. What was above one when the limit was made has a number of its own in ALLOWED, which may
only fall: lower it with the code.
"""

import pathlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import repeats
from cpp_code import Class, Code, CodeError, File, Function, read

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

MOST_FIELDS = 15
MOST_FUNCTIONS = 60
MOST_LINES = 41
"""Of a function. Those of a file are tidy.py's."""
LEAST_COMMENTS = 14.4
"""Percent of the lines of core/alloc that have nothing but a comment."""

# Every call of the C interface goes through it.
FACADES = {"Allocator"}


@dataclass(frozen=True)
class Allowed:
    """What is above a limit."""

    classes: dict[str, tuple[int, int]]
    """Name -> fields and functions that it may have."""
    functions: dict[str, int]
    """Name -> lines that it may have."""


ALLOWED = Allowed(
    classes={},
    functions={})


def check_classes(code: Code, allowed: Allowed) -> Iterator[str]:
    large = set()
    for each in code.classes:
        if not each.path.startswith("core/") or each.is_values or each.name in FACADES:
            continue
        if each.fields > MOST_FIELDS or each.functions > MOST_FUNCTIONS:
            large.add(each.name)
        fields, functions = allowed.classes.get(each.name, (MOST_FIELDS, MOST_FUNCTIONS))
        if each.fields > fields:
            yield f"{each.path}: {each.name} has {each.fields} fields; {fields} is the limit"
        if each.functions > functions:
            yield f"{each.path}: {each.name} has {each.functions} functions; {functions} is the limit"
    for name in sorted(allowed.classes.keys() - large):
        yield f"{name} is no large class: take it out of ALLOWED"


def check_functions(code: Code, allowed: Allowed) -> Iterator[str]:
    for function in code.functions:
        limit = allowed.functions.get(function.name, MOST_LINES)
        if function.lines > limit:
            yield f"{function.place}: {function.name} has {function.lines} lines; {limit} is the limit"
    long = {function.name for function in code.functions if function.lines > MOST_LINES}
    for name in sorted(allowed.functions.keys() - long):
        yield f"{name} is no long function: take it out of ALLOWED"


def check_comments(code: Code, allowed: Allowed) -> Iterator[str]:
    alloc = of(code.files, "core/alloc/")
    if alloc and comment_share(alloc) < LEAST_COMMENTS:
        yield f"core/alloc: {comment_share(alloc):.1f} % of the lines are comments; {LEAST_COMMENTS} is the least"


def check_repeats(code: Code, allowed: Allowed) -> Iterator[str]:
    return repeats.find(code)


CHECKS = [check_classes, check_functions, check_comments, check_repeats]


def findings(code: Code, allowed: Allowed = ALLOWED) -> list[str]:
    return [f"{check.__name__[6:]}: {finding}" for check in CHECKS for finding in check(code, allowed)]


def of(files: list[File], start: str, end: str = "") -> list[File]:
    return [file for file in files if file.path.startswith(start) and file.path.endswith(end)]


def comment_share(files: list[File]) -> float:
    return 100 * sum(file.comment_lines for file in files) / sum(file.lines for file in files)


def assertions(files: list[File]) -> int:
    return sum(text.split().count("CACHALOT_ASSERT") for file in files if file.path != "core/base/assert.h"
               for text in file.code.values())


def table(code: Code) -> str:
    rows = [*function_rows(code.functions), *file_rows(code.files)]
    heads = ["| what | figure |", "| --- | --- |"]
    classes = sorted((c for c in code.classes if c.path.startswith("core/")),
                     key=lambda c: (-c.fields - c.functions, c.name))
    return "\n".join([*heads, *(f"| {what} | {figure} |" for what, figure in rows), "",
                      "| class of core | file | fields | functions |", "| --- | --- | --- | --- |",
                      *map(class_row, classes)])


def function_rows(functions: list[Function]) -> list[tuple[str, str]]:
    by_length = sorted(functions, key=lambda f: f.lines)
    count = len(by_length)
    short = sum(f.lines <= 40 for f in by_length)
    longest = by_length[-1]
    return [("functions", f"{count:,}"),
            ("their lines: median, p90, longest",
             f"{by_length[count // 2].lines}, {by_length[count * 9 // 10].lines}, {longest.lines} ({longest.name})"),
            ("functions of at most 40 lines", f"{100 * short / count:.1f} %")]


def file_rows(files: list[File]) -> list[tuple[str, str]]:
    longest = max(files, key=lambda file: file.lines)
    core = of(files, "core/")
    rows = [("files, lines", f"{len(files)}, {sum(file.lines for file in files):,}"),
            ("longest file", f"{longest.lines} ({longest.path})")]
    for start, end in (("core/", ""), ("core/alloc/", ""), ("core/alloc/", ".h"), ("core/alloc/", ".cpp"),
                       ("capi/include/", ".h")):
        some = of(files, start, end)
        if some:
            rows.append((f"comment lines of {start}{'*' + end if end else ''}", f"{comment_share(some):.1f} %"))
    return [*rows, ("assertions of core, of capi", f"{assertions(core)}, {assertions(of(files, 'capi/'))}")]


def class_row(each: Class) -> str:
    kind = ", values" if each.is_values else ", facade" if each.name in FACADES else ""
    return f"| `{each.name}`{kind} | {each.path} | {each.fields} | {each.functions} |"



# ---- Faults that are planted

def fields(name: str, count: int) -> str:
    return "".join(f"  int {name}_field_{i} = 0;\n" for i in range(count))


def functions(name: str, count: int) -> str:
    return "".join(f"  void {name}_function_{i}();\n" for i in range(count))


def statements(name: str, count: int) -> str:
    return "".join(f"  {name} += {i} * {name};\n" for i in range(count))


COMMENT = "// A comment.\n"
WIDE = MOST_FIELDS + 1
MANY = MOST_FUNCTIONS + 1
# With the line of its name and the brace.
LONG = MOST_LINES - 1
SAME = statements("value", repeats.RUN)

# What is just within the limits.
CLEAN = {
    "core/alloc/owner.h": COMMENT * 20 + f"class Owner {{\n public:\n  Owner() = default;\n"
                          f"{functions('owner', MANY - 1)} private:\n{fields('owner', WIDE - 1)}}};\n",
    "core/alloc/values.h": COMMENT * 5 + f"struct Values {{\n{fields('value', WIDE)}}};\n",
    "core/alloc/facade.h": COMMENT * 10 + f"class Allocator {{\n public:\n{functions('facade', MANY)}}};\n",
    "core/alloc/allowed.h": COMMENT * 10 + f"class Allowed {{\n{fields('allowed', WIDE)}}};\n",
    "core/alloc/long.cpp": COMMENT * 10 + f"void add(int& a) {{\n{statements('a', LONG - 1)}}}\n"
                           f"void add_allowed(int& b) {{\n{statements('b', LONG)}}}\n",
    "core/alloc/once.cpp": COMMENT + f"int once(int value) {{\n{SAME}  return value;\n}}\n",
    "core/alloc/getters.cpp": COMMENT + "int one(int i) { return i; }\nint two(int i) { return i; }\n",
    "capi/src/other.cpp": f"static int other(int value) {{\n{SAME}  return value;\n}}\n",
}
CLEAN_ALLOWED = Allowed(classes={"Allowed": (WIDE, MOST_FUNCTIONS)}, functions={"add_allowed": MOST_LINES + 1})

# Check, file, its text, what the finding begins with.
FAULTS = [
    ("classes", "core/alloc/b.h", f"class Wide {{\n public:\n  void go();\n private:\n{fields('b', WIDE)}}};\n",
     f"core/alloc/b.h: Wide has {WIDE} fields"),
    ("classes", "core/base/b.h", f"template <class T>\nclass Wide {{\n{fields('b', WIDE)}}};\n",
     f"core/base/b.h: Wide has {WIDE} fields"),
    ("classes", "core/device/b.h", f"struct Outer {{\n  class Busy {{\n   public:\n{functions('b', MANY)}  }};\n}};\n",
     f"core/device/b.h: Outer::Busy has {MANY} functions"),
    ("classes", "core/device/b.h", f"struct NoValues {{\n{fields('b', WIDE)}{functions('b', 10)}}};\n",
     f"core/device/b.h: NoValues has {WIDE} fields"),
    ("classes", "core/alloc/allowed.h", COMMENT * 10 + f"class Allowed {{\n{fields('b', WIDE + 1)}}};\n",
     f"core/alloc/allowed.h: Allowed has {WIDE + 1} fields"),
    ("classes", "core/alloc/allowed.h", COMMENT * 10 + f"class Allowed {{\n{fields('b', WIDE - 1)}}};\n",
     "Allowed is no large class"),
    ("functions", "capi/src/b.cpp", f"static void more(int& b) {{\n{statements('b', LONG)}}}\n",
     f"capi/src/b.cpp:1: more has {MOST_LINES + 1} lines"),
    ("functions", "core/base/b.h", f"template <class T>\nvoid more(T& b) {{\n{statements('b', LONG - 1)}}}\n",
     f"core/base/b.h:1: more has {MOST_LINES + 1} lines"),
    ("functions", "core/alloc/long.cpp", COMMENT * 10, "add_allowed is no long function"),
    ("comments", "core/alloc/b.cpp", "int value = 0;\n" + "\n" * 900, "core/alloc: "),
    ("repeats", "core/alloc/b.cpp", COMMENT + f"int b(int value)\n{{\n{SAME}  return -value;\n}}\n",
     f"core/alloc/once.cpp:3: {repeats.RUN} lines or more are those of core/alloc/b.cpp:4"),
    ("repeats", "core/alloc/b.cpp", COMMENT + f"int b(int value) {{ {' '.join(SAME.split())} /**/ return value; }}\n",
     "core/alloc/once.cpp:2: the body of once is that of b in core/alloc/b.cpp:2"),
]


def findings_of(files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return findings(read(root), CLEAN_ALLOWED)


def self_test() -> list[str]:
    """What went wrong: a finding in a clean tree, or a planted fault that was not found."""
    wrong = [f"the clean tree has a finding: {f}" for f in findings_of(CLEAN)]
    for check, path, text, expected in FAULTS:
        found = findings_of({**CLEAN, path: text})
        if len(found) != 1 or not found[0].startswith(f"{check}: {expected}"):
            wrong.append(f"planted a fault for {check} in {path}, found {found}")
    tested = {f"check_{check}" for check, *_ in FAULTS}
    return wrong + [f"{check.__name__} has no test" for check in CHECKS if check.__name__ not in tested]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--self-test"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        code = None if arguments else read(ROOT)
    except CodeError as error:
        print(error, file=sys.stderr)
        return 2
    if code:
        print(table(code) + "\n")
    wrong = findings(code) if code else self_test()
    print("\n".join(wrong) if wrong else "counts: clean")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
