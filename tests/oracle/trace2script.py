#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Turns a recorded PyTorch event list into an operation script for the oracle.

Usage: trace2script.py TRACE.csv.xz ["OPTION STRING"] [FRACTION] [--free]
The list is CSV, plain or xz: action,addr,size,stream; its first line is a JSON comment.

The script gives the recorded segment addresses to the device, in order, so that under the recorded
options every event and statistic is the recording's own; use --free with other options or another
release (segments come in another order then, and recorded addresses would overlap): the simulated
device chooses. The recordings begin after one tensor of 4 bytes was made on stream 0 and freed, and
the cache emptied: so does the script. Frees that PyTorch completed later than they were requested
(a block in use on another stream) become a record of that block on a made-up stream, one piece of
whose work finishes where the free completed. Segment frees become an emptying of the cache, unless
the recording's statistics tell of retries (then the allocator does them itself).
"""

import argparse
import json
import lzma
import sys
from collections import namedtuple

Event = namedtuple("Event", "action address size stream")

FIRST_MADE_UP_STREAM = 0xF000000
STREAM_STEP = 0x1000


def read_trace(path):
    """The header and the events of a recording."""
    with lzma.open(path, "rt") if path.endswith(".xz") else open(path) as lines:
        header = json.loads(next(lines)[2:])
        return header, [Event(*line.rstrip("\n").split(",")) for line in lines]


def segment_addresses(events, device_total):
    """The addresses of segments and of new reservations (9/8 of the device), in order."""
    span = device_total * 9 // 8
    given, reservations = [], []
    for event in events:
        address = int(event.address, 16)
        if event.action == "S":
            given.append(event.address)
        elif event.action == "M" and not any(r <= address < r + span for r in reservations):
            reservations.append(address)
            given.append(event.address)
    return given


def late_frees(events):
    """The requested frees that the next event does not complete, and where they are completed."""
    open_at, completed = {}, {}
    for index, event in enumerate(events):
        if event.action == "q":
            following = events[index + 1] if index + 1 < len(events) else None
            if following is None or following[:2] != ("c", event.address):
                open_at[event.address] = index
                completed[index] = len(events)
        elif event.action == "c" and event.address in open_at:
            completed[open_at.pop(event.address)] = index
    return completed


def made_up_streams(completed):
    """Gives each late free a stream on which work finishes in the order in which it was queued."""
    last_completion, streams = [], {}
    for index in sorted(completed):
        done = completed[index]
        fitting = (k for k, last in enumerate(last_completion) if last < done)
        k = next(fitting, len(last_completion))
        last_completion[k : k + 1] = [done]
        streams[index] = FIRST_MADE_UP_STREAM + STREAM_STEP * k
    return streams


def operations(events, has_retries):
    """The script's lines for the events."""
    streams = made_up_streams(late_frees(events))
    live, waiting = {}, {}
    last_id, emptied = 0, False
    for index, event in enumerate(events):
        if event.action in "FU" and not has_retries:
            if not emptied:
                yield "empty"
            emptied = True
            continue
        # Frees that complete while the cache is emptied lie between its segment frees.
        if event.action != "c":
            emptied = False
        if event.action == "a":
            last_id += 1
            live[event.address] = last_id
            yield f"a {last_id} {event.size} 0x{event.stream}"
        elif event.action == "q" and event.address in live:
            block = live.pop(event.address)
            if index in streams:
                stream = waiting[event.address] = streams[index]
                yield f"work {stream:#x}"
                yield f"r {block} {stream:#x}"
            yield f"f {block}"
        elif event.action == "c" and event.address in waiting:
            yield f"step {waiting.pop(event.address):#x}"


def script(path, config="", fraction=None, free=False):
    """The whole script, line by line."""
    header, events = read_trace(path)
    yield f"config {config}"
    yield f"device {header['device_total']} 1"
    if fraction:
        yield f"fraction {fraction}"
    yield from ("a 0 4 0x0", "f 0", "empty")
    given = [] if free else segment_addresses(events, header["device_total"])
    if given:
        yield "addresses " + " ".join(given)
    retries = header.get("stats", {}).get("num_alloc_retries", 0)
    yield from operations(events, retries > 0)
    yield "stats"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", metavar="TRACE")
    parser.add_argument("config", nargs="?", default="")
    parser.add_argument("fraction", nargs="?")
    parser.add_argument("--free", action="store_true")
    for line in script(**vars(parser.parse_args())):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
