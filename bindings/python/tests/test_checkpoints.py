# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checkpoints of private pools under a stand-in for PyTorch: who frees a block that a restore has handed out."""

import unittest

from test_torch import output

# A storage has PyTorch's deleter where it was allocated through the allocator. Like PyTorch's, it is found by
# a number, and gone when its last reference is.
STORAGES = """
import threading, weakref

known = weakref.WeakValueDictionary()

class Storage:
    def __init__(self, address, native=False):
        self.address, self.native, self._cdata = address, native, id(self)
        known[self._cdata] = self
    def data_ptr(self): return self.address
    @staticmethod
    def _new_with_weak_ptr(pointer): return known.get(pointer)
    def __del__(self): remove(self)

def remove(storage):
    if storage.native: free(storage.address)
    storage.native = False

deleted = []
torch.UntypedStorage = Storage
for name in ("_cuda_getCheckpointState", "_cuda_setCheckpointPoolState", "_cuda_checkPoolLiveAllocations"):
    setattr(torch._C, name, None)
torch._C._has_Standard_Deleter = lambda pointer: known[pointer].native
torch._C._free_And_Remove_DeleterFn = lambda pointer: remove(known[pointer])
torch._C._cuda_cudaCachingAllocator_raw_delete = deleted.append
import importlib
from cachalot_cuda import _c, _checkpoints, _library
importlib.reload(_checkpoints), importlib.reload(cachalot_cuda.torch)
cachalot_cuda.torch.install(release="2.11")
take = lambda: torch._C._cuda_getCheckpointState(0, POOL)
has_deleter = lambda storage: torch._C._has_Standard_Deleter(storage._cdata)
is_live = lambda *addresses: torch._C._cuda_checkPoolLiveAllocations(0, POOL, set(addresses))
POOL, EVERYTHING = (0, 77), _c.PoolRoute(kind=1)

def in_pool(count):
    key = (_library.allocator(), ctypes.c_int(0), _c.PoolId(*POOL))
    library = _library.load()
    assert library.cachalot_pool_begin(*key, EVERYTHING, None) == 0
    blocks = [allocate(1000) for _ in range(count)]
    assert library.cachalot_pool_end(*key, None) == 0
    return blocks

def restore(checkpoint, stale=(), owners=()):
    torch._C._cuda_setCheckpointPoolState(0, checkpoint, [s._cdata for s in stale], [s._cdata for s in owners])

first, second = in_pool(2)
both = take()
free(first), free(second)
empty = take()
seen = []
"""


def seen(program):
    return output(f"{STORAGES}{program}\nprint(json.dumps(seen))")


class Checkpoints(unittest.TestCase):
    def test_tell_exactly_what_is_live(self):
        self.assertEqual(seen(
            "seen += [is_live(), is_live(first)]\nrestore(both)\n"
            "seen += [is_live(first, second), is_live(first), is_live(first, second, 4096)]"),
            [True, False, True, False, False])

    def test_of_a_pool_that_does_not_exist_are_errors(self):
        self.assertEqual(seen(
            "POOL = (0, 4711)\n"
            "for call in (take, is_live):\n"
            "    try: call()\n"
            "    except ValueError as error: seen.append(str(error))"), ["Could not find pool of id"] * 2)

    def test_that_can_not_be_put_back_change_no_owner(self):
        self.assertEqual(seen(
            "storage = Storage(first)\nrestore(both, [], [storage])\nfree(second)\n"
            "_library.call('pool_release', _library.allocator(), 0, _c.PoolId(*POOL))\n"
            "try: restore(empty)\n"
            "except cachalot_cuda.InvalidStateError: seen.append(has_deleter(storage))\n"
            "seen.append(cachalot_cuda.memory_allocated())\ndel storage\n"
            "seen.append(cachalot_cuda.memory_allocated())"),
            [True, 1024, 0])


