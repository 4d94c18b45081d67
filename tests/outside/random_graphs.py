"""Graphs of random ops of the language, of any kind and around ops with bodies."""

import numpy
import torch

import control
from case import Case, add_gradient
from graph import Graph, is_float
from language import normal
from language_more import OPS, add_adamw

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
    return Case(graph, outputs, gradients)


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
    gradients = add_gradient(graph, rng, outputs) if derived and rng.random() < 0.85 else []
    return with_states(rng, Case(graph, outputs, gradients))


def with_states(rng, case):
    """Makes some arguments states that outputs of their types update, in one to three runs."""
    free = list(case.outputs)
    for argument in case.graph.arguments if rng.random() < 0.5 else []:
        fits = [value for value in free if value.type == argument.type and (is_float(value.dtype) or argument.free)]
        if fits and rng.random() < 0.8:
            case.states.append((argument, rng.choice(fits)))
            free.remove(case.states[-1][1])
    case.runs = rng.randint(1, 3) if case.states else 1
    return case


control.OPS.update(OPS)
