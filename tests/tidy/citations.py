# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which rules comments cite, and whether these exist; a check of tidy.py.

A citation names the file of a rule by a prefix: `[core 8.8]`, `[exp 2.2, 2.4]`, `[core 6.4 a]`, `[core 12, R10 to R21]`.
The prefixes are those of the first table of docs/behaviour.md. Ids with a letter (R31, U3, P22) are unique, so they may
stand alone.
"""

import re

# Where rules are cited, and where no number of a rule may stand without its file.
CITING = ("core/", "capi/", "tests/")
CITING_KINDS = (".h", ".c", ".cpp", ".cu")
STRICT = ("core/", "capi/src/", "tests/capi/", "tests/core/", "tests/simulation/")
# Headers of an earlier release, kept as they were.
OLDER = "tests/abi/older/"

MAPPING = "docs/behaviour.md"
TABLES = (MAPPING, "docs/rules.md")
# What defines ids with a letter.
LETTERED = ("docs/behaviour/", "docs/differences.md")

TOKENS = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|(//[^\n]*|/\*.*?\*/)', re.DOTALL)
LETTER_ID = r"[RUP]\d{1,2}[a-z]?"
BARE = [
    # Not a release (2.11), a quantity ("3.9 KiB", "0.8") or a version of something ("CUDA 12.3").
    r"(?<![\w.,-])(?<!CUDA )(?<!Linux )(?<!version )(?!2\.1\d\b)[1-9]\d?\.\d{1,2}(?!\w|\.\d| ?%| [KMGT]i?B| [a-zµ]*s\b)",
    r"\b(?!differences)(?:exp\.|options|async|stats|\w+\.md|[Rr]ules?|[Ss]ections?|[Dd]ecisions?) \d[\d.]*",
    r"(?<!\w)\([1-9]\d?(?:, [1-9]\d?)*\)",
]


def comments(text):
    """The comments of a C or C++ text without their marks, each in its lines; all other lines are empty."""
    found, end = [], 0
    for token in TOKENS.finditer(text):
        comment = token.group(2)
        if comment:
            found.append("\n" * text.count("\n", end, token.start(2)))
            found.append(re.sub(r"^\s*(?://+|/?\*+/?)", "", comment, flags=re.MULTILINE))
            end = token.end(2)
    return "".join(found)


class Rules:
    """The rules of the tree: texts by file and number, and the ids with a letter."""

    def __init__(self, tree):
        mapping = tree.texts.get(MAPPING, "")
        rows = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \|.*\| `([a-z]+) \d[\d.]*`[^|]*\|$", mapping, re.MULTILINE)
        files = {prefix: "docs/" + path if not path.startswith("../") else path[3:] for path, prefix in rows}
        self.texts = {prefix: self.numbered(tree.texts.get(path, "")) for prefix, path in files.items()}
        self.lettered = set()
        for path, text in tree.texts.items():
            if path.startswith(LETTERED):
                self.lettered.update(re.findall(rf"^(?:- |\| )\**({LETTER_ID})\b", text, re.MULTILINE))
        self.citation = re.compile(r"\[((?:" + "|".join([*self.texts, LETTER_ID]) + r")\b[^\[\]]*)\]")

    @staticmethod
    def numbered(text):
        """Each rule's text by its number. Rules are paragraphs or headings, in headers entries of a list."""
        parts = re.split(r"^(?:## | \*  )?(\d+(?:\.\d+)?)\. ", text, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2]))

    def faults(self, cited):
        """What is wrong with the ids between two brackets, or in the first cell of a table."""
        prefix = None
        for item in re.split(r",\s+|;\s+|\s+to\s+", cited.strip()):
            if re.fullmatch(LETTER_ID, item):
                if item not in self.lettered:
                    yield f"no rule {item}"
                continue
            parts = re.fullmatch(r"(?:([a-z]+)\s+)?(\d+(?:\.\d+)?)(?:\s+([a-z]))?", item)
            prefix = parts and parts.group(1) or prefix
            if not parts or prefix not in self.texts:
                yield f"{' '.join(item.split())} names no rule"
                continue
            rule = self.texts[prefix].get(parts.group(2))
            if rule is None or (parts.group(3) and f"({parts.group(3)})" not in rule):
                yield f"no rule {prefix} {item.removeprefix(prefix).strip()}"


