# SPDX-License-Identifier: MIT OR Apache-2.0
"""Allocators of a program's own: blocks, limits, pools and tenants."""

import ctypes
import gc
import types
import unittest
import unittest.mock

from support import MIB, run

import cachalot_cuda
from cachalot_cuda import _library, Allocator, InvalidArgumentError, InvalidStateError, OutOfMemoryError
from cachalot_cuda._arguments import device_index


def ended(held):
    """What ends, in this order, when garbage is collected that refers to itself and to what it holds."""
    calls, call = [], _library.call

    def spy(name, *arguments):
        call(name, *arguments)
        if name == "free" or name.endswith("_destroy"):
            calls.append(name)

    class Server:
        def __init__(self):
            self.allocator, self.myself = Allocator(driver="sim:1GiB"), self
            exec(held)

    with unittest.mock.patch.object(_library, "call", spy):
        Server()
        gc.collect()
    return calls


class Case(unittest.TestCase):
    def allocator(self, *arguments, driver="sim:1GiB", **options):
        allocator = Allocator(*arguments, driver=driver, **options)
        self.addCleanup(allocator.close)
        return allocator


class Texts(Case):
    def test_have_no_word_of_pytorch_where_they_are_the_librarys_own(self):
        for texts, is_pytorchs in (("pytorch", True), ("own", False)):
            allocator = self.allocator(texts=texts)
            with self.assertRaises(OutOfMemoryError) as caught:
                allocator.allocate(2 << 30)
            for text in (str(caught.exception), allocator.memory_summary()):
                self.assertEqual("PyTorch" in text, is_pytorchs, text)
        with self.assertRaisesRegex(InvalidArgumentError, "texts must be one of None, 'pytorch', 'own', not 'mine'"):
            self.allocator(texts="mine")


class Blocks(Case):
    def test_a_block_goes_back_when_it_is_closed_and_when_nothing_refers_to_it(self):
        allocator = self.allocator()
        with allocator.allocate(1000) as block:
            self.assertEqual((len(block), allocator.memory_allocated()), (1000, 1024))
        self.assertEqual(allocator.memory_allocated(), 0)
        block.close()
        again = allocator.allocate(1000)
        self.assertEqual(again.address, block.address)
        del again
        self.assertEqual(allocator.memory_allocated(), 0)

    def test_a_block_is_of_a_stream_whoever_made_that(self):
        allocator = self.allocator()
        streams = (0x5000, types.SimpleNamespace(cuda_stream=0x5000), types.SimpleNamespace(ptr=0x5000),
                   types.SimpleNamespace(__cuda_stream__=lambda: (0, 0x5000)))
        addresses = set()
        for stream in streams:
            with allocator.allocate(1000, stream=stream) as block:
                addresses.add(block.address)
                self.assertEqual((block.stream, block.device), (0x5000, 0))
        self.assertEqual(len(addresses), 1)
        self.assertNotIn(allocator.allocate(1000).address, addresses)

    def test_a_stream_is_a_handle_or_has_one(self):
        allocator = self.allocator()
        numbas = types.SimpleNamespace(handle=ctypes.c_void_p(0x5000))
        legacy_default = types.SimpleNamespace(__cuda_stream__=lambda: (0, 1))
        for stream, handle in ((numbas, 0x5000), (types.SimpleNamespace(handle=0x5000), 0x5000), (legacy_default, 0)):
            with allocator.allocate(1000, stream=stream) as block:
                self.assertEqual(block.stream, handle)
        for stream in (None, -1, 2**64, 2**64 - 1, "main", 1.5, object()):
            with self.assertRaisesRegex(InvalidArgumentError, "stream", msg=stream):
                allocator.allocate(1000, stream=stream)
        self.assertEqual(allocator.memory_allocated(), 0)

    def test_a_device_is_a_number_or_has_one(self):
        named = types.SimpleNamespace
        for device in (1, "cuda:1", named(index=1), named(device_id=1), named(id=1), named(type="cuda", index=1)):
            self.assertEqual(device_index(device), 1, device)
        self.assertEqual([device_index(each) for each in (None, "cuda", named(index=None))], [0, 0, 0])
        for device in ("cpu", "gpu0", "cuda:x", "cuda:-1", "1", -1, 2**32, 1.5, object(), named(type="cpu", index=1)):
            with self.assertRaisesRegex(InvalidArgumentError, "device", msg=device):
                self.allocator().allocate(1000, device)

    def test_a_stream_that_knows_its_device_says_it(self):
        named = types.SimpleNamespace
        for more, device in (({"device": named(index=1)}, 1), ({"device": named(device_id=1)}, 1),
                             ({"device": named(id=1)}, 1), ({"device_id": 1}, 1), ({"device_id": -1}, 0)):
            stream = named(ptr=0x5000, **more)
            self.assertEqual((device_index(None, stream), device_index(2, stream)), (device, 2), more)

    def test_the_interface_for_arrays_names_the_stream(self):
        allocator = self.allocator()
        with allocator.allocate(1000) as block, allocator.allocate(1000, stream=0x5000) as other:
            self.assertEqual(block.__cuda_array_interface__, {
                "shape": (1000,), "typestr": "|u1", "data": (block.address, False), "version": 3, "stream": 1})
            self.assertEqual(other.__cuda_array_interface__["stream"], 0x5000)
        with self.assertRaises(InvalidStateError):
            block.__cuda_array_interface__
        with self.assertRaises(InvalidStateError):
            block.record_stream(0)

    def test_a_recorded_stream_is_waited_for(self):
        allocator = self.allocator()
        block = allocator.allocate(1000)
        block.record_stream(0x5000)
        block.close()
        self.assertEqual(allocator.stats()["active.all.current"], 1)
        self.assertEqual(allocator.memory_allocated(), 0)
        allocator.allocate(1000)  # looks at events
        self.assertEqual(allocator.stats()["active.all.current"], 0)

    def test_blocks_of_the_host_can_be_written(self):
        allocator = self.allocator(driver="host:64MiB")
        with allocator.allocate(1000) as block:
            block.view[:] = bytes([7]) * 1000
            self.assertEqual(block.view[999], 7)
        with self.allocator().allocate(1000) as block, self.assertRaises(cachalot_cuda.Error):
            block.view

    def test_what_cannot_be_allocated_changes_nothing(self):
        allocator = self.allocator()
        for kind, size, device in ((OutOfMemoryError, 2 << 30, 0), (InvalidArgumentError, -1, 0),
                                   (InvalidArgumentError, 1.5, 0), (InvalidArgumentError, 1000, 7)):
            with self.assertRaises(kind):
                allocator.allocate(size, device)
        self.assertEqual((allocator.memory_allocated(), allocator.memory_reserved()), (0, 0))


