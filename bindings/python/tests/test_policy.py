# SPDX-License-Identifier: MIT OR Apache-2.0
"""The serving policy, pins and the end of streams."""

import json
import unittest

from support import MIB, allocate, free, run

import cachalot_cuda
from cachalot_cuda import Policy

PRELUDE = """
import dataclasses, json
import cachalot_cuda
from support import MIB, allocate, free
FIRST, SECOND = 0x10, 0x20
reserved = cachalot_cuda.memory_reserved
stats = lambda: dataclasses.asdict(cachalot_cuda.policy_stats())
"""


def serving(program, policy="serving"):
    """What a program under the serving policy prints, in a process of its own."""
    done = run(PRELUDE + program, CACHALOT_POLICY=policy)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Policies(unittest.TestCase):
    def test_are_read_and_written_as_text(self):
        for text, policy in {
            "pytorch": Policy(),
            "pytorch,page=2MiB": Policy(page_bytes=2 * MIB),
            "serving": Policy("serving"),
            "serving,streams=announced": Policy("serving", streams="announced"),
            "serving,streams=unannounced": Policy("serving", streams="unannounced"),
            "serving,thrift,page=8MiB,borrow=at_limit": Policy("serving", True, "at_limit", page_bytes=8 * MIB),
            "serving,thrift,page=8MiB,borrow=at_limit,streams=announced":
                Policy("serving", True, "at_limit", "announced", 8 * MIB),
            "serving,page=64KiB": Policy("serving", page_bytes=1 << 16),
            "serving,page=1GiB,borrow=never": Policy("serving", borrow="never", page_bytes=1 << 30),
        }.items():
            self.assertEqual(Policy.parse(text), policy)
            self.assertEqual(str(policy), text)

    def test_that_do_not_exist_are_refused_with_what_was_expected(self):
        with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError,
                                    r"expected pytorch\[,page=SIZE\], or serving with any of"):
            Policy.parse("serving,thrifty")
        with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, "a page of 3145728 bytes"):
            Policy.parse("serving,page=3MiB")

    def test_are_pytorchs_unless_another_is_asked_for(self):
        self.assertEqual(cachalot_cuda.policy(), Policy("pytorch"))
        self.assertEqual(cachalot_cuda.policy_stats(), cachalot_cuda.PolicyStats(0, 0, 0, 0, 0, 0, 0))

    def test_are_told_with_the_size_of_their_pages(self):
        program = "print(json.dumps(dataclasses.asdict(cachalot_cuda.policy())))"
        for text, streams in (("", "unannounced"), (",streams=announced", "announced")):
            self.assertEqual(serving(program, "serving,thrift" + text),
                             {"name": "serving", "thrift": True, "borrow": "first", "streams": streams,
                              "page_bytes": 2 * MIB})

    def test_lend_blocks_of_another_stream_which_is_waited_for(self):
        same, stats = serving(
            "block = allocate(4 * MIB, 0, FIRST); free(block)\n"
            "print(json.dumps([allocate(4 * MIB, 0, SECOND) == block, stats()]))")
        self.assertTrue(same)
        self.assertEqual(stats, {"pages_created": 2, "pages_moved": 0, "pages_released": 0, "blocks_borrowed": 1,
                                 "stream_waits": 1, "host_waits": 0, "pinned_bytes": 0})

    def test_do_not_wait_for_a_stream_that_has_ended(self):
        stats = serving(
            "import types\n"
            "free(allocate(4 * MIB, 0, FIRST))\ncachalot_cuda.stream_ended(FIRST)\n"
            "free(allocate(4 * MIB, 0, SECOND))\n"
            "cachalot_cuda.stream_ended(types.SimpleNamespace(cuda_stream=SECOND, device='cuda:0'))\n"
            "free(allocate(4 * MIB, 0, FIRST))\nprint(json.dumps(stats()))")
        self.assertEqual((stats["blocks_borrowed"], stats["stream_waits"]), (1, 0))

    def test_know_no_device_that_there_is_not(self):
        for function in (cachalot_cuda.policy_stats, lambda device: cachalot_cuda.stream_ended(0, device)):
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, "7"):
                function(7)


class Storage:
    """What a tensor and its storage have in common here."""

    def __init__(self, address, size):
        self.address, self.size = address, size

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size


class Tensor(Storage):
    def untyped_storage(self):
        return Storage(self.address - 512, self.size + 1024)


class Pins(unittest.TestCase):
    def setUp(self):
        cachalot_cuda.empty_cache()
        self.block = allocate(12 * MIB)
        self.is_live = True
        self.addCleanup(self.free)

    def free(self):
        if self.is_live:
            self.is_live = False
            free(self.block)

    def pinned(self):
        return cachalot_cuda.policy_stats().pinned_bytes

    def test_keep_a_segment_that_was_freed_until_they_are_left(self):
        before = cachalot_cuda.memory_reserved()
        with cachalot_cuda.pin(self.block, 12 * MIB) as pin:
            self.assertEqual((pin.address, pin.size), (self.block, 12 * MIB))
            self.free()
            cachalot_cuda.empty_cache()
            self.assertEqual(cachalot_cuda.memory_reserved(), before)
            self.assertEqual(self.pinned(), 12 * MIB)
        cachalot_cuda.empty_cache()
        self.assertEqual(cachalot_cuda.memory_reserved(), before - 12 * MIB)

    def test_end_once_also_by_an_exception(self):
        with self.assertRaises(KeyError), cachalot_cuda.pin(self.block, 1) as pin:
            raise KeyError
        self.assertEqual(self.pinned(), 0)
        pin.close()
        self.assertIn("closed", repr(pin))

    def test_keep_single_pages_under_the_serving_policy(self):
        self.assertEqual([2 * MIB, 0], serving(
            "block = allocate(8 * MIB)\npin = cachalot_cuda.pin(block + 3 * MIB, MIB)\nfree(block)\n"
            "cachalot_cuda.empty_cache()\nseen = [reserved()]\npin.close()\n"
            "cachalot_cuda.empty_cache()\nprint(json.dumps([*seen, reserved()]))"))

    def test_take_the_storage_of_a_tensor_or_a_part(self):
        tensor = Tensor(self.block + 512, 1024)
        with cachalot_cuda.pin(tensor) as pin:
            self.assertEqual((pin.address, pin.size), (self.block, 2048))
        with cachalot_cuda.pin(tensor, 100) as pin:
            self.assertEqual((pin.address, pin.size), (self.block + 512, 100))

    def test_refuse_what_is_no_part_of_a_live_block(self):
        for text, arguments in (("0 bytes cannot be pinned", (self.block, 0)),
                                ("do not lie in one live block of the cache", (self.block, 13 * MIB)),
                                ("do not lie in one live block of the cache", (4096, 1)),
                                ("expected a size", (self.block,)),
                                ("size must be from 0", (self.block, -1)),
                                ("memory must be from 0", (2**64, 1))):
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, text):
                cachalot_cuda.pin(*arguments)
        self.assertEqual(self.pinned(), 0)


if __name__ == "__main__":
    unittest.main()
