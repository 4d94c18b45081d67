#!/usr/bin/env python3
"""Random graphs, compiled and run by `tcc`, against PyTorch in fp64: values and gradients.

    judge.py --tcc build/bin/tcc --graphs 200 --seed 1      random graphs, and single ops on special values
    judge.py --tcc build/bin/tcc --graphs 1 --seed 4711     one of them again

A failing graph stays in a folder whose path is printed, with its inputs and the command line. Status 0: all agree; 1:
findings; 77: PyTorch is not installed.
"""

import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)

import graph as graphs
import special
from graph import FLOATS, Graph, evaluate, is_float, overflowed
from language import floats, normal, pick
from language_more import OPS, add_adamw

TRIALS = 6  # runs with moved roundings
SLACK = 16  # how much further off than those a result may be
PATIENCE = 900  # seconds for one graph; a busy machine takes minutes for what takes a tenth of a second

SHAPES = [(), (1,), (3,), (17,), (64,), (1, 1), (2, 3), (7, 5), (1, 33), (31, 1), (16, 16), (3, 129), (2, 3, 4),
          (5, 1, 7), (2, 13, 16), (2, 2, 3, 5), (1, 4, 1, 9), (257, 3), (37, 41)]
LONG_SHAPES = [(1, 4099), (4099, 3), (2, 1031, 2), (8, 1024), (10007,), (1009, 7)]


def random_graph(rng):
    """A graph of 1 to 14 ops on ordinary values, its outputs, and (loss, wrt) of one gradient op."""
    graph = Graph()
    shapes = LONG_SHAPES if rng.random() < 0.08 else SHAPES
    shape = rng.choice(shapes)
    for _ in range(rng.randint(1, 3)):
        graph.argument("f32", normal(rng, shape, rng.choice([0.5, 1.0, 1.0, 3.0])))
        if rng.random() < 0.4:
            shape = rng.choice(shapes)
    if rng.random() < 0.25:
        dtype = rng.choice(["i32", "i64"])
        data = numpy.random.default_rng(rng.getrandbits(64)).integers(-2**31, 2**31, shape)
        graph.argument(dtype, torch.tensor(data, dtype=torch.int64).reshape(shape))
    names, wanted, tries = list(OPS), rng.randint(1, 14), 0
    while len(graph.steps) < wanted and tries < 200:
        tries += 1
        before = len(graph.values), len(graph.arguments), len(graph.steps)
        done = OPS[rng.choice(names)](graph, rng)
        new = graph.values[before[0]:]
        if not done or any(is_float(v.dtype) and not bool((v.data.abs() < 1e6).all()) for v in new):
            del graph.values[before[0]:], graph.arguments[before[1]:], graph.steps[before[2]:]
    computed = [value for step in graph.steps for value in step.results]
    last = computed[-3:]
    outputs = last + rng.sample(computed[:-3], min(len(computed[:-3]), rng.randrange(3)))
    gradients = add_gradient(graph, rng, outputs)
    if rng.random() < 0.15 and add_adamw(graph, rng):
        outputs += graph.steps[-1].results
    return graph, outputs, gradients


def add_gradient(graph, rng, outputs):
    """A loss from the float outputs, with random weights; the values that its gradient is taken of."""
    parts = []
    for value in outputs:
        if value.dtype != "f32" or value.data.numel() == 0:
            continue
        weights = graph.argument("f32", normal(rng, value.shape))
        product = graph.emit("mul {0}, {1} : {t0}", [value, weights], ["f32"], torch.mul)
        if value.shape:
            axes = list(range(len(value.shape)))
            total = graph.emit(f"reduce_sum {{0}} axes {axes} : {{t0}} -> {{r0}}", [product], ["f32"],
                               lambda v, axes=axes: v.sum(axes, keepdim=True), lambda n, v, axes=axes: n(v).sum(axes, keepdim=True))
            product = graph.emit("reshape {0} : {t0} -> {r0}", [total], ["f32"], lambda v: v.reshape(()), ulps=0)
        parts.append(product)
    if not parts:
        return []
    loss = parts[0]
    for part in parts[1:]:
        loss = graph.emit("add {0}, {1} : {t0}", [loss, part], ["f32"], torch.add)
    candidates = [value for value in graph.values if floats(value) and value is not loss]
    return [(loss, rng.sample(candidates, min(len(candidates), rng.randint(1, 4))))]


def text_of(graph, outputs, gradients):
    """The .graph text, and the names of its results."""
    arguments = ",\n    ".join(f'%{v.name}: {v.type} {{tcc.name = "{v.name}"}}' for v in graph.arguments)
    lines, results = [step.text for step in graph.steps], [("%" + v.name, v.type, v) for v in outputs]
    for number, (loss, wrt) in enumerate(gradients):
        head = f"%d{number}" + (f":{len(wrt)}" if len(wrt) > 1 else "")
        names, types = ", ".join("%" + v.name for v in wrt), ", ".join(v.type for v in [loss] + wrt)
        lines.append(f"{head} = tcc.gradient %{loss.name} wrt {names} : {types}")
        results += [(f"%d{number}" + (f"#{i}" if len(wrt) > 1 else ""), v.type, v) for i, v in enumerate(wrt)]
    names = [f"r{i}" for i in range(len(results))]
    types = ", ".join(f'{result[1]} {{tcc.name = "{name}"}}' for name, result in zip(names, results))
    lines.append("func.return " + ", ".join(r[0] for r in results) + " : " + ", ".join(r[1] for r in results))
    body = "\n".join("  " + line for line in lines)
    return f"func.func @judged({arguments})\n    -> ({types}) {{\n{body}\n}}\n", names, [r[2] for r in results]


