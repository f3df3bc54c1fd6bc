# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recordings, and the files of out-of-memory errors."""

import os
import pickle
import tempfile
import unittest

from support import MIB, allocate, free, run

import cachalot_cuda


class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "run")
        self.folder = folder.name

    def lines(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_begins_with_what_is_live_and_tells_labels(self):
        live = allocate(1000)
        with cachalot_cuda.record(self.path, workload="test") as recorder:
            with cachalot_cuda.label("model"):
                free(allocate(3 * MIB))
            recorder.flush()
            stats = recorder.stats()
            self.assertEqual(recorder.path(), self.path)
        lines = self.lines()
        self.assertIn('"workload": "test"', lines[0])
        self.assertIn(f"b,{live:x},1000,0", lines[1])
        self.assertIn("# label 1 model", lines)
        self.assertTrue(lines[-1].startswith("z,0,0,"))
        self.assertEqual((stats.lost, stats.events >= 4), (0, True))
        with self.assertRaises(cachalot_cuda.InvalidArgumentError):
            recorder.stats()
        recorder.stop()
        free(live)

    def test_refuses_what_does_not_fit(self):
        for wrong in ({"contexts": "stacks"}, {"max_bytes": 5}):
            with self.assertRaises(cachalot_cuda.InvalidArgumentError):
                cachalot_cuda.record(self.path, **wrong)
        with self.assertRaises(cachalot_cuda.Error):
            cachalot_cuda.record(os.path.join(self.folder, "no", "such"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_out_of_memory_error_leaves_its_files(self):
        live = allocate(4321)
        cachalot_cuda.dump_out_of_memory(self.folder, events=100)
        allocate(1 << 40)
        free(live)
        cachalot_cuda.dump_out_of_memory(None)
        allocate(1 << 40)
        names = [f"{os.getpid()}-1.{part}" for part in ("events.csv", "report.json", "snapshot.pickle", "trace.csv")]
        self.assertEqual(sorted(os.listdir(self.folder)), names)
        with open(os.path.join(self.folder, f"{os.getpid()}-1.snapshot.pickle"), "rb") as file:
            snapshot = pickle.load(file)
        sizes = [block["requested_size"] for segment in snapshot["segments"] for block in segment["blocks"]]
        self.assertIn(4321, sizes)
        events = snapshot["device_traces"][0]
        self.assertEqual((events[-1]["action"], events[-1]["size"]), ("oom", 1 << 40))

    def test_the_environment_starts_one(self):
        done = run("from support import allocate, free; free(allocate(7777))", CACHALOT_TRACE=self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(any(",7777," in line for line in self.lines()[1:4]))


if __name__ == "__main__":
    unittest.main()
