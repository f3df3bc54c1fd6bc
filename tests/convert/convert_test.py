#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`cachalot convert`: each format that is read, on files of the programs that write it, and each that is written.

Usage: convert_test.py PROGRAM [unittest arguments]
"""
import csv
import gzip
import io
import json
import lzma
import os
import pathlib
import pickle
import random
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

import nsight_report
from nsight_report import ALLOCATION, ARRAY, DEALLOCATION, DEVICE, MANAGED, PINNED

PROGRAM = ""
DATA = pathlib.Path(__file__).parent / "data"
SEED = int(os.environ.get("CACHALOT_TEST_SEED", "1"))
SNAPSHOTS = ["all", "cut", "expandable", "graph", "history", "middle", "oom", "plain", "streams"]
# Those whose history is whole: the replay has the recorded addresses.
WHOLE = ["all", "expandable", "graph", "history", "oom", "streams"]
# What a snapshot does not tell: the memory of the device, which the addresses of expandable segments depend on, and its
# limit.
FACTS = {"expandable": ["--capacity", "85017493504"],
         "oom": ["--capacity", "85017493504", "--fraction", str(1 / 512)]}

LETTERS = {"alloc": "a", "free_requested": "q", "free_completed": "c", "segment_alloc": "S", "segment_free": "F",
           "segment_map": "M", "segment_unmap": "U", "snapshot": "s", "oom": "o", "annotate": "n"}


def sample(name):
    return lzma.open(DATA / (name + ".xz")).read()


def snapshot(name):
    return pickle.loads(sample(f"torch_{name}.pickle"))


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def run(*arguments, stdin=b"", **more):
    result = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, check=False, timeout=120,
                            **more)
    return result.returncode, result.stdout, result.stderr.decode()


class Trace:
    """The text of a trace, read by rules of its own."""

    def __init__(self, text):
        lines = text.decode().splitlines()
        self.header = json.loads(lines[0][2:])
        self.labels = {}
        self.events = []
        for line in lines[1:]:
            if line.startswith("# label "):
                context, label = line[8:].split(" ", 1)
                self.labels[int(context, 16)] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], label)
            elif not line.startswith("#"):
                self.events.append(self.event(line))

    @staticmethod
    def event(line):
        fields = line.split(",") + [""] * 13
        pool = tuple(map(int, fields[5].split(":"))) if fields[5] else (0, 0)
        return {"action": fields[0], "address": int(fields[1], 16), "size": int(fields[2]),
                "stream": int(fields[3], 16), "device": int(fields[4] or 0), "pool": pool,
                "time": int(fields[6]) if fields[6] else None, "context": int(fields[7] or "0", 16),
                "cost": int(fields[8]) if fields[8] else None, "entry": fields[9], "thread": int(fields[10] or 0)}

    def of_action(self, action):
        return [event for event in self.events if event["action"] == action]


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def convert(self, content, *options, name="in"):
        """What comes of a file; its name tells nothing."""
        path = content if isinstance(content, pathlib.Path) else self.file(name, content)
        code, out, err = run("convert", path, "-o", "-", *options)
        self.assertEqual(code, 0, err)
        return out

    def trace(self, content, *options):
        return Trace(self.convert(content, "--to", "trace", *options))

    def pickled(self, content, *options):
        return pickle.loads(self.convert(content, "--to", "pickle", *options))

    def refused(self, text, content, *options):
        path = content if isinstance(content, pathlib.Path) else self.file("hostile", content)
        code, out, err = run("replay", "--brief", path, *options, preexec_fn=limit_memory)
        self.assertEqual(code, 2, (out, err))
        self.assertEqual(err.count("\n"), 1, err)
        self.assertRegex(err, text)


def entries(taken):
    return [dict(entry, device=i) for i, trace in enumerate(taken["device_traces"]) for entry in trace]


def frames_text(frames):
    return "\n".join(f"{f['filename']}:{f['line']}:{f['name']}" if f["filename"] else f["name"] for f in frames)


def live_blocks(taken):
    """Address, requested size and stream of each block that is not cached."""
    return sorted((segment["device"], block["address"], block["requested_size"], segment["stream"],
                   tuple(segment["segment_pool_id"]), block["state"])
                  for segment in taken["segments"] for block in segment["blocks"] if block["state"] != "inactive")


class Snapshots(Convert):
    def test_each_entry_of_the_history_is_a_line(self):
        for name in SNAPSHOTS:
            taken = snapshot(name)
            trace = self.trace(sample(f"torch_{name}.pickle"))
            wanted = [(LETTERS[e["action"]], e.get("addr", e.get("device_free")), e["size"], e["stream"], e["device"],
                       e["time_us"], frames_text(e.get("frames", []))) for e in entries(taken)]
            found = [(e["action"], e["address"], e["size"], e["stream"], e["device"], e["time"],
                      trace.labels.get(e["context"], "")) for e in trace.events if e["time"] is not None]
            self.assertEqual(found, wanted, name)

    def test_what_is_live_at_the_end_is_live_in_the_trace(self):
        for name in SNAPSHOTS:
            live, sizes = {}, {}
            trace = self.trace(sample(f"torch_{name}.pickle"))
            for event in trace.events:
                key = event["device"], event["address"]
                if event["action"] in "ab":
                    self.assertNotIn(key, live)
                    live[key] = "active_allocated"
                    sizes[key] = event
                elif event["action"] == "q":
                    self.assertEqual(live[key], "active_allocated")
                    live[key] = "active_pending_free"
                elif event["action"] == "c":
                    self.assertEqual(live.pop(key), "active_pending_free")
            found = sorted((*key, sizes[key]["size"], sizes[key]["stream"], sizes[key]["pool"], state)
                           for key, state in live.items())
            self.assertEqual(found, live_blocks(snapshot(name)), name)

    def test_segments_at_the_end_are_those_of_the_trace(self):
        for name in SNAPSHOTS:
            pages = {}
            for event in self.trace(sample(f"torch_{name}.pickle")).events:
                span = range(event["address"], event["address"] + event["size"], 2 << 20)
                if event["action"] in "SM":
                    pages.update((page, event["stream"]) for page in span)
                elif event["action"] in "FU":
                    for page in span:
                        del pages[page]
            wanted = {page: s["stream"] for s in snapshot(name)["segments"]
                      for page in range(s["address"], s["address"] + s["total_size"], 2 << 20)}
            self.assertEqual(pages, wanted, name)

    def test_a_recording_that_begins_in_the_middle_begins_with_live_blocks(self):
        trace = self.trace(sample("torch_middle.pickle"))
        begun = trace.of_action("b")
        self.assertGreater(len(begun), 10)
        self.assertEqual(trace.events[:len(begun)], begun)
        cut = self.trace(sample("torch_cut.pickle"))
        first = entries(snapshot("cut"))[0]
        self.assertEqual(first["action"], "free_completed")
        self.assertIn(first["addr"], [event["address"] for event in cut.of_action("b")])
        self.assertIn(first["addr"], [event["address"] for event in cut.of_action("q") if event["time"] is None])

    def test_every_command_takes_them(self):
        for name in SNAPSHOTS:
            path = self.file("a.trace", sample(f"torch_{name}.pickle"))
            for command in [["replay", "--brief"], ["replay", "--script"], ["inspect"]]:
                code, _, err = run(*command, path)
                self.assertEqual(code, 0, (name, command, err))

    def test_a_whole_history_is_replayed_exactly(self):
        for name in WHOLE:
            code, out, err = run("replay", "--expect", "--brief", *FACTS.get(name, []),
                                 self.file("a", sample(f"torch_{name}.pickle")))
            self.assertEqual(code, 0, name + err + out.decode())
        code, _, err = run("replay", "--expect", self.file("a", sample("torch_middle.pickle")))
        self.assertEqual(code, 2)
        self.assertIn("from its first on", err)

    def test_the_options_and_the_release_are_the_recorded_ones(self):
        header = self.trace(sample("torch_expandable.pickle")).header
        self.assertEqual(header["config"], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
        self.assertEqual(header["torch"], "2.11")
        taken = snapshot("history")
        for entry in entries(taken):
            entry.pop("device")
        for trace in taken["device_traces"]:
            for entry in trace:
                entry["pool_id"] = (0, 0)
        self.assertEqual(self.trace(pickle.dumps(taken)).header["torch"], "2.15")

    def test_a_private_pool_is_that_of_its_segment(self):
        pools = {event["pool"] for event in self.trace(sample("torch_graph.pickle")).events}
        self.assertEqual(len(pools), 2)

    def test_any_protocol_and_older_forms_are_read(self):
        taken = snapshot("history")
        wanted = self.trace(pickle.dumps(taken)).events
        for protocol in [2, 3, 4, 5]:
            self.assertEqual(self.trace(pickle.dumps(taken, protocol=protocol)).events, wanted)
        segments_only = self.trace(pickle.dumps(taken["segments"]))
        self.assertEqual({event["action"] for event in segments_only.events}, {"b", "S"})
        for segment in taken["segments"]:
            for block in segment["blocks"]:
                del block["address"]
        self.assertEqual(self.trace(pickle.dumps(taken)).events, wanted)

    def test_a_history_with_holes_is_mended(self):
        for left_out in [["free_completed"], ["free_requested"], ["free_requested", "free_completed"], ["alloc"]]:
            taken = snapshot("history")
            taken["device_traces"] = [[e for e in trace if e["action"] not in left_out]
                                      for trace in taken["device_traces"]]
            code, _, err = run("replay", "--brief", self.file("a", pickle.dumps(taken)))
            self.assertEqual(code, 0, (left_out, err))

    def test_devices_are_merged_by_time(self):
        taken = snapshot("history")
        taken["device_traces"].append([dict(entry, time_us=entry["time_us"] + 1) for entry in taken["device_traces"][0]])
        taken["segments"] += [dict(segment, device=1) for segment in taken["segments"]]
        times = [event["time"] for event in self.trace(pickle.dumps(taken)).events]
        self.assertEqual(times, sorted(times))

    def test_numbers_of_64_bits_are_kept(self):
        taken = snapshot("plain")
        taken["segments"][0]["stream"] = 2**64 - 1
        streams = {event["stream"] for event in self.trace(pickle.dumps(taken)).events}
        self.assertIn(2**64 - 1, streams)


class HostilePickles(Convert):
    def test_what_would_execute_something_is_refused_by_name_and_place(self):
        for opcode, name in [(b"cos\nsystem\n", "GLOBAL"), (b"\x93", "STACK_GLOBAL"), (b"R", "REDUCE"), (b"b", "BUILD"),
                             (b"i", "INST"), (b"o", "OBJ"), (b"\x81", "NEWOBJ"), (b"\x92", "NEWOBJ_EX"),
                             (b"\x82\x01", "EXT1"), (b"Q", "BINPERSID"), (b"P", "PERSID")]:
            self.refused(rf"byte 4 of the pickle: {name} is refused", b"\x80\x04N0"[:3] + b"N"[:0] + b"]" + opcode + b".")

    def test_an_object_of_a_class_is_refused(self):
        self.refused("STACK_GLOBAL is refused", pickle.dumps({"segments": [pathlib.PurePath("a")]}))

    def test_what_is_no_snapshot_is_refused(self):
        self.refused("it is no dictionary", pickle.dumps(7))
        self.refused("no segments", pickle.dumps({}))
        self.refused("segments is no list", pickle.dumps({"segments": 7}))
        self.refused("size is no number", pickle.dumps({"segments": [], "device_traces": [[{"size": -1}]]}))
        self.refused("device with the number 64", pickle.dumps([{"device": 64}]))
        self.refused("two blocks at", pickle.dumps([{"blocks": [{"address": 9, "state": "active_allocated"}] * 2}]))
        self.refused("protocol 9", b"\x80\x09.")

    def test_a_file_that_ends_early_is_refused(self):
        whole = sample("torch_oom.pickle")
        for end in range(1, len(whole), 7):
            self.refused("byte [0-9,]+ of the pickle", whole[:end])

    def test_bytes_that_are_changed_never_crash_it(self):
        chance = random.Random(SEED)
        whole = bytearray(sample("torch_oom.pickle"))
        for _ in range(150):
            changed = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            code, _, err = run("replay", "--brief", self.file("a", bytes(changed)), preexec_fn=limit_memory)
            self.assertIn(code, [0, 2], f"CACHALOT_TEST_SEED={SEED} {err}")

    def test_lists_that_repeat_are_not_expanded(self):
        block = {"address": 1, "size": 1, "state": "inactive", "frames": []}
        blocks = [block] * 100_000
        self.refused("more parts than bytes", pickle.dumps([{"address": i, "blocks": blocks} for i in range(2000)]))

    def test_texts_that_repeat_are_not_expanded(self):
        frame = {"name": "f" * 60_000, "filename": "", "line": 0}
        trace = [{"action": "alloc", "addr": 4096 * i, "size": 1, "frames": [frame, dict(frame, name=str(i))]}
                 for i in range(1, 20_000)]
        self.refused("64 times as long", pickle.dumps({"segments": [], "device_traces": [trace]}))
        frame = {"name": "f" * 300_000, "filename": "", "line": 0}
        self.refused("a stack of more than",
                     pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "frames": [frame]}]]}))

    def test_deep_values_are_no_deep_recursion(self):
        self.refused("more lists than a snapshot has", b"\x80\x04" + b"]" * 500_000 + b"a" * 499_999 + b".")
        self.refused("more marks than a snapshot has", b"\x80\x04" + b"(" * 500_000 + b".")
        self.refused("more values at a time", b"\x80\x04" + b"N" * 500_000 + b".")
        self.refused("more values than a snapshot has", b"\x80\x04]" + (b"(" + b"N" * 1000 + b"e") * 10 + b".")
        self.refused("more values in its memo", b"\x80\x04N" + b"\x94" * 500_000 + b".")
        in_itself = b"\x80\x04]\x94h\x00a."
        self.refused("a segment is no dictionary", in_itself)

    def test_a_file_that_unpacks_to_very_much_is_refused(self):
        self.refused("more than 64 times as large as its file", gzip.compress(b"\x80\x04" + bytes(200 << 20)))
        self.refused("more than 64 times as large as its file",
                     lzma.compress(RmmLogs.HEADER.encode() + b"1,10:00:00.000000,free,0x1,1,0\n" * 4_000_000, preset=0))

    def test_a_length_that_is_a_lie_takes_no_memory(self):
        self.refused("ends too early", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.")
        self.refused("ends too early", b"\x80\x04\x8b" + struct.pack("<I", 1 << 31) + b"x.")
        self.refused("memo 1,000,000 comes before its turn", b"\x80\x04Nr" + struct.pack("<I", 1_000_000) + b".")


class RmmLogs(Convert):
    HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"

    def test_each_row_is_told(self):
        rows = list(csv.DictReader(io.StringIO(sample("rmm.csv").decode())))
        trace = self.trace(sample("rmm.csv"))
        allocations = [(int(r["Pointer"], 16), int(r["Size"]), int(r["Stream"], 16), int(r["Thread"]))
                       for r in rows if r["Action"] == "allocate"]
        self.assertEqual([(e["address"], e["size"], e["stream"], e["thread"]) for e in trace.of_action("a")], allocations)
        frees = [(int(r["Pointer"], 16), int(r["Size"])) for r in rows if r["Action"] == "free"]
        for letter in "qc":
            self.assertEqual([(e["address"], e["size"]) for e in trace.of_action(letter)], frees)
        self.assertEqual([e["size"] for e in trace.of_action("o")], [1 << 42])
        self.assertEqual(len(rows), len(allocations) + len(frees) + 1)
        code, _, err = run("replay", self.file("log", sample("rmm.csv")))
        self.assertEqual(code, 0, err)

    def test_times_are_of_the_clock_and_go_past_midnight(self):
        trace = self.trace(self.HEADER + "1,23:59:59.000002,allocate,0x100,8,0x0\n1,00:00:00.000001,allocate,0x200,8,0\n"
                           "2,23:59:59:999999,allocate,0x300,8,0\n1,00:00:01.000000,free,0x100,8,0x0\n")
        day = 86_400_000_000
        self.assertEqual([e["time"] for e in trace.of_action("a")], [day - 999_998, day + 1, day - 1])
        self.assertEqual(trace.of_action("q")[0]["time"], day + 1_000_000)

    def test_streams_with_two_names_are_one_and_threads_have_their_own(self):
        rows = [f"{thread},10:00:00.000000,allocate,{address},8,{stream}"
                for address, (thread, stream) in enumerate([(5, "0x1"), (5, "(nil)"), (5, "0x2"), (6, "0x2")], 1)]
        streams = [e["stream"] for e in self.trace(self.HEADER + "\n".join(rows) + "\n").of_action("a")]
        self.assertEqual(streams, [0, 0, 2**63 + 5, 2**63 + 6])

    def test_blocks_that_were_live_before_the_log_begins_are_told(self):
        trace = self.trace(self.HEADER + "1,10:00:00.000000,allocate,0x100,8,0\n1,10:00:00.000001,free,0x200,16,3\n")
        self.assertEqual([e["action"] for e in trace.events], ["b", "a", "q", "c"])
        self.assertEqual((trace.events[0]["address"], trace.events[0]["size"]), (0x200, 16))

    def test_a_line_that_is_none_is_refused_with_its_number(self):
        row = "1,10:00:00.000000,allocate,0x100,8,0\n"
        for wrong in ["nonsense", "1,2,3", "1,25:00:00.000000,free,0x100,8,0", "1,10:00:00.000000,move,0x100,8,0",
                      "1,10:00:00.000000,free,0xxyz,8,0", "1,10:00:00.000000,free,0x100,-8,0",
                      "1,10:00:00.000000,free,0x100,99999999999999999999,0"]:
            self.refused("line 3: not a line of RMM's log", self.HEADER + row + wrong + "\n")

    def test_half_a_line_at_the_end_is_left_out(self):
        row = "1,10:00:00.000000,allocate,0x100,8,0\n"
        self.assertEqual(len(self.trace(self.HEADER + row + "1,10:00:00.0000").events), 1)


class NsightReports(Convert):
    """After the documented schema; no file that nsys wrote."""

    EVENTS = [
        (1000, DEALLOCATION, DEVICE, 0x900, 64, 1, 7, None),
        (2000, ALLOCATION, DEVICE, 0x1000, 4096, 2, 7, None),
        (9000, DEALLOCATION, DEVICE, 0x1000, 4096, 5, 7, None),
        (3000, ALLOCATION, DEVICE, 0x2000, 512, 3, 13, 0xabc000),
        (4000, ALLOCATION, PINNED, 0x3000, 100, None, None, None),
        (5000, ALLOCATION, MANAGED, 0x4000, 200, None, None, None),
        (5000, ALLOCATION, ARRAY, 0x5000, 300, None, None, None),
        (6000, DEALLOCATION, PINNED, 0x3000, 100, None, None, None),
    ]
    CALLS = [(2, 1500, 2100, 77), (5, 8800, 9500, 78), (99, 0, 1, 1)]

    def report(self, events=None, **more):
        path = self.folder / "report.sqlite"
        nsight_report.write(path, self.EVENTS if events is None else events, calls=self.CALLS, **more)
        return path

    def test_each_event_is_told(self):
        trace = self.trace(self.report())
        epoch = 1_795_000_000_000_000
        self.assertEqual([(e["action"], e["entry"], e["address"], e["size"], e["stream"]) for e in trace.events], [
            ("b", "s", 0x900, 64, 0), ("q", "s", 0x900, 64, 0), ("c", "s", 0x900, 64, 0),
            ("a", "s", 0x1000, 4096, 0), ("a", "t", 0x2000, 512, 13),
            ("A", "l", 0x3000, 100, 0), ("A", "m", 0x4000, 200, 0), ("A", "y", 0x5000, 300, 0),
            ("R", "l", 0x3000, 100, 0),
            ("q", "s", 0x1000, 4096, 0), ("c", "s", 0x1000, 4096, 0), ("k", "s", 0x1000, 0, 0)])
        self.assertEqual([e["time"] for e in trace.of_action("a")], [epoch + 2, epoch + 3])
        self.assertEqual(trace.header["device_total"], 80 << 30)
        self.assertEqual(trace.header["pid"], 4711)

    def test_calls_tell_their_cost_and_their_thread(self):
        trace = self.trace(self.report())
        self.assertEqual([(e["cost"], e["thread"]) for e in trace.of_action("a")], [(600, 77), (None, 0)])
        self.assertEqual([(e["cost"], e["thread"]) for e in trace.of_action("k")], [(700, 78)])

    def test_every_command_takes_them(self):
        for command in [["replay"], ["inspect"], ["convert", "-o", "-", "--to", "pickle"]]:
            code, _, err = run(*command, self.report())
            self.assertEqual(code, 0, err)
            (self.folder / "report.sqlite").unlink()

    def test_one_of_several_processes_is_chosen(self):
        path = self.report(self.EVENTS + [(1, ALLOCATION, DEVICE, 0x1, 8, None, None, None, 0, 815)])
        self.refused("2 processes: `cachalot convert --process` chooses one of 815, 4711", path)
        self.assertEqual(len(self.trace(path, "--process", "815").events), 1)
        code, _, err = run("convert", path, "-o", "-", "--to", "trace", "--process", "3")
        self.assertEqual((code, "no memory events of process 3" in err), (2, True), err)

    def test_older_schemas_lack_columns(self):
        schema = nsight_report.SCHEMA
        path = self.report()
        with sqlite3.connect(path) as db:
            for column in ["streamId", "localMemoryPoolAddress", "importedMemoryPoolAddress", "correlationId"]:
                db.execute(f"ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS DROP COLUMN {column}")
            for table in re.findall(r"CREATE TABLE (\w+)", schema):
                if table != "CUDA_GPU_MEMORY_USAGE_EVENTS":
                    db.execute(f"DROP TABLE {table}")
        db.close()
        self.assertEqual([e["size"] for e in self.trace(path).of_action("a")], [4096, 512])

    def test_what_is_no_report_is_refused(self):
        path = self.folder / "other.sqlite"
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE a (b INTEGER)")
        db.close()
        self.refused("no memory events: `nsys profile --cuda-memory-usage=true`", path)
        self.refused("SQLite cannot read it", path.read_bytes()[:700])
        self.refused("SQLite cannot read it", b"SQLite format 3\0" + bytes(600))
        self.refused("has to be a file that is not packed", gzip.compress(path.read_bytes()))
        code, _, err = run("replay", "-", stdin=path.read_bytes())
        self.assertEqual((code, "has to be a file" in err), (2, True), err)

    def test_impossible_numbers_are_refused(self):
        for event, text in [((1, ALLOCATION, DEVICE, 1, 8, None, None, None, 64), "device with the number 64"),
                            ((1, ALLOCATION, DEVICE, 1, -8, None, None, None), "block of -8 bytes"),
                            ((-1, ALLOCATION, DEVICE, 1, 8, None, None, None), "time before its begin")]:
            self.refused(text, self.report([event]))
            (self.folder / "report.sqlite").unlink()

    def test_a_view_that_never_ends_is_cut_off(self):
        path = self.folder / "hostile.sqlite"
        with sqlite3.connect(path) as db:
            db.execute("CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL "
                       "SELECT start + 1 FROM c) SELECT start, 1 AS bytes FROM c")
        db.close()
        self.refused("SQLite cannot read it|more work than its size", path)

    def test_bytes_that_are_changed_never_crash_it(self):
        chance = random.Random(SEED)
        whole = self.report().read_bytes()
        for _ in range(80):
            changed = bytearray(whole)
            for _ in range(chance.randint(1, 40)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            code, _, err = run("replay", "--brief", self.file("a", bytes(changed)), preexec_fn=limit_memory)
            self.assertIn(code, [0, 2], f"CACHALOT_TEST_SEED={SEED} {err}")


def without_times(entry):
    return {key: value for key, value in entry.items() if key != "device"}


class Pickles(Convert):
    def test_a_whole_history_comes_back_as_it_was(self):
        for name in WHOLE:
            taken = snapshot(name)
            back = self.pickled(sample(f"torch_{name}.pickle"), *FACTS.get(name, []))
            self.assertEqual(list(back), list(taken))
            self.assertEqual(back["device_traces"], taken["device_traces"], name)
            self.assertEqual(back["allocator_settings"], taken["allocator_settings"])
            self.assertEqual(live_blocks(back), live_blocks(taken))
            for segment, wanted in zip(back["segments"], taken["segments"], strict=True):
                for key in wanted:
                    if key not in ("frames", "blocks"):
                        self.assertEqual(segment[key], wanted[key], (name, key))
                for block, wanted_block in zip(segment["blocks"], wanted["blocks"], strict=True):
                    self.assertEqual(block, wanted_block, name)

    def test_a_history_that_is_not_whole_keeps_all_but_addresses(self):
        for name in ["middle", "cut", "plain"]:
            taken = snapshot(name)
            back = self.pickled(sample(f"torch_{name}.pickle"))

            def acts(of):
                return [(e["action"], e["size"], e["stream"], e["time_us"], frames_text(e.get("frames", [])))
                        for e in of["device_traces"][0] if e["action"] in ("alloc", "free_requested")]
            wanted = acts(taken)
            self.assertEqual(acts(back)[-len(wanted) or len(acts(back)):], wanted, name)
            self.assertEqual(sorted(b[2:4] for b in live_blocks(back)), sorted(b[2:4] for b in live_blocks(taken)))

    def test_keys_and_types_are_pytorchs(self):
        def shape(value):
            if isinstance(value, dict):
                return {key: shape(member) for key, member in value.items()}
            if isinstance(value, list):
                return [shape(value[0])] if value else []
            return type(value)
        taken = snapshot("history")
        back = self.pickled(sample("torch_history.pickle"))
        self.assertEqual(shape(back["allocator_settings"]), shape(taken["allocator_settings"]))
        self.assertEqual(back["external_annotations"], [])
        for part in ["segments", "device_traces"]:
            self.assertEqual(list(back[part][0] if part == "segments" else back[part][0][0]),
                             list(taken[part][0] if part == "segments" else taken[part][0][0]))
        self.assertEqual(list(back["segments"][0]["blocks"][0]), list(taken["segments"][0]["blocks"][0]))

    def test_a_trace_of_a_program_becomes_what_the_allocator_would_do(self):
        header = '# {"format": 2, "torch": "2.15"}\n'
        events = "b,900,64,0\na,1000,4096,0,0,,5,1\n# label 1 /a/b.py:7:f\\nserver\nA,3000,100,0,0,,6,,,l\nq,1000,4096,0\n" \
                 "c,1000,4096,0\n"
        back = self.pickled(header + events)
        self.assertEqual([e["action"] for e in back["device_traces"][0]],
                         ["segment_alloc", "alloc", "alloc", "free_requested", "free_completed"])
        self.assertEqual([e["time_us"] for e in back["device_traces"][0]], [5, 5, 5, 6, 6])
        self.assertEqual(back["device_traces"][0][2]["frames"], [{"name": "f", "filename": "/a/b.py", "line": 7},
                                                                 {"name": "server", "filename": "", "line": 0}])
        self.assertEqual(back["device_traces"][0][2]["pool_id"], (0, 0))

    def test_stacks_of_a_program_have_names(self):
        if not shutil.which("addr2line") or not shutil.which("nm"):
            self.skipTest("the binutils are missing")
        symbols = subprocess.run(["nm", PROGRAM], capture_output=True, check=True).stdout.decode().split("\n")
        main = [int(line.split()[0], 16) for line in symbols if line.endswith(" T main")]
        if not main:
            self.skipTest("the program has no symbols")
        headers = subprocess.run(["readelf", "-lW", PROGRAM], capture_output=True, check=True).stdout.decode()
        part = next(row for row in ([int(word, 16) for word in line.split()[1:6]] for line in headers.split("\n")
                                    if line.split()[:1] == ["LOAD"]) if row[1] <= main[0] < row[1] + row[3])
        offset = main[0] - part[1] + part[0] + 4
        text = (f'# {{"format": 2}}\n# module 400000 500000 {offset - offset % 4096:x} {PROGRAM}\n'
                f"# stack 7 {0x400000 + offset % 4096:x};123\na,1000,4096,0,0,,50,7\n")
        frames = self.pickled(text)["device_traces"][0][-1]["frames"]
        self.assertEqual([frame["name"] for frame in frames], ["main", "0x123"])

    def test_a_module_that_is_a_pipe_is_not_waited_for(self):
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        trace = self.file("run.trace", f'# {{"format": 2}}\n# module 400000 500000 0 {pipe}\n# stack 7 401000\n'
                                       "a,1000,4096,0,0,,50,7\n")
        out = subprocess.run([PROGRAM, "convert", trace, "-o", os.path.join(self.folder, "out.pickle")],
                             capture_output=True, timeout=60, check=False)
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_options_of_the_call_make_another_run_of_it(self):
        back = self.pickled(sample("torch_history.pickle"), "--config", "expandable_segments:True")
        self.assertTrue(all(segment["is_expandable"] for segment in back["segments"]))
        self.assertEqual(back["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True")

    def test_it_is_converted_to_a_trace_and_back_again(self):
        for name in SNAPSHOTS:
            to_pickle = ["--to", "pickle", *FACTS.get(name, [])]
            first = self.convert(sample(f"torch_{name}.pickle"), "--to", "trace")
            back = self.convert(first, *to_pickle)
            self.assertEqual(back, self.convert(sample(f"torch_{name}.pickle"), *to_pickle))
            if name in WHOLE:
                self.assertEqual(self.trace(back).events, Trace(first).events)
                self.assertEqual(self.convert(self.convert(back, "--to", "trace"), *to_pickle), back)

    def test_only_opcodes_of_the_viewer_are_used(self):
        import pickletools
        known = {"PROTO", "FRAME", "MARK", "STOP", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2",
                 "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1",
                 "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "MEMOIZE", "BINPUT", "LONG_BINPUT",
                 "BINGET", "LONG_BINGET"}
        for name in SNAPSHOTS:
            back = self.convert(sample(f"torch_{name}.pickle"), "--to", "pickle")
            self.assertLessEqual({opcode.name for opcode, _, _ in pickletools.genops(back)}, known)


class Perfetto(Convert):
    def test_counters_end_where_the_snapshot_does(self):
        for name in WHOLE:
            taken = snapshot(name)
            shown = json.loads(self.convert(sample(f"torch_{name}.pickle"), "--to", "perfetto"))["traceEvents"]
            last = {event["name"]: event["args"]["bytes"] for event in shown if event["ph"] == "C"}
            self.assertEqual(last["reserved"], sum(segment["total_size"] for segment in taken["segments"]))
            self.assertEqual(last["requested"], sum(b[2] for b in live_blocks(taken) if b[5] == "active_allocated"))
            times = [event["ts"] for event in shown if event["ph"] == "C"]
            self.assertEqual(times, sorted(times))

    def test_what_a_replay_reserves_is_a_counter(self):
        def reserved(content, *options):
            shown = json.loads(self.convert(content, "--to", "perfetto", *options))["traceEvents"]
            return [(e["ts"], e["args"]["bytes"]) for e in shown if e["name"] == "reserved in a replay"]
        program = '# {"format": 2}\na,1000,4096,0,0,,50\na,9000,3000000,0,0,,60\n'
        self.assertEqual(reserved(program), [(50, 2 << 20), (60, 22 << 20)])
        self.assertEqual(reserved(program, "--config", "expandable_segments:True")[-1], (60, 22 << 20))
        self.assertEqual(reserved(sample("torch_history.pickle")), [])
        self.assertEqual(reserved(program.replace("9000", "1000")), [])
        code, _, err = run("convert", self.file("a", program.replace("9000", "1000")), "-o", "-", "--to", "perfetto",
                           "--torch", "2.11")
        self.assertEqual((code, "is handed out while it is in use" in err), (2, True))

    def test_failures_are_instants_and_calls_are_slices(self):
        shown = json.loads(self.convert(sample("torch_oom.pickle"), "--to", "perfetto"))["traceEvents"]
        self.assertEqual([e["name"] for e in shown if e["ph"] == "i"], ["out of memory"])
        text = '# {"format": 2}\na,1000,4096,0,0,,50,,7000,s,12\n'
        shown = json.loads(self.convert(text, "--to", "perfetto"))["traceEvents"]
        calls = [event for event in shown if event["ph"] == "X"]
        self.assertEqual([(e["name"], e["ts"], e["dur"], e["tid"]) for e in calls], [("cuMemAlloc", 43, 7, 12)])


class Tables(Convert):
    def test_each_event_is_a_row(self):
        for content in [sample("torch_history.pickle"), sample("rmm.csv")]:
            rows = list(csv.DictReader(io.StringIO(self.convert(content, "--to", "table").decode())))
            events = self.trace(content).events
            self.assertEqual([(int(r["address"], 16), int(r["size"]), int(r["stream"], 16)) for r in rows],
                             [(e["address"], e["size"], e["stream"]) for e in events])
            self.assertEqual(rows[0]["action"], "segment_alloc" if b"segments" in content else "alloc")
        rows = list(csv.DictReader(io.StringIO(self.convert(sample("torch_history.pickle"), "--to", "table").decode())))
        taken = snapshot("history")
        self.assertEqual(int(rows[-1]["held_reserved"]), sum(segment["total_size"] for segment in taken["segments"]))


class Files(Convert):
    def test_the_name_tells_the_format_and_the_packing(self):
        path = self.file("in", sample("torch_oom.pickle"))
        for name, unpack, begin in [("a.csv", bytes, b"# {"), ("a.csv.gz", gzip.decompress, b"# {"),
                                    ("a.csv.xz", lzma.decompress, b"# {"), ("a.pickle", bytes, b"\x80\x04"),
                                    ("a.pkl.gz", gzip.decompress, b"\x80\x04"), ("a.json", bytes, b'{"displayTimeUnit"'),
                                    ("a.json.gz", gzip.decompress, b'{"displayTimeUnit"'),
                                    ("a.table.csv", bytes, b"time_us,action")]:
            code, _, err = run("convert", path, "-o", self.folder / name)
            self.assertEqual(code, 0, err)
            self.assertTrue(unpack((self.folder / name).read_bytes()).startswith(begin), name)

    def test_a_name_that_tells_nothing_is_refused(self):
        code, _, err = run("convert", self.file("in", sample("torch_oom.pickle")), "-o", self.folder / "a.txt")
        self.assertEqual((code, err.count("\n")), (2, 1))
        self.assertIn("--to says which", err)

    def test_inputs_may_be_packed_or_standard_input(self):
        wanted = self.convert(sample("torch_oom.pickle"), "--to", "trace")
        self.assertEqual(self.convert(gzip.compress(sample("torch_oom.pickle")), "--to", "trace"), wanted)
        code, out, _ = run("convert", "-", "-o", "-", "--to", "trace", stdin=lzma.compress(sample("torch_oom.pickle")))
        self.assertEqual((code, out), (0, wanted))

    def test_what_failed_leaves_no_file(self):
        for to in ["trace", "pickle", "perfetto", "table"]:
            out = self.folder / "out"
            code, _, err = run("convert", self.file("in", '# {"format": 2}\na,1000,8,0\nnonsense\n'), "-o", out, "--to", to)
            self.assertEqual(code, 2)
            self.assertIn("line 3", err)
            self.assertFalse(out.exists(), to)

    def test_a_folder_that_is_none_is_told(self):
        code, _, err = run("convert", self.file("in", sample("torch_oom.pickle")), "-o", "/none/such/a.csv")
        self.assertEqual((code, err.count("\n")), (2, 1))
        self.assertIn("No such file", err)

    def test_the_room_behind_a_recording_is_left_out(self):
        out = self.convert(b'# {"format": 2}\na,1000,8,0\n' + bytes(5000), "--to", "trace")
        self.assertEqual(out, b'# {"format": 2}\na,1000,8,0\n')


class Page(Convert):
    def test_its_commands_work(self):
        page = (pathlib.Path(__file__).parents[2] / "docs" / "convert.md").read_text()
        self.file("snapshot.pickle", sample("torch_history.pickle"))
        self.file("recording.csv", '# {"format": 2}\na,1000,4096,0,0,,50,,7000,s,12\n')
        self.file("rmm.csv", sample("rmm.csv"))
        nsight_report.write(self.folder / "report.sqlite", NsightReports.EVENTS, calls=NsightReports.CALLS)
        commands = [line.split("#")[0].split() for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
                    for line in block.splitlines()]
        self.assertGreater(len(commands), 6)
        for program, *words in commands:
            self.assertEqual(program, "cachalot")
            code, _, err = run(*words, cwd=self.folder)
            self.assertEqual(code, 0, (words, err))
        for name in ["run.csv.xz", "recording.pickle", "rmm.json.gz", "report.table.csv", "same.pickle"]:
            self.assertGreater((self.folder / name).stat().st_size, 100)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
