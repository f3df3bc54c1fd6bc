#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What PyTorch can do on cachalot beside allocating: errors, graphs, pools, statistics, snapshots.

    torch_features.py        on a GPU; needs torch and CACHALOT_LIB_DIR (or an installed library)
"""

import gc
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))

import torch  # noqa: E402

import cachalot_cuda.torch  # noqa: E402

MIB = 1 << 20


def setUpModule():
    cachalot_cuda.torch.install(release="2.11", contexts="labels")
    torch.cuda.init()


def small_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).cuda()


def compared_usage():
    """What PyTorch gives to flamegraph.pl, which is what the functions of cachalot_cuda write."""
    for function in ("save_segment_usage", "save_memory_usage"):
        texts = []
        with tempfile.TemporaryDirectory() as home:
            script = pathlib.Path(home, ".cache", "flamegraph.pl")  # where PyTorch looks for it
            script.parent.mkdir()
            script.write_text("#!/bin/sh\nexec cat\n")
            script.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, HOME=home):
                for save in (getattr(torch.cuda.memory, "_" + function), getattr(cachalot_cuda, function)):
                    path = pathlib.Path(home, "usage")
                    save(str(path))
                    texts.append(path.read_text())
        if texts[0] != texts[1]:
            raise AssertionError("\n\n".join(texts))
        yield texts[0]


class Features(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def test_the_allocator_is_on_the_gpu(self):
        self.assertEqual(torch.cuda.memory.get_allocator_backend(), "pluggable")
        block = torch.arange(1000, device="cuda")
        self.assertEqual(int(block.sum()), 499500)
        self.assertEqual(torch.cuda.memory_allocated(), cachalot_cuda.memory_allocated())

    def test_out_of_memory_is_pytorchs_own_error_and_training_goes_on(self):
        model = small_model()
        for _ in range(3):
            with self.assertRaisesRegex(torch.OutOfMemoryError, "^CUDA out of memory. Tried to allocate "):
                torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
            loss = model(torch.ones(8, 64, device="cuda")).square().mean()
            loss.backward()
            self.assertTrue(torch.isfinite(loss))
        self.assertGreaterEqual(torch.cuda.memory_stats()["num_ooms"], 3)

    def test_out_of_memory_in_the_backward_pass_reaches_the_caller(self):
        class Huge(torch.autograd.Function):
            @staticmethod
            def forward(_, x):
                return x

            @staticmethod
            def backward(_, gradient):
                return gradient + torch.empty(1 << 45, dtype=torch.uint8, device="cuda")[0]

        with self.assertRaises(torch.OutOfMemoryError):
            Huge.apply(torch.ones(4, device="cuda", requires_grad=True)).sum().backward()

    def test_a_memory_fraction_limits_and_is_told(self):
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(256 * MIB / total)
        try:
            self.assertAlmostEqual(torch.cuda.get_per_process_memory_fraction(), 256 * MIB / total, 6)
            with self.assertRaises(torch.OutOfMemoryError):
                torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)

    def test_a_captured_graph_gives_what_the_steps_give(self):
        model = small_model()
        images = torch.zeros(16, 64, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            model(images)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            output = model(images) + 1
        pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
        self.assertIn(tuple(graph.pool()), pools)
        for seed in range(5):
            torch.manual_seed(seed)
            images.copy_(torch.randn(16, 64))
            noise = torch.randn(1 << 20, device="cuda")  # must not get the graph's memory
            graph.replay()
            with torch.no_grad():
                self.assertTrue(torch.equal(output, model(images) + 1))
            del noise
        del output
        graph.reset()
        torch._C._cuda_clearCublasWorkspaces()  # that of the captured stream lies in the pool
        torch.cuda.empty_cache()
        pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
        self.assertEqual({pool for pool in pools if pool != (0, 0)}, set())

    def test_two_graphs_share_a_pool(self):
        pool = torch.cuda.graph_pool_handle()
        graphs, outputs = [], []
        source = torch.arange(1000.0, device="cuda")
        for factor in (2, 3):
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(graphs[-1], pool=pool):
                outputs.append(source * factor)
        for graph in graphs:
            graph.replay()
        torch.cuda.synchronize()
        self.assertEqual([float(output.sum()) for output in outputs], [999000.0, 1498500.0])

    def test_a_pool_keeps_its_memory_apart_and_gives_it_back(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = torch.ones(4 * MIB, device="cuda")
        outside = torch.ones(4 * MIB, device="cuda")
        self.assertEqual([segment["segment_pool_id"] for segment in pool.snapshot()], [pool.id])
        self.assertEqual(pool.use_count(), 1)
        self.assertEqual(float((inside + outside).sum()), 8.0 * MIB)
        reserved = torch.cuda.memory_reserved()
        del inside, pool
        gc.collect()
        self.assertLess(torch.cuda.memory_reserved(), reserved)

    def test_a_block_that_another_stream_uses_is_not_reused_too_early(self):
        side = torch.cuda.Stream()
        for i in range(20):
            block = torch.full((8 * MIB,), i, dtype=torch.uint8, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(2_000_000)
                copy = block.clone()
            block.record_stream(side)
            del block
            other = torch.full((8 * MIB,), 255, dtype=torch.uint8, device="cuda")
            side.synchronize()
            self.assertTrue(bool((copy == i).all()), i)
            del other, copy

    def test_the_statistics_are_there(self):
        before = torch.cuda.memory_stats()
        self.assertEqual(len(before), 122)
        block = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        after = torch.cuda.memory_stats()
        grown = after["allocated_bytes.all.current"] - before["allocated_bytes.all.current"]
        self.assertEqual(grown, 30 * MIB)
        self.assertGreaterEqual(torch.cuda.max_memory_allocated(), 30 * MIB)
        self.assertEqual(torch.cuda.memory_summary(), cachalot_cuda.memory_summary())
        self.assertEqual(torch.accelerator.memory_allocated(), torch.cuda.memory_allocated())
        del block
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        self.assertEqual(torch.cuda.memory_stats()["num_device_alloc"], 0)

    def test_the_cache_can_be_emptied(self):
        torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
        reserved, free = torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]
        torch.cuda.empty_cache()
        self.assertLessEqual(torch.cuda.memory_reserved(), reserved - 100 * MIB)
        self.assertGreaterEqual(torch.cuda.mem_get_info()[0], free + 100 * MIB)

    def test_history_and_snapshots_have_pytorchs_form(self):
        torch.cuda.memory._record_memory_history(max_entries=1000)
        try:
            with cachalot_cuda.label("weights"):
                block = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "snapshot.pickle")
                torch.cuda.memory._dump_snapshot(path)
                with open(path, "rb") as file:
                    taken = pickle.load(file)
        finally:
            torch.cuda.memory._record_memory_history(None)
        self.assertEqual(list(taken), ["segments", "device_traces", "allocator_settings", "external_annotations"])
        events = [event for event in taken["device_traces"][0] if event.get("addr") == block.data_ptr()]
        alloc = [event for event in events if event["action"] == "alloc"][-1]
        self.assertEqual(alloc["size"], 3 * MIB)
        self.assertIn("weights", alloc["frames"][0]["name"])

    def test_usage_files_are_those_of_pytorch(self):
        torch.cuda.memory._record_memory_history(max_entries=1000)
        try:
            with cachalot_cuda.label("weights"):
                block = torch.empty(3 * MIB + 1, dtype=torch.uint8, device="cuda")
            self.assertTrue(block.is_cuda)
            for text in compared_usage():
                self.assertIn("weights", text)
                self.assertIn("<gaps> 511\n", text)
        finally:
            torch.cuda.memory._record_memory_history(None)

    def test_usage_files_are_those_of_pytorch_with_stacks_too(self):
        program = (
            "import torch, cachalot_cuda.torch, torch_features\n"
            "cachalot_cuda.torch.install(contexts='stack')\n"
            "torch.cuda.memory._record_memory_history()\n"
            "block = torch.empty(1000, device='cuda')\n"
            "for text in torch_features.compared_usage(): assert 'CUDAPluggableAllocator' in text, text\n")
        path = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env=dict(os.environ, PYTHONPATH=path))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_pool_of_the_native_allocator_has_its_segments_from_cachalot(self):
        program = (
            "import torch, cachalot_cuda.torch\n"
            "pool = cachalot_cuda.torch.mem_pool()\n"
            "with torch.cuda.use_mem_pool(pool):\n"
            "    x = torch.ones(4 << 20, device='cuda')\n"
            "assert float(x.sum()) == 4 << 20\n"
            "assert torch.cuda.memory.get_allocator_backend() == 'native'\n"
            "assert cachalot_cuda.memory_allocated() == 16 << 20, cachalot_cuda.memory_allocated()\n"
            "try:\n"
            "    with torch.cuda.use_mem_pool(pool):\n"
            "        torch.empty(1 << 45, device='cuda')\n"
            "    raise SystemExit('no error')\n"
            "except torch.OutOfMemoryError:\n"
            "    pass\n"
            "del x, pool\n"
            "torch.cuda.empty_cache()\n"
            "assert cachalot_cuda.memory_allocated() == 0, cachalot_cuda.memory_allocated()\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_pool_that_has_slept_has_its_tensors_and_graphs(self):
        program = (
            "import torch, cachalot_cuda.torch\n"
            "cachalot_cuda.torch.install('expandable_segments:True')\n"
            "torch.manual_seed(0)\n"
            "pool = torch.cuda.MemPool()\n"
            "with torch.cuda.use_mem_pool(pool):\n"
            "    weights, x = torch.randn(4096, 4096, device='cuda'), torch.randn(64, 4096, device='cuda')\n"
            "    x @ weights\n"
            "torch.cuda.synchronize()\n"
            "graph = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(graph, pool=pool.id):\n"
            "    y = x @ weights\n"
            "graph.replay()\n"
            "expected, kept = y.clone(), weights.clone()\n"
            "free = torch.cuda.mem_get_info()[0]\n"
            "gone = pool.sleep()\n"
            "assert gone >= 64 << 20 and torch.cuda.mem_get_info()[0] - free == gone, gone\n"
            "assert pool.state == 'asleep', pool.state\n"
            "other = torch.ones(gone // 4, device='cuda')\n"
            "del other\n"
            "pool.wake()\n"
            "assert torch.equal(weights, kept)\n"
            "y.zero_()\n"
            "graph.replay()\n"
            "assert torch.equal(y, expected)\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_option_that_does_not_exist_is_an_error_when_cuda_begins(self):
        program = (
            "import torch, cachalot_cuda.torch\n"
            "cachalot_cuda.torch.install('no_such_option:1')\n"
            "try:\n"
            "    torch.empty(1, device='cuda')\n"
            "except RuntimeError as error:\n"
            "    assert 'no_such_option' in str(error), error\n"
            "else:\n"
            "    raise SystemExit('no error')\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
