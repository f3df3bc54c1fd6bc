#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks of the source tree that no compiler makes.

    tidy.py [ROOT]       looks at every file of the tree and prints what is wrong, one line each
    tidy.py --self-test  plants a fault for each check and expects it to be found

Exit status: 0 clean, 1 something was found, 2 the call is wrong.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile

import citations
import include_graph
import versions
from citations import check_citations
from include_graph import check_picture
from versions import check_version

LINES_LIMIT = 1000
CODE = (".h", ".hpp", ".c", ".cpp", ".cu", ".rs", ".go", ".java")
BUILD = (".cmake", ".cmake.in", ".py", ".sh", ".map", ".h.in", ".js", ".css")
# Folders of other people's files, each of which has its hash in SHA256SUMS.
VENDOR = "/vendor/"
SKIPPED_FOLDERS = {".git", "node_modules", "target", "__pycache__"}

# A layer sees itself and those named here.
LAYERS = {
    "core/base": ["base"],
    "core/device": ["base", "device"],
    "core/alloc": ["base", "device", "alloc"],
    "core/replay": ["base", "device", "alloc", "replay"],
}

# The folders of core/alloc from bottom to top: each may include those before it. What lies in core/alloc itself is above
# all of them.
ALLOC_FOLDERS = ["config", "sync", "trace", "stats", "heap", "pools", "shards", "streams", "tenants", "debug", "pinned", "sharing", "backend", "native",
                 "serving", "async", "tools"]

# Folders that are clients of the C interface, like any program outside.
CLIENTS = ["capi/cli", "capi/pluggable", "bindings", "examples", "tests/differential", "tests/capi",
           "tests/gpu", "tests/simulation", "tests/fuzz"]
# A driver of the core's, which a program outside cannot have, is what this folder brings.
NO_CLIENTS = "tests/gpu/scripts/"

# The amalgamation, where a target has put it. Its sources are checked.
COPIES = ("bindings/go/internal/raw/cachalot.", "bindings/go/internal/raw/prebuilt.h", "bindings/rust/cachalot-sys/amalgamation/")

# Files that say how a package compiles the amalgamation; how they write flags; which of hardening.txt they need. cgo
# allows those for any machine; Rust's compiler links as it likes.
GO_FLAGS = "bindings/go/internal/raw/hardening.go"
RUST_FLAGS = "bindings/rust/cachalot-sys/build.rs"
FLAGS = {
    GO_FLAGS: (r"^// #cgo \w+: (.*)$", r"^[a-z]+ +any +(-\S+)$"),
    RUST_FLAGS: (r'"(-[^"]+)"', r"^(?:compile|optimized) +\w+ +(-\S+)$"),
}

# What says of each folder of tests what it proves.
FOLDERS = "tests/README.md"
LONG_STAGE = "tests/long.sh"

# This file plants faults.
TIDY = "tests/tidy/tidy.py"
FIRST_BLOCKS = "tests/packages/first/"  # what users type; there it fetches from folders
# What makes Cargo choose versions, or take those of Cargo.lock.
CARGO = r"\bcargo\"? (build|run|test|doc|clippy|package|install)\b"

# Words that stand for work left undone are split here, so that this file passes its own check.
UNDONE = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"]) + r")\b")

# Split here for the same reason. A comment's mark may stand between the two.
TWO_WORDS = re.compile(r"\b[cC]" r"an\s+(?:(?://[/!]?|\*|#)\s*)?not\b")
# The headers as older callers have them, never changed.
OLDER = "tests/abi/older/"

# What the core must not do, with what to do instead.
CORE_BANNED = {
    r"\bgetenv\b": "only the C layer reads the environment",
    r"#include <iostream>|\b(printf|puts|perror)\(": "the library prints nothing",
    r"#include <(format|ranges)>": "not in every supported compiler",
    r"\bthread_local\b.*\berror\b": "errors are returned, not kept by thread",
    r"#include <(cassert|assert\.h)>": "assertions are those of base/assert.h",
    r"CACHALOT_ASSERT\((?![12], |level)": "assertions have level 1 or 2",
    r"\bstd::(recursive_|shared_|timed_)*mutex\b(?! mutex_;)": "a Mutex has a rank (base/mutex.h)",
}


def listed_files(root):
    """Paths relative to root: what git knows or would add, else all that is there."""
    if os.path.isdir(os.path.join(root, ".git")):
        command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"]
        paths = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return sorted(p for p in set(paths.split("\n")) if os.path.isfile(os.path.join(root, p)))
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("build")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


