#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what `serving --csv` wrote: memory over time, without and with tenants and trimming.

    plot.py CSV PICTURE     the picture's ending says its kind: svg, png, pdf

Needs matplotlib (requirements.txt). Exit status: 0 drawn, 2 the call or the file is wrong.
"""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

TITLES = {"without": "Without tenants and trimming", "with": "With tenants and trimming"}
# Distinct also without colour vision (after Okabe and Ito).
MODEL_COLOURS = ["#0072b2", "#009e73", "#e69f00"]
REFUSED = "#c00000"
GIB = 2.0**30
EVERY = 20  # rows, of which one is drawn: more would not be seen


def read_run(path):
    """The heading's numbers, and the rows by variant as columns."""
    with open(path, newline="", encoding="utf-8") as file:
        heading = dict(pair.split() for pair in file.readline().lstrip("# ").split(", "))
        rows = list(csv.DictReader(file))
    runs = {}
    for variant in TITLES:
        own = [row for row in rows if row["variant"] == variant]
        runs[variant] = {name: [float(row[name]) for row in own] for name in own[0] if name != "variant"}
    return {name: float(number) / GIB for name, number in heading.items()}, runs


def thin(run):
    """Fewer rows; those of idle times are few already."""
    kept = [i for i, idle in enumerate(run["idle"]) if idle or i % EVERY == 0]
    return {name: [values[i] for i in kept] for name, values in run.items()}


def idle_spans(run):
    """Begin and end of each idle time."""
    spans = []
    for second, idle, before in zip(run["seconds"], run["idle"], [0] + run["idle"]):
        if idle and not before:
            spans.append([second, second])
        elif idle:
            spans[-1][1] = second
    return spans


def refused_at(run, column):
    """The seconds in which a counter grew."""
    return sorted({int(second) + 0.5 for second, now, before
                   in zip(run["seconds"], run[column], [0] + run[column]) if now > before})


def shade_idle(axes, run):
    for number, (begin, end) in enumerate(idle_spans(run)):
        axes.axvspan(begin, end, color="#888888", alpha=0.15, linewidth=0,
                     label="idle" if number == 0 else None)


def draw_device(axes, run, sizes):
    shade_idle(axes, run)
    drawn = thin(run)
    for name, colour, width in (("reserved", "#333333", 1.6), ("allocated", "#56b4e9", 1.2)):
        axes.plot(drawn["seconds"], [v / GIB for v in drawn[name]], color=colour, linewidth=width,
                  label=name)
    axes.axhline(sizes["capacity"], color="#333333", linewidth=0.8, linestyle="-.", label="capacity")
    axes.axhline(sizes["watermark"], color="#cc79a7", linewidth=1.2, linestyle="--", label="watermark")
    axes.set_ylim(0, sizes["capacity"] * 1.1)
    axes.set_yticks(range(0, int(sizes["capacity"]) + 1, 4))


def draw_models(axes, run, sizes):
    shade_idle(axes, run)
    drawn = thin(run)
    models = [name for name in run if name in sizes]
    for name, colour in zip(models, MODEL_COLOURS):
        axes.plot(drawn["seconds"], [v / GIB for v in drawn[name]], color=colour, linewidth=1.2, label=name)
        axes.axhline(sizes[name], color=colour, linewidth=1, linestyle="--")
    axes.plot([], [], color="#333333", linewidth=1, linestyle="--", label="guarantees")
    top = sizes["capacity"] * 0.76
    axes.set_ylim(0, top)
    refused = refused_at(run, "broken_guarantees")
    axes.plot(refused, [top * 0.95] * len(refused), linestyle="none", marker="|", markersize=9,
              markeredgewidth=1, color=REFUSED)
    axes.plot([], [], linestyle="none", marker="|", markersize=9, markeredgewidth=1.5, color=REFUSED,
              label="refused below the guarantee")
    total = int(run["broken_guarantees"][-1])
    axes.set_title(f"requests refused below a guarantee: {total:,}", fontsize=10,
                   color=REFUSED if total else "#333333")


def draw(sizes, runs, path):
    # Text stays text, and the same numbers give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "serving", "font.size": 10})
    figure, panels = plt.subplots(2, 2, figsize=(11, 6.6), sharex="col", sharey="row",
                                  layout="constrained")
    for column, (variant, title) in enumerate(TITLES.items()):
        draw_device(panels[0][column], runs[variant], sizes)
        draw_models(panels[1][column], runs[variant], sizes)
        panels[0][column].set_title(title)
        panels[1][column].set_xlabel("seconds")
        panels[0][column].set_xlim(0, runs[variant]["seconds"][-1])
    panels[0][0].set_ylabel("device, GiB")
    panels[1][0].set_ylabel("each model, GiB")
    for axes in panels.flat:
        axes.grid(True, alpha=0.25)
    legends = {}
    for axes in (panels[0][0], panels[1][0]):
        for handle, label in zip(*axes.get_legend_handles_labels()):
            legends.setdefault(label, handle)
    figure.legend(legends.values(), legends.keys(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.endswith(".svg") else None)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        sizes, runs = read_run(arguments[0])
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    draw(sizes, runs, arguments[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
