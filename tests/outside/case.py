"""What is judged: a graph, what it returns, which of its arguments are states, and what of it must be the same bits."""

from dataclasses import dataclass, field

import torch

import control
from graph import Graph
from language import floats, normal


@dataclass
class Case:
    graph: Graph
    outputs: list
    gradients: list = field(default_factory=list)  # pairs of a loss and what it is derived by
    states: list = field(default_factory=list)  # pairs of an argument and the output that updates it
    runs: int = 1
    equal: list = field(default_factory=list)  # pairs of outputs that have the same bits in each program
    fixed: list = field(default_factory=list)  # pairs of an output and the number that all its elements are


def add_gradient(graph, rng, outputs, inner=True):
    """A loss from the float outputs, with random weights; the values, inner ones too, that its gradient is taken of."""
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
    candidates = candidates if inner else [value for value in graph.arguments if floats(value)]
    return [(loss, rng.sample(candidates, min(len(candidates), rng.randint(1, 4))))]


def text_of(case):
    """The .graph text, the names of its results, and the values that they are or are derived by."""
    graph, gradients = case.graph, case.gradients
    kept = {argument.index: ", tcc.state" for argument, _ in case.states}
    arguments = ",\n    ".join(f'%{v.name}: {v.type} {{tcc.name = "{v.name}"{kept.get(v.index, "")}}}'
                               for v in graph.arguments)
    lines, results = [step.text for step in graph.steps], [("%" + v.name, v.type, v) for v in case.outputs]
    for number, (loss, wrt) in enumerate(gradients):
        head = f"%d{number}" + (f":{len(wrt)}" if len(wrt) > 1 else "")
        names, types = ", ".join("%" + v.name for v in wrt), ", ".join(v.type for v in [loss] + wrt)
        lines.append(f"{head} = tcc.gradient %{loss.name} wrt {names} : {types}")
        results += [(f"%d{number}" + (f"#{i}" if len(wrt) > 1 else ""), v.type, v) for i, v in enumerate(wrt)]
    updated = {place(case, output): argument.name for argument, output in case.states}
    names = [updated.get(i, f"r{i}") for i in range(len(results))]
    types = ", ".join(f'{result[1]} {{tcc.{"updates" if i in updated else "name"} = "{name}"}}'
                      for i, (name, result) in enumerate(zip(names, results)))
    lines.append("func.return " + ", ".join(r[0] for r in results) + " : " + ", ".join(r[1] for r in results))
    body = "\n".join("  " + line for line in lines)
    return f"func.func @judged({arguments})\n    -> ({types}) {{\n{body}\n}}\n", names, [r[2] for r in results]


def place(case, output):
    """Where `output` stands among the results."""
    return next(i for i, value in enumerate(case.outputs) if value is output)
