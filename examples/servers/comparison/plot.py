#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what compare.py measured: memory over time for each way to get it, while busy and when idle.

    plot.py FOLDER PICTURE     the picture's ending says its kind: svg, png, pdf

Needs matplotlib (requirements.txt). Exit status: 0 drawn, 2 the call or the files are wrong.
"""

import csv
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

MIB = 2.0**20
# Those of which the picture tells: by name, a colour (distinct also without colour vision, after Okabe and Ito).
LINES = {
    "no arena": "#999999",
    "ORT's arena": "#d55e00",
    "ORT's arena, one for both models": "#cc79a7",
    "ORT's arena, shrunk after each run": "#e69f00",
    "cachalot": "#56b4e9",
    "cachalot, `expandable_segments:True`": "#0072b2",
}


def read(folder):
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    for number, row in enumerate(results["rows"]):
        path = folder / f"{number}.csv"
        if row["name"] not in LINES or not path.exists():
            continue
        with open(path, newline="", encoding="utf-8") as file:
            samples = [(float(line["seconds"]), int(line["bytes"]) / MIB) for line in csv.DictReader(file)]
        yield row, samples


def draw(folder, picture):
    figure, (over_time, bars) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2), layout="constrained")
    rows = list(read(folder))
    for row, samples in rows:
        colour = LINES[row["name"]]
        # Requests, not seconds: all do the same work, in times that differ.
        busy = row["seconds"]
        over_time.plot([second / busy * row["served"] for second, _ in samples], [mib for _, mib in samples],
                       color=colour, linewidth=1)
    over_time.set_xlabel("requests, then idle")
    over_time.set_ylabel("MiB beyond the loaded models")
    over_time.set_ylim(bottom=0)
    names = [row["name"].replace("`", "").replace(", ", ",\n") for row, _ in rows]
    places = range(len(rows))
    colours = [LINES[row["name"]] for row, _ in rows]
    bars.barh(places, [row["peak"] / MIB for row, _ in rows], height=0.75, color=colours, alpha=0.3)
    bars.barh(places, [row["idle"] / MIB for row, _ in rows], height=0.4, color=colours)
    for place, (row, _) in zip(places, rows):
        bars.text(row["peak"] / MIB, place, f" {row['peak'] / MIB:.0f}, idle {row['idle'] / MIB:.0f}", va="center",
                  fontsize=8)
    bars.set_yticks(list(places), names, fontsize=8)
    for label, colour in zip(bars.get_yticklabels(), colours):
        label.set_color(colour)  # the legend of both
    bars.invert_yaxis()
    bars.set_xlim(right=1.35 * max(row["peak"] for row, _ in rows) / MIB)
    bars.set_xlabel("MiB: peak (light), when idle (dark)")
    for axes in (over_time, bars):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Two ONNX models that alternate on requests of varying sizes: memory, by where it comes from")
    figure.savefig(picture, metadata={"Date": None} if picture.endswith(".svg") else None)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    matplotlib.rcParams["svg.hashsalt"] = "cachalot"
    try:
        draw(pathlib.Path(sys.argv[1]), sys.argv[2])
    except (OSError, KeyError, ValueError) as wrong:
        print(f"{sys.argv[1]}: {wrong}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
