# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles torch_extension.cpp against the PyTorch that runs.

    python -m cachalot_cuda.torch_extension     compiles it ahead of the first use, and prints the file
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import sys
from typing import Any

import torch
from torch.utils import cpp_extension

from . import _library

_PACKAGE = pathlib.Path(__file__).resolve().parent
_SOURCE = _PACKAGE / "torch_extension.cpp"
_HEADERS = _PACKAGE / "include"


def make_allocator(alloc: str, free: str) -> Any:
    """An allocator of PyTorch's for two functions of the library, by their names."""
    addresses = map(_library.address_of, (alloc, free))
    return _imported(built_file()).make(_library.load()._handle, *addresses)


def built_file() -> pathlib.Path:
    """The compiled extension. It is compiled where the folder of PyTorch's extensions has none that fits."""
    name = "cachalot_torch_" + _digest()
    folder = _folder() / name
    file, mark = folder / f"{name}.so", folder / "complete"
    if not mark.exists():
        _compile(name, folder)
        mark.touch()
    return file


def _digest() -> str:
    """Of what a build depends on."""
    parts = [torch.__version__, sys.implementation.cache_tag, _version_header()]
    parts += [path.read_text() for path in [_SOURCE, *sorted(_HEADERS.glob("cachalot/*.h"))]]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _folder() -> pathlib.Path:
    return pathlib.Path(os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root())


def _version_header() -> str:
    number = _library.load().cachalot_version_number()
    parts = {"MAJOR": number // 10000, "MINOR": number // 100 % 100, "PATCH": number % 100}
    text = (_HEADERS / "cachalot" / "version.h.in").read_text()
    for name, value in parts.items():
        text = text.replace(f"@PROJECT_VERSION_{name}@", str(value))
    return text.replace("@PROJECT_VERSION@", ".".join(map(str, parts.values())))


def _compile(name: str, folder: pathlib.Path) -> None:
    header = folder / "include" / "cachalot" / "version.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(_version_header())
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    cpp_extension.load(
        name, [str(_SOURCE)], build_directory=str(folder), extra_cflags=["-O2"],
        extra_include_paths=[str(_HEADERS), str(header.parents[1]), str(cuda_headers())],
        extra_ldflags=[*libraries, "-lc10_cuda", "-ltorch_cuda"])


def cuda_headers() -> pathlib.Path:
    """The folder with cuda_runtime_api.h: of a toolkit, or of the packages that PyTorch's own depends on."""
    spec = importlib.util.find_spec("nvidia")
    locations = spec.submodule_search_locations if spec else None
    packages = [pathlib.Path(path) for path in locations or ()]
    folders = [pathlib.Path(cpp_extension.CUDA_HOME)] if cpp_extension.CUDA_HOME else []
    folders += [folder for package in packages for folder in sorted(package.glob("cu*"))]
    for folder in folders:
        if (folder / "include" / "cuda_runtime_api.h").exists():
            return folder / "include"
    raise RuntimeError(
        "cuda_runtime_api.h, with which extension=True is compiled, is neither in CUDA_HOME nor in a package nvidia-cuda-runtime")


def _imported(file: pathlib.Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None  # by the name's ending
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    print(built_file())
