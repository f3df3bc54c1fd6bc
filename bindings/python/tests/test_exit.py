# SPDX-License-Identifier: MIT OR Apache-2.0
"""The end of the interpreter while threads of daemons run functions of Python that the library calls."""

import os
import subprocess
import sys
import unittest

from support import environment

PRELUDE = """
import threading, time
import cachalot_cuda
MIB = 1 << 20
inside = threading.Event()
"""
ASKING = PRELUDE + """
allocator = cachalot_cuda.Allocator(driver="sim:1GiB")
def give(pressure):
    inside.set()
    {wait}
    return 0
tenant = allocator.tenant("asked", on_pressure=give)
block = tenant.allocate(900 * MIB)
def work():
    while True:
        try:
            allocator.allocate(500 * MIB)
        except cachalot_cuda.OutOfMemoryError:
            pass
{threads}
inside.wait()
"""
THREAD = "threading.Thread(target=work, daemon=True).start()"
WRITING = PRELUDE + """
held = [cachalot_cuda.shared_block(MIB) for _ in range(20)]
def work():
    while True:
        cachalot_cuda.dump_snapshot("/dev/null")
        inside.set()
threading.Thread(target=work, daemon=True).start()
inside.wait()
"""
ENDING = PRELUDE + """
allocator = cachalot_cuda.Allocator(driver="sim:1GiB")
def work():
    while True:
        allocator.tenant("ended", on_pressure=lambda pressure: 0).close()
        inside.set()
threading.Thread(target=work, daemon=True).start()
inside.wait()
"""
ROUNDS = int(os.environ.get("CACHALOT_EXIT_ROUNDS", "4"))


class AnExit(unittest.TestCase):
    def expect_silence(self, program):
        """Each round in a process of its own, two at a time."""
        for _ in range(ROUNDS):
            processes = [subprocess.Popen([sys.executable, "-c", program], env=environment(), text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
            outcomes = [(process.communicate(timeout=60)[0], process.returncode) for process in processes]
            self.assertEqual(outcomes, [("", 0)] * 2)

    def test_passes_by_a_thread_that_frees_for_a_tenant(self):
        for wait in "pass", "time.sleep(0)", "time.sleep(0.001)", "time.sleep(1000)", "sum(range(100000))":
            with self.subTest(wait):
                self.expect_silence(ASKING.format(wait=wait, threads=THREAD))

    def test_passes_by_several_such_threads(self):
        self.expect_silence(ASKING.format(wait="time.sleep(0)", threads="\n".join([THREAD] * 4)))

    def test_passes_by_a_thread_that_writes_a_snapshot(self):
        self.expect_silence(WRITING)

    def test_passes_by_a_thread_that_ends_tenants(self):
        self.expect_silence(ENDING)


if __name__ == "__main__":
    unittest.main()
