# SPDX-License-Identifier: MIT OR Apache-2.0
"""The library's functions for RMM, called as RMM calls them."""

import unittest

from support import run

PRELUDE = """
import sys
import cachalot_cuda
from cachalot_cuda import _library, _rmm_functions, errors
class Stream:
    def __init__(self, handle):
        self.handle = handle
    def __cuda_stream__(self):
        return 0, self.handle
class Broken:
    def __cuda_stream__(self):
        raise KeyError("a stream of its own kind")
default, other = Stream(0), Stream(0x5000)
_rmm_functions.prepare(_library.allocator().value, errors.OutOfMemoryError)
allocate, deallocate = _rmm_functions.functions(0)
def streams():
    return sorted(segment["stream"] for segment in cachalot_cuda.snapshot()["segments"])
"""


class Functions(unittest.TestCase):
    def check(self, program, expected, **values):
        outcome = run(PRELUDE + program, **values)
        self.assertEqual((outcome.stdout, outcome.stderr), (expected, ""))

    def test_a_block_is_of_the_stream_of_its_request(self):
        self.check("""
first, second = allocate(1000, default), allocate(1000, other)
print(streams(), cachalot_cuda.memory_allocated())
print(deallocate(first, 1000, default), deallocate(second, 1000, other), cachalot_cuda.memory_allocated())
print(allocate(1000, other) == second)
""", "[0, 20480] 2048\nNone None 0\nTrue\n")

    def test_a_block_given_back_on_another_stream_is_not_handed_out_while_that_works(self):
        self.check("""
import ctypes
sim = _library.load()
place = ctypes.c_void_p(sim.cachalot_allocator_driver(_library.allocator())), 0, ctypes.c_uint64(other.handle)
first = allocate(1000, default)
assert sim.cachalot_sim_queue_work(*place, None) == 0
deallocate(first, 1000, other)
print(allocate(1000, default) == first)
assert sim.cachalot_sim_finish_stream(*place, None) == 0
print(allocate(1000, default) == first)
""", "False\nTrue\n")

    def test_both_handles_of_the_default_stream_are_one_stream(self):
        self.check("""
first = allocate(1000, Stream(1))
deallocate(first, 1000, default)
print(streams(), allocate(1000, default) == first)
""", "[0] True\n")

    def test_a_failure_is_a_python_error_with_text_and_status(self):
        self.check("""
for call in (lambda: allocate(1 << 40, default), lambda: deallocate(4096, 1, default),
             lambda: _rmm_functions.functions(7)[0](1, default)):
    try:
        print("no error", call())
    except cachalot_cuda.Error as error:
        print(type(error).__name__, error.status, str(error)[:33])
""", """OutOfMemoryError 10 CUDA out of memory. Tried to allo
Error 1 invalid device pointer: 0x1000
Error 1 device 7 does not exist; the driv
""")

    def test_arguments_that_are_none_are_errors_and_change_nothing(self):
        self.check("""
for arguments in ((), (1,), (1, default, 2), ("1", default), (-1, default), (1 << 64, default), (1, 5), (1, Broken())):
    try:
        print("no error", allocate(*arguments))
    except Exception as error:
        print(type(error).__name__, error)
for arguments in ((), (None, 1, default), (4096, 1, Broken())):
    try:
        print("no error", deallocate(*arguments))
    except Exception as error:
        print(type(error).__name__, error)
print(cachalot_cuda.memory_allocated())
""", """Error 0 arguments were given instead of 2
Error 1 arguments were given instead of 2
Error 3 arguments were given instead of 2
TypeError an integer is required
OverflowError can't convert negative int to unsigned
OverflowError int too big to convert
AttributeError 'int' object has no attribute '__cuda_stream__'
KeyError 'a stream of its own kind'
Error 0 arguments were given instead of 3
TypeError an integer is required
KeyError 'a stream of its own kind'
0
""")

    def test_calls_leave_no_object_behind(self):
        self.check("""
def pairs(count):
    for _ in range(count):
        deallocate(allocate(1 << 20, other), 1 << 20, other)
pairs(10)
before = sys.gettotalrefcount() if hasattr(sys, "gettotalrefcount") else sys.getallocatedblocks()
pairs(1000)
after = sys.gettotalrefcount() if hasattr(sys, "gettotalrefcount") else sys.getallocatedblocks()
print(abs(after - before) < 50)
""", "True\n")


if __name__ == "__main__":
    unittest.main()
