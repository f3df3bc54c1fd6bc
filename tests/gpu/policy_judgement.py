#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much memory real programs need on a GPU under the serving policy and under what else there is, and how long
they take then.

    policy_judgement.py [--seconds 540] [--out FOLDER] [--program NAME]... [--contender NAME]...
                        [--method ballast|limit] [--rounds 5] [--seed 1] [--fits FOLDER]

For each program (policy_programs.py):

1. Each contender runs it once in a process of its own, without a limit: contexts, kernels and libraries' handles are
   there afterwards, and from then on the process keeps them. What it *requests* is the peak of requested bytes of
   PyTorch's native allocator in a second such run; *without a limit* is each one's own peak of reserved bytes in its
   second run, over requested.
2. *fit*: the smallest capacity in which it finishes, over requested, in steps of 0.5 % of requested. Capacities are
   tried from below, in growing strides up to 164 %, then by bisection between the last that was too small and the
   first that was not. A contender that makes another one's decisions begins at that one's result.
3. *time*: at 1.1 times the smallest capacity of the three ways of PyTorch (its native allocator, expandable segments,
   cudaMallocAsync), the seconds of the program's steps, from an empty cache; *going on*: then twice more, each time with
   the cache that the pass before has left. The contenders take turns, in an order that changes; median, least and most
   of --rounds turns.

A capacity is device memory that is free for everything when the run starts with all caches empty. The rest is taken
away: most of it by a process of its own that holds it all the time, what is to vary by the program's process with one
plain allocation (ballast). That is the same for all contenders, whatever they count: `set_per_process_memory_fraction`
limits reserved bytes for the native allocators, but only used bytes for cudaMallocAsync. With --method limit it is used
instead, as a cross-check.

What this leaves out: contexts, kernels and what libraries obtain by themselves in the first run (a device must have
that too); what a program needs beyond the allocator's memory in mid-run would count against all alike. Capacities
differ from what was asked for by less than 4 MiB. A bisection takes it that more memory never hurts.

A run that finishes must give the results that PyTorch's native allocator gives without a limit, bit for bit.

With --fits the fits are those that an earlier call has written into a folder, and only the rest is measured.

Writes judgement.json and judgement.md after each step. When --seconds are over it ends with what it has: each program
gets its share of what is left, and two thirds of that are for step 2, all of it with --rounds 0. Needs torch and
CACHALOT_LIB_DIR (or an installed library).

