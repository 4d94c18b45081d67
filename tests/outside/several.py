"""Kernels with several results: one pool of values of a shape, read along rows, columns and whole, and most of it returned."""

import build
from case import Case, add_gradient
from graph import Graph
from language import normal

SHAPES = [(3, 5), (7, 33), (1, 64), (16, 16), (31, 17), (129, 9), (5, 257), (64, 40), (2, 3, 7), (4, 9, 16), (2, 17, 5), (3, 1, 31)]
BOUND = ["tanh", "sin", "cos", "sigmoid", "erf", "neg", "abs", "relu", "gelu", "silu"]


def several_results(rng):
    graph, shape = Graph(), rng.choice(SHAPES)
    pool = [graph.argument("f32", normal(rng, shape)) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.6:
        row = graph.argument("f32", normal(rng, shape[-1:]))
        pool.append(build.broadcast(graph, row, shape))
    if rng.random() < 0.5:
        column = graph.argument("f32", normal(rng, (*shape[:-1], 1)))
        pool.append(build.broadcast(graph, column, shape))
    grow(graph, rng, pool, rng.randint(2, 6))
    outputs = []
    for _ in range(rng.randint(2, 5)):
        outputs += reduced(graph, rng, pool, shape)
    grow(graph, rng, pool, rng.randint(0, 4))
    outputs += rng.sample(pool, min(len(pool), rng.randint(1, 4)))
    outputs += [other_type(graph, rng, pool) for _ in range(rng.randint(0, 3))]
    outputs = [outputs[i] for i in sorted({id(v): i for i, v in enumerate(outputs)}.values())]
    return Case(graph, outputs, add_gradient(graph, rng, outputs) if rng.random() < 0.7 else [])


def grow(graph, rng, pool, count):
    """Elementwise ops on the pool, whose results join it and stay small."""
    for _ in range(count):
        x, y = rng.choice(pool), rng.choice(pool)
        kind = rng.random()
        if kind < 0.4:
            pool.append(build.unary(graph, rng.choice(BOUND), x))
        elif kind < 0.8:
            value = build.binary(graph, rng.choice(["add", "sub", "mul", "maximum", "minimum"]), x, y)
            pool.append(value if float(value.data.abs().max()) < 50 else build.unary(graph, "tanh", value))
        elif kind < 0.9:
            square = build.shifted(graph, build.binary(graph, "mul", y, y), 0.5)
            pool.append(build.binary(graph, "div", x, square))
        else:
            pool.append(build.select(graph, build.compare(graph, rng.choice(["lt", "ge"]), x, y), x, build.scaled(graph, y, 0.5)))


def reduced(graph, rng, pool, shape):
    """A reduction of one of the pool; at times it returns to the pool, stretched."""
    rank = len(shape)
    axes = rng.choice([[rank - 1], [rank - 1], list(range(rank - 1)), list(range(rank)), [0]])
    value = build.reduce(graph, rng.choice(["sum", "mean", "max"]), rng.choice(pool), axes)
    if rng.random() < 0.6:
        partner = rng.choice(pool)
        pool.append(build.binary(graph, rng.choice(["sub", "add", "mul"]), partner, build.broadcast(graph, value, shape)))
        if float(pool[-1].data.abs().max()) > 50:
            pool[-1] = build.unary(graph, "tanh", pool[-1])
    return [value]


def other_type(graph, rng, pool):
    """A result in another element type, or in another place."""
    x, y = rng.choice(pool), rng.choice(pool)
    kind = rng.choice(["compare", "bf16", "f16", "transpose", "reshape", "slice"])
    if kind == "compare":
        return build.compare(graph, rng.choice(["gt", "le", "eq"]), x, y)
    if kind in ("bf16", "f16"):
        return build.cast(graph, x, kind)
    if kind == "transpose":
        return build.transpose(graph, x, rng.sample(range(len(x.shape)), len(x.shape)))
    if kind == "reshape":
        return build.reshape(graph, x, (x.data.numel(),))
    starts = [rng.randrange(size) for size in x.shape]
    return build.slices(graph, x, starts, [rng.randint(a + 1, size) for a, size in zip(starts, x.shape)])