class Owners(unittest.TestCase):
    def test_free_their_blocks_when_they_end(self):
        self.assertEqual(seen(
            "storage = Storage(first)\nseen.append(has_deleter(storage))\nrestore(both, [], [storage])\n"
            "seen += [has_deleter(storage), is_live(first, second)]\ndel storage\nseen.append(is_live(second))"),
            [False, True, True, True])

    def test_free_their_blocks_when_they_are_told(self):
        self.assertEqual(seen(
            "storage = Storage(first)\nrestore(both, [], [storage])\n"
            "torch._C._free_And_Remove_DeleterFn(storage._cdata)\n"
            "seen += [has_deleter(storage), is_live(second)]\nrestore(both)\ndel storage\n"
            "seen.append(is_live(first, second))"), [False, True, True])

    def test_are_freed_before_where_they_are_stale(self):
        self.assertEqual(seen(
            "restore(both)\nours, = storages = [Storage(first)]\nrestore(both, [], storages)\n"
            "third, = in_pool(1)\nnative = Storage(third, native=True)\nrestore(empty, [ours, native])\n"
            "seen += [has_deleter(ours), has_deleter(native), is_live()]\nrestore(both)\ndel ours, native, storages\n"
            "seen.append(is_live(first, second))"), [False, False, True, True])

    def test_that_live_on_through_a_restore_stay_the_owners(self):
        for named in ("[storage]", "[]"):
            self.assertEqual(seen(
                "storage = Storage(first)\nrestore(both, [], [storage])\n"
                "for _ in range(2):\n"
                f"    restore(both, [], {named})\n"
                "    seen += [has_deleter(storage), is_live(first, second)]\n"
                "del storage\nseen.append(is_live(second))"), [True] * 5)

    def test_with_pytorchs_deleter_keep_it(self):
        for named in ("[storage]", "[]"):
            self.assertEqual(seen(
                "third, = in_pool(1)\nstorage = Storage(third, native=True)\nthen = take()\n"
                f"restore(then, [], {named})\n"
                "seen += [vars(storage).get(_checkpoints._DELETER), is_live(third)]\ndel storage\n"
                "seen.append(is_live())"), [None, True, True])

    def test_with_pytorchs_deleter_get_their_block_back_from_a_later_restore(self):
        self.assertEqual(seen(
            "third, = in_pool(1)\nstorage = Storage(third, native=True)\nthen = take()\n"
            "restore(empty)\nrestore(then, [], [storage])\nstorage.native = False\n"  # as if PyTorch had freed it
            "free(third)\ntorch._C._cuda_cudaCachingAllocator_raw_delete(third)\n"
            "seen += [is_live(), deleted == [third]]"), [True, True])

    def test_of_an_earlier_restore_free_nothing_of_a_later_one(self):
        self.assertEqual(seen(
            "old, new = Storage(first), Storage(first)\nrestore(both, [], [old])\nrestore(empty)\n"
            "restore(both, [], [new])\nseen += [has_deleter(old), has_deleter(new)]\ndel old\n"
            "seen.append(is_live(first, second))\ndel new\nseen.append(is_live(second))"), [False, True, True, True])

    def test_of_other_memory_are_left_alone(self):
        self.assertEqual(seen(
            "storage = Storage(4096)\nrestore(both, [], [storage])\nseen += [has_deleter(storage)]\ndel storage\n"
            "seen.append(is_live(first, second))"), [False, True])

    def test_that_end_within_a_restore_free_what_is_theirs_then(self):
        # As by the garbage collector: after the blocks have changed and before it is known whose they are.
        for checkpoint, live in (("both", "second, *others"), ("empty", "*others")):
            self.assertEqual(seen(
                "others = []\nstorage = Storage(first)\nrestore(both, [], [storage])\n"
                "apply = _checkpoints.Checkpoint.apply\n"
                "def apply_and_collect(*arguments):\n"
                "    changes = apply(*arguments)\n"
                "    others.extend(in_pool(1))\n"  # by another thread
                "    globals().pop('storage')\n"
                "    return changes\n"
                "_checkpoints.Checkpoint.apply = apply_and_collect\n"
                f"restore({checkpoint})\nseen.append(is_live({live}))"), [True])

    def test_may_end_in_any_thread(self):
        self.assertEqual(seen(
            "blocks = in_pool(64)\nmany = take()\nfor block in blocks: free(block)\n"
            "for _ in range(20):\n"
            "    storages = [Storage(block) for block in blocks]\n"
            "    restore(many, [], storages)\n"
            "    def drop():\n"
            "        while storages:\n"
            "            try: storages.pop()\n"
            "            except IndexError: pass\n"
            "    threads = [threading.Thread(target=drop) for _ in range(4)]\n"
            "    for thread in threads: thread.start()\n"
            "    for thread in threads: thread.join()\n"
            "    seen.append(is_live())"), [True] * 20)


class Addresses(unittest.TestCase):
    def test_without_an_owner_are_freed_once_and_others_go_to_pytorch(self):
        self.assertEqual(seen(
            "restore(both)\nfor address in (first, second, second, 4096):\n"
            "    torch._C._cuda_cudaCachingAllocator_raw_delete(address)\n"
            "seen += [is_live(), deleted == [second, 4096]]"), [True, True])


if __name__ == "__main__":
    unittest.main()
