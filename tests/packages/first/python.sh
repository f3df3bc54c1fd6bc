# SPDX-License-Identifier: MIT OR Apache-2.0
# Python: what a new user types, in an empty folder with the program.
python3 -m venv env
env/bin/pip install -q cachalot-cuda
env/bin/python first.py
