# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numba itself on cachalot, over a driver of CUDA with the host's memory (tests/hosts)."""

import time
import unittest

from support import Other, need_host, over_fake_cuda, run

PRELUDE = """
import ctypes, gc, pickle, sys
import numpy
from numba import cuda
import cachalot_cuda
MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")
def allocated():
    return cachalot_cuda.memory_allocated()
def address_of(array):
    return int(array.gpu_data.owner.handle)
"""
PLUG_IN = {"NUMBA_CUDA_MEMORY_MANAGER": "cachalot_cuda.numba"}


@need_host("numba_cuda")
class Numba(unittest.TestCase):
    def check(self, program, expected, **values):
        outcome = run(PRELUDE + program, **over_fake_cuda(), **{**PLUG_IN, **values})
        self.assertEqual((outcome.stdout, outcome.stderr), (expected, ""))

    def test_arrays_have_memory_of_cachalot_for_as_long_as_they_live(self):
        self.check("""
array = cuda.to_device(numpy.arange(MIB, dtype="f4"))
print(allocated() // MIB, int(array.copy_to_host()[-1]))
view = array[1:]
del array
print(allocated() // MIB, int(view.copy_to_host()[0]))
del view
print(allocated())
""", "4 1048575\n4 1\n0\n")

    def test_a_context_that_the_program_attaches_has_memory_of_cachalot(self):
        self.check("""
from cuda.bindings import driver as bindings
from numba.cuda.cudadrv import driver as numba_driver
device = bindings.CUdevice(0)
context = numba_driver.Context(device, numba_driver.driver.cuDevicePrimaryCtxRetain(device))
context.push()
memory = context.memalloc(MIB)
print(allocated() // MIB, context.get_memory_info().free < context.get_memory_info().total)
del memory
context.deallocations.clear()
print(allocated())
context.pop()
numba_driver.driver.cuDevicePrimaryCtxRelease(device)
""", "1 True\n0\n")

    def test_an_array_lies_on_the_current_device(self):
        self.check("""
with cuda.gpus[1]:
    array = cuda.device_array(1000)
print(cachalot_cuda.memory_allocated(0), cachalot_cuda.memory_allocated(1))
""", "0 8192\n")

    def test_a_freed_block_waits_for_the_work_of_all_streams(self):
        self.check("""
driver.fake_start_work()
array = cuda.device_array(1000)
first = address_of(array)
del array
print(allocated(), address_of(cuda.device_array(1000)) == first)
driver.fake_finish_work()
print(address_of(cuda.device_array(1000)) == first)
""", "0 False\nTrue\n")

    def test_out_of_memory_is_numbas_own_error_and_the_program_goes_on(self):
        self.check("""
from numba.cuda.cudadrv.driver import CudaAPIError, binding
cuda.device_array(4 * MIB, "u1")
try:
    cuda.device_array(1 << 40, "u1")
except CudaAPIError as error:
    assert isinstance(error, cachalot_cuda.OutOfMemoryError)
    print(error.code == binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY, error.status, error.msg[:50])
print(allocated(), cuda.device_array(100, "u1").size)
""", "True 10 CUDA out of memory. Tried to allocate 1024.00 GiB.\n0 100\n")

    def test_cached_memory_is_free(self):
        self.check("""
context = cuda.current_context()
before = context.get_memory_info()
array = cuda.device_array(100 * MIB, "u1")
print((before.free - context.get_memory_info().free) // MIB)
del array
print(before == context.get_memory_info(), cachalot_cuda.memory_reserved() // MIB)
""", "100\nTrue 100\n")

    def test_a_reset_gives_everything_back_before_the_context_ends(self):
        self.check("""
array = cuda.to_device(numpy.arange(1000))
cuda.close()
print(allocated(), cachalot_cuda.memory_reserved())
print(int(cuda.to_device(numpy.arange(1000)).copy_to_host()[-1]), allocated())
del array
""", "0 0\n999 0\n")

    def test_a_new_context_has_no_event_of_the_one_before_a_reset(self):
        for policy in "pytorch", "serving":
            with self.subTest(policy):
                self.check("""
for round in range(3):
    array = cuda.device_array(1000)
    del array  # which records an event
    other = cuda.device_array(1000)  # looks at it
    with cuda.gpus[1]:
        del other
        second = cuda.device_array(1000)
        del second
    driver.fake_start_work()
    waiting = cuda.device_array(MIB)
    del waiting
    driver.fake_finish_work()
    cuda.close()
    print(allocated(), cachalot_cuda.memory_reserved(), cachalot_cuda.memory_reserved(1))
""", "0 0 0\n" * 3, CACHALOT_POLICY="" if policy == "pytorch" else "serving,streams=unannounced")

    def test_memory_outside_of_numba_comes_from_the_context_of_then_after_a_reset(self):
        self.check("""
array = cuda.to_device(numpy.arange(1000))
with cachalot_cuda.pinned_memory(1000) as pinned:
    pinned.record_stream(0)
cuda.close()
print(cachalot_cuda.pinned_stats()["allocated_bytes"]["current"])
with cachalot_cuda.pinned_memory(1000) as pinned, cachalot_cuda.Allocator.of_process().allocate(MIB) as block:
    pinned.record_stream(0)
    block.record_stream(2**64 - 1)
print(allocated(), cachalot_cuda.memory_reserved() // MIB)
""", "0\n0 2\n")

    def test_an_array_from_before_a_reset_frees_no_other(self):
        self.check("""
array = cuda.device_array(MIB, "u1")
first = address_of(array)
cuda.current_context().reset()
other = cuda.device_array(MIB, "u1")
del array
print(address_of(other) == first, allocated() // MIB)
del other
print(allocated())
""", "True 1\n0\n")

    def test_memory_that_the_limit_leaves_is_free(self):
        self.check("""
context = cuda.current_context()
array = cuda.device_array(100 * MIB, "u1")
cachalot_cuda.Allocator.of_process().set_memory_limit(300 * MIB)
print(context.get_memory_info().free // MIB)
""", "200\n")

    def test_a_forked_process_ends_in_silence(self):
        self.check("""
import os
arrays = [cuda.device_array(100) for _ in range(3)]
if os.fork() == 0:
    del arrays
    os._exit(0)
print(os.wait()[1], len(arrays))
""", "0 3\n")

    def test_install_comes_after_another_host_and_before_any_thread_of_numbas(self):
        self.check("""
import threading
import cachalot_cuda.numba
from cuda.bindings import driver as bindings
bindings.cuInit(0)
bindings.cuCtxSetCurrent(bindings.cuDevicePrimaryCtxRetain(0)[1])  # as PyTorch and CuPy do
cachalot_cuda.numba.install()
kept = []
thread = threading.Thread(target=lambda: kept.append(cuda.device_array(1000)))
thread.start()
thread.join()
try:
    cachalot_cuda.numba.install()
except cachalot_cuda.InvalidStateError as error:
    print(error)
print(allocated())
""", "cachalot_cuda.numba.install() must come before Numba's first use of CUDA\n8192\n",
                   NUMBA_CUDA_MEMORY_MANAGER="default")

    def test_a_backend_that_cannot_wait_for_all_streams_is_refused(self):
        self.check("""
import cachalot_cuda.numba
try:
    cachalot_cuda.numba.install("backend:cudaMallocAsync", driver="sim:1GiB")
except cachalot_cuda.Error as error:
    print(error)
""", "Numba cannot be on backend:cudaMallocAsync, which cannot wait for the work of all streams\n",
                   NUMBA_CUDA_MEMORY_MANAGER="default")

    def test_another_host_chooses_after_a_refusal_of_numbas(self):
        for name in "install", "environment":
            with self.subTest(name):
                self.check(f"""
import cachalot_cuda.numba
try:
    if {name == "install"}:
        cachalot_cuda.numba.install("backend: cudaMallocAsync", driver="sim:1GiB")
    else:
        cachalot_cuda.numba._join_once()
except cachalot_cuda.Error as error:
    print(error.status)
from cachalot_cuda import _library, _process
library = _library.load()
allocator = _process.allocator_for("another", config="max_split_size_mb:64,backend:native")
print(library.cachalot_allocator_backend(allocator).decode(), cachalot_cuda.settings()["max_split_size"] // MIB)
print(library.cachalot_driver_name(library.cachalot_allocator_driver(allocator)).decode())
cachalot_cuda.numba.install()
print(cuda.device_array(1000).size)
""", "3\nnative 64\ncuda\n1000\n", NUMBA_CUDA_MEMORY_MANAGER="default",
                           **({} if name == "install" else {"CACHALOT_ALLOC_CONF": "backend:cudaMallocAsync"}))

    def test_an_ipc_handle_of_a_plain_segment_is_cudas(self):
        self.check("""
arrays = [cuda.device_array(1000, "u1") for _ in range(2)]
handle = arrays[1].get_ipc_handle()._ipc_handle
print(type(handle).__name__, type(handle.handle).__name__, handle.offset, handle.size)
print(arrays[1][10:].get_ipc_handle()._ipc_handle.offset)
""", "IpcHandle CUipcMemHandle 1024 1000\n1034\n")

    def test_install_takes_options_before_the_first_use_only(self):
        self.check("""
import cachalot_cuda.numba
cachalot_cuda.numba.install("max_split_size_mb:64", policy="serving")
array = cuda.device_array(1000)
print(allocated(), cachalot_cuda.settings()["max_split_size"] // MIB, cachalot_cuda.policy())
try:
    cachalot_cuda.numba.install()
except cachalot_cuda.InvalidStateError as error:
    print(error)
""", "8192 64 serving,page=2MiB,streams=unannounced\n"
     "cachalot_cuda.numba.install() must come before Numba's first use of CUDA\n", NUMBA_CUDA_MEMORY_MANAGER="default")

    def test_numba_and_another_host_have_one_cache(self):
        self.check("""
array = cuda.device_array(20 * MIB, "u1")
first = address_of(array)
del array
with cachalot_cuda.shared_block(20 * MIB) as block:
    print(block.address == first, cachalot_cuda.memory_reserved() // MIB)
""", "True 20\n")


