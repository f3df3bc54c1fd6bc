# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the data of a page of `cachalot report` as docs/report.md describes it, and what it tells of a moment."""
import base64
import gzip
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

NEVER = 1 << 62


class Elements(HTMLParser):
    """The scripts of a page by their type, and the names of all its elements."""

    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.scripts = []  # (attributes, text)
        self.names = []
        self.attributes = []
        self.errors = []
        self.script = None

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.script = (dict(attrs), [])

    def handle_data(self, data):
        if self.script:
            self.script[1].append(data)

    def handle_endtag(self, tag):
        if tag == "script":
            self.scripts.append((self.script[0], "".join(self.script[1])))
            self.script = None


def numbers(data):
    """7 bits a byte, the lowest first; the high bit says that more follow."""
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0


def signed(number):
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


@dataclass
class Block:
    kind: tuple  # owner, requested, size, context
    begin: int
    address: int
    freed: int
    completed: int


@dataclass
class Range:
    owner: int
    expandable: int
    begin: int
    address: int
    size: int
    end: int


@dataclass
class Sums:
    requested: int = 0
    live: int = 0
    pending: int = 0
    reserved: int = 0
    blocks: int = 0


@dataclass
class Run:
    facts: dict
    blocks: list = field(default_factory=list)
    ranges: list = field(default_factory=list)
    times: list = field(default_factory=list)

    def sums(self, moment):
        sums = Sums()
        for block in self.blocks:
            if not block.begin <= moment < block.completed:
                continue
            _, requested, size, _ = block.kind
            sums.requested += requested
            if moment < block.freed:
                sums.live += size
                sums.blocks += 1
            else:
                sums.pending += size
        sums.reserved = sum(r.size for r in self.ranges if r.begin <= moment < r.end)
        return sums


def read_run(facts, packed):
    data = gzip.decompress(base64.b64decode(packed, validate=True))
    columns, at = {}, 0
    for name, size in facts["columns"]:
        columns[name] = list(numbers(data[at:at + size]))
        at += size
    assert at == len(data), f"{len(data) - at} bytes are in no column"
    run = Run(facts)
    kinds = list(zip(columns["kind_owner"], columns["kind_requested"], columns["kind_size"], columns["kind_context"],
                     strict=True))
    last, event = [0] * len(kinds), 0
    for kind, begin, address, freed, completed in zip(*(columns[f"block_{name}"] for name in (
            "kind", "begin", "address", "freed", "completed")), strict=True):
        event += begin
        last[kind] += signed(address)
        freed = event + freed - 1 if freed else NEVER
        run.blocks.append(Block(kinds[kind], event, last[kind], freed, freed + completed - 1 if completed else NEVER))
    event = address = 0
    for owner, expandable, begin, step, size, end in zip(*(columns[f"range_{name}"] for name in (
            "owner", "expandable", "begin", "address", "size", "end")), strict=True):
        event += begin
        address += signed(step)
        run.ranges.append(Range(owner, expandable, event, address, size, event + end - 1 if end else NEVER))
    time = 0
    for step in columns.get("event_time", []):
        time += signed(step)
        run.times.append(time)
    return run


def read_page(text):
    """(the page's elements, its document, its runs)."""
    elements = Elements()
    elements.feed(text)
    elements.close()
    by_id = {attributes.get("id"): content for attributes, content in elements.scripts}
    document = json.loads(by_id["document"])
    runs = [read_run(facts, by_id[f"columns-{i}"]) for i, facts in enumerate(document["runs"])]
    return elements, document, runs