class Allocators(Case):
    def test_two_have_nothing_in_common_with_each_other_or_the_process(self):
        first, second = self.allocator("max_split_size_mb:64"), self.allocator(driver="sim:2GiB")
        before = cachalot_cuda.memory_reserved()
        block = first.allocate(30 * MIB)
        self.assertEqual((first.memory_reserved(), second.memory_reserved()), (30 * MIB, 0))
        self.assertEqual(cachalot_cuda.memory_reserved(), before)
        self.assertIn("30720 KiB", first.memory_summary())
        self.assertIn("cachalot_", first.metrics())
        block.close()

    def test_that_of_the_process_is_what_the_functions_ask_and_is_not_closed(self):
        with Allocator.of_process() as allocator:
            block = allocator.allocate(1000)
            self.assertEqual(cachalot_cuda.memory_allocated(), allocator.memory_allocated())
            self.assertGreater(cachalot_cuda.memory_allocated(), 0)
            block.close()
        self.assertGreater(cachalot_cuda.memory_reserved(), 0)

    def test_closing_waits_for_no_block_and_says_so(self):
        allocator = Allocator(driver="sim:1GiB")
        block = allocator.allocate(1000)
        with self.assertRaisesRegex(InvalidStateError, "live"):
            allocator.close()
        self.assertEqual(allocator.memory_allocated(), 1024)
        block.close()
        allocator.close()
        allocator.close()
        for use in (lambda: allocator.allocate(1000), allocator.stats, allocator.pool, allocator.empty_cache):
            with self.assertRaisesRegex(InvalidStateError, "closed"):
                use()

    def test_a_block_keeps_its_allocator(self):
        block = Allocator(driver="host:64MiB").allocate(1000)
        block.view[0] = 1
        block.close()

    def test_a_cycle_of_an_allocator_a_tenant_and_their_blocks_leaves_nothing(self):
        self.assertEqual(ended("self.block = self.allocator.allocate(1000)"), ["free", "allocator_destroy"])
        self.assertEqual(ended("self.tenant = self.allocator.tenant(); self.block = self.tenant.allocate(1000)"),
                         ["free", "tenant_destroy", "allocator_destroy"])
        self.assertEqual(
            sorted(ended("self.block = self.allocator.allocate(1000); self.tenant = self.allocator.tenant()")),
            ["allocator_destroy", "free", "tenant_destroy"])

    def test_a_block_keeps_its_tenant(self):
        allocator = self.allocator()
        block = allocator.tenant(guaranteed_bytes=512 * MIB).allocate(1000)
        gc.collect()
        with self.assertRaises(OutOfMemoryError):
            allocator.allocate(700 * MIB)
        block.close()
        del block
        allocator.allocate(700 * MIB).close()

    def test_finalizers_write_nothing(self):
        outcome = run("""
import builtins
from cachalot_cuda import Allocator
for make in (lambda: Allocator(nonsense=1), lambda: Allocator(driver="sim:1GiB").pool(nonsense=1),
             lambda: Allocator(driver="sim:1GiB").tenant(nonsense=1)):
    try:
        make()
    except TypeError:
        print("TypeError")
allocator = Allocator(driver="sim:1GiB")
builtins.kept = [allocator.allocate(1000), allocator]
""")
        self.assertEqual((outcome.stdout, outcome.stderr), ("TypeError\n" * 3, ""))

    def test_limits_and_cache(self):
        allocator = self.allocator()
        self.assertIsNone(allocator.memory_limit())
        allocator.set_memory_limit(64 * MIB)
        self.assertEqual(allocator.memory_limit(), 64 * MIB)
        with self.assertRaises(OutOfMemoryError):
            allocator.allocate(100 * MIB)
        allocator.set_memory_limit(None)
        with allocator.empty_cache_on_exit():
            allocator.allocate(100 * MIB).close()
            self.assertEqual(allocator.memory_reserved(), 100 * MIB)
        self.assertEqual(allocator.memory_reserved(), 0)
        allocator.allocate(30 * MIB).close()
        self.assertEqual(allocator.trim(keep_bytes=0), 30 * MIB)
        allocator.reset_peak_stats()
        self.assertEqual(allocator.stats()["allocated_bytes.all.peak"], 0)

    def test_options_that_cannot_be_are_errors(self):
        for options in ({"config": "no_such_option:1"}, {"release": "1.0"}, {"driver": "no_such_driver"},
                        {"policy": "no_such_policy"}, {"mend": ["nothing"]}):
            with self.assertRaises(InvalidArgumentError, msg=options):
                Allocator(**{"driver": "sim:1GiB", **options})
        with self.assertRaises(InvalidArgumentError):
            self.allocator().update_config("max_split_size_mb:1")


