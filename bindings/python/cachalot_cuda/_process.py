# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one allocator of the process: how it is made, and which hosts are on it."""

from __future__ import annotations

import ctypes
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _c, _library, logs
from .errors import Error, InvalidArgumentError, InvalidStateError
from .policy import Policy, options_of, policy as policy_in_force

_are_chosen = False  # whether a host of this process has said what the allocator is made with


def is_disabled_for(host: str) -> bool:
    """Whether CACHALOT_DISABLE=1 leaves a host its own allocator; then a line of the log says so."""
    if os.environ.get("CACHALOT_DISABLE") != "1":
        return False
    logging.getLogger("cachalot").warning("CACHALOT_DISABLE=1: %s keeps its own allocator", host)
    return True


def options(config: str | None = None, release: str | None = None, *, contexts: str | None = None,
            track_labels: bool = False, mend: Iterable[str] = (), policy: Policy | str | None = None,
            streams_last: bool = False, texts: str | None = None) -> _c.AllocatorOptions:
    """What the allocator is made with, as a row of the C interface.

    Args:
        config: PyTorch's option string; None: CACHALOT_ALLOC_CONF, else PYTORCH_CUDA_ALLOC_CONF, else
            PYTORCH_ALLOC_CONF.
        release: the PyTorch release whose decisions are made: "2.11" or "2.15"; None: CACHALOT_RELEASE, else the
            newest.
        contexts: what the history says of where a call came from: None, "stack" (native call stacks) or "labels"
            (cachalot_cuda.label).
        track_labels: keeps statistics for each label.
        mend: names of defects of PyTorch to mend, such as "split_limit"; docs/differences.md has them.
        policy: whose decisions are made (cachalot_cuda.Policy or its text); None: CACHALOT_POLICY, else PyTorch's.
        streams_last: whether the host destroys no stream, so that streams=announced is promised for it.
        texts: whose words errors, warnings and tables have: "pytorch" or "own"; None: CACHALOT_TEXTS, else PyTorch's.
    """
    return _c.AllocatorOptions(
        config=None if config is None else config.encode(),
        release=_choice("release", release, _c.RELEASES),
        context_source=_choice("contexts", contexts, _c.CONTEXT_SOURCES),
        mend=sum({_choice("mend", name, _c.MENDS) for name in mend}),
        track_labels=int(track_labels),
        texts=_choice("texts", texts, _c.TEXTS),
        **logs.options(),
        **options_of(policy, streams_last))


def set_options(driver: str | None, row: _c.AllocatorOptions) -> None:
    """Says what the allocator will be made with; an InvalidStateError once it exists. Without a word on the driver
    memory is a GPU's: never the host's, which the library takes where it finds no GPU."""
    global _are_chosen
    driver = driver or os.environ.get("CACHALOT_DRIVER") or "cuda"
    _library.call("pluggable_set_options", driver.encode(), ctypes.byref(row))
    _are_chosen = True


def allocator_for(host: str, driver: str | None = None, *, check_backend: Callable[[str], None] = lambda _: None,
                  **wanted: Any) -> ctypes.c_void_p:
    """The allocator for a host that creates and destroys streams: made with these options, or without any as a host
    before has said.

    Args:
        host: its name, for messages.
        driver: where memory comes from; None: CACHALOT_DRIVER, else "cuda".
        check_backend: is called with the name of the allocator's backend, and raises where the host cannot be on it:
            before the allocator is made, if this host chooses its options, so that another one still can.
        wanted: those of options().

    Raises:
        InvalidArgumentError: an option is not acceptable.
        InvalidStateError: options are given where a host before has chosen them, or it has been promised that
            streams are announced before they end.
    """
    row = options(**wanted)
    _require_unannounced(host, row.policy == _c.POLICIES["serving"] and row.streams == _c.STREAMS["announced"])
    _choose(host, driver, row, driver is not None or any(wanted.values()), check_backend)
    allocator = _made_allocator()
    check_backend(_library.load().cachalot_allocator_backend(allocator).decode())
    _require_unannounced(host, policy_in_force().streams == "announced")
    return allocator


def _choose(host: str, driver: str | None, row: _c.AllocatorOptions, is_wanted: bool,
            check_backend: Callable[[str], None]) -> None:
    if _are_chosen and not is_wanted:
        return
    try:
        if not _are_chosen:
            return _set_checked_options(driver, row, check_backend)
    except InvalidStateError:
        if not is_wanted:
            return
    raise InvalidStateError(f"the allocator of this process has its options: {host} joins it without any",
                            _c.ERROR_INVALID_STATE)


def _set_checked_options(driver: str | None, row: _c.AllocatorOptions, check_backend: Callable[[str], None]) -> None:
    global _are_chosen
    set_options(driver, row)  # first, since it tells whether there is an allocator
    try:
        check_backend(_backend_in(row.config))
    except Error:
        _library.call("pluggable_set_options", None, None)
        _are_chosen = False
        raise


# Where the library looks for the option string, in this order.
_CONFIG_VARIABLES = ("CACHALOT_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def _backend_in(config: bytes | None) -> str:
    """The backend that an option string asks for; None: the environment's. It need not be acceptable."""
    if config is not None:
        text = config.decode()
    else:
        text = next((os.environ[name] for name in _CONFIG_VARIABLES if name in os.environ), "")
    named = re.findall(r"(?:^|,)backend:([^],:[]*)", re.sub(r"\s", "", text))
    return named[-1] if named else "native"


def _made_allocator() -> ctypes.c_void_p:
    global _are_chosen
    try:
        return _library.allocator()
    except Error:
        _are_chosen = False  # for others than those that cannot be
        raise


def _require_unannounced(host: str, is_announced: bool) -> None:
    if is_announced:
        raise InvalidStateError(f'{host} destroys streams without a word: the policy needs "streams=unannounced"',
                                _c.ERROR_INVALID_STATE)


def _choice(name: str, value: str | None, choices: Mapping[Any, int]) -> int:
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise InvalidArgumentError(f"{name} must be one of {known}, not {value!r}", _c.ERROR_INVALID_ARGUMENT)
    return choices[value]
