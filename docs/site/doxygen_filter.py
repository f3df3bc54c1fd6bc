#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints a public header with its comments where Doxygen looks for them.

    doxygen_filter.py HEADER
"""

import pathlib
import re
import sys

# A definition with a comment behind it, maybe over several lines.
TRAILING = re.compile(r"^(#define \w+ (?:\\\n +)?[^\n/\\]+?)/\* (.*?)\*/", re.MULTILINE | re.DOTALL)

CONTINUED = re.compile(r"\s*\\\n\s*")

FUNCTION = re.compile(r"^CACHALOT_API [^;{]*?\b(cachalot_\w+)\([^;]*;\n", re.MULTILINE)

# What Doxygen takes as a name ends with its line.
NAME = re.compile(r"@name .*?(?=\*/|\n \* @|\n \*\n|\Z)", re.DOTALL)

FILE_TEXT = re.compile(r"/\*\*\n \* @file .*?\*/", re.DOTALL)

PAGE = re.compile(r"(@name .*)|\bdocs/([\w/-]+)\.md\b")


def with_trailing_texts(text):
    return TRAILING.sub(lambda found: CONTINUED.sub(" ", f"{found[1]}/**< {found[2]}*/"), text)


def with_shared_texts(text):
    """Functions right below each other share the text of the first."""
    parts, end, first = [], 0, None
    for function in FUNCTION.finditer(text):
        parts.append(text[end:function.start()])
        if function.start() == end:
            parts.append(f"/** @copydoc {first} */\n")
        else:
            first = function[1]
        parts.append(function[0])
        end = function.end()
    return "".join(parts) + text[end:]


def with_long_names(text):
    return NAME.sub(lambda found: re.sub(r"\s*\n \* ", " ", found[0]), text)


def with_front_page(text):
    """What the header of all headers says is the front page, too."""
    front = "@mainpage The C API\n * Part of the [documentation of cachalot](../../).\n *"
    return text + re.sub(r"@file .*", front, FILE_TEXT.search(text)[0]) + "\n"


def with_links(text):
    """To the pages of docs, from where the API lies in the site; a name can have none."""
    return PAGE.sub(lambda found: found[1] or f"[docs/{found[2]}.md](../../{found[2]}/)", text)


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text()
    if path.suffix == ".h":
        text = with_long_names(with_shared_texts(with_trailing_texts(text)))
    if path.name == "cachalot.h":
        text = with_front_page(text)
    sys.stdout.write(with_links(text))


if __name__ == "__main__":
    main()
