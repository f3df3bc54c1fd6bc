# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of other programs for the tests of `cachalot convert`, made on a GPU: snapshots by PyTorch, a log by RMM.

Usage: make_samples.py OUT [torch | rmm]
"""
import os
import pathlib
import pickle
import sys


def model(torch, width=256):
    torch.manual_seed(7)
    return torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]).cuda()


def train(torch, net, steps):
    optimizer = torch.optim.AdamW(net.parameters())
    for i in range(steps):
        inputs = torch.randn(64 + 32 * (i % 3), 256, device="cuda")
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        optimizer.step()


def two_streams(torch):
    side = torch.cuda.Stream()
    kept = []
    for i in range(12):
        block = torch.empty((1 + i) * 300_000, device="cuda")
        with torch.cuda.stream(side):
            block.mul_(2)
            block.record_stream(side)
            kept.append(torch.empty(70_000 * (i + 1), device="cuda"))
        del block
        if i % 3 == 2:
            del kept[::2]
    return kept


def torch_samples(out, name):
    import torch
    memory = torch.cuda.memory
    if name == "plain":  # no history
        net = model(torch)
        train(torch, net, 3)
        kept = two_streams(torch)
    if name == "history":  # from the first request on
        memory._record_memory_history(max_entries=100_000, stacks="python")
        net = model(torch)
        train(torch, net, 4)
        kept = two_streams(torch)
        torch.cuda.empty_cache()
        train(torch, net, 2)
    if name == "middle":  # begins with blocks live; the ring has dropped its begin
        net = model(torch)
        train(torch, net, 2)
        memory._record_memory_history(max_entries=300, context="alloc", stacks="python")
        train(torch, net, 4)
        kept = two_streams(torch)
    if name == "all":  # C++ frames too
        memory._record_memory_history(max_entries=100_000, stacks="all")
        net = model(torch)
        train(torch, net, 2)
    if name == "oom":
        memory._record_memory_history(max_entries=100_000, context=None)
        torch.cuda.set_per_process_memory_fraction(1 / 512)
        kept = []
        try:
            while True:
                kept.append(torch.empty(5_000_000, device="cuda"))
        except torch.OutOfMemoryError:
            del kept[::2]
    if name == "graph":
        memory._record_memory_history(max_entries=100_000, context="alloc", stacks="python")
        net = model(torch)
        inputs = torch.randn(64, 256, device="cuda")
        with torch.no_grad():
            net(inputs)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outputs = net(inputs)
        graph.replay()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    memory._dump_snapshot(str(out / f"torch_{name}.pickle"))
    with open(out / f"torch_{name}.stats.pickle", "wb") as file:
        pickle.dump({"version": torch.__version__, "device": torch.cuda.get_device_name(),
                     "total": torch.cuda.get_device_properties(0).total_memory, "stats": dict(stats)}, file)


def rmm_sample(out):
    import rmm
    from rmm.pylibrmm.stream import Stream
    print("rmm", rmm.__version__)
    base = rmm.mr.CudaMemoryResource()
    mr = rmm.mr.LoggingResourceAdaptor(base, log_file_name=str(out / "rmm.csv"))
    rmm.mr.set_current_device_resource(mr)
    side = Stream()
    kept = []
    for i in range(200):
        kept.append(rmm.DeviceBuffer(size=(i * 7919) % 3_000_001 + 1, stream=side if i % 3 == 0 else rmm.pylibrmm.stream.DEFAULT_STREAM))
        if i % 4 == 3:
            del kept[(i * 31) % len(kept)]
    try:
        rmm.DeviceBuffer(size=1 << 42)
    except MemoryError as error:
        print("refused:", error)
    mr.flush()


def main():
    out = pathlib.Path(sys.argv[1])
    if sys.argv[2] == "rmm":
        rmm_sample(out)
    else:
        torch_samples(out, sys.argv[2])


main()
