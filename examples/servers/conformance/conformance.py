#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""One request sequence against servers in several languages, which have to behave alike.

    conformance.py IMAGES ANSWERS NAME=PROGRAM... [--write]

Each program is started, asked and stopped. IMAGES is what images.py wrote. ANSWERS has the expected answers, by
image; with --write it gets those of the first server. Exit status: 0 all is as expected, 1 something is not,
2 the call is wrong.
"""

import http.client
import json
import pathlib
import sys
import tempfile
import threading
import time

import png
from load import read_images, send, sequence
from server import FETCHED, Dripping, Failed, Server, Unread, wait_for

MiB = 1 << 20
SMALL = 25 * 1000  # pixels; small enough for hundreds of requests
WATERMARK = 64 * MiB

# What the parts of /stats have; of the rows of the allocator, how many.
ROWS = 122
TENANT = {"id", "name", "device", "priority", "guaranteed_bytes", "limit_bytes", "allocation", "allocated_bytes",
          "requested_bytes", "num_ooms", "num_pressure_calls", "pressure_freed_bytes", "asleep_bytes"}
ONNXRUNTIME = {"version", "live_blocks", "requests", "reserves", "failures"}
SERVER = {"mode", "served", "exhausted", "failed", "rss_bytes", "sessions", "evicted"}

# What a server that answers nonsense, or dies, is found out by.
UNEXPECTED = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)

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

    def __init__(self, images, words, answers, kinds):
        self.images = images
        self.words = words
        self.kinds = kinds  # by name: an image, and the name of one that shows the same
        self.expected = answers
        self.dripping = []  # clients, from the beginning on
        self.first = None  # name, answers and statistics of the first server

    def small(self):
        return [name for name in self.images if self.pixels(name) <= SMALL]

    def smallest(self):
        return min(self.images, key=self.pixels)

    def large(self):
        """Large enough that two at once need twice the memory, and not the slowest."""
        return sorted(self.images, key=self.pixels)[-3]

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
        small = self.small()
        names = sequence(self.images, len(self.images), seed=1) + sequence(small, 2 * len(small), seed=1)
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
        self.check_stats(stats)

    def check_stats(self, stats):
        """All is there. Each byte is a tenant's, and each of the models has asked."""
        rows = stats["allocator"]
        expect(len(rows) >= ROWS, f"{len(rows)} statistics, not {ROWS}")
        for what, found, wanted in (("server", stats["server"], SERVER),
                                    ("onnxruntime", stats["onnxruntime"], ONNXRUNTIME),
                                    *(("tenants", tenant, TENANT) for tenant in stats["tenants"])):
            expect(set(found) == wanted, f"{what} has {sorted(found)}, not {sorted(wanted)}")
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
            names = sequence(self.small(), 119, seed) + [self.largest()]
            for answer in self.send(server, names, 120):
                expect(answer.status == 200, f"{answer.name}: {answer.status} {answer.body}")
                expect(answer.body == self.first[1][answer.name], f"{answer.name}: another answer: {answer.body}")
            stats = server.stats()
            expect(stats["server"]["sessions"] == {"detection": 2, "recognition": 2},
                   f"sessions: {stats['server']['sessions']}")
            left.append((stats["onnxruntime"]["live_blocks"], stats["allocator"]["allocated_bytes.all.current"],
                         stats["allocator"]["requested_bytes.all.current"]))
        expect(left[0] == left[1], f"blocks, bytes and requested bytes are left: {left[0]}, then {left[1]}")

    def kinds_of_images(self, server):
        """PNG of each kind is the same picture; what is damaged is refused, and nothing of it breaks anything."""
        client = server.client()
        answers = {}
        for name, (image, _) in self.kinds.items():
            answers[name] = client.infer(name, image)
            expect(answers[name].status == 200 and [box["text"] for box in answers[name].body["boxes"]] == ["Memory"],
                   f"{name}: {answers[name]}")
        for name, (_, like) in self.kinds.items():
            expect(answers[name].body == answers[like].body, f"{name}: {answers[name]}\n{like}: {answers[like]}")
        for images, wanted in ((png.no_images(), {400}), (png.too_large(), {413}), (png.oddities(), {200})):
            for name, image in images.items():
                answer = client.infer(name, image)
                expect(answer.status in wanted, f"{name}: {answer.status}, not {wanted}: {answer.body}")
                expect(answer.status == 200 or answer.body.get("error"), f"{name}: no error in {answer.body}")

    def trim(self, server):
        """A trim leaves what it is told to, and else gives back all that is free."""
        before = server.reserved()
        for wanted in ({"keep_bytes": before}, {"min_idle_ms": 3600000}, {"keep_bytes": LARGEST_NUMBER},
                       {"min_idle_ms": LARGEST_NUMBER}):
            released = server.trim(wanted)
            expect((released, server.reserved()) == (0, before), f"/trim {wanted}: {released} of {before} bytes went")
        released = server.trim()
        after = server.reserved()
        expect(0 < released == before - after, f"/trim: {released} bytes, from {before} to {after}")
        again = server.trim({"keep_bytes": 0, "min_idle_ms": 0})
        expect(again == 0, f"/trim has left {again} bytes")

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
        self.give_back_what_was_refused(server)
        server.configure(idle_ms=60000)

    @staticmethod
    def give_back_what_was_refused(server):
        """Bodies that are too large leave nothing either, though nobody has worked on them."""
        def resident():
            return server.stats()["server"]["rss_bytes"]

        def send_too_much():
            connection = server.client().connection
            try:
                connection.request("POST", "/infer", iter([bytes(MiB)] * 33), encode_chunked=True)
                connection.getresponse().read()
            except OSError:
                pass  # it need not read to the end

        before = resident()
        clients = [threading.Thread(target=send_too_much) for _ in range(24)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        most = before + 64 * MiB
        wait_for(f"the process has {before} bytes again", lambda: resident() <= most or resident())

    def exhaustion(self, server):
        """A request that does not fit is refused with a report, and others are served."""
        server.trim()
        limit = server.reserved() + 24 * MiB
        config = server.configure(memory_limit_bytes=limit)
        expect(config["memory_limit_bytes"] == limit, f"the limit is {config['memory_limit_bytes']}")
        refused = self.infer(server, self.largest())
        expect(refused.status == 503, f"beyond the limit: {refused.status} {refused.body}")
        expect("out of memory. Tried to allocate" in refused.body["error"], refused.body["error"])
        expect("it fails" in refused.body["report"] and "held by" in refused.body["report"], refused.body["report"])
        evicted = sum(server.stats()["server"]["evicted"].values())
        expect(evicted > 0, "no idle session was closed first")
        served = self.infer(server, self.smallest())
        expect(served.status == 200 and served.body == self.first[1][self.smallest()],
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
        name = self.large()
        server.trim()
        expect(self.infer(server, name).status == 200, f"{name} alone")
        # What that took, and a little room for small blocks.
        server.configure(memory_limit_bytes=server.reserved() + 4 * MiB)
        before = after = server.stats()
        rounds = 0
        # They need more than there is only while they run at the same time, which is up to the machine.
        while shortages(after) == shortages(before):
            expect(rounds < 50, f"there was room for all, {rounds} times")
            rounds += 1
            for answer in self.send(server, [name] * 4, 4):
                expect(answer.status == 200, f"{answer.name} in a crowd: {answer.status} {answer.body}")
                expect(answer.body == self.first[1][name], f"{answer.name} in a crowd: {answer.body}")
            after = server.stats()
        expect(after["server"]["exhausted"] == before["server"]["exhausted"], "some were refused")
        server.configure(memory_limit_bytes=None)

    def interface(self, server):
        """The rest of the interface."""
        client = server.client()
        for path, kind, part in (
                ("/memory", "text/plain; charset=utf-8", b"memory summary, device ID 0"),
                ("/metrics", "text/plain; version=0.0.4; charset=utf-8",
                 b'cachalot_tenant_allocated_bytes{device="0",tenant="detection",'),
                ("/stats", "application/json", b'"live_blocks"'), ("/config", "application/json", b'"settings"')):
            status, headers, text = client.ask("GET", path)
            expect(status == 200 and part in text, f"{path}: {status} {text[:200]}")
            expect(headers["Content-Type"] == kind, f"{path}: {headers['Content-Type']}, not {kind}")
        config = server.configure(config="max_split_size_mb:64")
        expect(config["config"] == "max_split_size_mb:64" and config["settings"]["max_split_size"] == 64 * MiB,
               f"/config: {config}")
        status, read = client.json("GET", "/config")
        expect((status, read) == (200, config), f"/config: {read}, after {config}")
        largest = dict.fromkeys(("memory_limit_bytes", "watermark_bytes", "idle_ms"), LARGEST_NUMBER)
        changed = server.configure(**largest)
        expect(changed == {**config, **largest}, f"/config: {changed}, after the largest numbers")
        server.configure(**{key: config[key] for key in largest})
        served = self.infer(server, self.smallest())
        expect(served.body == self.first[1][self.smallest()], "another answer under another option")

    def refusals(self, server):
        """What is refused, with an error, and without a change."""
        before = server.stats()["server"]["failed"]
        config = server.client().json("GET", "/config")
        for method, path in (("GET", "/nothing"), ("POST", "/"), ("GET", "/stats/")):
            expect_refusal(server, method, path, None, 404)
        for method, path in (("GET", "/infer"), ("POST", "/stats"), ("PUT", "/memory"), ("DELETE", "/config"),
                             ("GET", "/trim"), ("OPTIONS", "/metrics"), ("HEAD", "/stats")):
            expect_refusal(server, method, path, None, 405)
        for body in NO_CHANGES:
            expect_refusal(server, "POST", "/config", body, 400)
        for body in NO_TRIMS:
            expect_refusal(server, "POST", "/trim", body, 400)
        expect_refusal(server, "POST", "/infer", b"\x89PNG\r\n\x1a\n" + bytes(40 * MiB), 413)
        for path in ("/config", "/trim"):
            expect_refusal(server, "POST", path, b'{"config": "%s"}' % bytes(64 << 10), 413)
        expect_refusal(server, "POST", "/infer", b"no image", 400)
        failed = server.stats()["server"]["failed"] - before
        expect(failed == 2, f"2 images were refused, and {failed} are counted")
        changed = server.client().json("GET", "/config")
        expect(changed == config, f"a change that was refused was made: {differences(changed[1], config[1])}")
        # As with PyTorch, the options before a mistake count.
        for options in (b"\xff", b"no\\u0000thing", b"max_split_size_mb:32,no:thing"):
            expect_refusal(server, "POST", "/config", b'{"config": "%s", "idle_ms": 7}' % options, 400)
        changed = server.client().json("GET", "/config")[1]
        expect(changed["settings"]["max_split_size"] == 32 * MiB, f"before a mistake: {changed}")
        expect(changed["idle_ms"] == config[1]["idle_ms"], f"behind a mistake: {changed}")

    def settings(self, server):
        """What a server cannot use ends it, with a line that says why."""
        with tempfile.TemporaryDirectory() as folder:
            for model in ("detection", "recognition"):  # which has no characters then
                pathlib.Path(folder, f"{model}.onnx").symlink_to(FETCHED / "models" / "detection.onnx")
            for name, value in (("SERVER_ALLOCATOR", "nonsense"), ("SERVER_WORKERS", "0"), ("SERVER_MODELS", folder),
                                ("CACHALOT_POLICY", "nonsense"),
                                ("SERVER_ADDRESS", server.url.removeprefix("http://"))):
                try:
                    Server(server.name, server.command, **{name: value}).kill()
                except Failed as failed:
                    expect(failed.args[1] == 1 and failed.args[2], f"{name}={value}: {failed}")
                    continue
                raise Failed(f"it started with {name}={value}")

    def serving_policy(self, server):
        """The same answers from no more memory than is needed, and everything can be asked."""
        other = Server(server.name, server.command, CACHALOT_POLICY="serving,thrift", SERVER_IDLE_MS=60000)
        try:
            for answer in self.send(other, sequence(self.small(), 40, seed=4), 8):
                expect((answer.status, answer.body) == (200, self.first[1][answer.name]), f"{answer.name}: {answer}")
            self.check_stats(other.stats())
            for path, parts in (("/memory", (b"memory summary, device ID 0",)),
                                ("/metrics", (b',policy="serving"} 1', b"cachalot_policy_pages_created_total{"))):
                status, _, text = other.client().ask("GET", path)
                expect(status == 200 and all(part in text for part in parts), f"{path}: {status} {text[:200]}")
            before, released = other.reserved(), other.trim()
            expect(0 < released == before - other.reserved(), f"/trim: {released} of {before} bytes")
            self.expect_end(other)
        finally:
            other.kill()

    def other_allocators(self, server):
        """ORT's own memory gives the same answers; a server may leave it out, and says so."""
        smallest = self.smallest()
        for mode in ("arena", "arena-shrink", "none"):
            try:
                other = Server(server.name, server.command, SERVER_ALLOCATOR=mode)
            except Failed as failed:
                expect(failed.args[1] == 1 and "SERVER_ALLOCATOR" in str(failed), f"{mode}: {failed}")
                continue
            try:
                answer = self.infer(other, smallest)
                expect((answer.status, answer.body) == (200, self.first[1][smallest]), f"{mode}: {answer}")
                expect(set(other.stats()) == {"server"} and other.stats()["server"]["mode"] == mode,
                       f"{mode}: {other.stats()}")
                status, body = other.client().json("GET", "/config")
                expect(status == 200 and set(body) == {"watermark_bytes", "idle_ms"}, f"{mode}: /config: {body}")
                for method, path, body, wanted in (("GET", "/memory", None, 404), ("GET", "/metrics", None, 404),
                                                   ("POST", "/trim", None, 404),
                                                   ("POST", "/config", b'{"memory_limit_bytes": 1}', 400)):
                    expect_refusal(other, method, path, body, wanted)
                self.expect_end(other)
            finally:
                other.kill()

    @staticmethod
    def expect_end(server):
        status, line = server.stop()
        expect((status, line) == (0, "closed, and nothing is left"), f"it ended with {status}: {line}")

    def end(self, server):
        """What was begun is answered, and who asks nothing is not waited for; then nothing is left."""
        def requests():
            return server.stats()["onnxruntime"]["requests"]

        slow = [Dripping(server, begun) for begun in (BEGUN_HEAD, BEGUN_BODY)] + [Unread(server)]
        last = []
        quiet = [server.client(), server.client()]
        quiet[0].ask("GET", "/stats")
        quiet[1].connection.connect()
        before = requests()
        asking = threading.Thread(target=lambda: last.append(self.infer(server, self.largest())))
        asking.start()
        wait_for("a request that is worked on", lambda: requests() > before)
        expect(not last, "the last request was answered before the end")
        self.expect_end(server)
        asking.join()
        for client in slow:
            client.join()
        expect(last and last[0].body == self.first[1][self.largest()], f"the last request: {last}")

    def slow_clients(self, server):
        """A client that takes too long is cut off, also while the server goes on."""
        for client in self.dripping:
            expect(client.ended.wait(60), f"a client still drips that has begun with {client.begun}")
        expect(server.stats()["server"]["sessions"], "it does not go on")

    def run(self, name, program):
        server = Server(name, [program], SERVER_SESSIONS=2, SERVER_WATERMARK=WATERMARK, SERVER_IDLE_MS=60000)
        try:
            self.dripping = [Dripping(server, begun) for begun in (BEGUN_HEAD, BEGUN_BODY)]
            for part in (self.one_after_the_other, self.hundreds_at_once, self.idle, self.trim, self.exhaustion,
                         self.crowd, self.kinds_of_images, self.interface, self.refusals, self.settings,
                         self.serving_policy, self.other_allocators, self.slow_clients, self.end):
                text = part.__name__.replace("_", " ")
                begin = time.monotonic()
                part(server)
                print(f"{name}: {text}: {time.monotonic() - begin:.1f} s", flush=True)
        except Failed as failed:
            raise Failed(f"{name}: {text}: {failed}\n--- its output:\n{server.output()}") from None
        except UNEXPECTED as error:
            raise Failed(f"{name}: {text}: {error!r}{where(error)}; {server.state()}\n"
                         f"--- its output:\n{server.output()}") from None
        finally:
            server.kill()


# Requests that never come to their end.
BEGUN_HEAD = b"GET /st"
BEGUN_BODY = b"POST /trim HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"

# What changes nothing: no objects, other keys, and values of another kind.
NUMBERS = b"-1 1.5 1e400 9223372036854775808 18446744073709551615 18446744073709551616 true \"1\" [] {}".split()
LARGEST_NUMBER = (1 << 63) - 1
NO_OBJECTS = (b"no object", b"[]", b"null", b" ", b"{} {}", b'{"idle_ms":}', b"\xff\xfe", b"[" * 20000,
              b'{"a":' * 5000)
NO_CHANGES = (*NO_OBJECTS, b"", b'{"other": 1}', b'{"idle_ms": 7, "other": 1}', b'{"config": null}',
              b'{"config": 1}', b'{"watermark_bytes": null}', b'{"idle_ms": 7, "memory_limit_bytes": "x"}',
              b'{"config": "max_split_size_mb:32", "other": 1}',
              *(b'{"%s": %s}' % (key, number) for key in (b"idle_ms", b"watermark_bytes", b"memory_limit_bytes")
                for number in NUMBERS))
NO_TRIMS = (*NO_OBJECTS, b'{"other": 1}', b'{"keep_bytes": null}',
            *(b'{"%s": %s}' % (key, number) for key in (b"keep_bytes", b"min_idle_ms") for number in NUMBERS))


def expect_refusal(server, method, path, body, wanted):
    """An error as JSON. By a connection of its own: a server may end one that it does not want to read from."""
    what = f"{method} {path}" + (f" with {body[:40]}" if body else "")
    status, headers, text = server.client().ask(method, path, body)
    expect(status == wanted, f"{what}: {status}, not {wanted}: {text[:200]}")
    expect(headers["Content-Type"] == "application/json", f"{what}: its type is {headers['Content-Type']}: {text[:200]}")
    expect(method == "HEAD" or json.loads(text).get("error"), f"{what}: no error in {text[:200]}")


def where(error):
    """The lines of this program that were reached, for errors that do not tell."""
    lines, trace = [], error.__traceback__
    while trace:
        lines.append(f"{pathlib.Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    ours = [line for line in lines if line.startswith(("conformance", "server", "load"))]
    return f" ({', '.join(ours)})"


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
    if not images or not pathlib.Path(arguments[0], "kinds.json").exists():
        print(f"{arguments[0]} has not all of the images that images.py draws", file=sys.stderr)
        return 2
    is_written = "--write" in sys.argv
    words = json.loads(pathlib.Path(arguments[0], "words.json").read_text(encoding="utf-8"))
    alike = json.loads(pathlib.Path(arguments[0], "kinds.json").read_text(encoding="utf-8"))
    kinds = {name: (pathlib.Path(arguments[0], "kinds", f"{name}.png").read_bytes(), like)
             for name, like in alike.items()}
    expected = None if is_written else json.loads(answers.read_text(encoding="utf-8"))
    conformance = Conformance(images, words, expected, kinds)
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