def of_comments(rules, path, text):
    said = comments(text)

    def line(place):
        return f"{path}:{said.count(chr(10), 0, place) + 1}"

    for citation in rules.citation.finditer(said):
        for fault in rules.faults(citation.group(1)):
            yield f"{line(citation.start())}: {fault}"
    # Places stay what they are, so that lines can be counted.
    rest = rules.citation.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), said)
    for name in re.finditer(rf"(?<![\w.\"]){LETTER_ID}(?!\w)", rest):
        if name.group() not in rules.lettered:
            yield f"{line(name.start())}: no rule {name.group()}"
    if path.startswith(STRICT):
        rest = re.sub(r'"[^"\n]*"', lambda m: " " * len(m.group()), rest)
        for number in sorted({m.start(): m for pattern in BARE for m in re.finditer(pattern, rest)}.items()):
            yield f"{line(number[0])}: {number[1].group()} names no file: write [core 8.8]"


def of_table(rules, path, text):
    for number, row in enumerate(text.split("\n"), 1):
        cell = re.match(rf"\| ((?:\d|{LETTER_ID}\b|(?:{'|'.join(rules.texts)}) \d)[^|]*) \|", row)
        for fault in rules.faults(cell.group(1)) if cell else ():
            yield f"{path}:{number}: {fault}"


def check_citations(tree):
    """Comments and tables cite rules that exist, and name the file of each."""
    rules = Rules(tree)
    for path, text in tree.texts.items():
        if path in TABLES:
            yield from of_table(rules, path, text)
        elif path.startswith(CITING) and path.endswith(CITING_KINDS) and not path.startswith(OLDER):
            yield from of_comments(rules, path, text)


SPDX = "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
CITED = {
    MAPPING: "| [rules](behaviour/a.md) | rules | `core 1.1`, P1 |\n| [b](behaviour/b.md) | more | `exp 1` |\n"
             "| [c](../capi/include/c.h) | tenants | `tenant 2` |\n| core 1, 1.1; exp 3 to 4; R2 | what |\n",
    "docs/behaviour/a.md": "# A\n## 1. First\n1.1. Text:\n - (a) one.\n\n- P1. A pitfall.\n",
    "docs/behaviour/b.md": "# B\n## 3. Third\n\n## 4. Fourth\n\n- **R2 (2.15).** Changed.\n",
    "capi/include/c.h": SPDX + "/* Rules:\n *  1. This.\n *  2. That. */\n",
    "docs/rules.md": "| core 1.1 | `Test` |\n| R2, core 1 | `Test` |\n",
    "core/alloc/heap/c.h": SPDX + "// One [core 1.1 a], two [exp 3 to 4,\n// R2]. 2.11, 4.5 KiB, CUDA 12.3, P1, \"1.1\".\n"
                           "int a;  /* [tenant 2] */ const char* b = \"// (5.1)\";\n",
}
FAULTS = [("citations", path, text) for path, text in [
    ("core/alloc/heap/c.cpp", SPDX + "// Text [exp 1.1].\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// Text [core 1,\n// 1.2].\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// Text [core 1.1 b].\n"),
    ("core/alloc/heap/c.cpp", SPDX + "int a;  // [core 1 and 2]\n"),
    ("core/alloc/heap/c.cpp", SPDX + "/* Text\n * [tenant 3]. */\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// Text [core 1, R3].\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// Text (R3).\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// Text (1.1).\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// 1.1. Text.\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// Text (1, 3).\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// As decision 2 says.\n"),
    ("core/alloc/heap/c.cpp", SPDX + "// b.md 3 says so.\n"),
    ("tests/core/b_test.cpp", SPDX + "// ---- Part [core 2]\n"),
    ("docs/rules.md", "| core 1.2 | `Test` |\n"),
    ("docs/rules.md", "| 1.1 | `Test` |\n"),
    (MAPPING, CITED[MAPPING] + "| exp 2 | what |\n"),
]]
