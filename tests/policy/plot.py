#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws the figures of fits.py: for each recorded run what it needs under each contender.

    plot.py JSON PICTURE     the picture's ending says its kind: svg, png, pdf

The dark bar is the smallest device on which the run finishes, the light one behind it the peak that is reserved where
nothing limits it, both over what the run requests at its peak. Needs matplotlib (docs/requirements.txt). Exit status:
0 drawn, 2 the call or the file is wrong.
"""

import json
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Distinct also without colour vision (after Okabe and Ito).
COLOURS = {"default": "#555555", "expandable": "#e69f00", "expandable, 2 MiB": "#cc79a7", "serving": "#0072b2",
           "serving, thrift": "#009e73"}
COLUMNS = 3
MOST = 2.0  # bars beyond it are cut, and say their number


def draw_panel(axes, trace, rows):
    for place, (contender, colour) in enumerate(COLOURS.items()):
        row = rows[contender]
        axes.barh(place, min(row["unlimited"], MOST) - 1, left=1, color=colour, alpha=0.3)
        axes.barh(place, min(row["fit"], MOST) - 1, left=1, color=colour, height=0.45)
        cut = f", no limit {row['unlimited']:.2f}" if row["unlimited"] > MOST else ""
        axes.text(min(max(row["fit"], 1.0), MOST) + 0.02, place, f"{row['fit']:.3f}{cut}", va="center", fontsize=8)
    requested = next(iter(rows.values()))["requested"]
    axes.set_title(f"{trace} ({requested:,.0f} MiB)", fontsize=10)
    axes.set_xlim(1, MOST)
    axes.set_yticks(range(len(COLOURS)), list(COLOURS), fontsize=8)
    axes.invert_yaxis()
    axes.grid(True, axis="x", alpha=0.3)


def draw(results, path):
    # Text stays text, and the same numbers give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "policy fits"})
    by_trace = {}
    for row in results:
        by_trace.setdefault(row["trace"], {})[row["contender"]] = row
    lines = math.ceil(len(by_trace) / COLUMNS)
    figure, panels = plt.subplots(lines, COLUMNS, figsize=(13, 2.2 * lines), sharex=True, sharey=True,
                                  layout="constrained", squeeze=False)
    flat = panels.flatten()
    for axes, (trace, rows) in zip(flat, by_trace.items()):
        draw_panel(axes, trace, rows)
    for axes in flat[len(by_trace):]:
        axes.set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel("memory over peak requested: to finish (dark), without a limit (light)", fontsize=8)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.endswith(".svg") else None)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            draw(json.load(file), arguments[1])
    except (OSError, ValueError, KeyError) as failure:
        print(f"{arguments[0]}: {failure!r}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
