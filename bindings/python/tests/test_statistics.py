# SPDX-License-Identifier: MIT OR Apache-2.0
"""Statistics and the summary against what PyTorch 2.11 gave on a GPU for the same program."""

import json
import time
import unittest

from support import DATA, MIB, allocate, free, run

import cachalot_cuda


# What the program behind tests/data did: 4 blocks, 2 of them still there, one request that failed.
REFERENCE = """
from support import MIB, allocate, free
import cachalot_cuda, ctypes, json
from cachalot_cuda import _library
small, large = allocate(700 * 1024 - 100), allocate(5 * MIB)
huge, other = allocate(64 * MIB), allocate(3000)
free(huge); free(other)
cachalot_cuda.empty_cache()
print(json.dumps([cachalot_cuda.stats(), cachalot_cuda.memory_summary()]))
"""


def result_of(program, **values):
    done = run(program, **values)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Statistics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stats, cls.summary = result_of(REFERENCE, CACHALOT_RELEASE="2.11")

    def test_have_pytorchs_names_in_pytorchs_order(self):
        self.assertEqual(list(self.stats), list(json.loads((DATA / "memory_stats.json").read_text())))

    def test_count_blocks_and_bytes(self):
        self.assertEqual(self.stats["allocation.all.current"], 2)
        self.assertEqual(self.stats["allocation.all.allocated"], 4)
        self.assertEqual(self.stats["allocated_bytes.large_pool.current"], 5 * MIB)
        self.assertEqual(self.stats["requested_bytes.small_pool.current"], 700 * 1024 - 100)

    def test_have_one_more_name_since_2_12(self):
        stats, _ = result_of(REFERENCE, CACHALOT_RELEASE="2.15")
        self.assertEqual(set(stats) - set(self.stats), {"num_oom_rejections"})

    def test_the_summary_has_pytorchs_layout(self):
        expected = (DATA / "memory_summary.txt").read_text().splitlines()
        lines = self.summary.splitlines()
        self.assertEqual(len(lines), len(expected))
        for line, reference in zip(lines, expected):
            self.assertEqual(len(line), len(reference))
            self.assertEqual(line.split("|")[1].rstrip("0123456789 "), reference.split("|")[1].rstrip("0123456789 "))


