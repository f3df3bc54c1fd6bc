# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folded stacks: the text that flame graphs are drawn from. tests/gpu/torch_features.py compares it with PyTorch's."""

import os
import tempfile
import unittest

from support import run

import cachalot_cuda


def frame(name, filename="", line=0):
    return {"name": name, "filename": filename, "line": line}


def block(size, requested, *frames, state="active_allocated"):
    return {"size": size, "requested_size": requested, "state": state, "frames": list(frames)}


SNAPSHOT = {"segments": [
    {"stream": 0, "address": 4096, "blocks": [
        block(1024, 1000, frame("alloc", "a/tensor.py", 7), frame("main", "run.py", 3)),
        block(512, 512),
        block(2048, 0, state="inactive"),
    ]},
    {"stream": 112, "address": 8192, "blocks": [block(512, 512, frame("weights"))]},
]}

SEGMENTS = """\
stream_0;seg_4096;active_allocated;run.py:3:main;tensor.py:7:alloc 1000
stream_0;seg_4096;active_allocated;<gaps> 24
stream_0;seg_4096;active_allocated;<non-python> 512
stream_0;seg_4096;inactive;<non-python> 0
stream_0;seg_4096;inactive;<gaps> 2048
stream_112;seg_8192;active_allocated;:0:weights 512
"""


class FoldedStacks(unittest.TestCase):
    def saved(self, save, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "usage")
            save(path, *arguments)
            with open(path, encoding="utf-8") as file:
                return file.read()

    def test_have_a_line_for_each_block_and_for_what_it_has_more(self):
        self.assertEqual(self.saved(cachalot_cuda.save_segment_usage, SNAPSHOT), SEGMENTS)

    def test_leave_the_segments_out_where_they_are_not_wanted(self):
        expected = SEGMENTS.replace("seg_4096;", "").replace("seg_8192;", "")
        self.assertEqual(self.saved(cachalot_cuda.save_memory_usage, SNAPSHOT), expected)

    def test_show_no_frame_of_the_interpreter(self):
        hidden = [frame("_PyEval_EvalFrame"), frame("call", "Objects/call.c", 3), frame("unwind::unwind()")]
        for frames, shown in (([*hidden, frame("main", "run.py", 3)], "run.py:3:main"), (hidden, "")):
            taken = {"segments": [{"stream": 0, "address": 4096, "blocks": [block(512, 512, *frames)]}]}
            self.assertEqual(self.saved(cachalot_cuda.save_memory_usage, taken),
                             f"stream_0;active_allocated;{shown} 512\n")

    def test_are_of_this_moment_without_a_snapshot(self):
        done = run(
            "from support import allocate\nimport cachalot_cuda\nallocate(1000, stream=0x70)\n"
            "cachalot_cuda.save_segment_usage('/dev/stdout')\ncachalot_cuda.save_memory_usage('/dev/stdout')")
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 8, done.stderr)
        self.assertRegex(lines[0], r"^stream_112;seg_\d+;active_allocated;<non-python> 1000$")
        self.assertEqual(lines[4:], [
            "stream_112;active_allocated;<non-python> 1000", "stream_112;active_allocated;<gaps> 24",
            "stream_112;inactive;<non-python> 0", f"stream_112;inactive;<gaps> {(2 << 20) - 1024}"])


if __name__ == "__main__":
    unittest.main()
