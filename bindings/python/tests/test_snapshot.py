# SPDX-License-Identifier: MIT OR Apache-2.0
"""Snapshots and history in the form of torch.cuda.memory._snapshot."""

import json
import os
import pickle
import pickletools
import tempfile
import unittest

from support import MIB, allocate, free, run

import cachalot_cuda

SEGMENT = ["device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream",
           "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks"]
BLOCK = ["address", "size", "requested_size", "state", "frames"]
ENTRY = ["action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata"]


class Snapshot(unittest.TestCase):
    def setUp(self):
        cachalot_cuda.record_history(context=None, clear=True)
        self.addCleanup(cachalot_cuda.record_history, None)

    def test_has_pytorchs_keys_in_pytorchs_order(self):
        block = allocate(1000)
        taken = cachalot_cuda.snapshot()
        self.assertEqual(list(taken), ["segments", "device_traces", "allocator_settings", "external_annotations"])
        self.assertEqual(list(taken["segments"][0]), SEGMENT)
        self.assertEqual(list(taken["segments"][0]["blocks"][0]), BLOCK)
        self.assertEqual(list(taken["device_traces"][0][0])[:len(ENTRY)], ENTRY)
        free(block)

    def test_blocks_cover_their_segment(self):
        blocks = [allocate(size) for size in (1000, 300_000, 5 * MIB)]
        for segment in cachalot_cuda.snapshot()["segments"]:
            address = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], address)
                address += block["size"]
            self.assertEqual(address, segment["address"] + segment["total_size"])
        for block in blocks:
            free(block)

    def test_shows_what_was_asked_for_and_on_which_stream(self):
        address = allocate(12345, stream=0x70)
        segments = [s for s in cachalot_cuda.snapshot()["segments"] if s["stream"] == 0x70]
        block = segments[0]["blocks"][0]
        self.assertEqual((block["address"], block["requested_size"], block["state"]),
                         (address, 12345, "active_allocated"))
        free(address)

    def test_the_history_has_the_events_in_order(self):
        cachalot_cuda.empty_cache()
        cachalot_cuda.record_history(context=None, clear=True)
        free(allocate(2000, stream=0x80))
        allocate(1 << 40)
        entries = [e for e in cachalot_cuda.snapshot()["device_traces"][0] if e["stream"] in (0x80, 0)]
        actions = [entry["action"] for entry in entries]
        self.assertEqual(actions, ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "oom"])
        self.assertIn("device_free", entries[-1])
        self.assertNotIn("addr", entries[-1])

    def test_leaves_the_history_out_where_it_is_not_wanted(self):
        free(allocate(1000))
        self.assertEqual(cachalot_cuda.snapshot(with_history=False)["device_traces"], [[]])

    def test_skipped_actions_are_not_kept(self):
        cachalot_cuda.record_history(context=None, clear=True, skip_actions=["alloc"])
        free(allocate(1000))
        actions = [entry["action"] for entry in cachalot_cuda.snapshot()["device_traces"][0]]
        self.assertNotIn("alloc", actions)
        self.assertIn("free_completed", actions)

    def test_a_word_that_is_none_is_an_error_and_changes_nothing(self):
        for arguments in ({"enabled": "some"}, {"context": "some"}, {"skip_actions": ["some"]}):
            with self.assertRaisesRegex(cachalot_cuda.InvalidArgumentError, "some"):
                cachalot_cuda.record_history(**arguments)

    def test_a_dump_is_what_the_viewer_can_read(self):
        block = allocate(1000)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            cachalot_cuda.dump_snapshot(path)
            with open(path, "rb") as file:
                data = file.read()
        self.assertEqual(pickle.loads(data)["segments"], cachalot_cuda.snapshot()["segments"])
        unreadable = {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "SHORT_BINBYTES", "EMPTY_SET", "FROZENSET"}
        self.assertEqual({opcode.name for opcode, _, _ in pickletools.genops(data)} & unreadable, set())
        free(block)

    def test_a_dump_is_the_snapshot(self):
        program = (
            "from support import allocate, free\nimport cachalot_cuda, ctypes, os, pickle, tempfile\n"
            "from cachalot_cuda import _c, _library\n"
            "options = _c.AllocatorOptions(context_source=_c.CONTEXT_SOURCES['labels'])\n"
            "_library.call('pluggable_set_options', None, ctypes.byref(options))\n"
            "cachalot_cuda.record_history()\n"
            "_library.call('set_metadata', b'a text')\n"
            "for name in ('model', 'serve.py:7:step', ':f:8:g', 'f:g:9:', 'x' * 300):\n"
            "    with cachalot_cuda.label('all'), cachalot_cuda.label(name): free(allocate(1000)), allocate(1 << 20)\n"
            "for history in (False, True):\n"
            "    with tempfile.TemporaryDirectory() as folder:\n"
            "        path = os.path.join(folder, 'a')\n"
            "        cachalot_cuda.dump_snapshot(path, with_history=history)\n"
            "        taken = cachalot_cuda.snapshot(with_history=history)\n"
            "        if history: assert taken['device_traces'][0].pop()['action'] == 'snapshot'\n"
            "        dumped = pickle.load(open(path, 'rb'))\n"
            "    assert dumped == taken, (dumped, taken)\n"
            "frames = [frame for block in dumped['segments'][0]['blocks'] for frame in block['frames']]\n"
            "assert {'name': 'step', 'filename': 'serve.py', 'line': 7} in frames, frames\n"
            "assert {'name': 'all', 'filename': '', 'line': 0} in frames, frames\n")
        done = run(program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_dump_that_cannot_be_written_says_why(self):
        with self.assertRaisesRegex(OSError, "No space left"):
            for _ in range(2):
                cachalot_cuda.dump_snapshot("/dev/full")

    def test_pool_ids_of_entries_came_after_2_11(self):
        program = ("from support import allocate\nimport cachalot_cuda, json\ncachalot_cuda.record_history()\n"
                   "allocate(1000)\nprint(json.dumps(cachalot_cuda.snapshot()['device_traces'][0][-1]))")
        for release, there in (("2.11", False), ("2.15", True)):
            entry = json.loads(run(program, CACHALOT_RELEASE=release).stdout)
            self.assertEqual("pool_id" in entry, there)

    def test_labels_are_the_frames_where_they_were_asked_for(self):
        program = (
            "from support import allocate\nimport cachalot_cuda, ctypes\nfrom cachalot_cuda import _c, _library\n"
            "options = _c.AllocatorOptions(context_source=_c.CONTEXT_SOURCES['labels'])\n"
            "_library.call('pluggable_set_options', None, ctypes.byref(options))\n"
            "cachalot_cuda.record_history()\n"
            "with cachalot_cuda.label('model'), cachalot_cuda.label('weights'): allocate(1000)\n"
            "allocate(1000)\n"
            "print([b['frames'] for b in cachalot_cuda.snapshot()['segments'][0]['blocks']])")
        done = run(program)
        self.assertIn("weights", done.stdout, done.stderr)
        self.assertTrue(done.stdout.rstrip().endswith("[], []]"), done.stdout)

    @unittest.skipUnless("CACHALOT_CALLED_LIBRARY" in os.environ, "there is no library with debug information")
    def test_native_frames_have_a_file_and_a_line_where_the_debug_information_tells_them(self):
        program = (
            "from support import allocate\nimport cachalot_cuda, ctypes, json, os, pickle, tempfile\n"
            "from cachalot_cuda import _c, _library\n"
            "options = _c.AllocatorOptions(context_source=_c.CONTEXT_SOURCES['stack'])\n"
            "_library.call('pluggable_set_options', None, ctypes.byref(options))\n"
            "cachalot_cuda.record_history()\n"
            "def call(_): allocate(1000)\n"
            "lines = (ctypes.c_int * 2)()\n"
            "library = ctypes.CDLL(os.environ['CACHALOT_CALLED_LIBRARY'])\n"
            "library.call_through(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(call), None, lines)\n"
            "taken = cachalot_cuda.snapshot(with_history=False)\n"
            "with tempfile.TemporaryDirectory() as folder:\n"
            "    cachalot_cuda.dump_snapshot(os.path.join(folder, 'a'), with_history=False)\n"
            "    assert pickle.load(open(os.path.join(folder, 'a'), 'rb')) == taken\n"
            "print(json.dumps([lines[0], lines[1], taken['segments'][0]['blocks'][0]['frames']]))\n")
        done = run(program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        outer, inner, frames = json.loads(done.stdout)
        called = [frame for frame in frames if frame["filename"].endswith("/called_code.cpp")]
        self.assertEqual([(frame["name"].split("(")[0], frame["line"]) for frame in called],
                         [("call_from_within", inner), ("call_through", outer)])
        others = [frame for frame in frames if frame["line"] == 0]
        self.assertTrue(all(frame["filename"] == "" and "+0x" in frame["name"] for frame in others), others)

    def test_the_options_in_force_are_told(self):
        program = "import cachalot_cuda, json\nprint(json.dumps(cachalot_cuda.snapshot()['allocator_settings']))"
        settings = json.loads(run(program, CACHALOT_ALLOC_CONF="max_split_size_mb:64").stdout)
        self.assertEqual(settings["max_split_size"], 64 * MIB)
        self.assertEqual(settings["PYTORCH_CUDA_ALLOC_CONF"], "max_split_size_mb:64")
        self.assertEqual(len(settings["roundup_power2_divisions"]), 16)


if __name__ == "__main__":
    unittest.main()
