#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch's own reader (torch/cuda/_memory_viz.py, which needs nothing else of torch) beside our pickles.

Usage: viz_check.py PROGRAM _MEMORY_VIZ_PY

Each snapshot of PyTorch's is converted to a pickle of ours. The reader takes it; where the history is whole, it gives
the same summary, the same trace and the same graphs of stacks for both.
"""
import importlib.util
import pickle
import subprocess
import sys

import convert_test

PAGES = ["trace_plot", "segment_plot"]


def load(path):
    spec = importlib.util.spec_from_file_location("memory_viz", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts_of(viz, taken):
    def plain(lines):  # a script that the reader would fetch draws them
        return lines
    return {"segsum": viz.segsum(taken), "trace": viz.trace(taken), "segments": viz.segments(taken, plain),
            "memory": viz.memory(taken, plain)}


def main():
    program, viz = sys.argv[1], load(sys.argv[2])
    equal = 0
    for name in convert_test.SNAPSHOTS:
        original = convert_test.sample(f"torch_{name}.pickle")
        facts = convert_test.FACTS.get(name, [])
        ours = subprocess.run([program, "convert", "-", "-o", "-", "--to", "pickle", *facts], input=original, check=True,
                              capture_output=True).stdout
        texts = texts_of(viz, pickle.loads(ours))
        for page in PAGES:
            assert len(getattr(viz, page)(pickle.loads(ours))) > len(ours), (name, page)
        if name not in convert_test.WHOLE:
            continue
        for command, text in texts_of(viz, pickle.loads(original)).items():
            assert texts[command] == text, (name, command)
            equal += 1
    print(f"{len(convert_test.SNAPSHOTS)} snapshots, {equal} texts of PyTorch's reader equal")


main()
