#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads of Python's hosts, for hosts.py: each runs in a process of its own, and prints its time, the most memory of the
device that it took, and a result.

Usage: host_loads.py NAME WAY
WAY: how the host gets its memory; "own" is how it does so by itself.
"""
import os
import sys
import time
import timeit
import warnings

from cupy_temporaries import temporaries

MIB = 1 << 20
CONFIG = {"cachalot": "", "cachalot, expandable": "expandable_segments:True"}


class Peak:
    """The most memory of the device in use at the moments that are noted, beyond the first."""

    def __init__(self, ask):
        self._ask, self.most = ask, 0
        self._first = self._used()

    def _used(self):
        free, total = self._ask()
        return total - free

    def note(self):
        self.most = max(self.most, self._used() - self._first)


def report(seconds, peak, result):
    peak.note()
    print(f"time {seconds:.9f} memory {peak.most} result {result}")


def best_of(rounds, count, call):
    """Seconds of one call: of the best round of so many calls. What the loop takes is in it, for each way alike."""
    return min(timeit.repeat(call, repeat=rounds, number=count)) / count


def cupy_by(way):
    """CuPy with its memory by this way."""
    import cupy
    warnings.filterwarnings("ignore")
    if way in CONFIG:
        import cachalot_cuda.cupy
        cachalot_cuda.cupy.install(CONFIG[way])
    elif way == "driver's pool":
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    elif way == "none":
        cupy.cuda.set_allocator(None)
    cupy.cuda.runtime.free(0)  # the context
    return cupy, Peak(cupy.cuda.runtime.memGetInfo)


def cupy_pair(way):
    """A request of 1 MiB and its free, bare, beside blocks that live on."""
    cupy, peak = cupy_by(way)
    kept = [cupy.cuda.alloc(MIB) for _ in range(3)]
    report(best_of(20, 100 if way == "none" else 5000, lambda: cupy.cuda.alloc(MIB)), peak, len(kept))


def cupy_loop(way):
    """Element-wise arithmetic and products: each operation is a temporary. 1,500 rounds, the best of seven times."""
    cupy, peak = cupy_by(way)
    temporaries(cupy, 60, peak.note)
    times = []
    for _ in range(7):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        total = temporaries(cupy, 1500, peak.note)
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - begin)
    print("all times", " ".join(f"{each:.4f}" for each in times))
    report(min(times), peak, f"{total:.6e}")


def cupy_sizes(way):
    """Arrays of sizes that hardly come twice, on four streams in turn, some of which live on for a while."""
    import random
    cupy, peak = cupy_by(way)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    kept, total, choices = [], 0.0, random.Random(7)
    begin = time.perf_counter()
    for i in range(4000):
        with streams[i % len(streams)] as stream:
            array = cupy.full(choices.randrange(1, 1 << 22), i % 11, dtype=cupy.uint8)
            if i % 3 == 0:
                kept.append((stream, array))
            if len(kept) > 60:
                owner, old = kept.pop(choices.randrange(len(kept)))
                with owner:
                    total += float(old.sum()) / old.size
                del old
        if i % 100 == 0:
            peak.note()
    cupy.cuda.Device().synchronize()
    report(time.perf_counter() - begin, peak, f"{total:.6f}")


def numba_by(way):
    """Numba with its memory by this way."""
    warnings.filterwarnings("ignore")
    from numba import cuda
    if way in CONFIG:
        import cachalot_cuda.numba
        cachalot_cuda.numba.install(CONFIG[way])
    from cuda.bindings import driver
    cuda.current_context()
    return cuda, Peak(lambda: driver.cuMemGetInfo()[1:])


def numba_loop(way):
    """Arrays to the device, a kernel on one of two streams, and sums back."""
    cuda, peak = numba_by(way)
    import numpy

    @cuda.jit
    def double(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= 2

    host = numpy.arange(1 << 18, dtype=numpy.float32)
    streams = [cuda.stream() for _ in range(2)]

    def loop(rounds):
        total = 0.0
        for i in range(rounds):
            stream = streams[i % 2]
            values = cuda.to_device(host[: 65536 + 1024 * (i % 64)], stream=stream)
            double[(values.size + 255) // 256, 256, stream](values)
            if i % 50 == 0:
                total += float(values.copy_to_host(stream=stream).sum())
                peak.note()
        return total

    loop(64)
    cuda.synchronize()
    begin = time.perf_counter()
    total = loop(1500)
    cuda.synchronize()
    report(time.perf_counter() - begin, peak, f"{total:.6e}")


def rmm_by(way):
    """RMM with its memory by this way."""
    import rmm
    from cuda.bindings import runtime
    runtime.cudaFree(0)
    peak = Peak(lambda: runtime.cudaMemGetInfo()[1:])
    if way in CONFIG:
        import cachalot_cuda.rmm
        resource = cachalot_cuda.rmm.resource(config=CONFIG[way])
    elif way == "driver's pool":
        resource = rmm.mr.CudaAsyncMemoryResource()
    elif way == "pool":
        resource = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=64 * MIB)
    else:
        resource = rmm.mr.CudaMemoryResource()
    rmm.mr.set_current_device_resource(resource)
    return rmm, peak


def rmm_pair(way):
    """A buffer of 1 MiB and its end, bare."""
    rmm, peak = rmm_by(way)
    kept = [rmm.DeviceBuffer(size=MIB) for _ in range(3)]
    report(best_of(10, 200 if way == "own" else 2000, lambda: rmm.DeviceBuffer(size=MIB)), peak, len(kept))


def rmm_buffers(way):
    """Buffers with contents on two streams, that are read back."""
    import random
    rmm, peak = rmm_by(way)
    from rmm.pylibrmm.stream import Stream
    streams = [Stream() for _ in range(2)]
    choices, kept, total = random.Random(7), [], 0
    begin = time.perf_counter()
    for i in range(1000):
        contents = bytes([i % 251]) * choices.randrange(1, 1 << 20)
        kept.append(rmm.DeviceBuffer.to_device(contents, stream=streams[i % 2]))
        if len(kept) > 20:
            old = kept.pop(choices.randrange(len(kept)))
            host = old.copy_to_host()
            total += int(host[-1]) * len(host)
        if i % 50 == 0:
            peak.note()
    report(time.perf_counter() - begin, peak, total)


def torch_and_cupy(way):
    """Two hosts in turns in one process: PyTorch computes, then CuPy on the same memory's worth of arrays."""
    import torch
    if way in CONFIG:
        import cachalot_cuda.torch
        cachalot_cuda.torch.install(CONFIG[way])
    else:
        torch.cuda.memory._set_allocator_settings(CONFIG["cachalot, expandable"] if "expandable" in way else "")
    torch.cuda.init()
    import cupy
    if way in CONFIG:
        import cachalot_cuda.cupy
        cachalot_cuda.cupy.install()
    peak = Peak(torch.cuda.mem_get_info)
    total = 0.0
    begin = time.perf_counter()
    for i in range(20):
        tensors = [torch.full((1 << 24,), float(i), device="cuda") for _ in range(12)]
        total += sum(float(each.sum()) for each in tensors) / (1 << 24)
        peak.note()
        shared = cupy.asarray(tensors[0])
        del tensors
        arrays = [shared * 2 + k for k in range(12)]
        total += sum(float(each.mean()) for each in arrays)
        peak.note()
        del arrays, shared
    report(time.perf_counter() - begin, peak, f"{total:.3f}")


LOADS = {load.__name__: load for load in (
    cupy_pair, cupy_loop, cupy_sizes, numba_loop, rmm_pair, rmm_buffers, torch_and_cupy)}

if __name__ == "__main__":
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
    LOADS[sys.argv[1]](sys.argv[2])