class OneDevice(unittest.TestCase):
    def test_nested_statistics_have_the_same_numbers(self):
        block = allocate(3 * MIB)
        flat, nested = cachalot_cuda.stats(), cachalot_cuda.nested_stats()
        self.assertEqual(nested["active_bytes"]["large_pool"]["current"], flat["active_bytes.large_pool.current"])
        self.assertEqual(nested["num_ooms"], flat["num_ooms"])
        self.assertEqual(sorted(nested), sorted({name.split(".")[0] for name in flat}))
        free(block)

    def test_current_and_peak_bytes_follow_the_blocks(self):
        before = cachalot_cuda.memory_allocated()
        block = allocate(10 * MIB)
        self.assertEqual(cachalot_cuda.memory_allocated(), before + 10 * MIB)
        free(block)
        self.assertEqual(cachalot_cuda.memory_allocated(), before)
        self.assertGreaterEqual(cachalot_cuda.max_memory_allocated(), before + 10 * MIB)
        cachalot_cuda.reset_peak_stats()
        self.assertEqual(cachalot_cuda.max_memory_allocated(), before)

    def test_emptying_the_cache_gives_segments_back(self):
        free(allocate(100 * MIB))
        reserved = cachalot_cuda.memory_reserved()
        cachalot_cuda.empty_cache()
        self.assertLessEqual(cachalot_cuda.memory_reserved(), reserved - 100 * MIB)
        self.assertGreaterEqual(cachalot_cuda.max_memory_reserved(), reserved)

    def test_a_phase_leaves_nothing_in_the_cache_however_it_ends(self):
        cachalot_cuda.empty_cache()
        reserved = cachalot_cuda.memory_reserved()
        with cachalot_cuda.empty_cache_on_exit():
            free(allocate(100 * MIB))
            self.assertGreater(cachalot_cuda.memory_reserved(), reserved)
        self.assertEqual(cachalot_cuda.memory_reserved(), reserved)
        with self.assertRaises(KeyError), cachalot_cuda.empty_cache_on_exit():
            free(allocate(100 * MIB))
            raise KeyError
        self.assertEqual(cachalot_cuda.memory_reserved(), reserved)

    def test_trimming_gives_idle_segments_back_and_says_how_much(self):
        cachalot_cuda.empty_cache()
        free(allocate(100 * MIB))
        reserved = cachalot_cuda.memory_reserved()
        self.assertEqual(cachalot_cuda.trim(), 100 * MIB)
        self.assertEqual(cachalot_cuda.memory_reserved(), reserved - 100 * MIB)
        self.assertEqual(cachalot_cuda.trim(), 0)

    def test_trimming_leaves_what_may_stay(self):
        cachalot_cuda.empty_cache()
        free(allocate(100 * MIB))
        self.assertEqual(cachalot_cuda.trim(keep_bytes=cachalot_cuda.memory_reserved()), 0)
        self.assertEqual(cachalot_cuda.trim("cuda:0", keep_bytes=cachalot_cuda.memory_reserved() - 1), 100 * MIB)

    def test_trimming_takes_what_has_been_idle_long_enough(self):
        cachalot_cuda.empty_cache()
        free(allocate(100 * MIB))
        self.assertEqual(cachalot_cuda.trim(min_idle=0.01), 0, "the first one only looks")
        time.sleep(0.02)
        self.assertEqual(cachalot_cuda.trim(min_idle=float("inf")), 0)
        self.assertEqual(cachalot_cuda.trim(min_idle=1000), 0)
        self.assertEqual(cachalot_cuda.trim(min_idle=0.01), 100 * MIB)

    def test_trimming_refuses_what_is_below_0(self):
        for wrong in ({"keep_bytes": -1}, {"min_idle": -0.5}, {"min_idle": float("nan")}):
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, next(iter(wrong))):
                cachalot_cuda.trim(**wrong)

    def test_metrics_are_a_page_with_the_same_numbers(self):
        block = allocate(3 * MIB)
        lines = cachalot_cuda.metrics().splitlines()
        current = cachalot_cuda.stats()["allocated_bytes.large_pool.current"]
        self.assertIn("# TYPE cachalot_allocated_bytes gauge", lines)
        self.assertIn(f'cachalot_allocated_bytes{{device="0",pool="large"}} {current}', lines)
        free(block)

    def test_metrics_are_read_whole(self):
        self.assertGreater(len(cachalot_cuda.metrics()), 4096)
        self.assertTrue(cachalot_cuda.metrics().endswith("\n"))

    def test_sums_can_be_reset(self):
        free(allocate(1000))
        cachalot_cuda.reset_accumulated_stats()
        self.assertEqual(cachalot_cuda.stats()["allocation.all.allocated"], 0)

    def test_the_short_summary_leaves_the_pools_out(self):
        self.assertNotIn("from large pool", cachalot_cuda.memory_summary(abbreviated=True))
        self.assertIn("from large pool", cachalot_cuda.memory_summary())

    def test_a_device_can_be_given_as_in_pytorch(self):
        class Device:
            index = 0

        for device in (None, 0, "cuda:0", "cuda", Device()):
            self.assertEqual(cachalot_cuda.memory_summary(device), cachalot_cuda.memory_summary(0))

    def test_a_device_that_there_is_not_is_an_error_with_its_number(self):
        for function in (cachalot_cuda.stats, cachalot_cuda.memory_summary, cachalot_cuda.reset_peak_stats,
                         cachalot_cuda.trim):
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, "7"):
                function(7)


if __name__ == "__main__":
    unittest.main()
