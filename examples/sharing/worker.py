#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Computes on a block of another process in place: reads its ticket, squares its numbers, and answers with a line.

On the GPU (CACHALOT_DRIVER=cuda) a worker with PyTorch takes the same block as a tensor, without a copy:

    torch.as_tensor(block, device="cuda").view(torch.float32).square_()
"""

import os

import cachalot_cuda

os.environ.setdefault("CACHALOT_DRIVER", "host-shared")

with cachalot_cuda.open_block(input()) as block:
    numbers = block.view.cast("f")
    for i, number in enumerate(numbers):
        numbers[i] = number * number
    print(f"{len(numbers)} squares, in Python", flush=True)
    numbers.release()
