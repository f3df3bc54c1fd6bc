# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program whose use of the package is right. It is checked, not run."""

from typing import Optional

import cachalot_cuda
import cachalot_cuda.opentelemetry
import cachalot_cuda.prometheus
import cachalot_cuda.torch


class Stream:
    """As those of RMM and of cuda.core."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0x5000


def give_back(pressure: cachalot_cuda.Pressure) -> int:
    return pressure.missing_bytes


def serve() -> dict[str, int]:
    with cachalot_cuda.Allocator("expandable_segments:True", policy="serving,thrift") as allocator:
        tenant = allocator.tenant("small", limit_bytes=1 << 30, on_pressure=give_back)
        with tenant, allocator.pool(pinned=True), cachalot_cuda.label("request"):
            with allocator.allocate(1 << 20, "cuda:1", Stream()) as block:
                address: int = block.address
                block.record_stream(address)
        limit: Optional[int] = allocator.memory_limit()
        allocator.set_memory_limit(limit)
        return allocator.stats()


def watch(allocator: cachalot_cuda.Allocator) -> None:
    cachalot_cuda.use_logging()
    cachalot_cuda.prometheus.register(allocator, {"model": "chat"}).collect()
    cachalot_cuda.opentelemetry.instrument(labels={"model": "chat"})


def share() -> str:
    with cachalot_cuda.shared_block(1 << 20) as block, cachalot_cuda.record("trace.csv"):
        cachalot_cuda.trim(min_idle=30)
        return block.ticket


def train() -> bool:
    cachalot_cuda.torch.install("expandable_segments:True", policy="serving", extension=True)
    return cachalot_cuda.torch.is_installed()
