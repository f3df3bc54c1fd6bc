#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws which folders of core and capi include which: the picture of docs/architecture.md, for Mermaid.

    include_graph.py        writes the picture anew, from the includes
    include_graph.py --dot  prints it for graphviz instead, to be looked at without a browser

tidy.py fails where the picture is not what the includes say.
"""

import os
import pathlib
import re
import sys

PAGE = "docs/architecture.md"
BEGIN = "<!-- By tests/tidy/include_graph.py, from the includes: begin -->\n"
END = "<!-- end -->\n"
ALLOC = "core/alloc"


def folder_of(path):
    """The folder that stands for a file in the picture; None: it is not drawn."""
    parts = path.split("/")
    if not path.startswith(("core/", "capi/")) or len(parts) < 3:
        return None
    inside_alloc = path.startswith(ALLOC + "/") and len(parts) > 3
    return "/".join(parts[:3 if inside_alloc else 2])


def included_path(path, include, paths):
    candidates = ["core/" + include, "capi/include/" + include, os.path.dirname(path) + "/" + include]
    return next((candidate for candidate in candidates if candidate in paths), None)


def folders_below(texts):
    """Folder -> the folders that its files include."""
    below = {}
    for path, text in texts.items():
        folder = folder_of(path)
        if not folder or not path.endswith((".h", ".c", ".cpp")):
            continue
        found = below.setdefault(folder, set())
        for include in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE):
            other = included_path(path, include, texts)
            if other and folder_of(other) not in (None, folder):
                found.add(folder_of(other))
    return below


def reached(below, folder, without):
    """What a folder reaches over other folders than this one."""
    seen = set()
    waiting = [other for other in below[folder] if other != without]
    while waiting:
        other = waiting.pop()
        if other not in seen:
            seen.add(other)
            waiting += below.get(other, ())
    return seen


def arrows(texts):
    """Pairs of folders, without those that follow from others: all of them would be a hundred lines."""
    below = folders_below(texts)
    return [(folder, other) for folder in sorted(below) for other in sorted(below[folder])
            if other not in reached(below, folder, other)]


def name_of(folder):
    return folder.replace("/", "_")


def mermaid(texts):
    pairs = arrows(texts)
    lines = ["```mermaid", "flowchart TD"]
    drawn = sorted({folder for pair in pairs for folder in pair})
    lines += [f'  {name_of(folder)}["{folder}"]' for folder in drawn if not folder.startswith(ALLOC)]
    lines += [f'  subgraph alloc ["{ALLOC}"]']
    lines += [f'    {name_of(folder)}["{label(folder)}"]' for folder in drawn if folder.startswith(ALLOC)]
    lines += ["  end"]
    lines += [f"  {name_of(folder)} --> {name_of(other)}" for folder, other in pairs]
    return "\n".join([*lines, "```", ""])


def label(folder):
    return "allocator, configuration" if folder == ALLOC else folder.removeprefix(ALLOC + "/")


def dot(texts):
    lines = ["digraph {", "  node [shape=box]", "  subgraph cluster_alloc {", f'    label="{ALLOC}"']
    pairs = arrows(texts)
    inside = sorted({folder for pair in pairs for folder in pair if folder.startswith(ALLOC)})
    lines += [f'    "{folder}" [label="{label(folder)}"]' for folder in inside]
    lines += ["  }"]
    lines += [f'  "{folder}" -> "{other}"' for folder, other in pairs]
    return "\n".join([*lines, "}", ""])


def with_picture(page, texts):
    """The page with the picture between the two marks; as it is where there are no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + mermaid(texts) + end + after if end else page


def check_picture(tree):
    """The picture of docs/architecture.md is what the includes say."""
    page = tree.texts.get(PAGE, "")
    if BEGIN not in page or END not in page:
        yield f"{PAGE}: the picture of the includes is missing"
    elif with_picture(page, tree.texts) != page:
        yield f"{PAGE}: the picture is not what the includes say: tests/tidy/include_graph.py writes it anew"


def read_texts(root):
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for folder in ("core", "capi") for path in sorted((root / folder).rglob("*")) if path.is_file()}


def main(arguments):
    if arguments not in ([], ["--dot"]):
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    texts = read_texts(root)
    if arguments:
        print(dot(texts), end="")
        return 0
    page = root / PAGE
    page.write_text(with_picture(page.read_text(encoding="utf-8"), texts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
