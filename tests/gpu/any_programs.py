#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that know nothing of cachalot, for any_program.py: each runs one load and prints its time and a result.

Usage: any_programs.py NAME [own]
own: with the cache that the framework has itself; without, each request goes to the driver.
"""
import os
import sys
import time
import warnings

from cupy_temporaries import temporaries


def report(seconds, result):
    print(f"time {seconds:.6f} result {result}")


def torch_train(own):
    """Training steps of a transformer, of lengths that differ."""
    if not own:
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch
    from torch.nn import functional

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    width, words, heads = 512, 4000, 8
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0, batch_first=True)
    model = torch.nn.ModuleDict({
        "embed": torch.nn.Embedding(words, width),
        "body": torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False),
        "head": torch.nn.Linear(width, words),
    }).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    total = 0.0

    def step(i):
        generator = torch.Generator().manual_seed(i)
        text = torch.randint(0, words, (8, 129 + 32 * (i % 5)), generator=generator).cuda()
        guess = model["head"](model["body"](model["embed"](text[:, :-1])))
        loss = functional.cross_entropy(guess.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    for i in range(5):
        step(i)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for i in range(5, 35):
        total += step(i)
    torch.cuda.synchronize()
    report((time.perf_counter() - begin) / 30, f"{total:.9f}")


def torch_graph(_):
    """A graph that is captured once and replayed beside other work."""
    import torch

    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    inputs = torch.randn(64, 512, device="cuda")
    difference = 0.0
    begin = time.perf_counter()
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = model(model(inputs))
        for _ in range(50):
            inputs.normal_()
            graph.replay()
            difference += (outputs - model(model(inputs))).abs().max().item()
    report(time.perf_counter() - begin, f"{difference:.6f}")


def torch_green(own):
    """Products in a green context, which has some of the multiprocessors, beside ones in the primary context."""
    if not own:
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch
    from torch.cuda.green_contexts import GreenContext

    torch.manual_seed(7)
    weights = torch.randn(512, 512, device="cuda") / 32
    green = GreenContext.create(num_sms=32, device_id=0)

    def product(values):
        return (values @ weights).relu() + values

    total = 0.0
    begin = time.perf_counter()
    values = torch.randn(256, 512, device="cuda")
    for i in range(300):
        green.set_context()
        part = product(values)
        part = product(part) * 0.125
        green.pop_context()
        values = (part - part.mean()) / part.std() + i % 3
        if i % 20 == 0:
            total += values.square().sum().item()
    torch.cuda.synchronize()
    report(time.perf_counter() - begin, f"{total:.6e}")


def cupy_temporaries(own):
    """Element-wise arithmetic: each operation is a temporary."""
    import cupy

    if not own:
        cupy.cuda.set_allocator(None)

    temporaries(cupy, 60)
    cupy.cuda.Device().synchronize()
    begin = time.perf_counter()
    total = temporaries(cupy, 1500)
    cupy.cuda.Device().synchronize()
    report(time.perf_counter() - begin, f"{total:.6e}")


def cupy_pairs(own):
    """A request of 1 MiB and its free, bare, beside a block that keeps the driver's page."""
    import cupy

    if not own:
        cupy.cuda.set_allocator(None)
    kept = [cupy.empty(1 << 18, dtype=cupy.float32) for _ in range(3)]
    times = 20000
    for _ in range(1000):
        cupy.empty(1 << 18, dtype=cupy.float32)
    begin = time.perf_counter()
    for _ in range(times):
        cupy.empty(1 << 18, dtype=cupy.float32)
    report((time.perf_counter() - begin) / times, len(kept))


