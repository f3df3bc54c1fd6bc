# SPDX-License-Identifier: MIT OR Apache-2.0
"""The allocation functions as PyTorch calls them, and programs in processes of their own.

The library has one allocator a process, made at its first use, so that a test that needs its own options
needs its own process.
"""

import ctypes
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGE = TESTS.parent
ROOT = PACKAGE.parent.parent
DATA = ROOT / "tests" / "data"

MIB = 1 << 20

sys.path.insert(0, str(PACKAGE))

VARIABLES = ("CACHALOT_DRIVER", "CACHALOT_RELEASE", "CACHALOT_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
             "PYTORCH_ALLOC_CONF", "CACHALOT_PINNED_CONF", "CACHALOT_POLICY", "PYTORCH_NO_CUDA_MEMORY_CACHING",
             "CACHALOT_TRACE", "CACHALOT_OOM_DUMP", "CACHALOT_DISABLE", "CACHALOT_TEXTS")


def environment(**values):
    """This process's environment without what sets options, and with these values."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    path = os.pathsep.join([str(PACKAGE), str(TESTS)])
    return {**kept, "PYTHONPATH": path, "CACHALOT_DRIVER": "sim:1GiB", **values}


def run(program, **values):
    """Runs a Python program in a process of its own; gives what came of it."""
    return subprocess.run([sys.executable, "-c", program], env=environment(**values), text=True,
                          capture_output=True, check=False, timeout=120)


class Other:
    """A Python program in a process of its own, that is asked line by line."""

    def __init__(self, program, *arguments, **values):
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], env=environment(**values), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self):
        return self.process.stdout.readline().strip()

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        return self.read()

    def end(self):
        self.process.kill()
        self.process.communicate()


def allocate(size, device=0, stream=0):
    from cachalot_cuda import _library
    function = _library.load().cachalot_pluggable_alloc
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return function(size, device, stream)


def route_all(pool):
    """Routes all requests to a private pool of device 0 until the function that this gives is called."""
    from cachalot_cuda import _c, _library
    library, key = _library.load(), (_library.allocator(), ctypes.c_int(0), _c.PoolId(*pool))
    everything = _c.PoolRoute(kind=1)
    assert library.cachalot_pool_begin(*key, everything, None) == _c.OK

    def end():
        assert library.cachalot_pool_end(*key, None) == _c.OK
        assert library.cachalot_pool_release(*key, None) == _c.OK
    return end


def free(address):
    from cachalot_cuda import _library
    function = _library.load().cachalot_pluggable_free
    function.restype = None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    function(address, 0, 0, 0)


def need_host(*modules):
    """A test case needs these packages: it is skipped without them, and fails where CACHALOT_TEST_HOSTS is set."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    needed = missing and "CACHALOT_TEST_HOSTS" not in os.environ
    return unittest.skipIf(needed, f"{', '.join(missing)} is not installed")


def over_fake_cuda():
    """The environment of a program that finds a driver of CUDA with two devices of the host's memory."""
    path = os.pathsep.join([os.environ["CACHALOT_FAKE_CUDA"], os.environ.get("LD_LIBRARY_PATH", "")])
    return {"CACHALOT_DRIVER": "cuda", "LD_LIBRARY_PATH": path}
