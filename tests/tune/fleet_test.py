#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""cachalot_cuda.fleet on a local cluster of Ray: results, going on, a worker that is killed, what a fleet costs.

Usage: fleet_test.py PROGRAM TRACES [unittest arguments]
"""
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = str(HERE.parent.parent / "bindings" / "python")
sys.path.insert(0, PACKAGE)
os.environ["PYTHONPATH"] = PACKAGE  # of the workers

import ray  # noqa: E402

from cachalot_cuda import fleet  # noqa: E402

PROGRAM = ""
TRACES = pathlib.Path()
CONFIGS = ("", "expandable_segments:True")


class Fleet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)

    @classmethod
    def tearDownClass(cls):
        ray.shutdown()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.recordings, self.results = (os.path.join(folder.name, name) for name in ("recordings", "results"))
        os.mkdir(self.recordings)
        for name in ("resnet50_train", "gpt2_train"):
            shutil.copy(TRACES / f"{name}.csv.xz", self.recordings)

    def run_fleet(self, program=None):
        return fleet.run(self.recordings, self.results, CONFIGS, program or PROGRAM, progress=io.StringIO())

    def test_each_recording_has_a_row_for_each_string_as_tune_says_it(self):
        self.assertEqual(self.run_fleet(), 4)
        rows = fleet.read(self.results).to_pylist()
        self.assertEqual(len(rows), 4)
        for row in rows:
            command = [PROGRAM, "tune", "--json", "--only", "--strings", "0", "--config", row["config"], row["recording"]]
            said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["runs"][0]["results"][0]
            self.assertEqual((row["fits_bytes"], row["driver_calls"]), (said["fits_bytes"], said["driver_calls"]))

    def test_what_is_done_is_not_done_again(self):
        self.run_fleet()
        victim = sorted(pathlib.Path(self.results).iterdir())[0]
        victim.unlink()
        self.assertEqual(self.run_fleet(), 1)
        self.assertTrue(victim.exists())
        self.assertEqual(self.run_fleet(), 0)

    def test_what_is_no_recording_is_a_row_that_says_so(self):
        pathlib.Path(self.recordings, "broken.csv").write_text("# {}\nhello\n")
        self.run_fleet()
        errors = [row for row in fleet.read(self.results).to_pylist() if row["error"]]
        self.assertEqual(len(errors), 2)
        self.assertIn("line 2", errors[0]["error"])

    def test_a_worker_that_is_killed_loses_nothing(self):
        slow = pathlib.Path(self.recordings).parent / "slow"
        slow.write_text(f'#!/bin/sh\necho $$ >> "{slow}.pids"\nsleep 2\nexec "{PROGRAM}" "$@"\n')
        slow.chmod(0o755)
        killer = threading.Thread(target=self.kill_first_worker, args=(pathlib.Path(f"{slow}.pids"),))
        killer.start()
        self.run_fleet(str(slow))
        killer.join()
        self.assertTrue(self.killed)
        self.assertEqual(len(fleet.read(self.results)), 4)
        self.assertGreater(len(pathlib.Path(f"{slow}.pids").read_text().split()), 4)  # one has run twice

    def kill_first_worker(self, pids):
        while not pids.exists() or not pids.read_text().split():
            time.sleep(0.05)
        status = pathlib.Path(f"/proc/{pids.read_text().split()[0]}/status").read_text()
        parent = int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])
        os.kill(parent, signal.SIGKILL)
        self.killed = True

    def test_what_a_thousand_recordings_cost(self):
        shutil.copy(TRACES / "kv_server.csv.xz", self.recordings)
        begin = time.monotonic()
        tasks = self.run_fleet()
        seconds = time.monotonic() - begin
        events = sum(row["events"] for row in fleet.read(self.results).to_pylist())
        hours = seconds * 2 / events * 1e6 * 1000 / 3600
        print(f"{tasks} tasks, {events:,} events in {seconds:.1f} s on 2 cores: a thousand recordings of a million events "
              f"take {hours:.1f} core hours a string")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    TRACES = pathlib.Path(sys.argv.pop(1))
    unittest.main()
