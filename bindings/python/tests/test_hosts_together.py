# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch and CuPy themselves in one process over one allocator, without a GPU: PyTorch by tests/torch/build.sh, CuPy
by cupy_without_gpu.py."""

import os
import unittest

from support import PACKAGE, TESTS, need_host, run

PRELUDE = """
import cupy_without_gpu
import torch
import cachalot_cuda, cachalot_cuda.torch
cachalot_cuda.torch.install("max_split_size_mb:64")
import cupy
import cachalot_cuda.cupy
MIB = 1 << 20
def tensor(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
"""


@need_host("torch", "cupy")
class Together(unittest.TestCase):
    def check(self, program, expected):
        path = os.pathsep.join([str(PACKAGE), str(TESTS), os.environ["PYTHONPATH"]])
        outcome = run(PRELUDE + program, PYTHONPATH=path, PYTHONWARNINGS="ignore", CACHALOT_DRIVER="host-shared:1GiB")
        self.assertEqual((outcome.stdout, outcome.stderr), (expected, ""))

    def test_they_have_one_cache_with_the_options_of_the_first(self):
        self.check("""
cachalot_cuda.cupy.install()  # before PyTorch has made the allocator
block = tensor(30 * MIB)
address = block.data_ptr()
print(cachalot_cuda.settings()["max_split_size"] // MIB)
del block
pointer = cupy.cuda.alloc(30 * MIB)
print(pointer.ptr == address, torch.cuda.memory_allocated() // MIB, torch.cuda.memory_reserved() // MIB)
""", "64\nTrue 30 30\n")

    def test_they_have_one_limit_and_their_own_errors(self):
        self.check("""
cachalot_cuda.cupy.install()
torch.cuda.set_per_process_memory_fraction(0.1)
kept = tensor(60 * MIB)
for error, allocate in ((torch.OutOfMemoryError, tensor), (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.alloc)):
    try:
        allocate(60 * MIB)
    except error:
        print(torch.cuda.memory_allocated() // MIB)
""", "60\n60\n")

    def test_a_tenant_has_the_requests_of_both(self):
        self.check("""
cachalot_cuda.cupy.install()
torch.cuda.init()
with cachalot_cuda.Allocator.of_process().tenant("both") as tenant:
    blocks = tensor(MIB), cupy.cuda.alloc(MIB)
print(tenant.stats().blocks)
""", "2\n")

    def test_streams_are_not_promised_where_cupy_destroys_them(self):
        self.check("""
from cachalot_cuda import _process
_process.set_options(None, _process.options(policy="serving", streams_last=True))  # as install(policy="serving")
try:
    cachalot_cuda.cupy.install()
except cachalot_cuda.InvalidStateError as error:
    print(error)
""", 'CuPy destroys streams without a word: the policy needs "streams=unannounced"\n')


if __name__ == "__main__":
    unittest.main()
