#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what any_program.py measured: time and the device's memory of each program, plain, served and with its own cache.

    plot_programs.py CSV PICTURE     the picture's ending says its kind: svg, png, pdf

Bars are medians, the lines on them reach from the least to the most. Needs matplotlib (docs/requirements.txt). Exit
status: 0 drawn, 2 the call or the file is wrong.
"""
import csv
import statistics
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from picture import draw_file  # noqa: E402

PROGRAMS = {
    "torch_train": "PyTorch without its cache,\na training step",
    "cupy_temporaries": "CuPy without its pool,\n1,500 rounds of temporaries",
    "jax_operations": "JAX, platform allocator,\n300 rounds of operations",
}
# By name, what it is called and a colour (distinct also without colour vision, after Okabe and Ito).
FORMS = {
    "plain": ("plain", "#999999"),
    "recorded": ("cachalot record", "#56b4e9"),
    "shim": ("shim: cuMemAllocAsync", "#e69f00"),
    "shim without waits": ("shim without waits", "#f0e442"),
    "wait": ("cachalot run", "#0072b2"),
    "event": ("run --free event", "#009e73"),
    "virtual": ("run --virtual cachalot", "#cc79a7"),
    "own cache": ("its own cache", "#d55e00"),
}


def read(path):
    """By program and form: the seconds and the MiB of each run."""
    runs = defaultdict(lambda: defaultdict(list))
    with open(path, newline="", encoding="utf-8") as file:
        for program, form, _, seconds, mebibytes in csv.reader(file):
            runs[program][form].append((float(seconds), float(mebibytes)))
    if not any(program in runs for program in PROGRAMS):
        raise ValueError("no program of the picture in it")
    return runs


def draw_bars(axes, runs, column, scale):
    forms = [form for form in FORMS if form in runs]
    for place, form in enumerate(forms):
        values = [row[column] * scale for row in runs[form]]
        middle = statistics.median(values)
        axes.barh(place, middle, color=FORMS[form][1], xerr=[[middle - min(values)], [max(values) - middle]],
                  error_kw={"linewidth": 1, "capsize": 2})
    axes.set_yticks(range(len(forms)), [FORMS[form][0] for form in forms])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(runs, path):
    # Text stays text, and the same numbers give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "programs"})
    programs = [program for program in PROGRAMS if program in runs]
    figure, rows = plt.subplots(len(programs), 2, figsize=(10, 2.1 * len(programs)), squeeze=False, layout="constrained")
    for row, program in zip(rows, programs):
        draw_bars(row[0], runs[program], 0, 1e3)
        draw_bars(row[1], runs[program], 1, 1)
        row[0].set_title(PROGRAMS[program], loc="left", fontsize=10)
        row[1].set_yticklabels([])
    rows[-1][0].set_xlabel("milliseconds")
    rows[-1][1].set_xlabel("MiB of the device at most, contexts included")
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    sys.exit(draw_file(sys.argv[1:], __doc__, read, draw))
