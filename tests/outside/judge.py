#!/usr/bin/env python3
"""Random graphs, compiled and run by `tcc`, against PyTorch in fp64: values and gradients.

    judge.py --tcc build/bin/tcc --graphs 200 --seed 1      random graphs, and single ops on special values
    judge.py --tcc build/bin/tcc --graphs 1 --seed 4711     one of them again, with the options of the first time
    judge.py --tcc build/bin/tcc --graphs 1000 --kind each --settings all --jobs 2      classes of graphs, every setting

A failing graph stays in a folder whose path is printed, with its inputs and the command lines. Status 0: all agree; 1:
findings; 77: PyTorch is not installed.
"""

import argparse
import collections
import multiprocessing
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback

try:
    import numpy  # noqa: F401, what the modules below need
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)

import classes
import faults
import mistakes
import settings
from case import text_of
from verdict import Truth, bounded
from way import Way


def case_of(seed, kind):
    """The class and the graph of `seed`, and the generator for what else is drawn."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    return *classes.make(rng, kind, seed), rng


def judge(seed, arguments, folder):
    """Makes graph `seed` in `folder`, runs and compares it; the class, findings, counts."""
    kind, case, rng = case_of(seed, arguments.kind)
    if not bounded(case):
        case.runs = 1
        if not bounded(case):
            case.gradients = []
    text, names, values = text_of(case)
    place = settings.Folder(folder, arguments.tcc, text, case.graph.arguments, names, [v.dtype for v in values])
    if arguments.settings == "one":
        way = Way(arguments.march or [None], ["--target=cuda"] * arguments.cuda, case.runs)
        options = way.options(rng, text)
        failure = place.captured() if way.captured else None
        found = failure or place.run(place.file, options)
        findings = [found] if isinstance(found, str) else \
            settings.compared(place, Truth(case, names, values, seed, 2.0**-10 if way.loose else None), found, not way.loose)
        return kind, findings, way.counts(text)
    compilations = settings.grid() if arguments.settings == "all" else settings.drawn(rng)
    findings, runs = settings.under_settings(place, Truth(case, names, values, seed), compilations)
    return kind, findings, collections.Counter(runs=runs)


def judge_seed(task):
    """What a process does with one seed."""
    seed, arguments = task
    torch.set_num_threads(1)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"judged-{seed}-"))
    try:
        kind, findings, counts = judge(seed, arguments, folder)
    except Exception:  # a mistake of the judge ends no run of thousands
        kind, findings, counts = arguments.kind, [traceback.format_exc()], collections.Counter()
    if not findings and not arguments.keep:
        shutil.rmtree(folder)
    return seed, kind, findings, counts, folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tcc", default="build/bin/tcc")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--march", action="append", help="a -march to draw from; may be repeated (the machine's own)")
    parser.add_argument("--kind", choices=["any", "each", *classes.CLASSES], default="any",
                        help="a class; each: one after the other; any: those of random ops, drawn (default)")
    parser.add_argument("--settings", choices=["one", "drawn", "all"], default="one",
                        help="one drawn setting with variations of the run; three drawn ones; the grid of 48")
    parser.add_argument("--jobs", type=int, default=1, help="graphs that are judged at a time")
    parser.add_argument("--cuda", action="store_true", help="compile for CUDA and run there (or on tests/cuda_machine)")
    parser.add_argument("--mistakes", action="store_true", help="first the mistaken files, which must be refused")
    parser.add_argument("--faults", action="store_true", help="first faults of text and results, which must be findings")
    parser.add_argument("--keep", action="store_true", help="keep the graphs that agree, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{arguments.graphs} graphs from seed {arguments.seed}, PyTorch {torch.__version__}")
    refused = []
    if arguments.mistakes:
        with tempfile.TemporaryDirectory() as folder:
            refused = mistakes.check_all(arguments.tcc, pathlib.Path(folder))
        print(f"{len(mistakes.MISTAKES)} mistaken files, {len(refused)} not refused as they should be", *refused,
              sep="\n  ", flush=True)
    missed = []
    if arguments.faults:
        with tempfile.TemporaryDirectory() as folder:
            missed = faults.check_all(arguments.tcc, folder)
        print(f"{len(faults.WRONG_TEXT) + len(faults.WRONG_RESULT)} faults, {len(missed)} missed", *missed, sep="\n  ", flush=True)
    failed = judge_all(arguments)
    print(f"{failed} of {arguments.graphs} graphs differ from PyTorch")
    return 1 if failed or refused or missed else 0


def judge_all(arguments):
    """The number of graphs with findings, which are printed as they come, and a line of progress a minute."""
    tasks = [(seed, arguments) for seed in range(arguments.seed, arguments.seed + arguments.graphs)]
    failed, counts, kinds, begun = 0, collections.Counter(), collections.Counter(), time.monotonic()
    with multiprocessing.Pool(arguments.jobs) as pool:
        for seed, kind, findings, more, folder in pool.imap(judge_seed, tasks):
            counts.update(more)
            kinds[kind] += 1
            if findings:
                failed += 1
                print(f"seed {seed}, {kind}: {folder}", *findings[:12], sep="\n  ", flush=True)
            if time.monotonic() - begun > 60:
                begun = time.monotonic()
                print(f"up to seed {seed}: {kinds.total()} graphs, {counts['runs']} runs, {failed} differ", flush=True)
    for table in (kinds, counts):
        print(", ".join(f"{number} {what}" for what, number in sorted(table.items())))
    return failed


if __name__ == "__main__":
    sys.exit(main())
