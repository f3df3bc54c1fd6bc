# SPDX-License-Identifier: MIT OR Apache-2.0
"""The build is described in pyproject.toml. VERSION is a link out of this folder, and setuptools takes 0.0.0 for the
version where the link leads nowhere: a copy of the folder has to be one by `cp -rL`."""

import pathlib
import sys

import setuptools

if not pathlib.Path(__file__).with_name("VERSION").is_file():
    sys.exit("cachalot-cuda: VERSION is missing, a link out of this folder: build in a clone, or copy by `cp -rL`")
setuptools.setup()
