# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small runs of real models, on PyTorch's native allocator or on cachalot; started by torch_models.py.

    torch_workloads.py native|cachalot [--history] [WORKLOAD...]

Imports everything, waits for a line on standard input, runs the workloads one after the other, each from
an empty cache, and prints one line of JSON for each: results as hexadecimal floats, all statistics of the
allocator, seconds, with --history the addresses that the driver gave and a digest of the requests.

Nothing depends on the moment at which work on the GPU ends: blocks with recorded streams are freed just
before the device is synchronized.
"""

import gc
import hashlib
import json
import os
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402

DEVICE = "cuda"
MIB = 1 << 20


class Run:
    """What a workload reports: the results of its steps, and how long each took."""

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.random = torch.Generator().manual_seed(seed + 1)  # on the CPU, equal for both allocators
        self.results = []
        self.seconds = []

    def integers(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.random)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.random)

    def step(self, function, *arguments):
        """Runs one step to its end on the device and keeps the number that it returns."""
        gc.collect()
        begin = time.perf_counter()
        result = function(*arguments)
        torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - begin)
        self.results.append(float(result.detach().double().sum().cpu()).hex())


def train(optimizer, loss):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def gpt2(run):
    """Training in mixed precision, then greedy decoding with a growing cache of keys and values."""
    config = transformers.GPT2Config(
        vocab_size=8192, n_positions=512, n_embd=512, n_layer=6, n_head=8, attn_implementation="eager")
    model = transformers.GPT2LMHeadModel(config).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def training(ids):
        # Autocast's cache frees in the order of a hash table of host addresses.
        with torch.autocast(DEVICE, dtype=torch.bfloat16, cache_enabled=False):
            loss = model(input_ids=ids, labels=ids).loss
        return train(optimizer, loss)

    for _ in range(12):
        run.step(training, run.integers(0, 8192, 8, 512).to(DEVICE))

    @torch.no_grad()
    def decoding(ids):
        cache = None
        for _ in range(48):
            output = model(input_ids=ids[:, -1:] if cache is not None else ids, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            ids = torch.cat([ids, output.logits[:, -1].argmax(-1, keepdim=True)], 1)
        return ids

    model.eval()
    for length in (64, 200):
        run.step(decoding, run.integers(0, 8192, 4, length).to(DEVICE))


def resnet50(run):
    """Training, then inference with other batch sizes."""
    model = torchvision.models.resnet50().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def training(images, labels):
        return train(optimizer, torch.nn.functional.cross_entropy(model(images), labels))

    for _ in range(8):
        run.step(training, run.normal(32, 3, 160, 160).to(DEVICE), run.integers(0, 1000, 32).to(DEVICE))
    model.eval()
    with torch.no_grad():
        for batch in (1, 7, 64, 3, 32):
            run.step(model, run.normal(batch, 3, 160, 160).to(DEVICE))


def bert(run):
    """Training and inference with another length in every batch."""
    config = transformers.BertConfig(
        vocab_size=8192, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048,
        attn_implementation="eager")
    model = transformers.BertForMaskedLM(config).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def batch():
        length = int(run.integers(16, 385, 1))
        ids = run.integers(0, 8192, int(run.integers(4, 17, 1)), length)
        mask = (torch.arange(length) < run.integers(1, length + 1, len(ids), 1)).long()
        return ids.to(DEVICE), mask.to(DEVICE)

    def training(ids, mask):
        return train(optimizer, model(input_ids=ids, attention_mask=mask, labels=ids).loss)

    @torch.no_grad()
    def inference(ids, mask):
        return model(input_ids=ids, attention_mask=mask).logits

    for _ in range(24):
        run.step(training, *batch())
    model.eval()
    for _ in range(8):
        run.step(inference, *batch())


def side_stream(run):
    """The next batch is copied on a side stream while this one is computed on; record_stream."""
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()

    def fetch():
        rows = int(run.integers(256, 6000, 1))
        host = run.normal(rows, 1024).pin_memory()
        with torch.cuda.stream(side):
            return host, host.to(DEVICE, non_blocking=True), side.record_event()

    ahead = [fetch()]

    def training():
        host, batch, arrived = ahead.pop()
        ahead.append(fetch())
        main.wait_event(arrived)
        batch.record_stream(main)
        loss = train(optimizer, (model(batch) - batch).square().mean())
        del batch  # nothing is allocated from here to the end of the step
        return loss

    for _ in range(30):
        run.step(training)


def graph(run):
    """A training step captured as a CUDA graph and replayed between ordinary steps."""
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.zeros(256, 512, device=DEVICE)

    def forward_and_step():
        optimizer.zero_grad(set_to_none=True)
        loss = (model(images) - images).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            forward_and_step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = forward_and_step()

    def replay(batch):
        images.copy_(batch)
        captured.replay()
        return loss + model(batch).mean()

    for _ in range(10):
        run.step(replay, run.normal(256, 512).to(DEVICE))
    del loss
    captured.reset()


def pressure(run):
    """Blocks of many sizes under a limit of 2 GiB: retries, out of memory, and going on after it."""
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(2048 * MIB / total)
    held, refused = [], torch.zeros((), device=DEVICE)
    try:
        for i in range(400):
            size = int(run.integers(1, 200 * MIB if i % 5 == 0 else 3 * MIB, 1))
            try:
                held.append(torch.full((size,), i % 251, dtype=torch.uint8, device=DEVICE))
            except torch.cuda.OutOfMemoryError:
                refused += 1
                del held[::2]
            if len(held) > 120:
                del held[int(run.integers(0, len(held), 1))]
            if i % 40 == 39:
                run.step(lambda: sum((block[::4097].double().sum() for block in held), refused.double()))
    finally:
        held.clear()
        torch.cuda.set_per_process_memory_fraction(1.0)


WORKLOADS = {function.__name__: function for function in (gpt2, resnet50, bert, side_stream, graph, pressure)}


def record_history():
    torch.cuda.memory._record_memory_history(context=None, max_entries=10_000_000, clear_history=True)


def history():
    """What may decide between equal blocks in 2.11: the driver's addresses, and the order of the requests (as
    a digest)."""
    addresses, blocks, requests, count = [], {}, hashlib.sha256(), 0
    for entry in torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]:
        if entry["action"] in ("segment_alloc", "segment_map"):
            addresses.append(entry["addr"])
        elif entry["action"] == "alloc":
            blocks[entry["addr"]] = count = count + 1
            requests.update(f"alloc {entry['size']} {entry['stream']};".encode())
        elif entry["action"] == "free_requested":
            requests.update(f"free {blocks.get(entry['addr'])};".encode())
    return {"addresses": addresses, "requests": requests.hexdigest()}


def measure(name, with_history):
    gc.collect()
    gc.disable()  # cycles are freed between steps, not when the interpreter likes
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    if with_history:
        record_history()
    run = Run()
    begin = time.perf_counter()
    WORKLOADS[name](run)
    torch.cuda.synchronize()
    return {
        "workload": name,
        "results": run.results,
        "stats": dict(torch.cuda.memory_stats()),
        "history": history() if with_history else None,
        "seconds": time.perf_counter() - begin,
        # The first two steps load kernels.
        "step_seconds": statistics.median(run.seconds[2:]) * len(run.seconds),
    }


def main():
    allocator, *names = sys.argv[1:]
    with_history = "--history" in names
    names = [name for name in names if name != "--history"] or list(WORKLOADS)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    sys.stdin.readline()
    if allocator == "cachalot":
        import cachalot_cuda.torch
        cachalot_cuda.torch.install(release="2.11")
    elif allocator != "native":
        sys.exit(f"no such allocator: {allocator}")
    for name in names:
        print(json.dumps(measure(name, with_history)), flush=True)


if __name__ == "__main__":
    main()