class Tree:
    """The text files of a source tree, read once."""

    def __init__(self, root):
        self.root = root
        self.paths = [path for path in listed_files(root) if not path.startswith(COPIES)]
        self.texts = {}
        for path in self.paths:
            with open(os.path.join(root, path), "rb") as file:
                data = file.read()
            if b"\0" not in data[:4096] and not path.endswith((".gz", ".xz", ".pickle")):
                self.texts[path] = data.decode("utf-8", errors="replace")

    def of_kind(self, kinds):
        return [(p, t) for p, t in self.texts.items() if (p.endswith(kinds) or is_script(p, t)) and VENDOR not in p]


def is_script(path, text):
    return text.startswith("#!") or os.path.basename(path) == "CMakeLists.txt"


def in_folder(path, folder):
    return path.startswith(folder + "/")


def quoted_includes(text):
    return re.findall(r'^\s*#\s*include\s*["<]([^">]+/[^">]+|[^">]+\.h)[">]', text, re.MULTILINE)


def check_layers(tree):
    """Lower layers of the core do not include higher ones, and none includes the C header."""
    for path, text in tree.of_kind(CODE):
        for layer, allowed in LAYERS.items():
            if not in_folder(path, layer):
                continue
            for include in quoted_includes(text):
                first = include.split("/")[0]
                if first in ("base", "device", "alloc", "replay", "cachalot") and first not in allowed:
                    yield f"{path}: {layer} must not include {include}"


def check_alloc(tree):
    """Inside core/alloc lower folders do not include higher ones, and each folder has its place in the order."""
    for path, text in tree.of_kind(CODE):
        if not in_folder(path, "core/alloc") or path.count("/") == 2:
            continue
        folder = path.split("/")[2]
        if folder not in ALLOC_FOLDERS:
            yield f"{path}: core/alloc/{folder} has no place in ALLOC_FOLDERS"
            continue
        below = ALLOC_FOLDERS[:ALLOC_FOLDERS.index(folder) + 1]
        for include in quoted_includes(text):
            parts = include.split("/")
            if parts[0] == "alloc" and (len(parts) == 2 or parts[1] not in below):
                yield f"{path}: core/alloc/{folder} must not include {include}"


def check_clients(tree):
    """Tools, bindings and examples see the public header and their own files only."""
    for path, text in tree.of_kind(CODE):
        if not any(in_folder(path, folder) for folder in CLIENTS) or path.startswith(NO_CLIENTS):
            continue
        for include in quoted_includes(text):
            if include.split("/")[0] in ("base", "device", "alloc", "replay", "src", "core"):
                yield f"{path}: a client of the C interface must not include {include}"
            if include.startswith("..") and re.search(r"/(core|src)/", include):
                yield f"{path}: a client of the C interface must not include {include}"


def check_length(tree):
    """No file written by hand has 1,000 lines or more."""
    for path, text in tree.of_kind(CODE + BUILD + (".md",)):
        lines = text.count("\n")
        if lines >= LINES_LIMIT and "generated by" not in text[:500].lower():
            yield f"{path}: {lines} lines; split it"


def check_licence(tree):
    """Every source file names its licence in its first lines."""
    for path, text in tree.of_kind(CODE + BUILD):
        if "SPDX-License-Identifier: MIT OR Apache-2.0" not in "\n".join(text.split("\n")[:3]):
            yield f"{path}: its first lines lack the SPDX line"


def check_words(tree):
    """Nothing says that it is unfinished; open points are issues."""
    for path, text in tree.texts.items():
        for number, line in enumerate(text.split("\n"), 1):
            found = UNDONE.search(line)
            if found and not path.startswith("LICENSE"):
                yield f"{path}:{number}: {found.group(1)}; open an issue instead"


def check_spelling(tree):
    """One word where two mean another thing, also over the end of a line."""
    for path, text in tree.texts.items():
        for found in TWO_WORDS.finditer(text):
            if not path.startswith(OLDER):
                number = text.count("\n", 0, found.start()) + 1
                yield f"{path}:{number}: it is one word, cannot"


