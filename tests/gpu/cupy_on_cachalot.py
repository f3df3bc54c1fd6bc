# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plug-in of pytest that puts CuPy on cachalot before its tests are loaded (hosts.py --cupy-tests)."""
import cachalot_cuda.cupy

cachalot_cuda.cupy.install()
