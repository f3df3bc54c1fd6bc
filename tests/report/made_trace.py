# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recordings of programs that never ran, from a seed: several devices, streams and pools, stacks, late frees, and texts
that mean something to HTML."""
import json
import random

HOSTILE = '</script><img src=x onerror="document.title=\'run\'">&amp;<!--'
MIB = 1 << 20


class Program:
    def __init__(self, seed, events, devices=1, pools=True):
        self.random = random.Random(seed)
        self.lines = []
        self.live = []
        self.waiting = []
        self.time = 1_700_000_000_000_000
        self.address = 0x10000000
        self.devices = devices
        self.pools = ["", "", "", "1:0", "0:7"] if pools else [""]
        self.contexts = [0, 1, 2, 3, 4, 5]
        while len(self.lines) < events:
            self.step()
        del self.lines[events:]

    def step(self):
        self.time += self.random.choice([0, 3, 17, 2500])
        draw = self.random.random()
        if self.waiting and draw < 0.2:
            self.complete(self.waiting.pop(0))
        elif self.live and draw < 0.48:
            self.free(self.live.pop(self.random.randrange(len(self.live))))
        else:
            self.request()

    def line(self, action, block, rest=""):
        address, size, stream, device, pool = block
        self.lines.append(f"{action},{address:x},{size},{stream:x},{device},{pool},{self.time}{rest}")

    def request(self):
        size = self.random.choice([40, 512, 3000, 200_000, MIB, 3 * MIB, 5 * MIB + 1, 24 * MIB])
        block = (self.address, size, self.random.choice([0, 0xa0, 0xb0]), self.random.randrange(self.devices),
                 self.random.choice(self.pools))
        self.address += 32 * MIB
        context = self.random.choice(self.contexts)
        self.line("a", block, f",{context:x},{self.random.randrange(1000, 900_000)},s,77")
        self.live.append(block)

    # Most frees are over at once; of the others another stream still uses the block.
    def free(self, block):
        if self.random.random() < 0.85:
            self.line("q", block)
            self.line("c", block)
        else:
            self.line("q", block, f",0,,,77,{0xc0:x}")
            self.waiting.append(block)

    def complete(self, block):
        self.line("c", block)


def header(**keys):
    return "# " + json.dumps({"format": 2, "command": "server " + HOSTILE, "workload": HOSTILE, "recorder": HOSTILE, "pid": 77, "start_us": 1_700_000_000_000_000,
                              "torch": "2.11.0", "device_total": 8 << 30, **keys}) + "\n"


def modules():
    """Contexts 1 to 5 are stacks of calls in a program whose name is hostile too; none of them is a file."""
    lines = [f"# module 400000 500000 0 /nowhere/{HOSTILE.replace('/', '|')}", "# module 500000 600000 0 /nowhere/libmodel.so"]
    for context in range(1, 6):
        frames = ";".join(f"{0x500000 + 16 * (context % 3) + 256 * depth:x}" for depth in range(3))
        lines.append(f"# stack {context:x} {frames};400010")
    return "\n".join(lines) + "\n"


def labels():
    """Contexts 1 to 5 as labels, some of which lie in others."""
    texts = ["model-a/weights", "model-a/kv-cache", "model-b/weights", HOSTILE, "model-b"]
    return "".join(f"# label {context:x} {text}\n" for context, text in enumerate(texts, 1))


def trace(seed, events=2000, devices=1, pools=True, contexts=modules, **keys):
    return header(**keys) + contexts() + "\n".join(Program(seed, events, devices, pools).lines) + "\n"
