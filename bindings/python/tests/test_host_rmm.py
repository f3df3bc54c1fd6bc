# SPDX-License-Identifier: MIT OR Apache-2.0
"""RMM itself on cachalot, over the host's memory. Its buffers ask the CUDA runtime for the device, so they need a GPU;
resources and their adaptors do not."""

import unittest

from support import need_host, over_fake_cuda, run

PRELUDE = """
import gc
import rmm.mr
from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
import cachalot_cuda, cachalot_cuda.rmm
MIB = 1 << 20
class Other:
    def __cuda_stream__(self):
        return 0, 0x5000
other = Stream(Other())
def allocated():
    return cachalot_cuda.memory_allocated()
"""


@need_host("rmm")
class Rmm(unittest.TestCase):
    def check(self, program, expected, **values):
        outcome = run(PRELUDE + program, **{"CACHALOT_DRIVER": "host:256MiB", **values})
        self.assertEqual((outcome.stdout, outcome.stderr), (expected, ""))

    def test_a_block_is_of_the_stream_of_its_request(self):
        self.check("""
resource = cachalot_cuda.rmm.resource(0)
blocks = [(resource.allocate(1000, stream), stream) for stream in (DEFAULT_STREAM, other)]
print(allocated(), sorted(segment["stream"] for segment in cachalot_cuda.snapshot()["segments"]))
for address, stream in blocks:
    resource.deallocate(address, 1000, stream)
print(allocated(), resource.allocate(1000, other) == blocks[1][0])
""", "2048 [0, 20480]\n0 True\n")

    def test_a_block_given_back_on_another_stream_waits_for_that(self):
        self.check("""
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
resource = cachalot_cuda.rmm.resource(0)
first = resource.allocate(1000, DEFAULT_STREAM)
driver.fake_start_work()
resource.deallocate(first, 1000, other)
print(resource.allocate(1000, DEFAULT_STREAM) == first)
driver.fake_finish_work()
print(resource.allocate(1000, DEFAULT_STREAM) == first)
""", "False\nTrue\n", **over_fake_cuda())

    def test_a_block_is_of_the_resources_device(self):
        self.check("""
resource = cachalot_cuda.rmm.resource(device=1)
address = resource.allocate(1000, DEFAULT_STREAM)
print(cachalot_cuda.memory_allocated(0), cachalot_cuda.memory_allocated(1))
""", "0 1024\n", **over_fake_cuda())

    def test_out_of_memory_is_rmms_and_adaptors_count_and_limit(self):
        self.check("""
statistics = rmm.mr.StatisticsResourceAdaptor(cachalot_cuda.rmm.resource(0))
limited = rmm.mr.LimitingResourceAdaptor(statistics, 10 * MIB)
def failing(resource, size):
    try:
        resource.allocate(size, DEFAULT_STREAM)
    except MemoryError as error:
        print("CUDA out of memory. Tried" in str(error), allocated())
failing(limited, 20 * MIB)
failing(statistics, 1 << 30)
address = limited.allocate(5 * MIB, DEFAULT_STREAM)
print(statistics.allocation_counts.current_bytes // MIB, allocated() // MIB)
limited.deallocate(address, 5 * MIB, DEFAULT_STREAM)
print(allocated())
""", "False 0\nTrue 0\n5 5\n0\n")

    def test_functions_outlive_the_resource_that_others_have_copied(self):
        self.check("""
import weakref
functions = [weakref.ref(each) for each in cachalot_cuda.rmm._functions(0)]
cachalot_cuda.rmm.resource(0)
gc.collect()  # what is copied in C++ has no reference
print([each() is not None for each in functions])
""", "[True, True]\n")

    def test_both_handles_of_the_default_stream_are_one_stream(self):
        self.check("""
from rmm.pylibrmm.stream import LEGACY_DEFAULT_STREAM
resource = cachalot_cuda.rmm.resource(0)
address = resource.allocate(1000, DEFAULT_STREAM)
other = resource.allocate(1000, LEGACY_DEFAULT_STREAM)
print({segment["stream"] for segment in cachalot_cuda.snapshot()["segments"]})
resource.deallocate(address, 1000, LEGACY_DEFAULT_STREAM)
print(allocated(), resource.allocate(1000, DEFAULT_STREAM) == address)
""", "{0}\n1024 True\n")

    def test_rmm_and_another_host_have_one_cache(self):
        self.check("""
with cachalot_cuda.shared_block(20 * MIB) as block:
    address = block.address
resource = cachalot_cuda.rmm.resource(0)
print(resource.allocate(20 * MIB, DEFAULT_STREAM) == address, cachalot_cuda.memory_reserved() // MIB)
try:
    cachalot_cuda.rmm.resource(0, config="max_split_size_mb:64")
except cachalot_cuda.InvalidStateError as error:
    print(error)
""", "True 20\nthe allocator of this process has its options: RMM joins it without any\n",
                   CACHALOT_DRIVER="host-shared:256MiB")

    def test_what_a_host_before_has_chosen_stays(self):
        self.check("""
from cachalot_cuda import _process
_process.set_options(None, _process.options("max_split_size_mb:64"))
cachalot_cuda.rmm.resource(0)
print(cachalot_cuda.settings()["max_split_size"] // MIB)
""", "64\n")


if __name__ == "__main__":
    unittest.main()
