# SPDX-License-Identifier: MIT OR Apache-2.0
"""CuPy itself on cachalot, over the host's memory (cupy_without_gpu.py)."""

import unittest

from support import need_host, over_fake_cuda, run

PRELUDE = """
import pickle, threading
import cupy_without_gpu
import cupy, numpy
import cachalot_cuda, cachalot_cuda.cupy
from cachalot_cuda.cupy import install, uninstall, is_installed, using
MIB = 1 << 20
def allocated():
    return cachalot_cuda.memory_allocated()
"""


@need_host("cupy")
class Cupy(unittest.TestCase):
    def check(self, program, expected, **values):
        outcome = run(PRELUDE + program, **{"CACHALOT_DRIVER": "host:256MiB", **values})
        self.assertEqual((outcome.stdout, outcome.stderr), (expected, ""))

    def test_arrays_have_memory_of_cachalot_for_as_long_as_they_live(self):
        self.check("""
install()
array = cupy.ndarray((1 << 20,), "f4")
array.set(numpy.arange(1 << 20, dtype="f4"))
print(allocated() // MIB, int(array.get()[-1]), cachalot_cuda.stats()["allocation.all.current"])
view = array[1:]
del array
print(allocated() // MIB)
del view
print(allocated())
""", "4 1048575 1\n4\n0\n")

    def test_an_array_lies_on_the_current_stream_and_device(self):
        self.check("""
install()
kept = [cupy.cuda.alloc(1000)]
with cupy.cuda.ExternalStream(0x5000):
    kept.append(cupy.cuda.alloc(1000))
with cupy.cuda.Device(1), cupy.cuda.ExternalStream(0x6000):
    kept.append(cupy.cuda.alloc(1000))
print([pointer.device_id for pointer in kept])
for segment in sorted(cachalot_cuda.snapshot()["segments"], key=lambda each: each["stream"]):
    print(segment["device"], segment["stream"])
thread = threading.Thread(target=lambda: kept.append(cupy.cuda.alloc(1000)))
thread.start()
thread.join()
print(allocated())
""", "[0, 0, 1]\n0 0\n0 20480\n1 24576\n3072\n", **over_fake_cuda())

    def test_out_of_memory_is_cupys_own_error_and_the_program_goes_on(self):
        self.check("""
install()
try:
    cupy.ndarray((1 << 30,), "u1")
except cupy.cuda.memory.OutOfMemoryError as error:
    assert isinstance(error, (MemoryError, cachalot_cuda.OutOfMemoryError))
    again = pickle.loads(pickle.dumps(error))
    print(type(again).__name__, again.status, str(again)[:47])
print(len(cupy.ndarray((100,), "u1")), allocated())
""", "OutOfMemoryError 10 CUDA out of memory. Tried to allocate 1024.00 M\n100 0\n")

    def test_other_failures_are_errors_of_cachalot(self):
        self.check("""
install()
cupy_without_gpu.device = 1
try:
    cupy.cuda.alloc(1000)
except cachalot_cuda.Error as error:
    print(error, error.status)
""", "device 1 does not exist; the driver has 1 1\n")

    def test_using_is_for_one_thread_and_ends(self):
        self.check("""
theirs = cupy.cuda.get_allocator()
with using():
    inner = cupy.cuda.alloc(1000)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(cupy.cuda.get_allocator() == theirs))
    thread.start()
    thread.join()
    print(allocated(), seen, is_installed())
print(cupy.cuda.get_allocator() == theirs)
try:
    with using():
        raise KeyError
except KeyError:
    print(cupy.cuda.get_allocator() == theirs)
del inner
print(allocated())
""", "1024 [True] False\nTrue\nTrue\n0\n")

    def test_uninstall_gives_the_former_allocator_back_and_leaves_arrays_alone(self):
        self.check("""
theirs = cupy.cuda.get_allocator()
install()
pointer = cupy.cuda.alloc(1000)
uninstall()
print(cupy.cuda.get_allocator() == theirs, is_installed(), allocated())
del pointer
print(allocated())
install()
print(is_installed())
""", "True False 1024\n0\nTrue\n")

    def test_what_cannot_be_is_an_error_and_changes_nothing(self):
        self.check("""
theirs = cupy.cuda.get_allocator()
def failing(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except Exception as error:
        print(type(error).__name__, error)
failing(uninstall)
failing(install, "no_such_option:1")
failing(install, release="9.9")
failing(install, policy="serving,streams=announced")
install("max_split_size_mb:64")
uninstall()
print(cupy.cuda.get_allocator() == theirs, is_installed())
""", """InvalidStateError CuPy is not on cachalot
InvalidArgumentError Unrecognized key 'no_such_option' in CUDA allocator config.
InvalidArgumentError release must be one of None, '2.11', '2.15', not '9.9'
InvalidStateError CuPy destroys streams without a word: the policy needs "streams=unannounced"
True False
""")

    def test_options_are_those_of_the_first_host(self):
        self.check("""
install("max_split_size_mb:64", policy="serving,thrift", driver="host:128MiB")
print(cachalot_cuda.settings()["max_split_size"] // MIB, cachalot_cuda.policy())
uninstall()
try:
    install("max_split_size_mb:32")
except cachalot_cuda.InvalidStateError as error:
    print(error)
with using():
    print(cupy.cuda.alloc(1000).mem.size)
""", "64 serving,thrift,page=2MiB,streams=unannounced\n"
     "the allocator of this process has its options: CuPy joins it without any\n1000\n")

    def test_a_later_allocator_of_the_programs_stays(self):
        self.check("""
install()
pool = cupy.cuda.MemoryPool()
cupy.cuda.set_allocator(pool.malloc)
print(is_installed())
try:
    uninstall()
except cachalot_cuda.InvalidStateError as error:
    print(error)
print(cupy.cuda.get_allocator() == pool.malloc)
install()
uninstall()
print(cupy.cuda.get_allocator() == pool.malloc)
""", "False\nCuPy is not on cachalot\nTrue\nTrue\n")

    def test_an_install_that_cannot_be_chooses_no_options(self):
        self.check("""
with cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
    try:
        install("max_split_size_mb:64")
    except ValueError:
        print("ValueError", is_installed())
install("max_split_size_mb:32")
print(cachalot_cuda.settings()["max_split_size"] // MIB)
""", "ValueError False\n32\n")

    def test_a_cupy_without_the_function_for_its_stream_is_refused(self):
        self.check("""
import cupy_backends.cuda.stream as stream
stream.__pyx_capi__["get_current_stream_ptr"] = stream.__pyx_capi__["get_stream_ptr"]
try:
    install()
except cachalot_cuda.Error as error:
    print(str(error).replace(cupy.__version__, "N"), is_installed())
""", "CuPy N has no C function get_current_stream_ptr of the form intptr_t (void) False\n")

