#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`cachalot tune` as its users meet it: what it says is what `cachalot replay` does.

Usage: tune_test.py PROGRAM TRACES [unittest arguments]
"""
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report"))
from page_data import read_page  # noqa: E402

PROGRAM = ""
TRACES = pathlib.Path()
MIB = 1 << 20
SEED = int(os.environ.get("CACHALOT_TEST_SEED", "1"))
COSTS = {"gpu": "made up", "driver": 13000,
         "calls": {"cuMemAlloc": [[MIB, 1000, 3000], [101 * MIB, 2000, 6000]], "cuMemFree": [[MIB, 500, 500]]}}


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def failures(trace, row, capacity):
    """How many requests fail on a device of this size."""
    code, out, err = run("replay", "--brief", "--config", row["config"], "--policy", row["policy"] or "pytorch",
                         "--capacity", capacity, trace)
    assert code == 0, err
    return int(re.search(r"of which ([\d,]+) ran out of memory", out)[1].replace(",", ""))


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trace(self, events, name="run.csv", torch="2.15.0", device=1 << 30):
        path = self.folder / name
        header = {"torch": torch, "device_total": device, "warm_up": 0}
        path.write_text(f"# {json.dumps(header)}\n" + "".join(f"{event}\n" for event in events))
        return path

    def costs(self):
        path = self.folder / "costs.json"
        path.write_text(json.dumps(COSTS))
        return path

    def tune(self, *arguments):
        code, out, err = run("tune", "--json", *arguments)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def expect_failure(self, text, *arguments):
        code, out, err = run("tune", *arguments)
        self.assertEqual((code, out), (2, ""))
        self.assertIn(text, err)
        self.assertEqual(err.count("\n"), 1, err)


def random_events(seed, count=400):
    """Requests of a few sizes, freed in any order."""
    chosen = random.Random(seed)
    sizes = [chosen.randrange(1, 40 * MIB) for _ in range(12)]
    live, events = {}, []
    for i in range(count):
        if live and (len(live) > 20 or chosen.random() < 0.45):
            address = chosen.choice(sorted(live))
            line = f"{address:x},{live.pop(address)},0"
            events += [f"q,{line}", f"c,{line}"]
        else:
            address, size = (i + 1) << 32, chosen.choice(sizes)
            live[address] = size
            events.append(f"a,{address:x},{size},0")
    return events


class Answers(Tune):
    def check_row(self, trace, row):
        self.assertEqual(failures(trace, row, row["fits_bytes"]), 0, row)
        self.assertGreater(failures(trace, row, row["fails_bytes"]), 0, row)
        self.assertGreaterEqual(row["fails_bytes"], int(row["fits_bytes"] / 1.0041), row)

    def test_a_run_finishes_on_the_smallest_device_and_fails_one_step_below(self):
        for name in ("resnet50_train", "gpt2_train", "tenants_streams"):
            trace = TRACES / f"{name}.csv.xz"
            for row in self.tune("--strings", "0", trace)["runs"][0]["results"]:
                with self.subTest(name, config=row["config"], policy=row["policy"]):
                    self.check_row(trace, row)

    def test_the_answers_are_those_that_pytorchs_binary_confirmed(self):
        rows = json.loads(pathlib.Path(__file__).with_name("confirmed.json").read_text())
        for name in ("prefetch_streams.csv.xz", "resnet50_train.csv.xz", "tenants_streams.csv.xz"):
            confirmed = [row for row in rows if row["file"] == name]
            configs = [word for row in confirmed for word in ("--config", row["config"])]
            answer = self.tune("--only", "--strings", "0", *configs, TRACES / name)["runs"][0]
            self.assertEqual(len(confirmed), 3)
            for ours, theirs in zip(answer["results"], confirmed):
                with self.subTest(name, config=theirs["config"]):
                    self.assertEqual({key: ours[key] for key in ("config", "fits_bytes", "fails_bytes")},
                                     {key: theirs[key] for key in ("config", "fits_bytes", "fails_bytes")})

    def test_a_run_finishes_on_each_larger_device_in_steps_of_four_thousandths(self):
        trace = self.trace(random_events(SEED))
        for row in self.tune("--strings", "0", trace)["runs"][0]["results"]:
            capacity = row["fits_bytes"]
            self.check_row(trace, row)
            for _ in range(40):
                with self.subTest(seed=SEED, config=row["config"], policy=row["policy"], capacity=capacity):
                    self.assertEqual(failures(trace, row, capacity), 0)
                capacity = int(capacity * 1.004) + 1

    def test_the_search_finds_a_smaller_device_than_the_usual_advice(self):
        answer = self.tune(TRACES / "tenants_streams.csv.xz")["runs"][0]
        found = [row for row in answer["results"] if row["found_by_search"]]
        usual = [row for row in answer["results"] if not row["found_by_search"] and not row["policy"]]
        self.assertGreater(answer["strings_tried"], 100)
        self.assertLess(min(row["fits_bytes"] for row in found), min(row["fits_bytes"] for row in usual))
        for row in found:
            self.check_row(TRACES / "tenants_streams.csv.xz", row)

    def test_the_search_tries_no_pages_that_the_driver_refuses(self):
        trace = self.trace(random_events(SEED, count=60))
        for seed in range(8):
            self.tune("--strings", "200", "--seed", seed, trace)

    def test_a_search_with_the_same_seed_finds_the_same_whatever_the_threads(self):
        trace = self.trace(random_events(SEED))
        answers = [self.tune("--strings", "60", "--seed", "5", "--threads", threads, trace) for threads in (1, 3)]
        self.assertEqual(answers[0], answers[1])

    def test_the_price_is_that_of_the_calls_on_the_device_that_is_asked_for(self):
        size = 51 * MIB  # a segment of 52 MiB: 0.51 of the way between the two costs
        trace = self.trace([f"a,100000000,{size},0"])
        row = self.tune("--strings", "0", "--costs", self.costs(), trace)["runs"][0]["results"][0]
        self.assertEqual((row["config"], row["driver_calls"], row["retries"]), ("", 1, 0))
        self.assertAlmostEqual(row["cost_ms"], 0.00453)  # the first call of a program is a cold one
        self.assertEqual(row["left_bytes"], (1 << 30) - 52 * MIB)

    def test_a_call_costs_more_the_longer_the_program_has_worked_since_the_last_one(self):
        def cost(us):
            trace = self.trace([f"a,100000000,{51 * MIB},0,0,,1000000", f"a,200000000,{51 * MIB},0,0,,{1000000 + us}"])
            return self.tune("--strings", "0", "--costs", self.costs(), trace)["runs"][0]["results"][0]["cost_ms"] * 1e6
        base = cost(0)  # the second call right behind the first
        self.assertAlmostEqual(cost(60) - base, 0)
        self.assertAlmostEqual(cost(1024) - base, 3020 * math.log10(1024 * 1.41 / 100) / 2)
        self.assertAlmostEqual(cost(10 ** 7) - base, 3020)

    def test_requests_that_fail_on_the_device_that_is_asked_for_are_counted(self):
        trace = self.trace([f"a,{i}00000000,{40 * MIB},0" for i in range(1, 5)])
        row = self.tune("--strings", "0", "--capacity", "100MiB", trace)["runs"][0]["results"][0]
        self.assertEqual((row["out_of_memory"], row["fits_bytes"]), (2, 160 * MIB))

    def test_what_is_reserved_for_others_cannot_be_used(self):
        trace = self.trace([f"a,{i}00000000,{40 * MIB},0" for i in range(1, 5)])
        answer = self.tune("--strings", "0", "--capacity", "200MiB", "--reserve", "50MiB", trace)["runs"][0]
        self.assertEqual((answer["device_bytes"], answer["usable_bytes"]), (200 * MIB, 150 * MIB))
        self.assertEqual(answer["results"][0]["out_of_memory"], 1)

    def test_of_several_runs_together_the_largest_device_counts(self):
        small = self.trace([f"a,100000000,{40 * MIB},0"], "small.csv")
        large = self.trace([f"a,100000000,{80 * MIB},0"], "large.csv")
        answer = self.tune("--strings", "0", small, large)
        singles = [run["results"][0]["fits_bytes"] for run in answer["runs"]]
        self.assertEqual(singles, [40 * MIB, 80 * MIB])
        self.assertEqual(answer["together"]["results"][0]["fits_bytes"], 80 * MIB)

    def test_a_run_that_is_held_back_shows_whether_the_advice_carries_over(self):
        trace = self.trace(random_events(SEED))
        other = self.trace(random_events(SEED, count=300), "other.csv")
        row = self.tune("--strings", "0", "--check", other, trace)["held_back"][0]
        self.assertEqual(row["file"], str(other))
        self.assertEqual(failures(other, {"config": "", "policy": ""}, row["fits_bytes_of_defaults"]), 0)

    def test_the_defaults_are_recommended_where_nothing_needs_less(self):
        trace = self.trace([f"a,100000000,{40 * MIB},0"])
        recommended = self.tune("--strings", "40", trace)["runs"][0]["recommended"]
        self.assertEqual(recommended["config"], "")
        self.assertIn("needs less", recommended["reason"])

    def test_rows_on_the_front_are_those_that_no_other_beats_in_both(self):
        rows = self.tune(TRACES / "tenants_streams.csv.xz")["runs"][0]["results"]
        for row in rows:
            beaten = any(other["fits_bytes"] <= row["fits_bytes"] and other["cost_ms"] <= row["cost_ms"] and
                         (other["fits_bytes"], other["cost_ms"]) != (row["fits_bytes"], row["cost_ms"]) for other in rows)
            self.assertEqual(row["is_on_front"], not beaten, row)


class Texts(Tune):
    def test_the_table_says_what_the_steps_are_and_what_is_recommended(self):
        code, out, err = run("tune", "--strings", "0", TRACES / "resnet50_train.csv.xz")
        self.assertEqual((code, err), (0, ""))
        for text in ("steps of at most", "not monotone", "recommended: expandable_segments:True", "mind: expandable"):
            self.assertIn(text, out)

    def test_a_user_who_stops_it_gets_what_is_done(self):
        command = [PROGRAM, "tune", "--json", "--strings", "1000000", str(TRACES / "gnn_train.csv.xz")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tuning:
            time.sleep(3)
            tuning.send_signal(signal.SIGINT)
            out, err = tuning.communicate(timeout=60)
        self.assertEqual((tuning.returncode, err), (0, ""))
        self.assertFalse(json.loads(out)["is_complete"])

    def test_who_stops_it_before_a_string_is_looked_at_is_told_so(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen([PROGRAM, "tune", str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tuning:
            with open(pipe, "wb") as recording:  # once it is read
                tuning.send_signal(signal.SIGINT)
                recording.write((TRACES / "gnn_train.csv.xz").read_bytes())
            out, err = tuning.communicate(timeout=60)
        self.assertEqual((tuning.returncode, out), (2, ""))
        self.assertEqual(err, "cachalot: stopped while the recordings were read: nothing has been looked at\n")


class Pages(Tune):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "page.html"

    def document(self):
        return read_page(self.path.read_text())[1]

    def shown(self):
        return [(run["name"], run["config"], run["policy"], run["capacity"]) for run in self.document()["runs"]]

    def test_a_page_has_the_answer_that_programs_get(self):
        trace, held_back = self.trace(random_events(SEED)), self.trace(random_events(SEED, count=300), "other.csv")
        code, out, err = run("tune", "--json", "--strings", "20", "--check", held_back, "-o", self.path, trace)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"^\S+page\.html: 0\.\d MiB\n$")
        self.assertEqual(self.document()["tune"], json.loads(out))

    def test_it_has_the_run_under_the_defaults_and_under_the_string_to_take_on_the_device_that_is_asked_for(self):
        code, out, _ = run("tune", "--strings", "0", "--capacity", "8GiB", "--reserve", "512MiB", "-o", self.path,
                           TRACES / "resnet50_train.csv.xz")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"\n\S+page\.html: \d\.\d MiB\n$")
        self.assertEqual(self.shown(), [("resnet50_train", config, "pytorch", 7680 * MIB)
                                        for config in ("", "expandable_segments:True")])

    def test_of_several_recordings_it_has_the_one_that_needs_the_largest_device(self):
        traces = [self.trace([f"a,100000000,{size * MIB},0"], f"{size}.csv") for size in (40, 80, 60)]
        self.assertEqual(run("tune", "--strings", "0", "-o", self.path, *traces)[0], 0)
        self.assertEqual(self.shown(), [("80", "", "pytorch", 1 << 30)], "where the defaults are recommended there is nothing to compare")

    def test_who_stops_it_gets_a_page_of_what_is_done(self):
        command = [PROGRAM, "tune", "--strings", "1000000", "-o", str(self.path), str(TRACES / "gnn_train.csv.xz")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tuning:
            time.sleep(3)
            tuning.send_signal(signal.SIGINT)
            _, err = tuning.communicate(timeout=60)
        self.assertEqual((tuning.returncode, err), (0, ""))
        self.assertFalse(self.document()["tune"]["is_complete"])

    def test_a_file_that_cannot_be_written_is_told_before_a_recording_is_read(self):
        for path in ("/nowhere/page.html", self.folder):
            self.expect_failure(f"{path} cannot be written: ", "-o", path, "/nowhere/run.csv")

    def test_a_search_that_fails_leaves_no_page_and_an_old_one_as_it_is(self):
        self.expect_failure("/nowhere/run.csv", "-o", self.path, "/nowhere/run.csv")
        self.assertFalse(self.path.exists())
        self.path.write_text("an old one")
        self.expect_failure("/nowhere/run.csv", "-o", self.path, "/nowhere/run.csv")
        self.assertEqual(self.path.read_text(), "an old one")


class Failures(Tune):
    def test_what_is_no_recording_is_refused(self):
        path = self.folder / "text.csv"
        path.write_text("# {}\nhello\n")
        self.expect_failure("text.csv: line 2: not an event", path)

    def test_options_that_no_allocator_takes_are_refused(self):
        trace = self.trace([f"a,100000000,{40 * MIB},0"])
        self.expect_failure("max_split_size_mb", "--config", "max_split_size_mb:1", trace)
        self.expect_failure("sewing", "--policy", "sewing", trace)

    def test_costs_that_cannot_be_read_are_refused(self):
        trace = self.trace([f"a,100000000,{40 * MIB},0"])
        self.expect_failure("neither H100, H200 nor a file", "--costs", "A100", trace)
        path = self.folder / "costs.json"
        for text in ("[]", "{", '{"calls": {"cuMemAlloc": [[2, 1, 1], [1, 1, 1]]}}', '{"calls": {"cuMemFree": [[1, -1, 1]]}}'):
            path.write_text(text)
            self.expect_failure("costs.json", "--costs", path, trace)

    def test_a_reserve_that_leaves_nothing_is_refused(self):
        trace = self.trace([f"a,100000000,{40 * MIB},0"])
        self.expect_failure("--reserve takes 1.0 GiB of a device of 1.0 GiB", "--reserve", "1GiB", trace)

    def test_a_machine_without_a_gpu_cannot_measure(self):
        code, out, err = run("measure")
        if code == 0:
            self.skipTest("this machine has a GPU")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("no CUDA driver", err)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    TRACES = pathlib.Path(sys.argv.pop(1))
    unittest.main()