def check_core(tree):
    """The core keeps away from what only outer layers may do."""
    for path, text in tree.of_kind(CODE):
        if not in_folder(path, "core"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, reason in CORE_BANNED.items():
                if re.search(pattern, line):
                    yield f"{path}:{number}: {line.strip()}: {reason}"


def heading_anchors(text):
    """The anchors that a page of Markdown offers, made as GitHub makes them."""
    headings = re.findall(r"^#+\s+(.+?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.replace("`", "").lower()).replace(" ", "-") for h in headings}


def check_links(tree):
    """Links inside the documentation lead somewhere."""
    for path, text in tree.texts.items():
        if not path.endswith(".md"):
            continue
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(os.path.join(tree.root, file)):
                yield f"{path}: the link {target} leads nowhere"
            elif anchor and anchor not in heading_anchors(tree.texts.get(file, "")):
                yield f"{path}: the link {target} names no heading"


def check_folders(tree):
    """tests/README.md says of each folder of tests what it proves."""
    linked = {target.split("/")[0] for target in re.findall(r"\]\(([\w/]+)\)", tree.texts[FOLDERS])}
    folders = {path.split("/")[1] for path in tree.paths if re.match(r"tests/[^/]+/", path)}
    for folder in sorted(folders - linked):
        yield f"{FOLDERS}: has no line for tests/{folder}"


def check_parts(tree):
    """tests/README.md says of each part of the long stage what it does."""
    parts = re.search(r'^all="(.*)"$', tree.texts[LONG_STAGE], re.MULTILINE)[1].split()
    described = re.findall(r"^\| `(\w+)` \|", tree.texts[FOLDERS].partition("## The long stage")[2], re.MULTILINE)
    for part in sorted(set(parts) ^ set(described)):
        yield f"{FOLDERS}: {part} is a part of {LONG_STAGE} or has a line in the table, not both"


def check_hardening(tree):
    """Packages compile the amalgamation with the flags of hardening.txt that they can have."""
    table = tree.texts["capi/cmake/hardening.txt"]
    for path, (written, needed) in FLAGS.items():
        flags = " ".join(re.findall(written, tree.texts[path], re.MULTILINE)).split()
        for flag in re.findall(needed, table, re.MULTILINE):
            if flag not in flags:
                yield f"{path}: it lacks {flag} of capi/cmake/hardening.txt"


def joined_lines(text):
    """Each with its number; one that goes on in the next ends in a backslash."""
    number = 1
    for line in re.split(r"(?<!\\)\n", text):
        yield number, line
        number += line.count("\n") + 1


def check_downloads(tree):
    """What is fetched from PyPI or crates.io is what it was when it was written down."""
    for path, text in tree.texts.items():
        for number, line in joined_lines(text):
            if os.path.basename(path) == "requirements.txt" and re.match(r"[A-Za-z]", line):
                if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line, re.DOTALL):
                    yield f"{path}:{number}: has no version or no hash"
            elif path.startswith(FIRST_BLOCKS):
                continue
            elif path.endswith((".sh", ".py")) and path != TIDY and not line.lstrip().startswith("#"):
                if re.search(r"\bpip3? (install|download)\b(?!.*(--require-hashes|--no-index))", line, re.DOTALL):
                    yield f"{path}:{number}: fetches without --require-hashes"
                if re.search(CARGO, line) and "--locked" not in line:
                    yield f"{path}:{number}: Cargo chooses the versions without --locked"


def check_vendor(tree):
    """Other people's files are those whose hashes were written down, with their licence beside them."""
    for folder in sorted({path.split(VENDOR)[0] + VENDOR for path in tree.paths if VENDOR in path}):
        sums = folder + "SHA256SUMS"
        expected = dict(line.split()[::-1] for line in tree.texts.get(sums, "").splitlines())
        files = {path for path in tree.paths if path.startswith(folder)} - {sums, folder + "README.md"}
        for path in sorted(files):
            with open(os.path.join(tree.root, path), "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != expected.get(path.removeprefix(folder)):
                    yield f"{path}: is not what {sums} says"
            if os.path.dirname(path) + "/LICENSE" not in files:
                yield f"{path}: has no LICENSE beside it"


def check_places(tree):
    """Scripts take nothing from a place that others choose: a known name in /tmp, or the current folder."""
    for path, text in tree.of_kind(BUILD):
        for number, line in enumerate(text.split("\n"), 1):
            if path == TIDY or line.lstrip().startswith("#"):
                continue
            if "/tmp/" in line:
                yield f"{path}:{number}: others can make /tmp/NAME first; mktemp makes a new one"
            if re.search(r"\b(\w+PATH)=\S*((?<!\+):\$\{?\1\b|\$\{?\1\b\}?:(?!\+))", line):
                yield f"{path}:{number}: an unset variable leaves an empty element, the current folder"


def check_whitespace(tree):
    """Text ends in one line break and no line in a blank; tabs are for Makefiles."""
    for path, text in tree.of_kind(CODE + BUILD + (".md",)):
        if not text.endswith("\n") or text.endswith("\n\n"):
            yield f"{path}: does not end in exactly one line break"
        has_tabs = path.endswith((".go", ".md")) or text.startswith("#!/usr/bin/make")
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield f"{path}:{number}: ends in a blank"
            if "\t" in line and not has_tabs:
                yield f"{path}:{number}: has a tab"


CHECKS = [check_layers, check_alloc, check_clients, check_version, check_length, check_licence,
          check_words, check_spelling, check_core, check_links, check_folders, check_parts, check_hardening,
          check_downloads, check_vendor, check_places, check_whitespace, check_citations, check_picture]


def findings(root):
    tree = Tree(root)
    return [f"{check.__name__[6:]}: {finding}" for check in CHECKS for finding in check(tree)]


SPDX = "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
SHELL = "#!/bin/sh\n# SPDX-License-Identifier: MIT OR Apache-2.0\n"
HASH = "--hash=sha256:" + "0" * 64


def sums_of(files):
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n" for path, text in files.items())


VENDORED = "a()\t\n\n"
CLEAN = {
    "README.md": "# Title here\nSee [the docs](docs/a.md) and [a part](docs/a.md#part-one-of-2).\n",
    "docs/a.md": "# A\n## Part one, of `2`\n[up](../README.md) [away](https://example.org)\n",
    "core/device/a.h": SPDX + '#include "base/units.h"\n',
    "core/base/drawn.h": SPDX,
    "core/device/drawn.h": SPDX + '#include "base/drawn.h"\n',
    "capi/cmake/hardening.txt": "compile any -fguarded\ncompile x86_64 -fmarked\nlink any -Wl,-z,now\n",
    FOLDERS: "| [core](core) | parts |\n| `a` |\n## The long stage\n| `b` | seeds |\n| `c` | faults |\n",
    LONG_STAGE: "#!/bin/sh\n# SPDX-License-Identifier: MIT OR Apache-2.0\nall=\"b c\"\n",
    "tests/core/a_test.cpp": SPDX,
    "tests/requirements.txt": f"# Of PyPI\na-b==1 \\\n  {HASH} \\\n  {HASH}\nc==2 {HASH}\n",
    "tests/fetch.sh": SHELL + "pip install \\\n  --require-hashes -r a\npip install --no-index a\ncargo build --locked\n"
                      'export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n',
    GO_FLAGS: SPDX + "// #cgo CPPFLAGS: -fguarded\n// #cgo LDFLAGS: -Wl,-z,now\n",
    RUST_FLAGS: SPDX + 'const FLAGS: &[&str] = &["-fguarded", "-fmarked"];\n',
    "capi/cli/page/vendor/a/a.js": VENDORED,
    "capi/cli/page/vendor/a/LICENSE": "MIT\n",
    "capi/cli/page/vendor/README.md": "# Libraries\n",
    "capi/cli/page/vendor/SHA256SUMS": sums_of({"a/a.js": VENDORED, "a/LICENSE": "MIT\n", "b/b.js": "b()"}),
    "bindings/go/internal/raw/cachalot.h": '#include "base/units.h"\n',
    "examples/c/a.c": SPDX + '#include "cachalot/cachalot.h"\n',
    **citations.CITED,
    **versions.PLACED,
}
CLEAN[include_graph.PAGE] = include_graph.BEGIN + include_graph.mermaid(CLEAN) + include_graph.END
FAULTS = [
    ("layers", "core/device/b.h", SPDX + '#include "alloc/heap/block.h"\n'),
    ("layers", "core/base/b.h", SPDX + '#include "cachalot/status.h"\n'),
    ("alloc", "core/alloc/heap/b.h", SPDX + '#include "alloc/native/device_allocator.h"\n'),
    ("alloc", "core/alloc/native/b.h", SPDX + '#include "alloc/allocator.h"\n'),
    ("alloc", "core/alloc/elsewhere/b.h", SPDX + "int a;\n"),
    ("clients", "capi/cli/b.cpp", SPDX + '#include "base/units.h"\n'),
    ("clients", "examples/c/b.c", SPDX + '#include "../../core/base/units.h"\n'),
    ("version", "core/base/b.cpp", SPDX + 'const char* version = "7.8.9";\n'),
    ("length", "core/base/b.cpp", SPDX + "int a;\n" * LINES_LIMIT),
    ("licence", "core/base/b.cpp", "int a;\n"),
    ("licence", "tests/b", "#!/bin/sh\n"),
    ("words", "docs/b.md", "This is a TO" "DO.\n"),
    ("spelling", "docs/b.md", "This c" "an not be.\n"),
    ("spelling", "core/base/b.cpp", SPDX + "// This c" "an\n// not be.\n"),
    ("core", "core/base/b.cpp", SPDX + 'auto home = std::getenv("HOME");\n'),
    ("core", "core/base/b.cpp", SPDX + "#include <cassert>\n"),
    ("core", "core/base/b.cpp", SPDX + "  CACHALOT_ASSERT(3, false);\n"),
    ("core", "core/base/b.cpp", SPDX + "std::mutex lock_;\n"),
    ("links", "docs/b.md", "[gone](gone.md)\n"),
    ("links", "docs/b.md", "[gone](a.md#gone)\n"),
    ("folders", FOLDERS, "| [a part](core/a_test.cpp) |\n## The long stage\n| `b` |\n| `c` |\n"),
    ("parts", FOLDERS, "| [core](core) |\n| `c` |\n## The long stage\n| `b` |\n"),
    ("parts", FOLDERS, "| [core](core) |\n## The long stage\n| `b` |\n| `c` |\n| `d` |\n"),
    ("hardening", GO_FLAGS, SPDX + "// -fguarded\n// #cgo LDFLAGS: -Wl,-z,now\n"),
    ("hardening", RUST_FLAGS, SPDX + 'const FLAGS: &[&str] = &["-fguarded"]; // -fmarked\n'),
    ("downloads", "docs/requirements.txt", f"a==1 {HASH}\nb==1\n"),
    ("downloads", "docs/requirements.txt", f"a==1 \\\n  {HASH}\nb>=1 {HASH}\n"),
    ("downloads", "docs/fetch.sh", SHELL + "python3 -m pip install -q a==1\n"),
    ("downloads", "docs/fetch.sh", SHELL + "pip download \\\n  -r requirements.txt\n"),
    ("downloads", "docs/fetch.sh", SHELL + '"$cargo" build --release\n'),
    ("vendor", "capi/cli/page/vendor/a/a.js", "b()"),
    ("vendor", "capi/cli/page/vendor/a/b.js", "b()"),
    ("vendor", "capi/cli/page/vendor/b/b.js", "b()"),
    ("length", "capi/cli/page/b.js", SPDX + "b();\n" * LINES_LIMIT),
    ("licence", "capi/cli/page/b.js", "b();\n"),
    ("places", "docs/b.sh", SHELL + "exec >/tmp/name.log\n"),
    ("places", "docs/b.sh", SHELL + 'LD_LIBRARY_PATH="$folder:$LD_LIBRARY_PATH" run\n'),
    ("places", "docs/b.sh", SHELL + "export PYTHONPATH=${PYTHONPATH}:$folder\n"),
    ("whitespace", "docs/b.md", "text \n"),
    ("whitespace", "docs/b.md", "text"),
    ("picture", include_graph.PAGE, include_graph.BEGIN + include_graph.mermaid({}) + include_graph.END),
    ("picture", include_graph.PAGE, "# No picture\n"),
    *citations.FAULTS,
    *versions.FAULTS,
]


def write_tree(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def findings_of(files):
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, files)
        return findings(root)


def self_test():
    """Returns what went wrong: a finding in a clean tree, or a planted fault that was not found."""
    wrong = [f"the clean tree has a finding: {f}" for f in findings_of(CLEAN)]
    for check, path, text in FAULTS:
        found = findings_of({**CLEAN, path: text})
        if len(found) != 1 or not found[0].startswith(f"{check}: {path}"):
            wrong.append(f"planted a fault for {check} in {path}, found {found}")
    tested = {f"check_{check}" for check, _, _ in FAULTS}
    return wrong + [f"{c.__name__} has no test" for c in CHECKS if c.__name__ not in tested]


def main(arguments):
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-") and arguments[0] != "--self-test"):
        print(__doc__, file=sys.stderr)
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    root = arguments[0] if arguments else os.path.join(here, "..", "..")
    wrong = self_test() if arguments == ["--self-test"] else findings(os.path.normpath(root))
    print("\n".join(wrong) if wrong else "tidy: clean")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