def numba_transfers(_):
    """Arrays to the device, a kernel, and sums back."""
    import numpy

    for old, new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
        if not hasattr(numpy, old):  # this numba is older than this numpy
            setattr(numpy, old, getattr(numpy, new))
    warnings.filterwarnings("ignore")
    from numba import cuda

    @cuda.jit
    def double(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= 2

    host = numpy.arange(1 << 18, dtype=numpy.float32)

    def loop(rounds):
        total = 0.0
        for i in range(rounds):
            values = cuda.to_device(host[: 65536 + 1024 * (i % 64)])
            double[(values.size + 255) // 256, 256](values)
            if i % 50 == 0:
                total += float(values.copy_to_host().sum())
        return total

    loop(30)
    cuda.synchronize()
    begin = time.perf_counter()
    total = loop(1500)
    cuda.synchronize()
    report(time.perf_counter() - begin, f"{total:.6e}")


def jax_operations(own):
    """Operations one by one; without its own cache JAX maps virtual memory for each."""
    if not own:
        os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"  # or the result depends on the time of trial runs
    import jax
    from jax import numpy as jnp

    key = jax.random.PRNGKey(7)
    values = jax.random.normal(key, (1024, 512))
    weights = jax.random.normal(key, (512, 512)) / 32

    def layer(values, i):
        values = jnp.tanh(values @ weights + i) * 0.5 + values
        return values - values.mean(axis=1, keepdims=True)

    for i in range(5):
        layer(values, float(i)).block_until_ready()
    begin = time.perf_counter()
    total = 0.0
    for i in range(300):
        result = layer(layer(values, float(i % 7)), 1.0)
        if i % 20 == 0:
            total += float(result.sum())
    result.block_until_ready()
    report(time.perf_counter() - begin, f"{total:.6e}")


def triton_kernel(own):
    """A kernel whose launcher is linked with the driver."""
    if not own:
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch
    import triton
    from triton import language as tl

    @triton.jit
    def twice(source, target, count, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        inside = at < count
        tl.store(target + at, tl.load(source + at, mask=inside) * 2, mask=inside)

    total = 0.0
    begin = time.perf_counter()
    for i in range(300):
        source = torch.full((100000 + i,), float(i), device="cuda")
        target = torch.empty_like(source)
        twice[(triton.cdiv(source.numel(), 1024),)](source, target, source.numel(), 1024)
        if i % 20 == 0:
            total += target.sum().item()
    report(time.perf_counter() - begin, f"{total:.1f}")


def onnxruntime_detection(_):
    """A model on the CUDA provider, whose arena grows as its requests do."""
    import torch  # has loaded the libraries that the provider needs
    import numpy
    import onnxruntime

    providers = [("CUDAExecutionProvider", {"arena_extend_strategy": "kSameAsRequested", "cudnn_conv_algo_search": "DEFAULT"})]
    session = onnxruntime.InferenceSession(os.environ["CACHALOT_ONNX_MODEL"], providers=providers)
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise SystemExit("the CUDA provider does not start")
    name = session.get_inputs()[0].name
    random = numpy.random.default_rng(7)
    total = 0.0
    begin = time.perf_counter()
    for i in range(60):
        side = 320 + 64 * (i % 6)
        image = random.random((1, 3, side, side), dtype=numpy.float32)
        total += float(session.run(None, {name: image})[0].sum())
    report(time.perf_counter() - begin, f"{total:.3e} {torch.cuda.is_available()}")


def tinygrad_steps(own):
    """Operations in a context of tinygrad's own."""
    if not own:
        os.environ["LRU"] = "0"
    os.environ.setdefault("DEV", "CUDA")
    import numpy
    from tinygrad import Tensor

    random = numpy.random.default_rng(7)
    weights = Tensor(random.random((512, 512), dtype=numpy.float32) / 512).realize()
    values = Tensor(random.random((512, 512), dtype=numpy.float32)).realize()
    for _ in range(5):
        ((values @ weights).relu() + values).realize()
    begin = time.perf_counter()
    total = 0.0
    for i in range(200):
        result = ((values @ weights).relu() * (1 + i % 3) + values).realize()
        if i % 20 == 0:
            total += float(result.sum().numpy())
    report(time.perf_counter() - begin, f"{total:.5e}")


def torch_peers(own):
    """Two GPUs that read each other's memory."""
    if not own:
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch

    if torch.cuda.device_count() < 2:
        raise SystemExit("there is one GPU")
    total = 0.0
    begin = time.perf_counter()
    for i in range(300):
        here = torch.full((1 << 18,), float(i), device="cuda:0")
        there = here.to("cuda:1", non_blocking=True) * 2
        back = there.to("cuda:0") + here
        if i % 20 == 0:
            total += back.sum().item()
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    report(time.perf_counter() - begin, f"{total:.1f}")


def sum_of_ranks(rank, port, seconds):
    import torch
    from torch import distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    total = 0.0
    for i in range(200):
        if i == 20:
            begin = time.perf_counter()
        values = torch.full((1 << (10 + i % 12),), float(rank + i), device="cuda")
        distributed.all_reduce(values)
        parts = [torch.empty_like(values) for _ in range(2)]
        distributed.all_gather(parts, values + rank)
        total += parts[1][0].item()
    torch.cuda.synchronize()
    seconds[rank] = time.perf_counter() - begin
    seconds[2 + rank] = total
    distributed.destroy_process_group()


def torch_nccl(own):
    """Two processes that sum over NCCL."""
    if not own:
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch
    from torch import multiprocessing

    if torch.cuda.device_count() < 2:
        raise SystemExit("there is one GPU")
    seconds = torch.zeros(4, dtype=torch.float64).share_memory_()
    multiprocessing.spawn(sum_of_ranks, (29500 + os.getpid() % 1000, seconds), nprocs=2)
    report(seconds[:2].max().item(), f"{seconds[2]:.1f} {seconds[3]:.1f}")


PROGRAMS = {
    program.__name__: program
    for program in (torch_train, torch_graph, torch_green, cupy_temporaries, cupy_pairs, numba_transfers, jax_operations,
                    triton_kernel, onnxruntime_detection, tinygrad_steps)
}
OF_TWO_GPUS = {program.__name__: program for program in (torch_peers, torch_nccl)}
PROGRAMS_OF_ALL = {**PROGRAMS, **OF_TWO_GPUS}

if __name__ == "__main__":
    PROGRAMS_OF_ALL[sys.argv[1]](sys.argv[2:] == ["own"])
