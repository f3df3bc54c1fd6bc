# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pinned host memory."""

import ctypes
import gc
import json
import types
import unittest

from support import MIB, run

import cachalot_cuda
from cachalot_cuda import PinnedMemory, pinned_memory, pinned_stats

STREAM = 0x10


def active():
    return pinned_stats()["active_requests"]["current"]


class Blocks(unittest.TestCase):
    def setUp(self):
        self.assertEqual(active(), 0)

    def tearDown(self):
        gc.collect()
        self.assertEqual(active(), 0, "a test leaves a block behind")

    def test_are_bytes_that_can_be_written(self):
        for size in (1, 513, 3 * MIB):
            with pinned_memory(size) as memory:
                self.assertEqual((len(memory), len(memory.view), memory.address % 512), (size, size, 0))
                self.assertFalse(memory.view.readonly)
                memory.view[:] = b"\x07" * size
                self.assertEqual(ctypes.string_at(memory.address, size), bytes(memory.view))
                self.assertEqual(active(), 1)
            self.assertEqual(active(), 0)

    def test_go_back_once_when_they_are_closed(self):
        memory = pinned_memory(4096)
        self.assertIs(memory.view, memory.view)
        memory.close()
        memory.close()
        self.assertEqual(active(), 0)
        for use in (lambda: memory.view, lambda: memory.record_stream(STREAM)):
            with self.assertRaisesRegex(cachalot_cuda.InvalidStateError, "closed"):
                use()
        self.assertIn("4096 bytes, closed", repr(memory))

    def test_go_back_when_nobody_has_them(self):
        memory = pinned_memory(4096)
        self.assertIn(f"{memory.address:#x}, 4096 bytes)", repr(memory))
        del memory
        self.assertEqual(active(), 0)

    def test_stay_as_long_as_something_that_was_made_of_them(self):
        for make in (lambda view: view, lambda view: view[10:20], memoryview, lambda view: view[::2], lambda view: view.cast("I"),
                     (ctypes.c_ubyte * 10).from_buffer):
            with pinned_memory(4096) as memory:
                memory.view[:] = b"\x05" * 4096
                made = make(memory.view)
            del memory
            self.assertEqual(active(), 1)
            with pinned_memory(4096) as other:  # is no memory of somebody else
                other.view[:] = b"\x06" * 4096
            self.assertEqual(bytes(made)[:4], b"\x05" * 4)
            del made, other
            self.assertEqual(active(), 0)

    def test_of_no_bytes_are_empty(self):
        with pinned_memory(0) as memory:
            self.assertEqual((memory.address, bytes(memory.view)), (0, b""))
            with self.assertRaises(cachalot_cuda.InvalidArgumentError):
                memory.record_stream(STREAM)
        self.assertEqual(active(), 0)

    def test_of_a_size_that_no_memory_has_are_refused(self):
        for size in (-1, 2**63, 2**64):
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, str(size)):
                PinnedMemory(size)
        with self.assertRaises(cachalot_cuda.Error):
            pinned_memory(2**62)

    def test_that_a_stream_uses_say_so_by_any_kind_of_stream(self):
        with pinned_memory(4096) as memory:
            memory.record_stream(STREAM)
            memory.record_stream(STREAM, "cuda:0")
            memory.record_stream(types.SimpleNamespace(cuda_stream=STREAM, device="cuda:0"))
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, "7"):
                memory.record_stream(STREAM, 7)
        pinned_memory(4096).close()  # which completes the free before it

    def test_that_are_left_at_the_end_of_the_process_do_no_harm(self):
        done = run("import cachalot_cuda\nmemory = cachalot_cuda.pinned_memory(4096)\nmemory.view[0] = 1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Statistics(unittest.TestCase):
    def test_count_blocks_and_the_drivers_calls(self):
        done = run("import json, cachalot_cuda\nfrom cachalot_cuda import *\nrows = []\n"
                   "keep = lambda: rows.append(cachalot_cuda.pinned_stats())\n"
                   "memory = pinned_memory(3000)\nkeep()\nmemory.close()\nempty_pinned_cache()\nkeep()\n"
                   "reset_pinned_peak_stats()\nreset_pinned_accumulated_stats()\nkeep()\nprint(json.dumps(rows))")
        first, second, third = json.loads(done.stdout)
        self.assertEqual(first["allocated_bytes"], {"current": 4096, "peak": 4096, "allocated": 4096, "freed": 0})
        self.assertEqual((first["active_requests"]["current"], first["allocate_times"]["count"]), (1, 1))
        self.assertEqual(second["allocations"], {"current": 0, "peak": 1, "allocated": 1, "freed": 1})
        self.assertEqual(second["free_times"]["count"], 1)
        self.assertEqual(third["allocations"], {"current": 0, "peak": 0, "allocated": 0, "freed": 0})
        self.assertEqual(third["allocate_times"], {"count": 0, "total": 0, "min": 0, "max": 0})

    def test_are_those_of_a_devices_cache_where_the_environment_says_so(self):
        program = ("import cachalot_cuda\nmemory = cachalot_cuda.pinned_memory(3000)\n"
                   "print(cachalot_cuda.pinned_stats()['allocated_bytes']['current'])")
        self.assertEqual(run(program, CACHALOT_PINNED_CONF="").stdout.strip(), str(2 * MIB))
        self.assertEqual(run(program).stdout.strip(), "4096")
