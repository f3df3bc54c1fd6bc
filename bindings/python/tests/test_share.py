# SPDX-License-Identifier: MIT OR Apache-2.0
"""Blocks between processes."""

import time
import unittest

from support import Other, run

SHARER = """
import sys
from cachalot_cuda import shared_block
block = shared_block(3 << 20)
block.view[:] = bytes([7]) * len(block)
print(block.ticket, flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
"""
OPENER = """
import sys
from cachalot_cuda import open_block
block = open_block(sys.argv[1])
print(len(block), block.view[-1], block.has_sharer, flush=True)
sys.stdin.readline()
print(block.view[-1], block.has_sharer, flush=True)
block.close()
"""


class Shared(unittest.TestCase):
    def start(self, program, *arguments):
        other = Other(program, *arguments, CACHALOT_DRIVER="host-shared:64MiB")
        self.addCleanup(other.end)
        return other

    def await_users(self, sharer, count):
        for _ in range(500):
            if sharer.ask("block.users") == str(count):
                return
            time.sleep(0.01)
        self.fail(f"there are {sharer.ask('block.users')} users")

    def test_blocks_are_the_same_memory_and_outlive_whoever_dies(self):
        sharer = self.start(SHARER)
        opener = self.start(OPENER, sharer.read())
        self.assertEqual(opener.read(), "3145728 7 True")
        self.assertEqual(sharer.ask("block.users"), "1")
        killed = self.start(OPENER, sharer.ask("block.ticket"))
        self.assertEqual(killed.read(), "3145728 7 True")
        killed.end()
        self.await_users(sharer, 1)
        sharer.end()
        self.assertEqual(opener.ask(""), "7 False")

    def test_interface_for_arrays_of_the_device(self):
        program = """
from cachalot_cuda import shared_block, open_block
import cachalot_cuda
with shared_block(4096) as shared, open_block(shared.ticket) as opened:
    assert opened.__cuda_array_interface__ == {
        "shape": (4096,), "typestr": "|u1", "data": (opened.address, False), "version": 3}
    assert "4096 bytes)" in repr(shared)
for use in (lambda: shared.ticket, lambda: opened.view, lambda: opened.__cuda_array_interface__):
    try:
        use()
        raise SystemExit("no error")
    except cachalot_cuda.InvalidStateError:
        pass
shared.close()
for ticket in ("", "nonsense", "cachalot-block-1-" + "0" * 64):
    try:
        open_block(ticket)
        raise SystemExit("no error")
    except cachalot_cuda.Error as error:
        print(error)
"""
        outcome = run(program, CACHALOT_DRIVER="host-shared:64MiB")
        self.assertEqual(outcome.stderr, "")
        self.assertEqual(len(outcome.stdout.splitlines()), 3)

    def test_a_block_without_an_address_is_closed_again(self):
        program = """
import time, unittest.mock
from cachalot_cuda import _library, errors, open_block, shared_block
def call(name, *arguments, call=_library.call):
    if name == "opened_block_address":
        assert shared.users == 1
        raise errors.InvalidStateError("no address", 2)
    call(name, *arguments)
with shared_block(4096) as shared, unittest.mock.patch.object(_library, "call", call):
    try:
        open_block(shared.ticket)
    except errors.InvalidStateError as error:
        print(error)
    for _ in range(500):
        if shared.users == 0:
            break
        time.sleep(0.01)
    print(shared.users)
"""
        outcome = run(program, CACHALOT_DRIVER="host-shared:64MiB")
        self.assertEqual((outcome.stdout, outcome.stderr), ("no address\n0\n", ""))

    def test_a_block_is_of_a_stream_of_pytorch(self):
        program = """
import types
import cachalot_cuda
stream = types.SimpleNamespace(cuda_stream=0x5000, device="cuda:0")
with cachalot_cuda.shared_block(4096, stream=stream), cachalot_cuda.shared_block(4096, stream=0x6000):
    print([segment["stream"] for segment in cachalot_cuda.snapshot()["segments"]])
stream.device = "cuda:1"
try:
    cachalot_cuda.shared_block(4096, stream=stream)
except cachalot_cuda.InvalidArgumentError:
    print("there is one device")
cachalot_cuda.shared_block(4096, 0, stream).close()
"""
        outcome = run(program)
        self.assertEqual((outcome.stdout, outcome.stderr), ("[20480, 24576]\nthere is one device\n", ""))

    def test_only_memory_of_the_host_has_a_view(self):
        program = """
import cachalot_cuda
with cachalot_cuda.shared_block(4096) as block:
    try:
        block.view
    except cachalot_cuda.Error as error:
        print(type(error).__name__, error.status, error)
"""
        outcome = run(program)
        self.assertEqual((outcome.stdout, outcome.stderr),
                         ("Error 3 only blocks of the driver 'host' are bytes of this process\n", ""))

    def test_memory_that_cannot_be_shared_says_so(self):
        program = """
import cachalot_cuda
try:
    cachalot_cuda.shared_block(4096)
except cachalot_cuda.Error as error:
    print(error)
"""
        outcome = run(program, CACHALOT_DRIVER="host:64MiB")
        self.assertIn("cannot be shared between processes", outcome.stdout)


if __name__ == "__main__":
    unittest.main()
