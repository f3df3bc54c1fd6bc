# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch on cachalot: the whole process, or one torch.cuda.MemPool.

PyTorch's contract for foreign allocators carries allocations, frees, streams and the routing to pools. What
it leaves out (statistics, snapshots, history) is put in place of the functions of torch._C that
torch.cuda.memory calls, so that its own Python code works on, formats included.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from typing import Any

import torch

from . import _checkpoints, _library, _process, history, statistics
from ._mem_pool import MemPool
from .errors import InvalidStateError
from .policy import Policy

# PyTorch's setter of each optional hook, and our function for it.
HOOKS = {
    "set_init_fn": "init",
    "set_reset_fn": "reset",
    "set_memory_fraction_fn": "memory_fraction",
    "set_base_alloc_fn": "base_alloc",
    "set_record_stream_fn": "record_stream",
    "set_begin_allocate_to_pool": "begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "end_allocate_to_pool",
    "set_release_pool": "release_pool",
}

_installed: Any = None  # PyTorch's object for our functions


def install(config: str | None = None, release: str | None = None, *, driver: str | None = None,
            contexts: str | None = None, track_labels: bool = False, mend: Iterable[str] = (),
            policy: Policy | str | None = None, extension: bool = False) -> None:
    """Puts PyTorch on cachalot, for the whole process. Must come before the first use of CUDA. With
    CACHALOT_DISABLE=1 in the environment nothing happens but for a line of the log.

    Args:
        config: PyTorch's option string; None: CACHALOT_ALLOC_CONF, else PYTORCH_CUDA_ALLOC_CONF, else
            PYTORCH_ALLOC_CONF. A string that is not acceptable is an error when CUDA is initialised.
        release: the PyTorch release whose decisions are made: "2.11" or "2.15"; None: CACHALOT_RELEASE,
            else the newest.
        driver: where memory comes from; None: CACHALOT_DRIVER, else "cuda".
        contexts: what the history says of where a call came from: None, "stack" (native call stacks) or
            "labels" (cachalot_cuda.label).
        track_labels: keeps statistics for each label.
        mend: names of defects of PyTorch to mend, such as "split_limit"; docs/differences.md has them.
        policy: whose decisions are made: "pytorch", or "serving" and its options, like
            "serving,thrift,page=8MiB" (cachalot_cuda.Policy has them); None: CACHALOT_POLICY, else PyTorch's.
            PyTorch destroys no stream of its own, so "streams=announced" is promised for it, unless the
            policy says "streams=unannounced". A program that destroys streams of others
            (torch.cuda.ExternalStream) says that, or calls cachalot_cuda.stream_ended before each end.
        extension: carries what PyTorch's contract for foreign allocators does not: tensors for other
            processes (torch.multiprocessing), access of one GPU to another's memory in expandable segments,
            and observers. It is compiled at the first use with each release of PyTorch, which takes a C++
            compiler, ninja, CUDA's headers, and a minute.

    Raises:
        RuntimeError: if CUDA is in use already, another allocator has been installed, or the extension
            cannot be compiled.
    """
    global _installed
    if _process.is_disabled_for("PyTorch"):
        return
    if _installed is not None:
        raise RuntimeError("cachalot is installed already")
    if torch.cuda.is_initialized():
        raise RuntimeError("cachalot_cuda.torch.install() must come before the first use of CUDA")
    # PyTorch's streams come from pools and last as long as the process.
    options = _process.options(config, release, contexts=contexts, track_labels=track_labels, mend=mend, policy=policy,
                               streams_last=True)
    allocator = _pluggable_allocator("cachalot_pluggable_alloc", extension)
    _process.set_options(driver, options)
    torch.cuda.memory.change_current_allocator(allocator)
    _installed = allocator
    _replace_functions()


def is_installed() -> bool:
    """Whether install() has been called."""
    return _installed is not None


def mem_pool(**options: Any) -> Any:
    """A torch.cuda.MemPool whose segments come from cachalot; for torch.cuda.use_mem_pool.

    Without install() PyTorch's native allocator stays in charge of everything, also of what it does with
    the pool's segments; with it, it is a private pool of cachalot.

    Args:
        options: those of torch.cuda.MemPool (use_on_oom, no_split); after install() also pinned.
    """
    if is_installed():
        return MemPool(**options)
    if _process.is_disabled_for("torch.cuda.MemPool"):
        return torch.cuda.MemPool(**options)
    try:
        _process.set_options(None, _process.options(streams_last=True))
    except InvalidStateError:
        pass  # cachalot is in use already, by an earlier pool for example
    allocator = _pluggable_allocator("cachalot_pluggable_try_alloc")
    pool = torch.cuda.MemPool(allocator.allocator(), **options)
    pool._cachalot_allocator = allocator  # lives as long as the pool
    return pool


