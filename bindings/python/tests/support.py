# SPDX-License-Identifier: MIT OR Apache-2.0
"""The allocation functions as PyTorch calls them, and programs in processes of their own.

The library has one allocator a process, made at its first use, so that a test that needs its own options
needs its own process.
"""

import ctypes
import os
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGE = TESTS.parent
ROOT = PACKAGE.parent.parent
DATA = ROOT / "tests" / "data"

MIB = 1 << 20

sys.path.insert(0, str(PACKAGE))

VARIABLES = ("CACHALOT_DRIVER", "CACHALOT_RELEASE", "CACHALOT_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
             "PYTORCH_ALLOC_CONF", "CACHALOT_PINNED_CONF", "CACHALOT_POLICY", "PYTORCH_NO_CUDA_MEMORY_CACHING",
             "CACHALOT_TRACE", "CACHALOT_OOM_DUMP")


def environment(**values):
    """This process's environment without what sets options, and with these values."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    path = os.pathsep.join([str(PACKAGE), str(TESTS)])
    return {**kept, "PYTHONPATH": path, "CACHALOT_DRIVER": "sim:1GiB", **values}


def run(program, **values):
    """Runs a Python program in a process of its own; gives what came of it."""
    return subprocess.run([sys.executable, "-c", program], env=environment(**values), text=True,
                          capture_output=True, check=False, timeout=120)


def allocate(size, device=0, stream=0):
    from cachalot_cuda import _library
    function = _library.load().cachalot_pluggable_alloc
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return function(size, device, stream)


def free(address):
    from cachalot_cuda import _library
    function = _library.load().cachalot_pluggable_free
    function.restype = None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    function(address, 0, 0, 0)
