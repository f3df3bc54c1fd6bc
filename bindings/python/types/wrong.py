# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program that is wrong on the marked lines. It is checked, not run."""

import cachalot_cuda
import cachalot_cuda.prometheus
import cachalot_cuda.torch

allocator = cachalot_cuda.Allocator(release=2.11)  # wrong
block = allocator.allocate("1 MiB")  # wrong
block.record_stream("main")  # wrong
name: str = block.address  # wrong
allocator.tenant().set_priority("high")  # wrong
cachalot_cuda.trim(keep_bytes="2 GiB")  # wrong
cachalot_cuda.record_history(contexts="all")  # wrong
cachalot_cuda.stats()["allocation.all.current"].upper()  # wrong
cachalot_cuda.torch.install(release=2.11)  # wrong
cachalot_cuda.use_logging("cachalot")  # wrong
cachalot_cuda.prometheus.register(labels="chat")  # wrong