class Pools(Case):
    def test_requests_of_the_thread_go_to_the_pool_inside_of_its_with_block(self):
        allocator = self.allocator()
        pool = allocator.pool()
        outside = allocator.allocate(1000)
        with pool:
            inside = allocator.allocate(1000)
        self.assertEqual(allocator.stats()["segment.all.current"], 2)
        address = inside.address
        inside.close()
        self.assertNotEqual(allocator.allocate(1000).address, address)
        with pool:
            self.assertEqual(allocator.allocate(1000).address, address)
        pool.close()
        pool.close()
        self.assertEqual(allocator.stats()["segment.all.current"], 1)
        outside.close()
        with self.assertRaisesRegex(InvalidStateError, "closed"), pool:
            pass

    def test_one_thread_at_a_time_routes_to_a_pool(self):
        allocator = self.allocator()
        pool = allocator.pool()
        with pool:
            with self.assertRaises(InvalidStateError), pool:
                pass
            with self.assertRaisesRegex(InvalidStateError, "routed"):
                pool.close()
        with pool:
            pass
        pool.close()

    def test_a_pool_sleeps_and_wakes_at_its_addresses(self):
        allocator = self.allocator("expandable_segments:True", driver="host:256MiB")
        with allocator.pool() as pool:
            block = allocator.allocate(20 * MIB)
        block.view[:4] = b"kept"
        self.assertEqual(pool.sleep(), 20 * MIB)
        self.assertEqual(allocator.memory_reserved(), 0)
        with self.assertRaises(InvalidStateError), pool:
            pass
        pool.wake()
        self.assertEqual(bytes(block.view[:4]), b"kept")
        block.close()
        pool.close()

    def test_flags_are_the_pools(self):
        allocator = self.allocator()
        with allocator.pool(no_split=True, use_on_oom=True, pinned=True):
            block = allocator.allocate(1000)
        self.assertEqual(allocator.memory_allocated(), 2 * MIB)
        block.close()