Exit status: 0 measured, 1 a result differed or a contender died, 2 the call is wrong, 77 there is no torch.
"""

import argparse
import importlib.util
import json
import math
import os
import pathlib
import random
import selectors
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "bindings" / "python"
GIB = 1 << 30

# Name, allocator, PyTorch's option string, CACHALOT_POLICY, whose decisions it makes (or nearly).
CONTENDERS = [
    ("PyTorch", "native", "", "", None),
    ("PyTorch, expandable", "native", "expandable_segments:True", "", None),
    ("serving", "cachalot", "", "serving,streams=announced", None),
    ("serving, thrift", "cachalot", "", "serving,thrift,streams=announced", "serving"),
    ("serving, pages of 8 MiB", "cachalot", "", "serving,page=8MiB,streams=announced", "serving"),
    ("expandable, pages of 2 MiB", "cachalot", "expandable_segments:True", "pytorch,page=2MiB", "PyTorch, expandable"),
    ("cudaMallocAsync", "native", "backend:cudaMallocAsync", "", None),
    ("cachalot", "cachalot", "", "", "PyTorch"),
    ("cachalot, expandable", "cachalot", "expandable_segments:True", "", "PyTorch, expandable"),
    ("serving, streams unannounced", "cachalot", "", "serving", "serving"),
]
PYTORCH = ("PyTorch", "PyTorch, expandable", "cudaMallocAsync")
REFERENCE = "PyTorch"
PROGRAMS = ("gpt2", "requests", "server", "bert", "side_stream")
# cuDNN takes another way, with other results, where it gets less workspace.
MORE_PROGRAMS = ("resnet50",)
STEP = 0.005
MOST_STEPS = 128
ROOMIER = 1.1
START_SECONDS = 150
RUN_SECONDS = 60
PASSES = 3
# Of a program's time; the rest is for the times.
SHARE_OF_FITS = 0.65


def environment(config, policy):
    values = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=config, CACHALOT_POLICY=policy, PYTHONUNBUFFERED="1")
    for name in ("CACHALOT_ALLOC_CONF", "CACHALOT_RELEASE", "CACHALOT_DRIVER", "PYTORCH_ALLOC_CONF",
                 "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        values.pop(name, None)
    if not policy:
        del values["CACHALOT_POLICY"]
    values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return values


class Child:
    """A process that answers a line with a line."""

    def __init__(self, command, log, **more):
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, **more)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.pending = b""

    def send(self, text):
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended, as the missing answer will tell

    def line(self, seconds):
        """The next line; None: it has ended, or does not answer in time."""
        end = time.monotonic() + seconds
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0 or not self.selector.select(left):
                return None
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                return None
            self.pending += piece
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode(errors="replace")

    def end(self):
        """How it has ended, in words."""
        try:
            return f"exit code {self.process.wait(1)}"
        except subprocess.TimeoutExpired:
            return "no answer"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.selector.close()


class Worker:
    """A contender's process for a program. It is started anew after an answer that is missing."""

    def __init__(self, program, contender, options):
        self.name, self.allocator, self.config, self.policy, self.follows = contender
        self.program, self.options = program, options
        self.why = None  # it cannot run
        self.child = None
        self.deaths = 0
        self.begin()

    def begin(self):
        log = self.options.out / f"judgement-{self.program}.log"
        self.child = Child([sys.executable, self.options.worker, self.program, self.allocator], log,
                           env=environment(self.config, self.policy))

    def answer(self, seconds):
        while True:
            line = self.child.line(seconds)
            if line is None or line.startswith("{"):
                return json.loads(line) if line else None

    def ready(self):
        reply = self.answer(START_SECONDS) or {"ready": False, "why": "it ended, or did not start in time"}
        if not reply["ready"]:
            self.why = reply["why"]
        return reply["ready"]

    def order(self, cap=None, passes=1):
        self.child.send(json.dumps({"cap": cap, "method": self.options.method, "passes": passes}))

    def reply(self, passes=1):
        reply = self.answer(passes * RUN_SECONDS)
        if reply is None:
            reply = {"finished": False, "why": f"died: {self.child.end()}"}
        if reply["why"] and not reply["why"].startswith("out of memory"):
            self.deaths += 1
            self.restart()
        return reply

    def restart(self):
        """With one run that is not counted, unless it keeps dying."""
        self.child.stop()
        if self.deaths > 3:
            self.why = "it died four times"
            return
        self.begin()
        if self.ready():
            self.order()
            self.answer(RUN_SECONDS)

    def run(self, cap, passes=1):
        self.order(cap, passes)
        return self.reply(passes)

    def stop(self):
        self.child.stop()


class Holder:
    """Holds most of the device."""

    def __init__(self, options):
        self.child = Child([sys.executable, options.holder], options.out / "judgement-holder.log")

    def leave(self, size):
        self.child.send(str(size))
        line = self.child.line(RUN_SECONDS)
        if line is None:
            raise RuntimeError("the process that holds the memory has ended")
        return int(line)

    def stop(self):
        self.child.stop()


def smallest(fits, hint=None, most=MOST_STEPS):
    """The smallest number of steps, 1 to most, for which fits() holds; None: it holds for none. fits() may say None,
    that there is no time left: then None too."""
    too_small, stride = 0, 2
    if hint is not None and hint > 1:
        if (at_hint := fits(hint - 1)) is None:
            return None
        if not at_hint:
            too_small, stride = hint - 1, 1
        else:
            most = hint - 1
    enough = None
    while enough is None:
        step = min(too_small + stride, most)
        if step <= too_small:
            return None
        answer = True if hint is not None and step == most == hint - 1 else fits(step)
        if answer is None:
            return None
        if answer:
            enough = step
        else:
            too_small, stride = step, stride * 2
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        answer = fits(middle)
        if answer is None:
            return None
        too_small, enough = (too_small, middle) if answer else (middle, enough)
    return enough