SHARER = PRELUDE + """
array = cuda.to_device(numpy.full(3 * MIB, 7, "u1"))
handle = array[MIB:].get_ipc_handle()
print(type(handle._ipc_handle).__name__, handle._ipc_handle.offset // MIB)
print(pickle.dumps(handle).hex(), flush=True)
for line in sys.stdin:
    exec(line)
"""
OPENER = PRELUDE + """
handle = pickle.loads(bytes.fromhex(sys.argv[1]))
array = handle.open()
print(array.size // MIB, int(array.copy_to_host()[-1]), flush=True)
sys.stdin.readline()
print(int(array.copy_to_host()[-1]), flush=True)
handle.close()
sys.stdin.readline()
"""


@need_host("numba_cuda")
class TicketHandles(unittest.TestCase):
    def start(self, program, *arguments):
        other = Other(program, *arguments, **{**over_fake_cuda(), **PLUG_IN, "CACHALOT_DRIVER": "host-shared:1GiB"},
                      CACHALOT_ALLOC_CONF="expandable_segments:True")
        self.addCleanup(other.end)
        return other

    def test_arrays_of_expandable_segments_are_the_same_memory_and_outlive_the_sharers(self):
        sharer = self.start(SHARER)
        self.assertEqual(sharer.read(), "TicketHandle 1")
        opener = self.start(OPENER, sharer.read())
        self.assertEqual(opener.read(), "2 7")
        write = "array.copy_to_device(numpy.full(3 * MIB, 9, 'u1')); "
        self.assertEqual(sharer.ask(write + "print(allocated() // MIB, flush=True)"), "3")
        self.assertEqual(sharer.ask("del handle, array; gc.collect(); print(allocated() // MIB, flush=True)"), "3")
        self.assertEqual(opener.ask(""), "9")
        for _ in range(500):
            if sharer.ask("print(allocated(), flush=True)") == "0":
                return
            time.sleep(0.01)
        self.fail("the block is still there")


if __name__ == "__main__":
    unittest.main()
