#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what the benchmark of latency has written: how many hits take longer than a time.

    plot.py CSV SVG
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

NAMES = {"c10": ("PyTorch", "#c0504d"), "cachalot_latency": ("cachalot", "#1f6fb4")}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows = {}
    with open(sys.argv[1], newline="") as file:
        for line in csv.DictReader(file):
            curve = rows.setdefault(line["row"], {}).setdefault(line["contender"], [])
            if float(line["above"]) > 0:
                curve.append((max(float(line["ns"]), 1), float(line["above"])))
    plt.rcParams.update({"svg.hashsalt": "cachalot", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 8.5})
    figure, panels = plt.subplots(2, (len(rows) + 1) // 2, figsize=(11, 5.4), sharex=True, sharey=True)
    for panel, (name, curves) in zip(panels.flat, rows.items()):
        for contender, curve in curves.items():
            label, colour = NAMES.get(contender, (contender, "black"))
            panel.plot(*zip(*curve), label=label, color=colour, drawstyle="steps-post")
        panel.axvline(2000, color="grey", linewidth=0.8, linestyle=":")
        panel.axhline(1e-3, color="grey", linewidth=0.8, linestyle=":")
        panel.set(xscale="log", yscale="log", ylim=(1e-7, 1.5), title=name)
        panel.grid(alpha=0.25)
    for panel in panels.flat[len(rows):]:
        panel.set_visible(False)
    for panel in panels[-1]:
        panel.set_xlabel("nanoseconds")
    for panel in panels[:, 0]:
        panel.set_ylabel("share of hits that take longer")
    panels.flat[0].legend(loc="upper right")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
