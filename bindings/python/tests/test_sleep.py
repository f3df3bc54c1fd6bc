# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pools that sleep."""

import json
import unittest

from support import MIB, run

import cachalot_cuda

PRELUDE = """
import ctypes, dataclasses, json
import cachalot_cuda
from cachalot_cuda import _c, _library, errors
from support import MIB, allocate, free, route_all
POOL = (0, 7)

def make_pool(track_labels=False):
    if track_labels:
        options = _c.AllocatorOptions(track_labels=1)
        _library.call("pluggable_set_options", b"host:1GiB", ctypes.byref(options))
    _library.call("pool_create", _library.allocator(), 0, _c.PoolId(*POOL), ctypes.byref(_c.PoolOptions()))

def block_of_pool(size, fill=None):
    end = route_all(POOL)
    block = allocate(size)
    end()
    if fill is not None: ctypes.memset(block, fill, size)
    return block

def has(block, size, byte):
    return ctypes.string_at(block, size) == bytes([byte]) * size

def nap(keep):
    cachalot_cuda.sleep_pool(POOL, 0, keep)
    cachalot_cuda.wake_pool(POOL, 0)

def refusal(function, *arguments):
    try: function(*arguments)
    except errors.Error as error: return [type(error).__name__, str(error)]

stats = lambda *pool: dataclasses.asdict(cachalot_cuda.sleep_stats(None, *pool))
"""


def output(program, driver="host:1GiB", config="expandable_segments:True"):
    """What a program prints, in a process of its own."""
    done = run(PRELUDE + program, CACHALOT_DRIVER=driver, CACHALOT_ALLOC_CONF=config)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class PoolsThatSleep(unittest.TestCase):
    def test_give_their_memory_back_and_get_it_again(self):
        freed, asleep, device, awake, reserved = output(
            "make_pool()\nblock = block_of_pool(30 * MIB)\nfreed = cachalot_cuda.sleep_pool(POOL, 0)\n"
            "asleep, device, reserved = stats(POOL), stats(), [cachalot_cuda.memory_reserved()]\n"
            "cachalot_cuda.wake_pool(POOL, 0)\nreserved.append(cachalot_cuda.memory_reserved())\n"
            "print(json.dumps([freed, asleep, device, stats(), reserved]))", "sim:1GiB")
        self.assertEqual((freed, reserved), (40 * MIB, [0, 40 * MIB]))
        kept = asleep["kept_bytes"]
        self.assertGreaterEqual(kept, 30 * MIB)
        expected = {"state": "asleep", "pools": 1, "blocks": 1, "allocated_bytes": 30 * MIB,
                    "asleep_bytes": 40 * MIB, "kept_bytes": kept, "num_sleeps": 0, "num_wakes": 0}
        self.assertEqual(asleep, expected)
        self.assertEqual(device, {**expected, "state": "awake", "num_sleeps": 1})
        self.assertEqual(awake, {**dict.fromkeys(expected, 0), "state": "awake", "num_sleeps": 1, "num_wakes": 1})

    def test_keep_contents_or_lose_them(self):
        self.assertEqual([True, True, True], output(
            "make_pool()\nblock = block_of_pool(30 * MIB, 17)\nseen = []\n"
            "for keep, byte in ((True, 17), ('all', 17), (False, 0)):\n"
            "    nap(keep)\n"
            "    seen.append(has(block, 30 * MIB, byte))\n"
            "print(json.dumps(seen))"))

    def test_keep_contents_by_label(self):
        self.assertEqual([True, True], output(
            "make_pool(track_labels=True)\nblocks = []\n"
            "for name in ('weights', 'kv-cache'):\n"
            "    with cachalot_cuda.label(name): blocks.append(block_of_pool(40 * MIB, 17))\n"
            "cachalot_cuda.set_sleep_contents(POOL, 'kv-cache', False)\nnap(True)\n"
            "print(json.dumps([has(blocks[0], 40 * MIB, 17), has(blocks[1], 40 * MIB, 0)]))"))

    def test_are_refused_what_does_not_fit(self):
        seen = output(
            "make_pool()\nblock = block_of_pool(MIB)\n"
            "seen = [refusal(cachalot_cuda.wake_pool, POOL, 0), refusal(cachalot_cuda.sleep_pool, POOL, 0, 'some'),\n"
            "        refusal(cachalot_cuda.sleep_pool, (0, 9), 0), refusal(cachalot_cuda.sleep_stats, None, (0, 9)),\n"
            "        refusal(cachalot_cuda.set_sleep_contents, POOL, 'kv-cache', False)]\n"
            "end = route_all(POOL)\nseen.append(refusal(cachalot_cuda.sleep_pool, POOL, 0))\nend()\n"
            "cachalot_cuda.sleep_pool(POOL, 0)\nseen.append(refusal(cachalot_cuda.sleep_pool, POOL, 0))\n"
            "seen.append(refusal(cachalot_cuda.pin, block, 1))\nfree(block)\ncachalot_cuda.wake_pool(POOL, 0)\n"
            "print(json.dumps(seen))")
        kinds, texts = zip(*seen)
        self.assertEqual(kinds, ("InvalidStateError", "InvalidArgumentError") + ("InvalidStateError",) * 6)
        self.assertEqual(texts[0], "pool (0, 7) does not sleep")
        self.assertEqual(texts[1], "keep must be True, False or \"all\", not 'some'")
        self.assertEqual(texts[5], "requests are routed to pool (0, 7)")

    def test_are_in_expandable_segments(self):
        kind, text = output(
            "make_pool()\nblock_of_pool(MIB)\nprint(json.dumps(refusal(cachalot_cuda.sleep_pool, POOL, 0)))", config="")
        self.assertEqual(kind, "Error")
        self.assertIn("only expandable segments come back at their addresses", text)

    def test_sleep_on_where_there_is_no_memory(self):
        kind, state, awake = output(
            "make_pool()\nblock = block_of_pool(30 * MIB)\ncachalot_cuda.sleep_pool(POOL, 0)\n"
            "other = allocate(60 * MIB)\nkind, _ = refusal(cachalot_cuda.wake_pool, POOL, 0)\n"
            "state = stats(POOL)['state']\nfree(other)\ncachalot_cuda.wake_pool(POOL, 0)\n"
            "print(json.dumps([kind, state, stats(POOL)['state']]))", "sim:64MiB")
        self.assertEqual((kind, state, awake), ("OutOfMemoryError", "asleep", "awake"))

    def test_are_of_devices_that_there_are(self):
        with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, "7"):
            cachalot_cuda.sleep_stats(7)


if __name__ == "__main__":
    unittest.main()
