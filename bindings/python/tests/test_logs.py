# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remarks as records of the module logging."""

import unittest

from support import run

BOTH = "max_split_size_mb:64,expandable_segments:True"  # of which there is an advice

PROGRAM = """
import logging, cachalot_cuda
logging.basicConfig(format="%(name)s %(levelname)s %(kind)s %(message)s")
cachalot_cuda.use_logging()
"""


class Logs(unittest.TestCase):
    def test_an_advice_is_a_warning_of_the_logger_cachalot(self):
        done = run(f"{PROGRAM}cachalot_cuda.Allocator('{BOTH}', driver='sim:1GiB').close()")
        self.assertRegex(done.stderr, r"\Acachalot WARNING advice max_split_size_mb:64 .*\n\Z")
        self.assertEqual(done.returncode, 0)

    def test_the_allocator_of_the_process_has_them_too(self):
        done = run(f"{PROGRAM}from cachalot_cuda import _process\n"
                   f"_process.allocator_for('a test', config='{BOTH}')")
        self.assertRegex(done.stderr, r"\Acachalot WARNING advice max_split_size_mb:64 .*\n\Z")

    def test_damage_is_an_error(self):
        program = (PROGRAM + "allocator = cachalot_cuda.Allocator('', driver='host:64MiB')\n"
                   "block = allocator.allocate(1000)\n"
                   "import ctypes; ctypes.memset(block.address + 1000, 7, 1)\n"
                   "block.close()")
        done = run(program, CACHALOT_DEBUG="redzones")
        self.assertRegex(done.stderr, r"\Acachalot ERROR damage the block at 0x.* was written beyond its end.*\n\Z")

    def test_a_logger_can_be_given(self):
        done = run("import logging, cachalot_cuda\n"
                   "cachalot_cuda.use_logging(logging.getLogger('server.memory'))\n"
                   "logging.basicConfig(format='%(name)s')\n"
                   f"cachalot_cuda.Allocator('{BOTH}', driver='sim:1GiB').close()")
        self.assertEqual(done.stderr, "server.memory\n")

    def test_a_remark_while_another_thread_waits_with_the_interpreter_stops_nothing(self):
        # Each request of a block that was damaged is a remark under the lock, which a function that keeps the
        # interpreter's lock waits for.
        done = run(PROGRAM + "import ctypes, threading\n"
                   "from cachalot_cuda import _library\n"
                   "logging.getLogger('cachalot').setLevel(logging.CRITICAL)\n"
                   "allocator = cachalot_cuda.Allocator('', driver='host:64MiB')\n"
                   "stats = ctypes.PyDLL(_library.load()._name).cachalot_memory_allocated\n"
                   "stats.argtypes = [ctypes.c_void_p, ctypes.c_int32]\n"
                   "def damage():\n"
                   "    for _ in range(300):\n"
                   "        block = allocator.allocate(1000)\n"
                   "        ctypes.memset(block.address + 1000, 7, 1)\n"
                   "        block.close()\n"
                   "threads = [threading.Thread(target=damage) for _ in range(2)]\n"
                   "for each in threads: each.start()\n"
                   "while any(each.is_alive() for each in threads): stats(allocator._live(), 0)\n"
                   "print('done')", CACHALOT_DEBUG="redzones")
        self.assertEqual((done.stdout, done.stderr), ("done\n", ""))


if __name__ == "__main__":
    unittest.main()
