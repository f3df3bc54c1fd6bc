#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program `cachalot` as its users meet it: exit codes, texts, files of every kind.

Usage: cli_test.py PROGRAM [unittest arguments]
"""
import gzip
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""

HEADER = (
    '# {"workload": "small", "torch": "2.11.0", "device_total": 1073741824, "warm_up": 0,'
    ' "stats": {"num_ooms": 0, "reserved_bytes.all.peak": 2097152}}\n'
)
EVENTS = "S,10000000,2097152,0\na,10000000,512,0\nq,10000000,512,0\nc,10000000,512,0\n"
DIFFERENT = EVENTS.replace("a,10000000,512", "a,10000200,512").replace("c,10000000", "c,10000200")
DIFFERENT = DIFFERENT.replace("q,10000000", "q,10000200")


def run(*arguments, stdin=b""):
    result = subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, check=False)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as out:
            out.write(content if isinstance(content, bytes) else content.encode())
        return path

    def trace(self, events=EVENTS, header=HEADER):
        return self.file("small.csv", header + events)

    def expect_failure(self, text, *arguments, stdin=b""):
        code, out, err = run("replay", *arguments, stdin=stdin)
        self.assertEqual(code, 2, out + err)
        self.assertIn(text, err)


class General(Program):
    def test_it_tells_its_version(self):
        code, out, _ = run("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^cachalot \d+\.\d+\.\d+\n$")

    def test_it_explains_itself(self):
        code, out, _ = run("replay", "--help")
        self.assertEqual(code, 0)
        for option in ["--config", "--torch", "--capacity", "--fraction", "--expect", "--script"]:
            self.assertIn(option, out)

    def test_a_wrong_call_is_exit_code_2(self):
        for call in [[], ["nonsense"], ["replay"], ["replay", "--nonsense", "x"]]:
            self.assertEqual(run(*call)[0], 2, call)
        for option, value in [
            ("--torch", "2.12"),
            ("--capacity", "80 GB"),
            ("--capacity", "0"),
            ("--capacity", "99999999999TiB"),
            ("--capacity", "5TiB"),
            ("--fraction", "-1"),
        ]:
            self.assertEqual(run("replay", option, value, self.trace())[0], 2, value)


class Replay(Program):
    def test_an_equal_run_is_exit_code_0(self):
        code, out, err = run("replay", "--expect", self.trace())
        self.assertEqual(code, 0, out + err)
        self.assertEqual(err, "")
        self.assertIn("4 of 4 events equal", out)
        self.assertIn("2 of 2 statistics equal", out)
        self.assertIn("PyTorch CUDA memory summary, device ID 0", out)
        self.assertRegex(out, r"segments +1 at the end, 1 at most")
        self.assertRegex(out, r"driver calls +1 obtained memory, 0 gave it back")

    def test_a_different_event_is_exit_code_1_and_is_shown(self):
        code, out, _ = run("replay", "--expect", self.trace(DIFFERENT))
        self.assertEqual(code, 1)
        self.assertIn("1 of 4 events equal", out)
        self.assertIn("first difference, line 3:", out)
        self.assertRegex(out, r"PyTorch +alloc 0x10000200, 512 bytes, stream 0x0")
        self.assertRegex(out, r"cachalot +alloc 0x10000000, 512 bytes, stream 0x0")

    def test_a_different_statistic_is_exit_code_1_and_is_shown(self):
        header = HEADER.replace("2097152", "2097153").replace("num_ooms", "num_of_nothing")
        code, out, _ = run("replay", "--expect", self.trace(header=header))
        self.assertEqual(code, 1)
        self.assertIn("0 of 2 statistics equal", out)
        self.assertRegex(out, r"reserved_bytes.all.peak +2,097,153 +2,097,152 +-1")
        self.assertRegex(out, r"num_of_nothing +0 +- +not in this release")

    def test_without_expect_differences_are_shown_only(self):
        code, out, _ = run("replay", self.trace(DIFFERENT))
        self.assertEqual(code, 0)
        self.assertNotIn("events equal", out)

    def test_options_of_the_call_take_the_place_of_recorded_ones(self):
        events = "a,10000000,1048577,0\n"
        call = ["--config", "large_segment_size_mb:40", "--torch", "2.15", "--capacity", "64MiB"]
        code, out, err = run("replay", *call, self.trace(events))
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"peak reserved +40.0 MiB")
        self.assertIn("as PyTorch 2.15 on a device of 0.1 GiB", out)
        code, out, _ = run("replay", "--capacity", "16MiB", self.trace(events))
        self.assertRegex(out, r"requests +1, of which 1 ran out of memory")
        code, out, _ = run("replay", "--capacity", "30MiB", "--fraction", "0.5", self.trace(events))
        self.assertRegex(out, r"requests +1, of which 1 ran out of memory")

    def test_brief_leaves_the_summary_out(self):
        _, out, _ = run("replay", "--brief", self.trace())
        self.assertNotIn("memory summary", out)

    def test_all_stats_shows_every_one(self):
        header = HEADER.replace("num_ooms", "segment.large_pool.peak")
        _, out, _ = run("replay", self.trace(header=header))
        self.assertNotIn("segment.large_pool.peak", out)
        _, out, _ = run("replay", "--all-stats", self.trace(header=header))
        self.assertIn("segment.large_pool.peak", out)

    def test_several_files_get_a_table_and_the_worst_exit_code(self):
        good = self.file("good.csv", HEADER + EVENTS)
        bad = self.file("bad.csv", HEADER + DIFFERENT)
        code, out, _ = run("replay", "--expect", "--brief", good, bad, good)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"good.csv +4 +4 +2 of 2 +0.0 MiB +2.0 MiB \(2.0 MiB\)")
        self.assertRegex(out, r"bad.csv +4 +1 +2 of 2")
        self.assertRegex(out, r"total +12 +9 +6 of 6")
        code, out, err = run("replay", "--expect", "--brief", bad, "/nonexistent", good)
        self.assertEqual(code, 2)
        self.assertIn("good.csv", out)
        self.assertIn("cachalot: /nonexistent: No such file or directory", err)

    def test_expect_refuses_other_options_and_releases(self):
        self.expect_failure("recorded options", "--expect", "--config", "x:1", self.trace())
        self.expect_failure("recorded release", "--expect", "--torch", "2.15", self.trace())


class Script(Program):
    def test_it_is_all_that_is_written(self):
        code, out, _ = run("replay", "--script", "--expect", self.trace())
        self.assertEqual(code, 0)
        self.assertEqual(
            out, "config \ndevice 1073741824 1\naddresses 10000000\na 1 512 0x0\nf 1\nstats\n"
        )

    def test_it_takes_one_file(self):
        self.expect_failure("--script takes one file", "--script", self.trace(), self.trace())


class Inspect(Program):
    def inspect(self, *arguments):
        code, out, err = run("inspect", *arguments)
        self.assertEqual(code, 0, out + err)
        return out

    # A large block is free, and a request of another stream gets memory of its own.
    FRAGMENTED = (
        "a,1000,3145728,0\nq,1000,3145728,0\nc,1000,3145728,0\na,2000,3145728,a0\n"
        "a,3000,1024,a0\n"
    )

    def test_it_shows_a_run_on_one_screen(self):
        out = self.inspect(self.trace(self.FRAGMENTED))
        self.assertLess(out.count("\n"), 30)
        self.assertIn("over 5 events", out)
        self.assertRegex(out, r"peak requested +3\.0 MiB +7\.1 %")
        self.assertRegex(out, r"peak reserved +42\.0 MiB +100\.0 %")
        self.assertRegex(out, r"stream 0xa0, default pools +2 +3\.0 MiB +3\.0 MiB\n")
        self.assertRegex(out, r"a request of 3\.0 MiB on stream 0xa0 \(event 3\) needed the driver")
        self.assertRegex(out, r"other_stream +1 +20\.0 MiB +20\.0 MiB\n")

    def test_the_chart_is_as_high_as_the_memory(self):
        out = self.inspect(self.trace(self.FRAGMENTED))
        rows = re.findall(r"│(.*)$", out, re.MULTILINE)
        self.assertEqual(len(rows), 6)
        self.assertEqual([len(row) for row in rows], [5] * 6)
        self.assertEqual([row[4] for row in rows], ["░"] * 5 + ["▃"], "3 of 42 MiB at the end")
        self.assertEqual([row[1] for row in rows][:3], [" ", " ", " "], "20 of 42 MiB before")

    def test_options_of_a_replay_are_taken(self):
        out = self.inspect(self.trace(self.FRAGMENTED), "--config", "expandable_segments:True", "--torch", "2.15")
        self.assertIn("as PyTorch 2.15", out)
        self.assertIn("options: expandable_segments:True", out)

    def test_json_has_what_is_documented(self):
        path = self.trace(self.FRAGMENTED)
        picture = json.loads(self.inspect("--json", path))
        self.assertEqual([picture["version"], picture["file"], picture["events"]], [1, path, 5])
        self.assertEqual(picture["figures"]["peak_reserved"], 42 << 20)
        self.assertEqual(picture["peaks"]["requested"], {"bytes": (3 << 20) + 1024, "event": 4})
        self.assertEqual([(row["stream"], row["blocks"]) for row in picture["holders"]], [("0xa0", 2)])
        self.assertEqual(picture["fragmented"]["event"], 3)
        self.assertEqual(picture["fragmented"]["report"]["reasons"][0]["reason"], "other_stream")
        self.assertEqual(picture["chart"]["reserved"], [20 << 20] * 3 + [40 << 20, 42 << 20])
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "report.md"),
                  encoding="utf-8") as page:
            documented = set(re.findall(r"`([a-z_]+)`", page.read()))
        self.assertLessEqual(set(picture), documented)

    def test_texts_of_a_recording_do_not_reach_the_terminals_controls(self):
        header = '# {"format": 2, "warm_up": 0, "workload": "\\u001b[32m", "command": "a\\u001b[33m"}\n# module 400000 500000 0 /nowhere/evil\x1b[31m\n# stack a 400010\n'
        out = self.inspect(self.trace("a,1000,512,0,0,,1,a,5,s\n", header))
        self.assertIn("evil?[31m+0x10, stream 0x0", out)
        self.assertNotIn("\x1b", out)

    def test_it_reads_a_pipe_once(self):
        recording = b'# {"format": 2, "command": "server"}\na,1000,512,0,0,,1,,5,s\n'
        code, out, err = run("inspect", "/dev/stdin", stdin=recording)
        self.assertEqual(code, 0, err)
        self.assertIn("cuMemAlloc", out)
        self.assertIn("peak requested", out)

    def test_a_run_of_nothing_has_no_chart(self):
        self.assertNotIn("│", self.inspect(self.trace("")))


class Files(Program):
    def expect_equal_run(self, path, stdin=b""):
        code, out, err = run("replay", "--expect", path, stdin=stdin)
        self.assertEqual(code, 0, out + err)
        self.assertIn("4 of 4 events equal", out)

    def test_may_be_packed_whatever_their_name(self):
        content = (HEADER + EVENTS).encode()
        self.expect_equal_run(self.file("a.csv.gz", gzip.compress(content)))
        self.expect_equal_run(self.file("a.csv.xz", lzma.compress(content)))
        self.expect_equal_run(self.file("renamed", lzma.compress(content)))

    def test_may_be_packed_in_several_parts(self):
        parts = [HEADER.encode(), EVENTS[:25].encode(), EVENTS[25:].encode()]
        self.expect_equal_run(self.file("a.gz", b"".join(map(gzip.compress, parts))))
        self.expect_equal_run(self.file("a.xz", b"".join(map(lzma.compress, parts))))

    def test_may_be_standard_input(self):
        content = (HEADER + EVENTS).encode()
        self.expect_equal_run("-", stdin=content)
        self.expect_equal_run("-", stdin=gzip.compress(content))

    def test_that_are_damaged_are_refused(self):
        content = HEADER.encode() + os.urandom(100000).hex().encode()
        for name, pack in [("gzip", gzip.compress), ("xz", lzma.compress)]:
            packed = pack(content)
            short = self.file("short", packed[: len(packed) // 2])
            self.expect_failure(f"the {name} file ends too early", short)
            wrong = bytearray(packed)
            for i in range(len(packed) // 2, len(packed) // 2 + 50):
                wrong[i] ^= 0xFF
            code, _, err = run("replay", self.file("wrong", bytes(wrong)))
            self.assertEqual(code, 2, err)

    def test_that_are_no_traces_are_refused_with_the_line(self):
        self.expect_failure("line 1: not a trace", self.file("empty", ""))
        self.expect_failure("line 1: not a trace", self.file("text", "hello\n"))
        self.expect_failure("line 1: not JSON", self.file("header", "# {oops\n"))
        self.expect_failure("line 3: not an event 'x'", self.trace(EVENTS[:21] + "x\n"))
        self.expect_failure("line 1,204: not an event", self.trace("s,0,0,0\n" * 1202 + "?"))
        self.expect_failure("standard input: line 1: not a trace", "-", stdin=b"\0" * 5000)
        self.expect_failure("Is a directory", self.folder)

    def test_that_can_not_have_happened_are_refused_with_the_line(self):
        self.expect_failure("line 2: 0x200 is freed but is not live", self.trace("q,200,1,0\n"))

    def test_of_random_bytes_never_crash_the_program(self):
        for i in range(50):
            noise = os.urandom(1 + 37 * i)
            for content in [noise, HEADER.encode() + noise, (HEADER + EVENTS).encode() + noise]:
                code, _, err = run("replay", "-", stdin=content)
                self.assertEqual(code, 2, err)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
