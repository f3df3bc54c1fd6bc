#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what driver_costs measured: time of each call over its size.

    plot_costs.py CSV PICTURE     the picture's ending says its kind: svg, png, pdf

Lines are medians, the shades above them reach to the 99th percentile. Needs matplotlib
(requirements.txt). Exit status: 0 drawn, 2 the call or the file is wrong.
"""

import csv
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from picture import draw_file  # noqa: E402

PANELS = {
    "Plain and stream-ordered memory": [
        "cuMemAlloc", "cuMemFree", "cudaMallocAsync, miss", "cudaMallocAsync, hit", "cudaFreeAsync"],
    "Virtual memory": [
        "cuMemCreate", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemMap",
        "cuMemAddressReserve", "cuMemAddressFree"],
}
# Distinct also without colour vision (after Okabe and Ito).
STYLES = [("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "v"), ("#e69f00", "D"),
          ("#56b4e9", "P"), ("#333333", "X")]


def read_costs(path):
    """Points by call, in order of size: (size, median, 99th percentile), sizes above 0 only."""
    points = defaultdict(list)
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if int(row["size"]) > 0:
                point = (int(row["size"]), float(row["median_us"]), float(row["p99_us"]))
                points[row["call"]].append(point)
    if not points:
        raise ValueError("no call with a size in it")
    return {call: sorted(rows) for call, rows in points.items()}


def size_name(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.0f} GiB"


def draw_panel(axes, title, calls, costs):
    for call, (colour, marker) in zip(calls, STYLES):
        if call not in costs:
            continue
        sizes, medians, tails = zip(*costs[call])
        axes.plot(sizes, medians, color=colour, marker=marker, markersize=4, label=call)
        axes.fill_between(sizes, medians, tails, color=colour, alpha=0.12, linewidth=0)
    axes.set_title(title)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes asked for")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)


def draw(costs, path):
    # Text stays text, and the same numbers give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "driver costs"})
    figure, panels = plt.subplots(1, len(PANELS), figsize=(12, 5), sharey=True, layout="constrained")
    for axes, (title, calls) in zip(panels, PANELS.items()):
        draw_panel(axes, title, calls, costs)
        drawn = [size for call in calls for size, _, _ in costs.get(call, [])]
        ticks = [2**power for power in range(9, 34, 3) if drawn and min(drawn) <= 2**power <= max(drawn)]
        axes.set_xticks(ticks, [size_name(tick) for tick in ticks], rotation=30)
        axes.minorticks_off()
    panels[0].set_ylabel("microseconds on the calling thread")
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    sys.exit(draw_file(sys.argv[1:], __doc__, read_costs, draw))