class Judgement:
    """One program's figures."""

    def __init__(self, program, options, deadline):
        self.program, self.options, self.deadline = program, options, deadline
        begin = time.monotonic()
        share = SHARE_OF_FITS if options.rounds else 1
        self.deadline_of_fits = begin + share * (deadline - begin)
        self.random = random.Random(options.seed)
        self.rows = {contender[0]: {"deaths": []} for contender in options.contenders}
        self.figures = {"program": program, "method": options.method, "requested": None, "rows": self.rows}
        self.workers = []

    def run(self):
        self.workers = [Worker(self.program, contender, self.options) for contender in self.options.contenders]
        holder = Holder(self.options)
        try:
            self.measure(holder)
        finally:
            for worker in self.workers:
                worker.stop()
            holder.stop()

    def measure(self, holder):
        self.start()
        self.without_a_limit()
        if not self.figures["requested"]:
            return
        if self.options.method == "ballast":
            self.figures["left free"] = holder.leave(2 * self.figures["requested"] + 3 * GIB)
        self.options.save()
        if self.options.fits:
            self.take_fits(self.options.fits)
        else:
            for worker in self.able():
                self.find_fit(worker)
                self.options.save()
        self.find_times()

    def able(self):
        return [worker for worker in self.workers if worker.why is None]

    def start(self):
        for worker in self.workers:
            if not worker.ready():
                self.rows[worker.name]["why"] = worker.why

    def without_a_limit(self):
        """All at once: nothing is timed."""
        for _ in range(2):
            workers = self.able()
            for worker in workers:
                worker.order()
            replies = {worker.name: self.noted(worker, worker.reply()) for worker in workers}
        for name, reply in replies.items():
            if reply["finished"]:
                self.rows[name]["peaks"] = reply["peaks"]
                self.rows[name]["digest"] = reply["digest"]
        reference = self.rows.get(REFERENCE, {})
        self.figures["requested"] = reference.get("peaks", {}).get("requested")
        for row in self.rows.values():
            if "digest" in row:
                row["equal"] = row["digest"] == reference.get("digest")

    def noted(self, worker, reply):
        """What must not happen is kept."""
        row = self.rows[worker.name]
        if reply["why"] and not reply["why"].startswith("out of memory"):
            row["deaths"].append(reply["why"])
        if worker.why:
            row["why"] = worker.why
        if reply["finished"] and "digest" in self.rows.get(REFERENCE, {}):
            row["equal"] = row.get("equal", True) and reply["digest"] == self.rows[REFERENCE]["digest"]
        return reply

    def capacity(self, steps):
        return math.ceil(self.figures["requested"] * (1 + STEP * steps))

    def find_fit(self, worker):
        row = self.rows[worker.name]
        row["trials"] = []

        def fits(steps):
            if time.monotonic() > self.deadline_of_fits or worker.why:
                return None
            reply = self.noted(worker, worker.run(self.capacity(steps)))
            row["trials"].append([steps, reply["finished"], reply["why"] and reply["why"][:80]])
            return reply["finished"]

        hint = self.rows.get(worker.follows, {}).get("steps")
        steps = smallest(fits, hint)
        if steps is not None:
            row["steps"] = steps
            row["fit"] = 1 + STEP * steps

    def take_fits(self, folder):
        """Those of an earlier call."""
        earlier = json.loads((folder / "judgement.json").read_text())
        rows = next((figures["rows"] for figures in earlier if figures["program"] == self.program), {})
        for name, row in self.rows.items():
            row.update({key: rows[name][key] for key in ("steps", "fit") if key in rows.get(name, {})})

    def find_times(self):
        best = [self.rows[name]["steps"] for name in PYTORCH if "steps" in self.rows.get(name, {})]
        if not best:
            return
        capacity = math.ceil(ROOMIER * self.capacity(min(best)))
        self.figures["capacity of the times"] = capacity
        for _ in range(self.options.rounds):
            for worker in self.random.sample(self.workers, len(self.workers)):
                self.take_time(worker, capacity)
            self.options.save()

    def take_time(self, worker, capacity):
        row = self.rows[worker.name]
        if worker.why or time.monotonic() > self.deadline or "does not finish" in row:
            return
        reply = self.noted(worker, worker.run(capacity, PASSES))
        if reply["finished"]:
            first, *later = reply["seconds"]
            row.setdefault("times", []).append(first)
            if len(later) == PASSES - 1:
                row.setdefault("times going on", []).append(statistics.fmean(later))
            row["policy"] = reply.get("policy")
        elif reply["why"].startswith("out of memory"):
            row["does not finish"] = True

    def is_fine(self):
        return all(row.get("equal", True) and not row["deaths"] for row in self.rows.values())


# ---- Tables

HEAD = ["contender", "fit", "without a limit", "time, s: median", "least", "most", "of PyTorch's best",
        "going on, s: median", "least", "most", "of PyTorch's best", "results"]


def number(value, digits=3):
    return "–" if value is None else f"{value:.{digits}f}"


def over(row, requested):
    """Reserved at the peak without a limit, over requested."""
    peaks = row.get("peaks")
    return peaks["reserved"] / requested if peaks and requested else None


def best_time(rows, key):
    times = [statistics.median(rows[name][key]) for name in PYTORCH if rows.get(name, {}).get(key)]
    return min(times, default=None)


