#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""ORT's CUDA provider with its options gpu_external_alloc, gpu_external_free and gpu_external_empty_cache, on a GPU.

    external_gpu.py LIBRARY_FOLDER MODEL     the folder has libcachalot.so.0.1 and libcachalot_onnxruntime.so.0.1,
                                             the model is the detection model that fetch.sh brings

Needs a GPU, NumPy and onnxruntime-gpu (tried with 1.31.1), whose Python package is the only one that passes these
options on. Every output has to be, bit for bit, what ORT's own arena gives; all blocks have to be freed at the end.
Exit status: 0 all of that is so, else an assertion says what is not.
"""

import ctypes
import gc
import pathlib
import sys

import numpy
import onnxruntime

SHAPES = [(320 + 32 * number, 320) for number in range(6)]


class AllocatorOptions(ctypes.Structure):
    """The first fields of cachalot_allocator_options; the others are 0."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("driver", ctypes.c_void_p), ("config", ctypes.c_char_p),
                ("others", ctypes.c_ubyte * 80)]


class Cachalot:
    def __init__(self, folder):
        self.core = ctypes.CDLL(str(folder / "libcachalot.so.0.1"), ctypes.RTLD_GLOBAL)
        self.ort = ctypes.CDLL(str(folder / "libcachalot_onnxruntime.so.0.1"))
        self.core.cachalot_memory_allocated.restype = ctypes.c_int64
        driver = ctypes.c_void_p()
        assert self.core.cachalot_driver_open(b"cuda", ctypes.byref(driver), None) == 0, "there is no GPU"
        options = AllocatorOptions(ctypes.sizeof(AllocatorOptions), driver, b"")
        self.allocator = ctypes.c_void_p()
        assert self.core.cachalot_allocator_create(ctypes.byref(options), ctypes.byref(self.allocator), None) == 0

    def register(self):
        default_stream = ctypes.c_uint64(0)
        assert self.ort.cachalot_ort_external_register(self.allocator, 0, default_stream, None) == 0

    def unregister(self):
        assert self.ort.cachalot_ort_external_unregister(None) == 0, "the provider still has blocks"

    def allocated(self):
        return self.core.cachalot_memory_allocated(self.allocator, 0)

    def provider_options(self):
        options = {}
        for index in range(3):
            name, value = ctypes.c_char_p(), ctypes.c_char_p()
            self.ort.cachalot_ort_external_option_at(ctypes.c_size_t(index), ctypes.byref(name), ctypes.byref(value))
            options[name.value.decode()] = value.value.decode()
        return options


def make_session(model, options):
    settings = onnxruntime.SessionOptions()
    settings.enable_mem_pattern = False
    provider = ("CUDAExecutionProvider", {"cudnn_conv_algo_search": "HEURISTIC", **options})
    session = onnxruntime.InferenceSession(model, settings, providers=[provider])
    assert "CUDAExecutionProvider" in session.get_providers(), "the CUDA provider cannot be used"
    return session


def outputs(session):
    images = [numpy.random.default_rng(height).random((1, 3, height, width), dtype=numpy.float32)
              for height, width in SHAPES]
    return [session.run(None, {"x": image})[0] for image in images]


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    cachalot = Cachalot(pathlib.Path(sys.argv[1]))
    model = sys.argv[2]
    expected = outputs(make_session(model, {}))
    everything = cachalot.provider_options()
    without_empty = {name: value for name, value in everything.items() if name != "gpu_external_empty_cache"}
    for options in (without_empty, everything):
        cachalot.register()
        session = make_session(model, options)
        assert cachalot.allocated() > 0, "the provider asks somebody else"
        for _ in range(2):
            assert all(map(numpy.array_equal, expected, outputs(session))), "other results"
        del session
        gc.collect()
        cachalot.unregister()
        assert cachalot.allocated() == 0
    print(f"{2 * len(SHAPES)} runs with each set of options: equal results, and nothing is left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
