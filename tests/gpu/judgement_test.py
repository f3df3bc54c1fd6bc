#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of policy_judgement.py and ballast.py that need no GPU: a program here stands for the contenders.

    judgement_test.py
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import ballast  # noqa: E402
import policy_judgement  # noqa: E402

# Needs so much of what is requested, in percent; dies where FAKE_DIES is its name.
FAKE_WORKER = r"""
import json, os, sys
needs = {"": 112.3, "expandable_segments:True": 104.1, "backend:cudaMallocAsync": 109.9}
policies = {"serving": 100.6, "serving,streams=announced": 100.6, "serving,thrift,streams=announced": 100.6,
            "serving,page=8MiB,streams=announced": 100.6, "pytorch,page=2MiB": 101.7}
policy = os.environ.get("CACHALOT_POLICY", "")
need = policies.get(policy) or needs[os.environ["PYTORCH_CUDA_ALLOC_CONF"]]
if policy == os.environ.get("FAKE_REFUSED"):
    print(json.dumps({"ready": False, "why": "refused"}))
    sys.exit()
print("a line of a library")
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    cap = order["cap"]
    if cap is not None and policy and policy == os.environ.get("FAKE_DIES"):
        os.kill(os.getpid(), 11)
    finished = cap is None or cap >= need * 10000
    digest = "other" if cap is not None and policy and policy == os.environ.get("FAKE_WRONG") else "same"
    seconds = [need / 100, need / 200, need / 400][:order["passes"] if finished else 0]
    print(json.dumps({"finished": finished, "why": None if finished else "out of memory: no", "seconds": seconds,
                      "digest": digest, "peaks": {"requested": 1000000, "reserved": int(need * 20000)}}), flush=True)
"""
FAKE_HOLDER = "import sys\nfor line in sys.stdin: print(int(line), flush=True)\n"


class Search(unittest.TestCase):
    def asked(self, need, hint=None):
        asked = []
        found = policy_judgement.smallest(lambda steps: asked.append(steps) or steps >= need, hint)
        return found, asked

    def test_finds_every_number_of_steps(self):
        for need in range(1, policy_judgement.MOST_STEPS + 1):
            self.assertEqual(need, self.asked(need)[0])

    def test_finds_none_where_nothing_suffices(self):
        self.assertIsNone(self.asked(policy_judgement.MOST_STEPS + 1)[0])

    def test_a_right_hint_takes_two_runs(self):
        self.assertEqual((25, [24, 25]), self.asked(25, 25))

    def test_a_wrong_hint_does_not_matter(self):
        for hint in range(1, 60):
            for need in range(1, 60):
                self.assertEqual(need, self.asked(need, hint)[0], (hint, need))

    def test_ends_where_there_is_no_time(self):
        self.assertIsNone(policy_judgement.smallest(lambda steps: None))


class WithFakes(unittest.TestCase):
    def judge(self, *arguments, **environment):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("worker", FAKE_WORKER), ("holder", FAKE_HOLDER)):
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            result = subprocess.run(
                [sys.executable, str(HERE / "policy_judgement.py"), "--worker", f"{folder}/worker", "--holder",
                 f"{folder}/holder", "--out", folder, "--program", "gpt2", "--rounds", "2", *arguments],
                env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=100, check=False)
            return result, json.loads(pathlib.Path(folder, "judgement.json").read_text(encoding="utf-8"))

    def test_fits_and_times_are_those_of_the_contenders(self):
        result, figures = self.judge()
        self.assertEqual(0, result.returncode, result.stdout)
        rows = figures[0]["rows"]
        fits = {name: round(row["fit"], 3) for name, row in rows.items()}
        self.assertEqual({"PyTorch": 1.125, "PyTorch, expandable": 1.045, "serving": 1.01, "serving, thrift": 1.01,
                          "serving, pages of 8 MiB": 1.01, "expandable, pages of 2 MiB": 1.02,
                          "cudaMallocAsync": 1.1, "cachalot": 1.125, "cachalot, expandable": 1.045,
                          "serving, streams unannounced": 1.01}, fits)
        self.assertEqual([1.006, 1.006], rows["serving"]["times"])
        self.assertEqual(["0.377"] * 2, [f"{time:.3f}" for time in rows["serving"]["times going on"]])
        self.assertIn("| serving | 1 | 1.010 | 1.010 | 2.01 | 2.01 | 0.966 | 0.966 | 0.966 | 0.966 |", result.stdout)

    def test_fits_can_be_those_of_an_earlier_call(self):
        with tempfile.TemporaryDirectory() as folder:
            earlier = [{"program": "gpt2", "rows": {"PyTorch": {"steps": 30, "fit": 1.15}}}]
            pathlib.Path(folder, "judgement.json").write_text(json.dumps(earlier), encoding="utf-8")
            result, figures = self.judge("--fits", folder)
        self.assertEqual(0, result.returncode, result.stdout)
        rows = figures[0]["rows"]
        self.assertEqual(1.15, rows["PyTorch"]["fit"])
        self.assertNotIn("fit", rows["serving"])
        self.assertEqual(2, len(rows["serving"]["times going on"]))
        self.assertEqual(1265000, figures[0]["capacity of the times"])

    def test_one_that_cannot_run_is_told_about(self):
        result, figures = self.judge(FAKE_REFUSED="pytorch,page=2MiB")
        self.assertEqual(0, result.returncode, result.stdout)
        self.assertEqual("refused", figures[0]["rows"]["expandable, pages of 2 MiB"]["why"])
        self.assertIn("| expandable, pages of 2 MiB | cannot run: refused |", result.stdout)

    def test_one_that_dies_fails(self):
        result, figures = self.judge(FAKE_DIES="serving,streams=announced")
        self.assertEqual(1, result.returncode, result.stdout)
        self.assertIn("died: exit code", figures[0]["rows"]["serving"]["deaths"][0])
        self.assertIn("fit", figures[0]["rows"]["cachalot"])

    def test_another_result_fails(self):
        result, figures = self.judge(FAKE_WRONG="serving,thrift,streams=announced")
        self.assertEqual(1, result.returncode, result.stdout)
        self.assertFalse(figures[0]["rows"]["serving, thrift"]["equal"])

    def test_ends_in_time_with_what_there_is(self):
        result, figures = self.judge("--seconds", "31", "--program", "bert", FAKE_DIES="none")
        self.assertEqual(0, result.returncode, result.stdout)
        self.assertEqual("gpt2", figures[0]["program"])


class FakeDriver:
    def __init__(self, free):
        self.free = free

    def free_bytes(self):
        return self.free

    def allocate(self, size):
        self.free -= size
        return size

    def release(self, size):
        self.free += size


class BallastLeaves(unittest.TestCase):
    def test_at_most_what_is_wanted_and_nearly_that(self):
        held = ballast.Ballast(FakeDriver(80 << 30))
        for wanted in (1 << 30, (5 << 30) + 12345, 3 << 20):
            free = held.leave(wanted)
            self.assertTrue(wanted - 2 * ballast.PAGE < free <= wanted)
        held.release()
        self.assertEqual(80 << 30, held.driver.free)

    def test_not_more_than_there_is(self):
        self.assertRaises(MemoryError, ballast.Ballast(FakeDriver(1000)).leave, 2000)


if __name__ == "__main__":
    unittest.main()
