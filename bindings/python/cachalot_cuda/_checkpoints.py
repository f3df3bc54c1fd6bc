# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checkpoints of private pools for PyTorch's CUDA graph trees (torch.compile with mode="reduce-overhead").

PyTorch's contract for foreign allocators has no checkpoints. The functions here take the place of those of
torch._C that torch/_inductor/cudagraph_trees.py takes and restores them with.

A restore hands out blocks that storages of PyTorch already point to, and each of these storages has to free
its block when it ends. PyTorch's own deleter frees only what was allocated through the contract. A storage
whose block was handed out by a restore alone has a deleter of ours: an attribute of the storage's Python
object, which PyTorch keeps for as long as the storage lives, also where no Python code knows it.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _c, _library

# The attribute of a storage.
_DELETER = "_cachalot_deleter"


class Checkpoint:
    """Which blocks of a private pool are handed out."""

    def __init__(self, device: int, pool: tuple[int, int]) -> None:
        self._handle = ctypes.c_void_p()
        # A name of its own, since the modules may be empty when the last checkpoints end.
        self._destroy = _library.load().cachalot_checkpoint_destroy
        _library.call("checkpoint_take", _library.allocator(), device, _c.PoolId(*pool), ctypes.byref(self._handle))

    def __del__(self) -> None:
        self._destroy(self._handle)

    def apply(self, device: int) -> tuple[list[int], list[int]]:
        """Puts the pool back; gives the addresses of the blocks that were freed, and of those handed out."""
        library, changes = _library.load(), ctypes.c_void_p()
        _library.call("checkpoint_apply", _library.allocator(), device, self._handle, ctypes.byref(changes))
        try:
            return (_addresses(library.cachalot_checkpoint_freed_at, changes),
                    _addresses(library.cachalot_checkpoint_created_at, changes))
        finally:
            library.cachalot_checkpoint_changes_destroy(changes)


def _addresses(at: Callable[..., int], changes: ctypes.c_void_p) -> list[int]:
    addresses: list[int] = []
    address = ctypes.c_uint64()
    while at(changes, len(addresses), ctypes.byref(address)) == _c.OK:
        addresses.append(address.value)
    return addresses


class RestoredBlocks:
    """The live blocks that PyTorch's own deleter does not free, since restores have handed them out.

    An address can be handed out again and again, so each time has a number, and a deleter frees the block of
    its own number only.
    """

    def __init__(self) -> None:
        # Reentrant, and `_late` is a list during a restore: the garbage collector may end a storage of this
        # thread anywhere, and between the restore and its note nobody can say whose the block is.
        self._lock = threading.RLock()
        self._late: list[tuple[int, int | None]] | None = None
        self._numbers: dict[int, int] = {}
        self._counter = itertools.count()

    def number(self, address: int) -> int | None:
        """The number of the block at an address; None if there is none."""
        return self._numbers.get(address)

    def restore(self, checkpoint: Checkpoint, device: int) -> None:
        with self._lock:
            late: list[tuple[int, int | None]] = []
            self._late = late
            try:
                self._note(*checkpoint.apply(device))
            finally:
                self._late = None
            for block in late:
                self.free(*block)

    def _note(self, freed: list[int], created: list[int]) -> None:
        # A block that is handed out before and after keeps its owner, PyTorch's deleter or ours.
        before, after = set(freed), set(created)
        for address in before - after:
            self._numbers.pop(address, None)
        for address in after - before:
            self._numbers[address] = next(self._counter)

    def free(self, address: int, number: int | None = None) -> bool:
        """Frees a block; number None: whichever is there. Says whether there was one."""
        with self._lock:
            if self._late is not None:
                self._late.append((address, number))
                return True
            found = self._numbers.get(address)
            if found is None or number not in (None, found):
                return False
            del self._numbers[address]
            _library.call("free", _library.allocator(), address)
            return True

    def give_up(self, address: int) -> None:
        """Leaves a block to PyTorch's own deleter."""
        with self._lock:
            self._numbers.pop(address, None)


class Deleter:
    """Frees a block with the storage that it is an attribute of."""

    def __init__(self, blocks: RestoredBlocks, address: int, number: int) -> None:
        self._blocks = blocks
        self._address = address
        self._number = number

    def is_due(self) -> bool:
        """Whether the block is still the storage's."""
        return self._blocks.number(self._address) == self._number

    def run(self) -> None:
        self._blocks.free(self._address, self._number)

    def __del__(self) -> None:
        try:
            self.run()
        except (AttributeError, TypeError):  # the interpreter is going, its modules are empty
            pass


_blocks = RestoredBlocks()
_torch_has_deleter: Any = getattr(torch._C, "_has_Standard_Deleter", None)
_torch_free_and_remove_deleter: Any = getattr(torch._C, "_free_And_Remove_DeleterFn", None)
_torch_raw_delete: Any = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_delete", None)


def _storage(pointer: int) -> Any:
    """The Python object of a storage that PyTorch knows by the address of its C++ object."""
    return torch.UntypedStorage._new_with_weak_ptr(pointer)


def _has_live_allocations(device: int, pool: tuple[int, int], addresses: Sequence[int]) -> bool:
    """Whether the blocks of a pool that are handed out are exactly these."""
    equal = ctypes.c_int32()
    rows = (ctypes.c_uint64 * len(addresses))(*addresses)
    _library.call("pool_has_live", _library.allocator(), device, _c.PoolId(*pool), rows, len(rows), ctypes.byref(equal))
    return bool(equal.value)


def _set_state(device: int, checkpoint: Checkpoint, stale: Sequence[int], owners: Sequence[int]) -> None:
    """Puts a pool back. The blocks of stale storages are freed before, those of `owners` are theirs from now on."""
    for pointer in stale:
        _free_and_remove_deleter(pointer)
    # They are kept alive until each has its deleter.
    storages = [(storage, storage.data_ptr()) for storage in map(_storage, owners) if storage is not None]
    _blocks.restore(checkpoint, device)
    for storage, address in storages:
        _give_deleter(storage, address)


def _give_deleter(storage: Any, address: int) -> None:
    number = _blocks.number(address)
    if _torch_has_deleter(storage._cdata):
        _blocks.give_up(address)
    elif number is not None and not _has_deleter_of_ours(storage):
        setattr(storage, _DELETER, Deleter(_blocks, address, number))


def _has_deleter_of_ours(storage: Any) -> bool:
    deleter = getattr(storage, _DELETER, None)
    return deleter is not None and deleter.is_due()


def _has_deleter(pointer: int) -> bool:
    return _torch_has_deleter(pointer) or _has_deleter_of_ours(_storage(pointer))


def _free_and_remove_deleter(pointer: int) -> None:
    storage = _storage(pointer)
    deleter = getattr(storage, _DELETER, None)
    if deleter is None:
        _torch_free_and_remove_deleter(pointer)
    else:
        delattr(storage, _DELETER)
        deleter.run()


def _raw_delete(address: int) -> None:
    if not _blocks.free(address):
        _torch_raw_delete(address)


# Our functions by their names in torch._C.
REPLACEMENTS: dict[str, Any] = {
    "_cuda_getCheckpointState": Checkpoint,
    "_cuda_setCheckpointPoolState": _set_state,
    "_cuda_checkPoolLiveAllocations": _has_live_allocations,
    "_cuda_cudaCachingAllocator_raw_delete": _raw_delete,
    "_has_Standard_Deleter": _has_deleter,
    "_free_And_Remove_DeleterFn": _free_and_remove_deleter,
}
