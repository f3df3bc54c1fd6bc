# SPDX-License-Identifier: MIT OR Apache-2.0
"""The library's functions for CuPy, called as CuPy calls them: with the interpreter's lock held."""

import unittest

from support import run

PRELUDE = """
import ctypes
import cachalot_cuda
from cachalot_cuda import _cupy_functions, _library, errors
MIB = 1 << 20
stream = 0
log = []
current_stream = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: stream)
parameter = _cupy_functions.parameter(
    _library.allocator().value, ctypes.cast(current_stream, ctypes.c_void_p), errors.OutOfMemoryError)
allocate_at, free_at = _cupy_functions.addresses()
given = ctypes.byref(parameter)
raw_allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(allocate_at)
raw_free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free_at)
def allocate(size, device=0):
    return raw_allocate(given, size, device)
def free(address):
    raw_free(given, address, 0)
def streams():
    return sorted(segment["stream"] for segment in cachalot_cuda.snapshot()["segments"])
"""


class Functions(unittest.TestCase):
    def check(self, program, expected, **values):
        outcome = run(PRELUDE + program, **values)
        self.assertEqual((outcome.stdout, outcome.stderr), (expected, ""))

    def test_a_block_is_of_the_stream_that_the_host_says_is_current(self):
        self.check("""
first = allocate(1000)
stream = 0x5000
second = allocate(1000)
print(streams(), cachalot_cuda.memory_allocated())
free(first)
free(second)
print(cachalot_cuda.memory_allocated(), allocate(1000) == second)
""", "[0, 20480] 2048\n0 True\n")

    def test_hits_keep_the_interpreters_lock_and_calls_of_the_driver_give_it_up(self):
        self.check("""
save = ctypes.PYFUNCTYPE(ctypes.c_void_p)(lambda: log.append("save") or 7)
restore = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(lambda thread: log.append(f"restore {thread}"))
parameter.interpreter.PyEval_SaveThread = ctypes.cast(save, ctypes.c_void_p)
parameter.interpreter.PyEval_RestoreThread = ctypes.cast(restore, ctypes.c_void_p)
for _ in range(2):
    address = allocate(1000)
    print(log)
    del log[:]
free(address)
print(log)
address = allocate(1000)
_library.call("record_stream", _library.allocator(), address, 0x5000)
free(address)  # records an event
print(log)
""", "['save', 'restore 7']\n[]\n[]\n['save', 'restore 7']\n")

    def test_a_failure_is_a_python_error_with_text_and_status(self):
        self.check("""
for size, device in ((1 << 40, 0), (1000, 7)):
    try:
        print("no error", allocate(size, device))
    except cachalot_cuda.Error as error:
        print(type(error).__name__, error.status, str(error)[:33])
print(cachalot_cuda.memory_allocated())
""", "OutOfMemoryError 10 CUDA out of memory. Tried to allo\nError 1 device 7 does not exist; the driv\n0\n")

    def test_both_handles_of_the_default_stream_are_one_stream(self):
        self.check("""
first = allocate(1000)
stream = 1
second = allocate(1000)
print(streams())
""", "[0]\n")

    def test_without_a_stream_nothing_is_allocated_and_the_hosts_error_stays(self):
        self.check("""
stream = -1  # what CuPy gives when a Python error is set
address = allocate(1000)
print(ctypes.c_ssize_t(address).value, cachalot_cuda.memory_allocated())
free(address)
""", "-1 0\n")

    def test_garbage_is_collected_before_memory_is_said_to_be_short(self):
        self.check("""
class Array:
    def __init__(self, size):
        self.address, self.myself = allocate(size), self
    def __del__(self):
        free(self.address)
import gc
gc.disable()
gc.collect()
Array(600 * MIB)
print(cachalot_cuda.memory_allocated() // MIB)
address = allocate(600 * MIB)
print(cachalot_cuda.memory_allocated() // MIB, cachalot_cuda.stats()["num_ooms"])
""", "600\n600 1\n")

    def test_the_parameter_and_the_types_of_errors_outlive_the_modules_of_python(self):
        self.check("""
import weakref
class OutOfMemory(errors.OutOfMemoryError):
    pass
made = _cupy_functions.parameter(_library.allocator().value, None, OutOfMemory)
kept = weakref.ref(made), weakref.ref(OutOfMemory)
del made, OutOfMemory
import gc
gc.collect()
print([each() is not None for each in kept])
""", "[True, True]\n")

    def test_a_free_that_fails_says_so_and_changes_nothing(self):
        outcome = run(PRELUDE + "free(0x1000)\nprint(cachalot_cuda.memory_allocated())")
        self.assertEqual(outcome.stdout, "0\n")
        self.assertIn("cachalot: ", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
