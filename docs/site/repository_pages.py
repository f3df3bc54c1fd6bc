# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hooks of MkDocs: the pages of the repository become pages of the site, as GitHub shows them.

A page has its path in the repository, so links between pages hold as they are; links to other files of the repository
go to its address. Lists and headings are read as GitHub reads them.
"""

import os
import pathlib
import posixpath
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]

PAGES = ["*.md", "docs/*.md", "docs/site/*.md", "docs/behaviour/*.md", "bindings/*.md", "bindings/*/README.md",
         "bindings/*/*/README.md", "examples/*.md", "examples/servers/README.md", "tests/README.md",
         "tests/golden/README.md", "tests/oracle/*.md", "capi/packaging/*.md", "capi/packaging/*/README.md"]
PICTURES = ["docs/*.svg", "docs/*.png"]

FENCE = re.compile(r"^ *(```|~~~)")
ITEM = re.compile(r"^( *)(?:[-*]|\d+\.) +\S")
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
BLOCK = re.compile(r"^( *)<!-- first block: (\w+) -->$", re.MULTILINE)


def heading_id(text, separator):
    """As GitHub makes it, and tests/tidy checks it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def on_config(config):
    config.mdx_configs["toc"]["slugify"] = heading_id
    return config


def place(path):
    """Where a page lies in the site: docs/hosts.md is hosts/, bindings/rust/README.md is bindings/rust/."""
    stem = path.removeprefix("docs/site/").removeprefix("docs/").removesuffix(".md")
    if stem == "index":
        return "index.html"
    if stem == "README":
        return "contents/index.html" if path.startswith("docs/") else "readme/index.html"
    return stem.removesuffix("/README").lower() + "/index.html"


def on_files(files, config):
    for pattern in PAGES + PICTURES:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            file = File.generated(config, name, abs_src_path=str(path))
            if name.endswith(".md"):
                file.dest_uri = place(name)
            else:
                file.dest_uri = name.removeprefix("docs/")
            files.append(file)
    made = pathlib.Path(os.environ.get("CACHALOT_MADE_PAGES", os.devnull))
    for path in sorted(made.rglob("*.md")):
        files.append(File.generated(config, path.relative_to(made).as_posix(), abs_src_path=str(path)))
    return files


def outside_code(text, change):
    """Applies `change` to each piece of a line that is no code."""
    pieces, end = [], 0
    for code in CODE.finditer(text):
        pieces += [change(text[end:code.start()]), code[0]]
        end = code.end()
    return "".join(pieces) + change(text[end:])


def with_lists(lines):
    """A list may follow a line of text and be indented by two or three blanks, which Python-Markdown takes for text."""
    out, indents, in_fence = [], [], False  # indents: those of the items that the line is in
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        is_item = ITEM.match(line) and not in_fence
        if FENCE.match(line):
            in_fence = not in_fence
            indents = []
        elif is_item or (line.strip() and out and not out[-1].strip()):
            while indents and indents[-1] >= indent:
                indents.pop()
        if is_item:
            if not indents and out and out[-1].strip() and not ITEM.match(out[-1]):
                out.append("")
            out.append(" " * 4 * len(indents) + line.lstrip(" "))
            indents.append(indent)
        else:
            out.append(" " * 4 * len(indents) + line.lstrip(" ") if indents and line.strip() else line)
    return out


def with_links(line, page, config, files):
    def target(found):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), found[1]))
        anchor = found[2] or ""
        if files.get_file_from_path(path):
            return found[0]
        if files.get_file_from_path(path + "/README.md"):
            return f"]({found[1].rstrip('/')}/README.md{anchor})"
        if (ROOT / path).exists():
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            return f"]({config.repo_url}/{kind}/main/{path}{anchor})"
        return found[0]  # MkDocs complains

    return outside_code(line, lambda text: LINK.sub(target, text))


def first_block(found):
    """The README's program in this language, indented as its place is."""
    program = re.search(rf"^```{found[2]}\n.*?^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    if not program:
        raise PluginError(f"README.md has no program in {found[2]}")
    return "\n".join(found[1] + line if line else line for line in program[0].split("\n"))


def on_page_markdown(markdown, page, config, files):
    lines, in_fence = with_lists(BLOCK.sub(first_block, markdown).split("\n")), False
    for number, line in enumerate(lines):
        if FENCE.match(line):
            in_fence = not in_fence
        elif not in_fence:
            lines[number] = with_links(line, page, config, files)
    return "\n".join(lines)