def _pluggable_allocator(alloc: str, extension: bool = False) -> Any:
    free = "cachalot_pluggable_free"
    if extension:
        from . import torch_extension  # imports what compiles it
        allocator = torch.cuda.memory._CUDAAllocator(torch_extension.make_allocator(alloc, free))
    else:
        allocator = torch.cuda.memory.CUDAPluggableAllocator(_library.load()._name, alloc, free)
    for setter, hook in HOOKS.items():
        getattr(allocator.allocator(), setter)(_library.address_of("cachalot_pluggable_" + hook))
    return allocator


def _replace_functions() -> None:
    """Replaces the functions of torch._C that a foreign allocator does not support."""
    for name, function in _REPLACEMENTS.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, function)
    torch.cuda.MemPool = torch.cuda.memory.MemPool = MemPool


_metadata = threading.local()


def _memory_snapshot(pool: tuple[Any, ...] | None) -> dict[str, Any]:
    first, second, with_history = (*(pool or (0, 0)), True)[:3]
    return history.snapshot((first, second), bool(with_history))


def _record_memory_history(enabled: str | None, context: str | None, stacks: str, max_entries: int,
                           clear_history: bool = False, *more: Any) -> None:
    skip_actions = more[2] if len(more) > 2 else ()
    torch.cuda.init()
    history.record_history(enabled, context, max_entries, clear_history, skip_actions)


def _record_memory_history_legacy(enabled: bool, record_context: bool, max_entries: int, record_alloc_context: bool,
                                  *more: Any) -> None:
    clear_history = more[1] if len(more) > 1 else False
    context = ("all" if record_alloc_context else "state") if record_context else None
    torch.cuda.init()
    history.record_history("all" if enabled else None, context, max_entries, clear_history)


def _set_metadata(text: str) -> None:
    _library.call("set_metadata", text.encode())
    _metadata.text = text


def _get_metadata() -> str:
    return getattr(_metadata, "text", "")


def _annotate(address: int, text: str) -> None:
    if history.has_annotations():  # else nothing happens, as on each allocator of PyTorch's without them
        history.annotate(address, text)


def _traceback(address: int) -> list[dict[str, Any]] | None:
    return history.traceback(address) if history.has_annotations() else None


def _memory_fraction(device: int) -> float:
    fraction = ctypes.c_double()
    _library.call("memory_fraction", _library.allocator(), device, ctypes.byref(fraction))
    return fraction.value


def _enable_caching(enabled: bool) -> None:
    _library.call("set_caching_enabled", _library.allocator(), int(enabled))


def _is_caching_enabled() -> bool:
    return bool(_library.load().cachalot_is_caching_enabled(_library.allocator()))


_torch_set_settings: Any = getattr(torch._C, "_accelerator_setAllocatorSettings", None)


def _set_settings(config: str) -> None:
    _torch_set_settings(config)  # the options of pinned memory stay PyTorch's own
    _library.call("configure", _library.allocator(), config.encode())


_REPLACEMENTS: dict[str, Any] = {
    "_cuda_memoryStats": statistics.nested_stats,
    "_cuda_resetPeakMemoryStats": statistics.reset_peak_stats,
    "_cuda_resetAccumulatedMemoryStats": statistics.reset_accumulated_stats,
    "_cuda_memorySnapshot": _memory_snapshot,
    "_cuda_record_memory_history": _record_memory_history,
    "_cuda_record_memory_history_legacy": _record_memory_history_legacy,
    "_cuda_setMemoryMetadata": _set_metadata,
    "_cuda_getMemoryMetadata": _get_metadata,
    "_cuda_memoryMetadataSupported": history.has_annotations,
    "_cuda_annotateMemory": _annotate,
    "_cuda_allocationTraceback": _traceback,
    "_cuda_getMemoryFraction": _memory_fraction,
    "_cuda_cudaCachingAllocator_enable": _enable_caching,
    "_cuda_cudaCachingAllocator_is_enabled": _is_caching_enabled,
    "_cuda_isHistoryEnabled": history.is_recording,
    "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
    "_accelerator_emptyCache": torch.cuda.empty_cache,
    "_accelerator_setAllocatorSettings": _set_settings,
    "_accelerator_getDeviceStats": statistics.nested_stats,
    "_accelerator_resetPeakStats": statistics.reset_peak_stats,
    "_accelerator_resetAccumulatedStats": statistics.reset_accumulated_stats,
    **_checkpoints.REPLACEMENTS,
}