class Tenants(Case):
    def test_a_tenant_has_what_it_is_guaranteed_and_no_more_than_its_limit(self):
        allocator = self.allocator()
        tenant = allocator.tenant("small", guaranteed_bytes=512 * MIB, limit_bytes=600 * MIB)
        with self.assertRaisesRegex(OutOfMemoryError, "512.00 MiB more are guaranteed to others"):
            allocator.allocate(700 * MIB)  # of nobody
        with tenant.allocate(300 * MIB) as block:
            self.assertEqual(tenant.stats().allocated_bytes, len(block))
            with self.assertRaises(OutOfMemoryError):
                tenant.allocate(301 * MIB)
        stats = tenant.stats()
        self.assertEqual((stats.name, stats.blocks, stats.num_ooms, stats.limit_bytes), ("small", 0, 1, 600 * MIB))
        tenant.set_bytes(0)
        tenant.set_priority(3)
        self.assertEqual((tenant.stats().limit_bytes, tenant.stats().priority), (0, 3))
        tenant.close()
        with self.assertRaisesRegex(InvalidStateError, "closed"):
            tenant.stats()

    def test_requests_of_the_thread_are_the_tenants_inside_of_its_with_block(self):
        allocator = self.allocator()
        with allocator.tenant() as tenant:
            block = allocator.allocate(1000)
            with self.assertRaises(InvalidStateError):
                tenant.close()
        self.assertEqual((tenant.stats().name, tenant.stats().blocks), ("tenant 1", 1))
        allocator.allocate(1000)
        self.assertEqual(tenant.stats().blocks, 1)
        with self.assertRaises(InvalidStateError):
            tenant.close()
        block.close()
        tenant.close()

    def test_a_tenant_is_asked_to_give_memory_back(self):
        allocator = self.allocator()
        held, asked = [], []

        def give(pressure):
            asked.append(pressure)
            size = len(held[-1])
            held.pop().close()
            return size

        generous = allocator.tenant("generous", on_pressure=give)
        held.append(generous.allocate(800 * MIB))
        with allocator.tenant("urgent", priority=1):
            allocator.allocate(500 * MIB).close()
        self.assertEqual([(each.reason, each.requester, each.allocated_bytes) for each in asked],
                         [("device", "urgent", 800 * MIB)])
        self.assertEqual(generous.stats().num_pressure_calls, 1)

    def test_a_tenant_that_nothing_refers_to_can_still_be_asked(self):
        allocator = self.allocator()
        asked = []
        block = allocator.tenant("gone", on_pressure=lambda pressure: asked.append(pressure) or 0).allocate(800 * MIB)
        with self.assertRaises(OutOfMemoryError):
            allocator.tenant(priority=1).allocate(800 * MIB)
        self.assertEqual(len(asked), 1)
        block.close()

    def test_what_cannot_be_is_an_error_and_leaves_nothing(self):
        from cachalot_cuda import tenants
        allocator = self.allocator()
        kept = len(tenants._asked)
        for options in ({"guaranteed_bytes": 2 << 30}, {"guaranteed_bytes": 2, "limit_bytes": 1}, {"limit_bytes": -1}):
            with self.assertRaises(InvalidArgumentError):
                allocator.tenant(on_pressure=lambda _: 0, **options)
        with self.assertRaises(InvalidArgumentError):
            allocator.tenant("x" * 64)
        self.assertEqual(len(tenants._asked), kept)

    def test_an_exception_of_the_callback_counts_as_nothing_freed(self):
        outcome = run("""
import cachalot_cuda
allocator = cachalot_cuda.Allocator(driver="sim:1GiB")
block = allocator.tenant(on_pressure=lambda _: 1 / 0).allocate(800 << 20)
try:
    allocator.allocate(800 << 20)
except cachalot_cuda.OutOfMemoryError:
    print("out of memory")
""")
        self.assertEqual(outcome.stdout, "out of memory\n")
        self.assertIn("ZeroDivisionError", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
