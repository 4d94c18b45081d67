#!/usr/bin/env python3
"""Random graphs, compiled and run by `tcc`, against PyTorch in fp64: values and gradients.

    judge.py --tcc build/bin/tcc --graphs 200 --seed 1      random graphs, and single ops on special values
    judge.py --tcc build/bin/tcc --graphs 1 --seed 4711     one of them again, with the options of the first time

A failing graph stays in a folder whose path is printed, with its inputs and the command line. Status 0: all agree; 1:
findings; 77: PyTorch is not installed.
"""

import argparse
import collections
import dataclasses
import pathlib
import random
import re
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

import control
import graph as graphs
import mistakes
import special
from graph import FLOATS, Graph, Rejected, evaluate, is_float, overflowed
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


def control_graph(rng):
    """A graph around ops with bodies, like random_graph's; loops that gradients go through have few turns."""
    derived = rng.random() < 0.6
    graph = Graph(turns=rng.choice([6, 6, 12] if derived else [6, 40, 80]), derived=derived)
    for _ in range(rng.randint(1, 4)):
        control.fresh(graph, rng)
    control.grow(graph, rng, rng.randint(0, 3))
    regions, tries, wanted = [], 0, rng.randint(1, 3)
    while len(regions) < wanted and tries < 30:
        tries += 1
        before = len(graph.values), len(graph.arguments), len(graph.steps)
        name = rng.choice(["cond", "cond", "repeat", "repeat", "repeat", "places", "custom", "custom",
                           "gradient_inside"])
        if control.attempt(graph, before, lambda: control.CONTROL[name](graph, rng)):
            regions.append(graph.steps[-1])
            control.grow(graph, rng, rng.randrange(2))
    computed = [value for step in graph.steps for value in step.results]
    outputs = computed[-3:] + [value for step in regions for value in step.results if rng.random() < 0.8]
    outputs = list({id(value): value for value in outputs}.values())
    return graph, outputs, add_gradient(graph, rng, outputs) if derived and rng.random() < 0.85 else []


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
    candidates = control.wrt_of(graph, [value for value in graph.values if floats(value) and value is not loss])
    return [(loss, rng.sample(candidates, min(len(candidates), rng.randint(1, 4))))]


def text_of(graph, outputs, gradients, states=()):
    """The .graph text, and the names of its results. `states` are pairs of an argument and the output that updates it."""
    kept = {argument.index: ", tcc.state" for argument, _ in states}
    arguments = ",\n    ".join(f'%{v.name}: {v.type} {{tcc.name = "{v.name}"{kept.get(v.index, "")}}}'
                               for v in graph.arguments)
    lines, results = [step.text for step in graph.steps], [("%" + v.name, v.type, v) for v in outputs]
    for number, (loss, wrt) in enumerate(gradients):
        head = f"%d{number}" + (f":{len(wrt)}" if len(wrt) > 1 else "")
        names, types = ", ".join("%" + v.name for v in wrt), ", ".join(v.type for v in [loss] + wrt)
        lines.append(f"{head} = tcc.gradient %{loss.name} wrt {names} : {types}")
        results += [(f"%d{number}" + (f"#{i}" if len(wrt) > 1 else ""), v.type, v) for i, v in enumerate(wrt)]
    names = [f"r{i}" for i in range(len(results))]
    updated = {outputs.index(output): argument.name for argument, output in states}
    names = [updated.get(i, name) for i, name in enumerate(names)]
    types = ", ".join(f'{result[1]} {{tcc.{"updates" if i in updated else "name"} = "{name}"}}'
                      for i, (name, result) in enumerate(zip(names, results)))
    lines.append("func.return " + ", ".join(r[0] for r in results) + " : " + ", ".join(r[1] for r in results))
    body = "\n".join("  " + line for line in lines)
    return f"func.func @judged({arguments})\n    -> ({types}) {{\n{body}\n}}\n", names, [r[2] for r in results]


def run(way, folder, graph, text, names, options, dtypes):
    """Compiles and runs the graph; the results as fp64 or int64 tensors, or a message."""
    file = folder / "judged.graph"
    file.write_text(text)
    if way.captured:  # what the program prints of the graph is the graph
        done = subprocess.run([way.tcc, str(file), "-emit=captured", "-o", str(folder / "captured.graph")],
                              capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            return f"-emit=captured: status {done.returncode}: {done.stderr.strip()[:800]}"
        file = folder / "captured.graph"
    command = [way.tcc, str(file), *options]
    for value in graph.arguments:
        path = folder / f"{value.name}.npy"
        numpy.save(path, value.data.numpy().astype(graphs.NUMPY[value.dtype]))
        command.append(f"--input={value.name}={path}")
    command += [f"--output={name}={folder / name}.out.npy" for name in names]
    (folder / "command").write_text(" ".join(command) + "\n")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no end after {PATIENCE} s"
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.strip()[:800]}"
    found = []
    for name, dtype in zip(names, dtypes):
        data = numpy.load(folder / f"{name}.out.npy")
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


