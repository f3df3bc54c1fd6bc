#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page of `cachalot report`: its form, and that its data are what the library's replay did.

Usage: report_test.py PROGRAM LIBRARY [unittest arguments]. CACHALOT_TEST_SEED sets the seed of the made-up recordings.
"""
import base64
import hashlib
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
import unittest

import made_trace
from library import Library
from page_data import read_page

PROGRAM = LIBRARY = ""
SEED = int(os.environ.get("CACHALOT_TEST_SEED", "1"))
TRACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "traces")
MIB = 1 << 20


def run(*arguments):
    result = subprocess.run([PROGRAM, *arguments], capture_output=True, check=False)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, text, name="made.trace"):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        return self.path(name)

    def page(self, *arguments):
        code, out, err = run("report", *arguments, "-o", self.path("page.html"))
        self.assertEqual(code, 0, out + err)
        with open(self.path("page.html"), encoding="utf-8") as page:
            return page.read()


class Form(Report):
    def setUp(self):
        super().setUp()
        self.text = self.page(self.file(made_trace.trace(SEED, 600)))
        self.elements, self.document, self.runs = read_page(self.text)

    def test_the_page_asks_for_nothing_outside_of_itself(self):
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', self.text).group(1)
        self.assertIn("default-src 'none'", policy)
        for name, value in self.elements.attributes:
            self.assertNotIn(name, ("src", "srcset", "integrity", "action"))
            self.assertFalse(name == "href" and not value.startswith("#"), value)

    def test_only_the_pages_own_script_may_run(self):
        allowed = re.search(r"script-src ([^;\"]*)", self.text).group(1)
        code = [text for attributes, text in self.elements.scripts if "type" not in attributes]
        self.assertEqual(len(code), 1)
        digest = base64.b64encode(hashlib.sha256(code[0].encode()).digest()).decode()
        self.assertEqual(allowed, f"'sha256-{digest}'")

    def test_texts_of_a_recording_are_no_markup(self):
        self.assertEqual(self.document["runs"][0]["workload"], made_trace.HOSTILE)
        self.assertNotIn("img", self.elements.names)
        self.assertNotIn("<img", self.text)

    def test_the_libraries_inside_come_with_their_licences(self):
        for words in ["Leon Sorokin", "Mike Bostock", "Apache License"]:
            self.assertIn(words, self.text)

    def test_equal_calls_write_equal_pages(self):
        self.assertEqual(self.page(self.path("made.trace")), self.text)

    def test_each_number_of_a_text_is_of_one(self):
        facts = self.runs[0].facts
        for frames in facts["contexts"]:
            for text in frames:
                self.assertLess(text, len(facts["texts"]))


class Data(Report):
    def setUp(self):
        super().setUp()
        self.library = Library(LIBRARY)

    def expect_snapshots(self, text, moments, capacity=0, config=None):
        options = (["--capacity", str(capacity)] if capacity else []) + (["--config", config] if config is not None else [])
        run_ = read_page(self.page(self.file(text), *options))[2][0]
        trace = self.library.read(text)
        for moment in moments(run_):
            with self.subTest(seed=SEED, moment=moment):
                expected = self.library.sums(trace, moment, capacity, config.encode() if config is not None else None)
                self.assertEqual(run_.sums(moment), expected)
        self.library.destroy(trace)
        return run_

    @staticmethod
    def some(run_):
        events = run_.facts["events"]
        peaks = [peak["event"] for peak in run_.facts["peaks"].values()]
        return sorted({*range(0, events, max(1, events // 40)), *peaks, events - 1})

    def test_sums_of_moments_are_those_of_the_snapshot(self):
        self.expect_snapshots(made_trace.trace(SEED, 1500, devices=2), self.some)

    def test_so_are_those_of_expandable_segments_and_where_requests_fail(self):
        run_ = self.expect_snapshots(made_trace.trace(SEED + 1, 1500), self.some, 300 * MIB, "expandable_segments:True")
        self.assertGreater(run_.facts["failure_count"], 0)
        self.assertTrue(any(r.expandable for r in run_.ranges))

    def test_so_are_those_where_a_part_is_unmapped_of_what_was_mapped_at_once(self):
        whole = "a,1000,62914560,0\nq,1000,62914560,0\nc,1000,62914560,0\n"
        parts = ["a,2000,20971520,0\n", "a,3000,20971520,0\n", "a,4000,20971520,0\n"]
        for freed, ranges in [("2", [(20, 40)]), ("3", [(0, 20), (40, 20)]), ("4", [(0, 40)])]:
            free = f"q,{freed}000,20971520,0\nc,{freed}000,20971520,0\nU,{freed}000,20971520,0\n"
            text = '# {"warm_up": 0}\n' + whole + "".join(parts) + free
            run_ = self.expect_snapshots(text, lambda run_: [7, 8], 0, "expandable_segments:True")
            there = [r for r in run_.ranges if r.end > 8]
            first = min(r.address for r in run_.ranges)
            self.assertEqual([((r.address - first) // MIB, r.size // MIB) for r in there], ranges)

    def test_so_are_those_of_a_real_run(self):
        with lzma.open(os.path.join(TRACES, "tenants_streams.csv.xz"), "rt") as file:
            text = file.read()
        self.expect_snapshots(text, lambda run_: [0, 30_000, run_.facts["peaks"]["reserved"]["event"], 92_393])

    def test_figures_are_those_of_the_replay(self):
        path = os.path.join(TRACES, "gnn_train.csv.xz")
        facts = read_page(self.page(path))[1]["runs"][0]
        _, out, _ = run("replay", path)
        recorded = dict(re.findall(r"^  ([\w.]+) +([\d,]+) +[\d,]+ +equal$", out, re.MULTILINE))
        for ours, theirs in [("peak_reserved", "reserved_bytes.all.peak"), ("peak_requested", "requested_bytes.all.peak"),
                             ("peak_allocated", "allocated_bytes.all.peak")]:
            self.assertEqual(facts["figures"][ours], int(recorded[theirs].replace(",", "")))
            self.assertEqual(facts["peaks"][ours.removeprefix("peak_")]["bytes"], facts["figures"][ours])

    def test_times_are_those_of_the_recording(self):
        text = made_trace.trace(SEED, 300)
        times = [int(line.split(",")[6]) for line in text.splitlines() if not line.startswith("#")]
        run_ = read_page(self.page(self.file(text)))[2][0]
        self.assertEqual(run_.times, [time - times[0] for time in times])

    def test_blocks_have_the_contexts_of_their_requests(self):
        text = made_trace.trace(SEED, 300)
        run_ = read_page(self.page(self.file(text)))[2][0]
        lines = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
        for block in run_.blocks:
            context = int(lines[block.begin][7] or "0", 16)
            frames = run_.facts["contexts"][block.kind[3]]
            self.assertEqual(len(frames), 4 if context else 0, "three calls in a library, one in the program")
            if context:
                self.assertEqual(run_.facts["texts"][frames[-1]], f"libmodel.so+0x{16 * (context % 3):x}")


    def test_labels_are_paths_of_their_parts(self):
        facts = read_page(self.page(self.file(made_trace.trace(SEED, 300, contexts=made_trace.labels))))[1]["runs"][0]
        self.assertEqual(facts["contexts_are"], "labels")
        paths = {"/".join(facts["texts"][text] for text in frames) for frames in facts["contexts"]}
        self.assertEqual(paths, {"", "model-a/weights", "model-a/kv-cache", "model-b/weights", made_trace.HOSTILE, "model-b"})


    def test_stacks_that_a_history_described_are_stacks(self):
        text = '# {"format": 2, "warm_up": 0}\n# label a inner\\nouter\na,1000,512,0,,,,a\n'
        facts = read_page(self.page(self.file(text)))[1]["runs"][0]
        self.assertEqual([facts["contexts_are"], facts["texts"]], ["stacks", ["outer", "inner"]])


class Requests(Report):
    def test_a_miss_says_what_was_obtained_and_why_the_cache_had_nothing(self):
        events = "a,1000,3145728,0\nq,1000,3145728,0\nc,1000,3145728,0\na,2000,3145728,a0\n"
        facts = read_page(self.page(self.file('# {"warm_up": 0}\n' + events)))[1]["runs"][0]
        first, second = sorted(facts["misses"], key=lambda row: row["event"])
        self.assertEqual([first["event"], first["obtained"], first["given_back"]], [0, 20 * MIB, 0])
        self.assertIsNone(facts["reports"][first["report"]], "nothing was there yet")
        self.assertEqual([second["event"], second["obtained"]], [3, 20 * MIB])
        self.assertEqual([(row["reason"], row["bytes"]) for row in facts["reports"][second["report"]]["reasons"]],
                         [("other_stream", 20 * MIB)])

    def test_a_request_that_retries_says_what_was_given_back_for_it(self):
        events = "a,1000,52428800,0\nq,1000,52428800,0\nc,1000,52428800,0\na,2000,62914560,0\n"
        facts = read_page(self.page(self.file('# {"warm_up": 0}\n' + events), "--capacity", "100MiB"))[1]["runs"][0]
        row = max(facts["misses"], key=lambda row: row["event"])
        self.assertEqual([row["event"], row["obtained"], row["given_back"]], [3, 60 * MIB, 50 * MIB])

    def test_a_failure_has_its_report(self):
        events = "a,1000,62914560,0\na,2000,62914560,0\n"
        facts = read_page(self.page(self.file('# {"warm_up": 0}\n' + events), "--capacity", "100MiB"))[1]["runs"][0]
        self.assertEqual(facts["failure_count"], 1)
        row = facts["failures"][0]
        self.assertEqual([row["event"], row["requested"], row["is_recorded"]], [1, 60 * MIB, False])
        report = facts["reports"][row["report"]]
        self.assertEqual([report["request"]["outcome"], report["reserved"]], ["fails", 60 * MIB])

    def test_a_failure_of_the_recorded_run_is_told_too(self):
        events = "a,1000,1048576,0\no,4096,62914560,0\n"
        facts = read_page(self.page(self.file('# {"warm_up": 0}\n' + events)))[1]["runs"][0]
        self.assertEqual([(row["event"], row["is_recorded"]) for row in facts["failures"]], [(1, True)])
        self.assertEqual(facts["figures"]["out_of_memory"], 0)

    def test_costs_of_the_recorded_program_choose_misses_too(self):
        text = made_trace.trace(SEED, 2500, pools=False)
        facts = read_page(self.page(self.file(text), "--policy", "serving"))[1]["runs"][0]
        self.assertTrue(all("cost_ns" in row for row in facts["misses"]))
        self.assertLessEqual(len(facts["misses"]), 200)


class Pairs(Report):
    def test_a_file_is_compared_with_itself_under_other_options(self):
        path = self.file(made_trace.trace(SEED, 600))
        _, document, runs = read_page(self.page(path, "--against-config", "expandable_segments:True"))
        self.assertEqual([facts["config"] for facts in document["runs"]], ["", "expandable_segments:True"])
        self.assertEqual([any(r.expandable for r in run_.ranges) for run_ in runs], [False, True])

    def test_a_pipe_is_read_once(self):
        recording = made_trace.trace(SEED, 30).encode()
        result = subprocess.run([PROGRAM, "report", "-", "--against-config", "", "-o", self.path("page.html")], input=recording,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_two_files_are_compared(self):
        first = self.file(made_trace.trace(SEED, 600), "first.csv")
        second = self.file(made_trace.trace(SEED + 1, 300), "second.csv")
        _, document, _ = read_page(self.page(first, second))
        self.assertEqual([(facts["name"], facts["events"] // 10) for facts in document["runs"]],
                         [("first", 60), ("second", 30)])

    def test_three_are_too_many(self):
        path = self.file(made_trace.trace(SEED, 30))
        code, _, err = run("report", path, path, path, "-o", self.path("page.html"))
        self.assertEqual(code, 2)
        self.assertIn("a page compares two runs", err)
        self.assertFalse(os.path.exists(self.path("page.html")))


class Calls(Report):
    def test_what_cannot_be_read_or_written_is_told_in_a_line(self):
        path = self.file(made_trace.trace(SEED, 30))
        for arguments, text in [(["/nowhere"], "/nowhere: No such file"), ([path, "-o", "/nowhere/page"], "cannot be written"),
                                ([path, "--config", "nonsense:1"], "nonsense"), ([self.file("x\n", "x")], "line 1")]:
            code, _, err = run("report", *arguments)
            self.assertEqual((code, err.count("\n")), (2, 1), err)
            self.assertIn(text, err)

    def test_a_run_of_nothing_has_a_page(self):
        facts = read_page(self.page(self.file('# {"warm_up": 0}\n')))[1]["runs"][0]
        self.assertEqual([facts["events"], facts["block_count"], facts["failure_count"]], [0, 0, 0])

    def test_a_run_of_a_million_events_has_a_page_below_15_megabytes(self):
        text = self.page(os.path.join(TRACES, "kv_server.csv.xz"))
        self.assertLess(len(text), 15 * MIB)
        self.assertEqual(json.loads(re.search(r'id="document">(.*?)</script>', text).group(1))["runs"][0]["events"], 1353882)


if __name__ == "__main__":
    PROGRAM, LIBRARY = sys.argv[1:3]
    print(f"CACHALOT_TEST_SEED={SEED}")
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
