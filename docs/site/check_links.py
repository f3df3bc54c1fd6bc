#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks whether links and pictures of the built site lead to files of it, and to an element where they name one.

    check_links.py SITE [whole]   whole: the references of all languages have to be there, too
"""

import html.parser
import pathlib
import sys
import urllib.parse

# Doxygen, rustdoc and Javadoc check theirs themselves.
REFERENCES = "api"
LANGUAGES = ("api/rust", "api/java", "api/go")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value and tag != "link":
                self.links.append(value)


def faults(site, whole):
    pages = {path: Page(path) for path in site.rglob("*.html") if path.relative_to(site).parts[0] != REFERENCES}
    count = 0
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are those of the address of the site
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            if target.is_dir():
                target /= "index.html"
            name = target.relative_to(site).as_posix()
            if name.startswith(LANGUAGES) and not whole:
                continue
            where = path.relative_to(site)
            if not target.is_file():
                yield f"{where}: the link {link} leads nowhere"
            elif url.fragment and target in pages and urllib.parse.unquote(url.fragment) not in pages[target].ids:
                yield f"{where}: the link {link} names no element"
    if count < 1000:
        yield f"only {count} links in {len(pages)} pages"


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(faults(pathlib.Path(sys.argv[1]).resolve(), "whole" in sys.argv[2:]))
    print("\n".join(found) or "All links of the site lead somewhere.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