@dataclasses.dataclass
class Way:
    """How a graph is run."""

    tcc: str
    marches: list
    kind: str
    target: list
    captured: bool = False
    loose: bool = False  # products of 16-bit numbers
    verified: bool = False
    interpreted: bool = False
    runs: int = 1

    def options(self, rng, text):
        options = ["-O" + rng.choice("0123"), "--threads=" + rng.choice("12")]
        march = rng.choice(self.marches)
        if "f16>" in text.replace("bf16>", "") and march == "x86-64":
            march = None  # f16 needs a CPU with conversions
        options += [f"-march={march}"] if march else []
        if "tcc.yield" not in text:
            return [*options, f"--run={self.runs}", *self.target]
        draw = rng.random()
        interpreted = "i64" not in text  # which the interpreter knows up to 2^53
        self.captured = rng.random() < 0.1
        if self.target:
            return [*options, f"--run={self.runs}", *self.target]
        if draw < 0.1 and self.runs == 1 and interpreted:
            self.interpreted = True
            return ["--run=reference"]
        self.loose, self.verified = draw > 0.92, 0.1 < draw < 0.25 and interpreted
        left = rng.choice(["match-attention", "simplify", "pad-shapes", "fuse-epilogues"])
        options += [f"-fno-{left}"] * (rng.random() < 0.15)
        return [*options, f"--run={self.runs}", *["--dtype=bf16"] * self.loose, *["-fverify-each"] * self.verified]


def make(rng, kind):
    """A graph, its outputs, gradients and states."""
    if kind == "control" or (kind == "any" and rng.random() < 0.3):
        return with_states(rng, *control_graph(rng))
    return *(special.graph_of(rng) if rng.random() < 0.25 else random_graph(rng)), []


def with_states(rng, graph, outputs, gradients):
    """Makes some arguments states that outputs of their types update."""
    states, free = [], list(outputs)
    for argument in graph.arguments if rng.random() < 0.5 else []:
        fits = [value for value in free if value.type == argument.type and (is_float(value.dtype) or argument.free)]
        if fits and rng.random() < 0.8:
            states.append((argument, rng.choice(fits)))
            free.remove(states[-1][1])
    return graph, outputs, gradients, states


def evaluate_runs(graph, outputs, gradients, states, runs, generator=None):
    """What `runs` steps give in the end."""
    kept = {}
    for number in range(runs):
        found = evaluate(graph, outputs, gradients, generator, kept)
        kept = {argument.index: found[outputs.index(output)] for argument, output in states}
    return found


def bounded(graph, outputs, gradients, states, runs):
    """Whether all steps stay among ordinary numbers, also in bodies on the way back."""
    try:
        found = evaluate_runs(graph, outputs, gradients, states, runs)
    except Rejected:
        return False
    return runs == 1 or all(bool((data.abs() < 1e6).all()) for data in found if data.is_floating_point())


def judge(seed, way, folder):
    """Makes graph `seed` in `folder`, runs and compares it; returns findings."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    graph, outputs, gradients, states = make(rng, way.kind)
    if not bounded(graph, outputs, gradients, states, 1):
        gradients = []
    text, names, values = text_of(graph, outputs, gradients, states)
    way.runs = rng.randint(1, 3) if states else 1
    if way.runs > 1 and not bounded(graph, outputs, gradients, states, way.runs):
        way.runs = 1
    options = way.options(rng, text)
    found = run(way, folder, graph, text, names, options, [value.dtype for value in values])
    if isinstance(found, str):
        return [found]
    truth = evaluate_runs(graph, outputs, gradients, states, way.runs)
    generator, exact = torch.Generator().manual_seed(seed), FLOATS["f32"]
    if way.loose:
        FLOATS["f32"] = (2.0**-10, *exact[1:])
    try:
        trials = [evaluate_runs(graph, outputs, gradients, states, way.runs, generator) for _ in range(TRIALS)]
        return findings_of(graph, outputs, names, values, truth, trials, found)
    finally:
        FLOATS["f32"] = exact


def findings_of(graph, outputs, names, values, truth, trials, found):
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


control.OPS.update(OPS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tcc", default="build/bin/tcc")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--march", action="append", help="a -march to draw from; may be repeated (the machine's own)")
    parser.add_argument("--kind", choices=["any", "control", "plain"], default="any", help="graphs with bodies, or without")
    parser.add_argument("--cuda", action="store_true", help="compile for CUDA and run there (or on tests/cuda_machine)")
    parser.add_argument("--mistakes", action="store_true", help="first the mistaken files, which must be refused")
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
    failed, counts = 0, collections.Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.graphs):
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"judged-{seed}-"))
        way = Way(arguments.tcc, arguments.march or [None], arguments.kind, ["--target=cuda"] * arguments.cuda)
        findings = judge(seed, way, folder)
        count(counts, (folder / "judged.graph").read_text(), way)
        if not findings:
            if not arguments.keep:
                shutil.rmtree(folder)
            continue
        failed += 1
        print(f"seed {seed}: {folder}", *findings, sep="\n  ", flush=True)
    print(", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    print(f"{failed} of {arguments.graphs} graphs differ from PyTorch")
    return 1 if failed or refused else 0


def count(counts, text, way):
    """What kinds of graphs and ways there were."""
    body = text.count("tcc.yield")
    for what, seen in [("with bodies", body), ("cond", "tcc.cond" in text), ("repeat", "tcc.repeat" in text),
                       ("custom", "tcc.custom" in text), ("gradient of custom", "} gradient (" in text),
                       ("gradient inside", re.search(r"v\d+(:\d+)? = tcc.gradient", text)), ("gradient", "%d0" in text),
                       ("nested", re.search(r"^\s{4,}tcc.yield", text, re.M)),
                       ("nested deeper", re.search(r"^\s{6,}tcc.yield", text, re.M)), ("states", "tcc.state" in text),
                       ("several runs", way.runs > 1), ("captured", way.captured), ("16-bit products", way.loose),
                       ("verified", way.verified), ("interpreted", way.interpreted)]:
        counts[what] += bool(seen)


if __name__ == "__main__":
    sys.exit(main())