def time_cells(row, figures, key):
    times, best = row.get(key), best_time(figures["rows"], key)
    median = statistics.median(times) if times else None
    shown = "does not finish" if "does not finish" in row else number(median)
    return [shown, number(min(times) if times else None), number(max(times) if times else None),
            number(median / best if median and best else None)]


def cells(name, row, figures):
    if "why" in row and "peaks" not in row:
        return [name, f"cannot run: {row['why'][:60]}", *[""] * (len(HEAD) - 2)]
    results = "died" if row["deaths"] else "equal" if row.get("equal") else "–" if "equal" not in row else "differ"
    return [name, number(row.get("fit")), number(over(row, figures["requested"]), 2),
            *time_cells(row, figures, "times"), *time_cells(row, figures, "times going on"), results]


def mean(values):
    values = [value for value in values if value is not None]
    return (statistics.fmean(values), max(values), len(values)) if values else (None, None, 0)


def time_ratio(name, figures, key):
    times, best = figures["rows"].get(name, {}).get(key), best_time(figures["rows"], key)
    return statistics.median(times) / best if times and best else None


def summary(contenders, all_figures):
    yield ("| contender | programs | fit: mean | worst | without a limit: mean | worst | time: mean | worst "
           "| going on: mean | worst |")
    yield "|" + " --- |" * 10
    for name, *_ in contenders:
        rows = [(figures["rows"].get(name, {}), figures) for figures in all_figures]
        fit, worst_fit, count = mean([row.get("fit") for row, _ in rows])
        peak, worst_peak, _ = mean([over(row, figures["requested"]) for row, figures in rows])
        times = [figure for key in ("times", "times going on")
                 for figure in mean([time_ratio(name, figures, key) for _, figures in rows])[:2]]
        yield (f"| {name} | {count} | {number(fit)} | {number(worst_fit)} | {number(peak, 2)} | {number(worst_peak, 2)} "
               f"| {' | '.join(map(number, times))} |")


def table(figures):
    requested = figures["requested"]
    capacity = figures.get("capacity of the times")
    yield (f"**{figures['program']}**: {number(requested and requested / 2**20, 1)} MiB requested; times at "
           f"{number(capacity and capacity / 2**20, 1)} MiB.")
    yield ""
    yield "| " + " | ".join(HEAD) + " |"
    yield "|" + " --- |" * len(HEAD)
    for name, row in figures["rows"].items():
        yield "| " + " | ".join(cells(name, row, figures)) + " |"
    yield ""


def page(contenders, all_figures):
    yield from summary(contenders, all_figures)
    yield ""
    for figures in all_figures:
        yield from table(figures)


# ---- The call

def read_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [contender[0] for contender in CONTENDERS]
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/gpu/results"))
    parser.add_argument("--program", action="append", choices=PROGRAMS + MORE_PROGRAMS)
    parser.add_argument("--contender", action="append", choices=names)
    parser.add_argument("--method", choices=("ballast", "limit"), default="ballast")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fits", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    # Tests put others in their place.
    parser.add_argument("--worker", default=str(HERE / "policy_programs.py"), help=argparse.SUPPRESS)
    parser.add_argument("--holder", default=str(HERE / "ballast.py"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.contenders = [contender for contender in CONTENDERS
                          if not options.contender or contender[0] in options.contender or contender[0] == REFERENCE]
    return options


def judge(options):
    end = time.monotonic() + options.seconds
    programs = options.program or list(PROGRAMS)
    options.out.mkdir(parents=True, exist_ok=True)
    done = []

    def save():
        (options.out / "judgement.json").write_text(json.dumps(done, indent=1))
        (options.out / "judgement.md").write_text("".join(line + "\n" for line in page(options.contenders, done)))

    options.save = save
    fine = True
    for index, program in enumerate(programs):
        left = end - time.monotonic()
        if left < 30:
            print(f"no time is left for {', '.join(programs[index:])}", flush=True)
            break
        judgement = Judgement(program, options, time.monotonic() + left / (len(programs) - index))
        done.append(judgement.figures)
        try:
            judgement.run()
        except (OSError, RuntimeError, KeyError, ValueError) as problem:
            judgement.figures["problem"] = str(problem)
            print(f"{program}: {problem}", flush=True)
            fine = False
        fine = judgement.is_fine() and fine
        save()
        print("\n".join(table(judgement.figures)), flush=True)
    print("\n".join(summary(options.contenders, done)), flush=True)
    return fine


def main():
    options = read_options(sys.argv[1:])
    if options.worker.endswith("policy_programs.py") and importlib.util.find_spec("torch") is None:
        print("skipped: no torch")
        return 77
    fine = judge(options)
    print("measured" if fine else "failed: a result differs, or a contender died: see judgement.json")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
