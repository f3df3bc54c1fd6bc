# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of the live allocator, one at a time."""

import unittest

from support import MIB

import cachalot_cuda

VALUES = {
    "max_split_size": 64 * MIB,
    "max_non_split_rounding_size": 48 * MIB,
    "large_segment_size": 16 * MIB,
    "garbage_collection_threshold": 0.5,
    "per_process_memory_fraction": 0.25,
    "roundup_bypass_threshold": 200 * MIB,
    "expandable_segments": True,
    "release_lock_on_cudamalloc": True,
    "graph_capture_record_stream_reuse": True,
    "throw_on_cudamalloc_oom": True,
    "pinned_use_background_threads": True,
    "pinned_use_cuda_host_register": True,
    "pinned_free_catch_all": True,
    "pinned_num_register_threads": 8,
    "pinned_reserve_segment_size_mb": 512,
    "pinned_max_round_threshold": 64 * MIB,
    "pinned_max_cached_size": 128 * MIB,
    "roundup_power2_divisions": [8] * 16,
}


class Settings(unittest.TestCase):
    def setUp(self):
        before = cachalot_cuda.settings()

        def restore():
            for name in reversed(VALUES):
                getattr(cachalot_cuda, "set_" + name)(before[name])
        self.addCleanup(restore)

    def test_each_setter_changes_one_option(self):
        expected = cachalot_cuda.settings()
        self.assertEqual(set(expected), set(VALUES))
        for name, value in VALUES.items():
            getattr(cachalot_cuda, "set_" + name)(value)
            expected[name] = value
            self.assertEqual(cachalot_cuda.settings(), expected, name)

    def test_none_is_no_limit_and_one_number_is_for_all_sizes(self):
        cachalot_cuda.set_max_split_size(64 * MIB)
        cachalot_cuda.set_max_split_size(None)
        self.assertIsNone(cachalot_cuda.settings()["max_split_size"])
        cachalot_cuda.set_roundup_power2_divisions(4)
        self.assertEqual(cachalot_cuda.settings()["roundup_power2_divisions"], [4] * 16)

    def test_a_string_changes_what_it_names(self):
        cachalot_cuda.set_garbage_collection_threshold(0.5)
        expected = {**cachalot_cuda.settings(), "max_split_size": 64 * MIB}
        cachalot_cuda.update_config("max_split_size_mb:64")
        self.assertEqual(cachalot_cuda.settings(), expected)

    def test_what_is_refused_changes_nothing(self):
        before = cachalot_cuda.settings()
        for text, function, value in (
                ("max_split_size_mb too small, must be >= 20", cachalot_cuda.set_max_split_size, 1),
                ("bytes must be from 0 to 2\\*\\*64 - 1, not -1", cachalot_cuda.set_max_split_size, -1),
                ("count is 0", cachalot_cuda.set_roundup_power2_divisions, []),
                ("count is 2", cachalot_cuda.set_roundup_power2_divisions, [4, 4]),
                ("Unrecognized key 'none'", cachalot_cuda.update_config, "max_split_size_mb:64,none:1")):
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, text):
                function(value)
            self.assertEqual(cachalot_cuda.settings(), before)


if __name__ == "__main__":
    unittest.main()
