#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What PyTorch does on cachalot with install(extension=True): torch.multiprocessing, peers, observers.

    extension_test.py    with torch, on a GPU or over the runtime of build.sh (CACHALOT_DRIVER=host-shared)

CACHALOT_ALLOC_CONF says whether segments are expandable, CACHALOT_RELEASE whose decisions are made. With
NATIVE_ALLOCATOR=1 the same tests run on PyTorch's own allocator, and must pass there, too. Tensors are filled by copies,
since no kernel runs without a GPU. Exit status: 77 without torch.
"""

import functools
import gc
import importlib.util
import os
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bindings" / "python"))

if importlib.util.find_spec("torch") is None:
    print("skipped: no torch")
    sys.exit(77)

import torch  # noqa: E402
import torch.multiprocessing  # noqa: E402
from torch.utils import cpp_extension  # noqa: E402

import cachalot_cuda.torch  # noqa: E402
from cachalot_cuda import torch_extension  # noqa: E402

IS_NATIVE = "NATIVE_ALLOCATOR" in os.environ
DRIVER = os.environ.get("CACHALOT_DRIVER") or "cuda"
# The runtime of build.sh has no expandable segments.
CAN_MEET_NATIVE = DRIVER == "cuda" or "expandable_segments:True" not in os.environ.get("CACHALOT_ALLOC_CONF", "")
MIB = 1 << 20
SECONDS = 120
# Bytes that processes exchange are those of PyTorch's release.
RELEASE = os.environ.get("CACHALOT_RELEASE") or ".".join(torch.__version__.split(".")[:2])

processes = torch.multiprocessing.get_context("spawn")


def begin(is_native):
    if not is_native:
        cachalot_cuda.torch.install(release=RELEASE, driver=DRIVER, extension=True)
    torch.cuda.init()


def setUpModule():
    begin(IS_NATIVE)


def numbers(count, factor=1):
    return torch.arange(count, dtype=torch.int64) * factor


def in_device_memory(tensor):
    return torch.empty_like(tensor, device="cuda").copy_(tensor)


def double(received, answers, is_native):
    """Another process: doubles each tensor that comes, until None does."""
    begin(is_native)
    while (tensor := received.get(timeout=SECONDS)) is not None:
        tensor.copy_(tensor.cpu() * 2)
        torch.cuda.synchronize()
        answers.put(tensor.data_ptr())
        del tensor
        torch.cuda.ipc_collect()
        answers.put(cachalot_cuda.torch.is_installed())


def send_numbers(tensors, answers, is_native):
    """Another process: gives a tensor to this one, and says what became of it."""
    begin(is_native)
    tensor = in_device_memory(numbers(1000))
    tensors.put(tensor)
    answers.get(timeout=SECONDS)
    answers.put(tensor.cpu().tolist())
    tensors.get(timeout=SECONDS)


class OtherProcess:
    def __init__(self, function=double, is_native=IS_NATIVE):
        self.tensors, self.answers, self._is_native = processes.Queue(), processes.Queue(), is_native
        self._process = processes.Process(target=function, args=(self.tensors, self.answers, is_native))
        self._process.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tensors.put(None)
        self._process.join(SECONDS)
        if self._process.exitcode != 0:
            self._process.kill()
            raise AssertionError(f"the other process ended with {self._process.exitcode}")

    def send(self, tensor):
        self.tensors.put(tensor)

    def address(self):
        """Where the other process had the next tensor, after it is done with it."""
        address = self.answers.get(timeout=SECONDS)
        if self.answers.get(timeout=SECONDS) == self._is_native:
            raise AssertionError("the other process has the wrong allocator")
        return address


class Sharing(unittest.TestCase):
    def test_a_tensor_in_another_process_is_the_same_memory(self):
        tensor = in_device_memory(numbers(1000))
        with OtherProcess() as other:
            other.send(tensor)
            other.address()
        torch.testing.assert_close(tensor.cpu(), numbers(1000, 2))

    def test_a_part_of_a_tensor_leaves_the_rest_alone(self):
        tensor = in_device_memory(numbers(1000))
        with OtherProcess() as other:
            other.send(tensor[10:20])
            other.address()
        expected = numbers(1000)
        expected[10:20] *= 2
        torch.testing.assert_close(tensor.cpu(), expected)

    def test_a_large_tensor_arrives_whole(self):
        tensor = in_device_memory(numbers(9 * MIB))  # 72 MiB: several pages
        with OtherProcess() as other:
            other.send(tensor)
            other.address()
        torch.testing.assert_close(tensor.cpu(), numbers(9 * MIB, 2))

    def test_tensors_of_one_segment_lie_as_far_apart_there_as_here(self):
        first, second = in_device_memory(numbers(100)), in_device_memory(numbers(200))
        with OtherProcess() as other:
            other.send(first)
            at = other.address()
            other.send(second)
            self.assertEqual((other.address() - at) % 512, (second.data_ptr() - first.data_ptr()) % 512)

    def test_memory_is_free_when_both_processes_are_done_and_not_before(self):
        gc.collect()
        torch.cuda.ipc_collect()
        before = torch.cuda.memory_allocated()
        tensor = in_device_memory(numbers(MIB))
        held = torch.cuda.memory_allocated()
        self.assertGreater(held, before)
        with OtherProcess() as other:
            other.send(tensor)
            del tensor  # the queue's thread or the other process has it
            gc.collect()
            torch.cuda.ipc_collect()
            self.assertEqual(torch.cuda.memory_allocated(), held)
            other.address()
        torch.cuda.ipc_collect()
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_memory_that_came_from_another_process_is_not_passed_on(self):
        # PyTorch's own rule, by PyTorch's own code.
        with OtherProcess(send_numbers) as other:
            tensor = other.tensors.get(timeout=SECONDS)
            with self.assertRaisesRegex(RuntimeError, "received from another process"):
                tensor.untyped_storage()._share_cuda_()
            other.answers.put(None)
            del tensor

    @unittest.skipUnless(CAN_MEET_NATIVE, "PyTorch's own allocator has no such memory here")
    def test_a_process_on_pytorchs_own_allocator_opens_a_tensor_of_this_one(self):
        tensor = in_device_memory(numbers(1000))
        with OtherProcess(is_native=True) as other:
            other.send(tensor)
            other.address()
        torch.testing.assert_close(tensor.cpu(), numbers(1000, 2))

    @unittest.skipUnless(CAN_MEET_NATIVE, "PyTorch's own allocator has no such memory here")
    def test_a_tensor_of_a_process_on_pytorchs_own_allocator_is_opened_here(self):
        with OtherProcess(send_numbers, is_native=True) as other:
            tensor = other.tensors.get(timeout=SECONDS)
            torch.testing.assert_close(tensor.cpu(), numbers(1000))
            tensor.copy_(numbers(1000, 2))
            torch.cuda.synchronize()
            other.answers.put(None)
            self.assertEqual(other.answers.get(timeout=SECONDS), numbers(1000, 2).tolist())
            del tensor


@functools.lru_cache(maxsize=None)
def cpp():
    """The functions of caching_allocator.cpp."""
    folder = torch_extension.built_file().parent / "test"
    folder.mkdir(exist_ok=True)
    return cpp_extension.load(
        "cachalot_test", [str(HERE / "caching_allocator.cpp")], build_directory=str(folder),
        extra_include_paths=[str(torch_extension.cuda_headers())],
        extra_ldflags=[*(f"-L{path}" for path in cpp_extension.library_paths()), "-lc10_cuda"])


class Observers(unittest.TestCase):
    def test_a_trace_observer_sees_what_the_history_has(self):
        cpp().observe_trace()
        torch.cuda.empty_cache()
        torch.cuda.memory._record_memory_history(context=None)
        cpp().take_entries()
        tensors = [in_device_memory(numbers(size)) for size in (10, MIB, 4 * MIB)]
        del tensors
        torch.cuda.empty_cache()
        seen = cpp().take_entries()
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
        torch.cuda.memory._record_memory_history(None)
        actions = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
                   "segment_unmap", "snapshot", "oom"]
        history = [(actions.index(e["action"]), e["addr"] if "addr" in e else e["device_free"], e["size"], e["stream"])
                   for e in entries if e["action"] != "snapshot"]
        self.assertEqual(seen, history)
        self.assertGreaterEqual({actions[row[0]] for row in seen}, {"alloc", "free_requested", "free_completed"})

    def test_an_out_of_memory_observer_gets_the_numbers(self):
        seen = []
        torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        self.assertEqual(len(seen), 1)
        device, asked, limit, free = seen.pop()
        self.assertEqual((device, asked), (0, 1 << 50))
        torch.cuda.set_per_process_memory_fraction(0.5)
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        torch.cuda.set_per_process_memory_fraction(1.0)
        self.assertEqual(len(seen), 1)
        self.assertAlmostEqual(seen[0][2], limit / 2, delta=MIB)
        self.assertGreater(free, 0)

    @unittest.skipIf(torch.__version__ < "2.12" or os.environ.get("CACHALOT_RELEASE") == "2.11",
                     "PyTorch has no rejections before 2.12")
    def test_a_rejection_observer_gets_the_numbers(self):
        cpp().observe_rejections()
        torch.cuda.memory._set_allocator_settings("throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5")
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        torch.cuda.memory._set_allocator_settings("throw_on_cudamalloc_oom:False,per_process_memory_fraction:1.0")
        # PyTorch's own allocator calls it on a thread of its own.
        rows, end = cpp().take_rejections(), time.monotonic() + SECONDS
        while not rows and time.monotonic() < end:
            time.sleep(0.01)
            rows = cpp().take_rejections()
        (device, asked, obtained, total), = rows
        self.assertEqual((device, asked), (0, 1 << 50))
        self.assertEqual(obtained, torch.cuda.memory_reserved())
        self.assertGreater(total, obtained)


class Peers(unittest.TestCase):
    def test_a_copy_within_a_device_is_right(self):
        tensor = in_device_memory(numbers(1000))
        torch.testing.assert_close(tensor.clone().cpu(), numbers(1000))

    def test_one_gpu_reads_and_writes_the_memory_of_another(self):
        if not IS_NATIVE and cachalot_cuda._library.device_count() < 2:
            # The runtime may have devices that the driver has not. Access is asked of cachalot.
            with self.assertRaisesRegex(RuntimeError, "device 1 does not exist"):
                cpp().enable_peer_access(0, 1)
            self.skipTest("one device")
        tensor = in_device_memory(numbers(MIB))
        there = tensor.to("cuda:1")
        torch.testing.assert_close(there.cpu(), numbers(MIB))
        tensor.copy_(there.copy_(numbers(MIB, 2)))
        torch.testing.assert_close(tensor.cpu(), numbers(MIB, 2))


if __name__ == "__main__":
    unittest.main()