# A call of the driver that waits until another thread has the interpreter's lock, as one does that waits for a host
# function of the program's. What waits for that thread with the lock held never ends.
IN_DRIVER = """
import ctypes, faulthandler, time
driver = ctypes.CDLL("libcuda.so.1")
in_driver = threading.Event()
@ctypes.CFUNCTYPE(None)
def wait():
    if not in_driver.is_set():
        in_driver.set()
        time.sleep(0.3)  # others run
def enter(function, *names):
    for name in names:
        driver.fake_before(name, wait)
    thread = threading.Thread(target=function)
    thread.start()
    in_driver.wait()
    faulthandler.dump_traceback_later(100, exit=True)
    return thread
"""
PAGES = 'install("expandable_segments:True")\n'


@need_host("cupy")
class Threads(unittest.TestCase):
    def check(self, program, expected):
        outcome = run(PRELUDE + IN_DRIVER + program, **over_fake_cuda())
        self.assertEqual((outcome.stdout, outcome.stderr, outcome.returncode), (expected, "", 0))

    def test_a_request_waits_for_another_threads_miss_without_the_interpreters_lock(self):
        self.check(PAGES + """
kept = [cupy.cuda.alloc(60 * MIB)]
del kept[:]
thread = enter(lambda: kept.append(cupy.cuda.alloc(200 * MIB)), b"cuMemCreate")
kept.append(cupy.cuda.alloc(MIB))
thread.join()
print(allocated() // MIB)
""", "201\n")

    def test_a_free_waits_for_another_threads_miss_without_the_interpreters_lock(self):
        self.check(PAGES + """
kept, pointer = [], cupy.cuda.alloc(60 * MIB)
thread = enter(lambda: kept.append(cupy.cuda.alloc(200 * MIB)), b"cuMemCreate")
del pointer
thread.join()
print(allocated() // MIB)
""", "200\n")

    def test_a_request_waits_for_a_trim_without_the_interpreters_lock(self):
        self.check(PAGES + """
pointer = cupy.cuda.alloc(60 * MIB)
other = cupy.cuda.alloc(1000)
del pointer
thread = enter(cachalot_cuda.trim, b"cuMemUnmap")
pointer = cupy.cuda.alloc(MIB)
thread.join()
print(allocated() // MIB)
""", "1\n")

    def test_threads_that_share_a_stream_give_all_memory_back(self):
        self.check("""
install()
def work(number):
    for _ in range(2000):
        first, second = cupy.cuda.alloc(1000 + number), cupy.cuda.alloc(2 * MIB)
        assert first.ptr != second.ptr
        del first, second
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(allocated())
""", "0\n")

    def test_threads_of_daemons_end_with_the_interpreter(self):
        self.check("""
install()
at_work = threading.Semaphore(0)
def work():
    while True:
        first, second = cupy.cuda.alloc(1000), cupy.cuda.alloc(30 * MIB)
        del first, second
        cachalot_cuda.empty_cache()
        at_work.release()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
for _ in range(100):
    at_work.acquire()
print("end", flush=True)
""", "end\n")


if __name__ == "__main__":
    unittest.main()
