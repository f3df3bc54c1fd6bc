#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""One request sequence against servers in several languages, which have to behave alike.

    conformance.py IMAGES ANSWERS NAME=PROGRAM... [--write]

Each program is started, asked and stopped. IMAGES is what images.py wrote. ANSWERS has the expected answers, by
image; with --write it gets those of the first server. Exit status: 0 all is as expected, 1 something is not, 2 the call is wrong.
"""

import json
import pathlib
import struct
import sys
import threading
import time
import zlib

from load import read_images, send, sequence
from server import Failed, Server, wait_for

MiB = 1 << 20
SMALL = 100 * 1000  # pixels; small enough for hundreds of requests
WATERMARK = 64 * MiB

# What other machines may answer otherwise: the models' arithmetic depends on the processor.
PIXELS = 2
HUNDREDTHS = 3


def expect(condition, what):
    if not condition:
        raise Failed(what)


def similar(answer, expected):
    """The same text; places and scores as far as other processors may have them."""
    if [answer[key] for key in ("width", "height")] != [expected[key] for key in ("width", "height")]:
        return False
    return len(answer["boxes"]) == len(expected["boxes"]) and all(
        found["text"] == wanted["text"] and abs(found["score"] - wanted["score"]) <= HUNDREDTHS
        and all(abs(a - b) <= PIXELS for a, b in zip(found["box"], wanted["box"], strict=True))
        for found, wanted in zip(answer["boxes"], expected["boxes"], strict=True))


class Conformance:
    """What is known while servers are compared."""

    def __init__(self, images, words, answers):
        self.images = images
        self.words = words
        self.expected = answers
        self.first = None  # name, answers and statistics of the first server

    def small(self):
        return [name for name in self.images if self.pixels(name) <= SMALL]

    def largest(self):
        return max(self.images, key=self.pixels)

    @staticmethod
    def pixels(name):
        width, height = name.rsplit("_", 1)[1].removesuffix(".png").split("x")
        return int(width) * int(height)

    def infer(self, server, name):
        return server.client().infer(name, self.images[name])

    def send(self, server, names, concurrency):
        answers, errors = send(server.url, self.images, names, concurrency)
        expect(not errors, f"{len(errors)} requests had no answer: {errors[:3]}")
        return answers

    # ---- The parts, each a server of its own or a state that the one before left

    def one_after_the_other(self, server):
        """The same answers and, request by request, the same statistics."""
        names = sequence(self.images, 2 * len(self.images), seed=1)
        answers = {}
        for answer in self.send(server, names, 1):
            expect(answer.status == 200, f"{answer.name}: {answer.status} {answer.body}")
            expect(answers.setdefault(answer.name, answer.body) == answer.body,
                   f"{answer.name} has two answers: {answers[answer.name]} and {answer.body}")
        stats = server.stats()
        known = {"allocator": stats["allocator"], "tenants": stats["tenants"], "onnxruntime": stats["onnxruntime"],
                 "sessions": stats["server"]["sessions"], "served": stats["server"]["served"]}
        if self.expected is None:
            self.expected = answers
        for image, answer in answers.items():
            expect(sorted(box["text"] for box in answer["boxes"]) == sorted(self.words[image]),
                   f"{image} says {self.words[image]}, and the answer is {answer}")
            expect(similar(answer, self.expected[image]),
                   f"{image}: {answer}\nexpected: {self.expected[image]}")
        if self.first is None:
            self.first = (server.name, answers, known)
        first, first_answers, first_known = self.first
        expect(answers == first_answers, f"other answers than {first}: {differences(answers, first_answers)}")
        expect(known == first_known, f"other statistics than {first}: {differences(known, first_known)}")
        self.check_sums(stats)

    def check_sums(self, stats):
        """Each byte is a tenant's, and each of the models has asked."""
        rows = stats["allocator"]
        tenants = {tenant["name"]: tenant for tenant in stats["tenants"]}
        expect(set(tenants) == {"default", "detection", "recognition"}, f"tenants: {list(tenants)}")
        for key, row in (("allocated_bytes", "allocated_bytes.all"), ("allocation", "allocation.all")):
            for kind in ("current", "allocated", "freed"):
                total = sum(tenant[key][kind] for tenant in tenants.values())
                expect(total == rows[f"{row}.{kind}"], f"tenants' {key} {kind}: {total}, {rows[f'{row}.{kind}']}")
        expect(tenants["default"]["allocation"]["allocated"] == 0, "requests without a tenant")
        requests = stats["onnxruntime"]["requests"]
        expect(rows["allocation.all.allocated"] == requests, f"{requests} requests of ORT's")
        expect(rows["allocation.all.current"] == stats["onnxruntime"]["live_blocks"], "live blocks")

    def hundreds_at_once(self, server):
        """The answers are those of one after the other, and nothing is left of them."""
        left = []
        for seed in (2, 3):
            names = sequence({name: None for name in self.small()}, 119, seed) + [self.largest()]
            for answer in self.send(server, names, 120):
                expect(answer.status == 200, f"{answer.name}: {answer.status} {answer.body}")
                expect(answer.body == self.first[1][answer.name], f"{answer.name}: another answer: {answer.body}")
            stats = server.stats()
            expect(stats["server"]["sessions"] == {"detection": 2, "recognition": 2},
                   f"sessions: {stats['server']['sessions']}")
            left.append((stats["onnxruntime"]["live_blocks"], stats["allocator"]["allocated_bytes.all.current"],
                         stats["allocator"]["requested_bytes.all.current"]))
        expect(left[0] == left[1], f"blocks, bytes and requested bytes are left: {left[0]}, then {left[1]}")

    def idle(self, server):
        """Memory goes back to the watermark, and from the process to the machine."""
        before = server.stats()
        reserved = before["allocator"]["reserved_bytes.all.current"]
        expect(reserved > WATERMARK + 32 * MiB, f"{reserved} bytes are reserved: too few to show anything")
        server.configure(idle_ms=300)
        wait_for("reserved bytes when idle", lambda: server.reserved() <= WATERMARK or server.reserved())
        after = server.stats()
        released = reserved - after["allocator"]["reserved_bytes.all.current"]
        sunk = before["server"]["rss_bytes"] - after["server"]["rss_bytes"]
        expect(sunk > released // 2, f"{released} bytes were released, and the process has {sunk} bytes less")
        status, body = server.client().json("POST", "/trim")
        expect(status == 200 and body["released_bytes"] >= 0, f"/trim: {status} {body}")
        status, again = server.client().json("POST", "/trim", {"keep_bytes": 0, "min_idle_ms": 0})
        expect((status, again["released_bytes"]) == (200, 0), f"/trim has {again} left")

    def exhaustion(self, server):
        """A request that does not fit is refused with a report, and others are served."""
        server.configure(idle_ms=60000)
        server.client().json("POST", "/trim")
        limit = server.reserved() + 24 * MiB
        config = server.configure(memory_limit_bytes=limit)
        expect(config["memory_limit_bytes"] == limit, f"the limit is {config['memory_limit_bytes']}")
        refused = self.infer(server, self.largest())
        expect(refused.status == 503, f"beyond the limit: {refused.status} {refused.body}")
        expect("out of memory. Tried to allocate" in refused.body["error"], refused.body["error"])
        expect("it fails" in refused.body["report"] and "held by" in refused.body["report"], refused.body["report"])
        evicted = sum(server.stats()["server"]["evicted"].values())
        expect(evicted > 0, "no idle session was closed first")
        smallest = min(self.images, key=self.pixels)
        served = self.infer(server, smallest)
        expect(served.status == 200 and served.body == self.first[1][smallest],
               f"a small one after it: {served.status} {served.body}")
        server.configure(memory_limit_bytes=None)
        served = self.infer(server, self.largest())
        expect(served.status == 200 and served.body == self.first[1][self.largest()],
               f"without the limit: {served.status} {served.body}")
        stats = server.stats()
        expect(stats["server"]["exhausted"] == 1, f"{stats['server']['exhausted']} requests were refused")
        expect(stats["onnxruntime"]["failures"] >= 2, "the request was not tried again")

    def crowd(self, server):
        """Requests of which each fits, but not all at once: none is refused."""
        name = self.largest()
        server.client().json("POST", "/trim")
        expect(self.infer(server, name).status == 200, f"{name} alone")
        # What that took, and a little room for small blocks.
        server.configure(memory_limit_bytes=server.reserved() + 4 * MiB)
        before = server.stats()
        for answer in self.send(server, [name] * 4, 4):
            expect(answer.status == 200, f"{answer.name} in a crowd: {answer.status} {answer.body}")
            expect(answer.body == self.first[1][name], f"{answer.name} in a crowd: {answer.body}")
        after = server.stats()
        expect(after["server"]["exhausted"] == before["server"]["exhausted"], "some were refused")
        expect(shortages(after) > shortages(before), "there was room for all")
        server.configure(memory_limit_bytes=None)

    def interface(self, server):
        """The rest of the interface, and what it refuses."""
        client = server.client()
        for method, path, body, wanted in (
                ("POST", "/infer", b"no image", 400), ("POST", "/infer", b"", 400), ("GET", "/infer", None, 405),
                ("GET", "/nothing", None, 404), ("POST", "/infer", b"\x89PNG\r\n\x1a\n" + bytes(40 * MiB), 413),
                ("POST", "/infer", empty_png(20000, 20000), 413), ("POST", "/infer", empty_png(20, 20), 400),
                ("POST", "/config", b"no object", 400), ("POST", "/config", b'{"other": 1}', 400),
                ("POST", "/config", b'{"idle_ms": -1}', 400), ("POST", "/config", b'{"config": "no:thing"}', 400),
                ("POST", "/config", b'{"watermark_bytes": null}', 400), ("POST", "/trim", b"[]", 400),
                ("POST", "/trim", b'{"keep_bytes": "x"}', 400), ("POST", "/trim", b'{"other": 1}', 400)):
            try:
                status, _, text = client.ask(method, path, body)
            except OSError:  # closed while it was still being sent to
                expect(wanted == 413, f"{method} {path}: no answer")
                client = server.client()
                continue
            expect(status == wanted, f"{method} {path} with {(body or b'')[:20]}: {status}, not {wanted}: {text[:200]}")
            if wanted == 400:
                expect(json.loads(text)["error"], f"{method} {path}: no error in {text[:200]}")
            if wanted == 413:
                client = server.client()
        status, headers, text = client.ask("GET", "/memory")
        expect(status == 200 and b"memory summary, device ID 0" in text, f"/memory: {status} {text[:200]}")
        expect(headers["Content-Type"] == "text/plain; charset=utf-8", f"/memory: {headers['Content-Type']}")
        status, headers, text = client.ask("GET", "/metrics")
        expect(status == 200 and b'cachalot_tenant_allocated_bytes{device="0",tenant="detection",' in text,
               f"/metrics: {status} {text[:200]}")
        expect(headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers["Content-Type"])
        config = server.configure(config="max_split_size_mb:64")
        expect(config["config"] == "max_split_size_mb:64" and config["settings"]["max_split_size"] == 64 * MiB,
               f"/config: {config}")
        status, read = client.json("GET", "/config")
        expect((status, read) == (200, config), f"/config: {read}, after {config}")
        served = self.infer(server, self.largest())
        expect(served.body == self.first[1][self.largest()], "another answer under another option")

    def other_allocators(self, server):
        """ORT's own memory gives the same answers; a server may leave it out, and says so."""
        smallest = min(self.images, key=self.pixels)
        for mode in ("arena", "arena-shrink", "none"):
            try:
                other = Server(server.name, server.command, SERVER_ALLOCATOR=mode)
            except Failed as failed:
                expect("SERVER_ALLOCATOR" in str(failed), f"{mode}: {failed}")
                continue
            try:
                answer = self.infer(other, smallest)
                expect((answer.status, answer.body) == (200, self.first[1][smallest]), f"{mode}: {answer}")
                expect(set(other.stats()) == {"server"} and other.stats()["server"]["mode"] == mode,
                       f"{mode}: {other.stats()}")
                status, body = other.client().json("GET", "/config")
                expect(status == 200 and set(body) == {"watermark_bytes", "idle_ms"}, f"{mode}: /config: {body}")
                for method, path, body, wanted in (("GET", "/memory", None, 404), ("GET", "/metrics", None, 404),
                                                   ("POST", "/config", b'{"memory_limit_bytes": 1}', 400)):
                    status = other.client().ask(method, path, body)[0]
                    expect(status == wanted, f"{mode}: {method} {path}: {status}, not {wanted}")
                self.expect_end(other)
            finally:
                other.kill()

    @staticmethod
    def expect_end(server):
        status, line = server.stop()
        expect((status, line) == (0, "closed, and nothing is left"), f"it ended with {status}: {line}")

    def end(self, server):
        """What was begun is answered; then nothing is left."""
        last = []
        asking = threading.Thread(target=lambda: last.append(self.infer(server, self.largest())))
        asking.start()
        time.sleep(0.3)  # it takes more than a second
        self.expect_end(server)
        asking.join()
        expect(last and last[0].body == self.first[1][self.largest()], f"the last request: {last}")

    def run(self, name, program):
        server = Server(name, [program], SERVER_SESSIONS=2, SERVER_WATERMARK=WATERMARK, SERVER_IDLE_MS=60000)
        try:
            for part in (self.one_after_the_other, self.hundreds_at_once, self.idle, self.exhaustion, self.crowd,
                         self.interface, self.other_allocators, self.end):
                begin = time.monotonic()
                part(server)
                text = part.__name__.replace("_", " ")
                print(f"{name}: {text}: {time.monotonic() - begin:.1f} s", flush=True)
        except Failed as failed:
            raise Failed(f"{name}: {failed}\n--- its output:\n{server.output()}") from None
        finally:
            server.kill()


def empty_png(width, height):
    """An image that says its size, and has no pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def shortages(stats):
    """How often there was no memory: runs that failed, and sessions that were closed for others."""
    return stats["onnxruntime"]["failures"] + sum(stats["server"]["evicted"].values())


def differences(found, wanted, path=""):
    """Where two values differ, the first ten of them."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        rows = [row for key in sorted(set(found) | set(wanted))
                for row in differences(found.get(key), wanted.get(key), f"{path}/{key}")]
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        rows = [row for i, pair in enumerate(zip(found, wanted, strict=True))
                for row in differences(*pair, f"{path}/{i}")]
    else:
        rows = [] if found == wanted else [f"{path}: {found}, not {wanted}"]
    return rows[:10]


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if len(arguments) < 3 or not all("=" in argument for argument in arguments[2:]):
        print(__doc__, file=sys.stderr)
        return 2
    images, answers = read_images(arguments[0]), pathlib.Path(arguments[1])
    if not images:
        print(f"there are no images in {arguments[0]}", file=sys.stderr)
        return 2
    is_written = "--write" in sys.argv
    words = json.loads(pathlib.Path(arguments[0], "words.json").read_text(encoding="utf-8"))
    conformance = Conformance(images, words, None if is_written else json.loads(answers.read_text(encoding="utf-8")))
    try:
        for argument in arguments[2:]:
            conformance.run(*argument.split("=", 1))
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    if is_written:
        rows = [f"{json.dumps(name)}: {json.dumps(answer, ensure_ascii=False, sort_keys=True)}"
                for name, answer in sorted(conformance.expected.items())]
        answers.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
