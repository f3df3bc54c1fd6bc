# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports on the holders of memory, and on requests."""

import unittest

from support import MIB, run

import cachalot_cuda


class Report(unittest.TestCase):
    def test_it_says_who_holds_memory_and_what_would_become_of_a_request(self):
        with cachalot_cuda.Allocator(driver="sim:1GiB", track_labels=True) as allocator:
            with cachalot_cuda.label("weights"):
                block = allocator.allocate(600 * MIB, stream=0x5000)
            report = allocator.report(600 * MIB)
            self.assertEqual([(each["label"], each["bytes"]) for each in report["holders"]], [("weights", 600 * MIB)])
            self.assertEqual(report["request"]["outcome"], "fails")
            self.assertEqual(allocator.report(100 * MIB)["request"]["outcome"], "from_device")
            block.close()
            self.assertEqual(allocator.report(600 * MIB, stream=0x5000)["request"]["outcome"], "from_cache")
            self.assertEqual(allocator.report()["request"], None)

    def test_that_of_the_process_is_a_table_too(self):
        outcome = run("""
import cachalot_cuda
print(cachalot_cuda.report()["device"])
print("MiB" in cachalot_cuda.report_text(size=2 << 20))
for size, device in ((-1, 0), (0, 7)):
    try:
        cachalot_cuda.report(size, device)
    except cachalot_cuda.InvalidArgumentError as error:
        print(error)
""")
        self.assertEqual((outcome.stdout, outcome.stderr), (
            "0\nTrue\nexpected size to be 0 or more\ndevice 7 does not exist; the driver has 1\n", ""))


if __name__ == "__main__":
    unittest.main()