STORED = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "i32": "<i4", "i64": "<i8", "i1": "?"}


def run(tcc, folder, graph, text, names, options, dtypes):
    """Compiles and runs the graph; the results as fp64 or int64 tensors, or a message."""
    (folder / "judged.graph").write_text(text)
    command = [tcc, str(folder / "judged.graph"), "--run", *options]
    for value in graph.arguments:
        path = folder / f"{value.name}.npy"
        numpy.save(path, value.data.numpy().astype(graphs.NUMPY[value.dtype]))
        command.append(f"--input={value.name}={path}")
    command += [f"--output={name}={folder / name}.npy" for name in names]
    (folder / "command").write_text(" ".join(command) + "\n")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no end after {PATIENCE} s"
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.strip()[:800]}"
    found = []
    for name, dtype in zip(names, dtypes):
        data = numpy.load(folder / f"{name}.npy")
        if dtype == "bf16" and data.dtype.itemsize == 2:
            data = (data.view("<u2").astype("uint32") << 16).view("float32")
        found.append(torch.tensor(data.astype("float64" if is_float(dtype) else "bool" if dtype == "i1" else "int64")))
    return found


def compare(truth, trials, found, dtype):
    """None, or how the compiled result is wrong."""
    if tuple(found.shape) != tuple(truth.shape):
        return f"shape {tuple(found.shape)}, PyTorch has {tuple(truth.shape)}"
    if not is_float(dtype):
        agreed = torch.stack([trial == truth for trial in trials]).all(0)
        wrong = agreed & (found != truth)
        return None if not bool(wrong.any()) else describe(truth, found, wrong, None)
    settled = torch.stack([same_kind(trial, truth) for trial in trials]).all(0)
    unit, _, least = FLOATS[dtype]
    spread = torch.stack([(trial - truth).abs() for trial in trials]).nan_to_num(0, 0, 0).amax(0)
    allowed = SLACK * spread + 4 * unit * truth.abs().nan_to_num(0, 0, 0) + 512 * least
    distance = (found - truth).abs()
    wrong = settled & (~same_kind(found, truth) | (torch.isfinite(truth) & (distance > allowed)))
    return None if not bool(wrong.any()) else describe(truth, found, wrong, allowed)


def same_kind(a, b):
    """Both NaN, both the same infinity, or both finite."""
    return (torch.isnan(a) & torch.isnan(b)) | (a == b) | (torch.isfinite(a) & torch.isfinite(b))


def describe(truth, found, wrong, allowed):
    place = tuple(int(i) for i in wrong.nonzero()[0])
    text = f"{int(wrong.sum())} of {wrong.numel()} elements; at {list(place)} {found[place]!r}, PyTorch {truth[place]!r}"
    return text + (f", allowed {float(allowed[place]):.3g}" if allowed is not None else "")


def random_options(rng, marches, text):
    options = ["-O" + rng.choice("0123"), "--threads=" + rng.choice("12")]
    march = rng.choice(marches)
    if "f16>" in text.replace("bf16>", "") and march == "x86-64":
        march = None  # f16 needs a CPU with conversions
    return options + ([f"-march={march}"] if march else [])


def judge(seed, tcc, folder, marches):
    """Makes graph `seed` in `folder`, runs and compares it; returns findings."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    graph, outputs, gradients = special.graph_of(rng) if rng.random() < 0.25 else random_graph(rng)
    text, names, values = text_of(graph, outputs, gradients)
    options = random_options(rng, marches, text)
    found = run(tcc, folder, graph, text, names, options, [value.dtype for value in values])
    if isinstance(found, str):
        return [found]
    truth = evaluate(graph, outputs, gradients)
    generator = torch.Generator().manual_seed(seed)
    trials = [evaluate(graph, outputs, gradients, generator) for _ in range(TRIALS)]
    findings, lost = [], overflowed(graph)
    for i, (name, value) in enumerate(zip(names, values)):
        if i >= len(outputs) and lost:  # gradients of the same shape are compared elsewhere, others not at all
            if list(lost) != [value.shape]:
                continue
            for tensor in [truth[i], found[i], *(trial[i] for trial in trials)]:
                tensor[lost[value.shape]] = 0
        wrong = compare(truth[i], [trial[i] for trial in trials], found[i], value.dtype)
        if wrong:
            kind = "value" if i < len(outputs) else "gradient"
            findings.append(f"{name}, the {kind} of %{value.name}: {wrong}")
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tcc", default="build/bin/tcc")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--march", action="append", help="a -march to draw from; may be repeated (the machine's own)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{arguments.graphs} graphs from seed {arguments.seed}, PyTorch {torch.__version__}")
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.graphs):
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"judged-{seed}-"))
        findings = judge(seed, arguments.tcc, folder, arguments.march or [None])
        if not findings:
            shutil.rmtree(folder)
            continue
        failed += 1
        print(f"seed {seed}: {folder}", *findings, sep="\n  ", flush=True)
    print(f"{failed} of {arguments.graphs} graphs differ from PyTorch")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
