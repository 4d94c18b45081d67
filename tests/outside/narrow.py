"""16-bit floats: chains that round after each op, products and sums that round once, layers and their gradients."""

import build
from case import Case, add_gradient
from graph import Graph
from language import normal

SHAPES = [(3, 5), (7, 33), (16, 16), (31, 17), (2, 129), (2, 5, 8), (1, 64), (64, 3)]
ONE = ["tanh", "sin", "cos", "sigmoid", "gelu", "silu", "erf", "neg", "abs", "relu"]


def sixteen_bits(rng):
    graph, shape, dtype = Graph(), rng.choice(SHAPES), rng.choice(["bf16", "f16"])
    pool = [argument(graph, rng, shape, dtype) for _ in range(rng.randint(1, 3))]
    outputs = []
    for _ in range(rng.randint(2, 7)):
        made = rng.choice([one, two, two, reduced, product, shares, mixed_types])(graph, rng, rng.choice(pool), pool)
        if float(made.data.abs().max()) > 30:
            made = build.unary(graph, "tanh", made)
        if made.shape == shape and made.dtype == dtype:
            pool.append(made)
        outputs.append(made)
    outputs = list({id(value): value for value in outputs[-4:]}.values())
    if rng.random() < 0.6:
        wide = [build.cast(graph, value, "f32") for value in outputs if value.dtype != "f32"][-2:]
        return Case(graph, outputs, add_gradient(graph, rng, wide + [v for v in outputs if v.dtype == "f32"]))
    return Case(graph, outputs)


def argument(graph, rng, shape, dtype):
    return build.cast(graph, graph.argument("f32", normal(rng, shape)), dtype)


def one(graph, rng, x, pool):
    return build.unary(graph, rng.choice(ONE), x)


def two(graph, rng, x, pool):
    y = rng.choice(pool)
    if rng.random() < 0.2:
        y = build.shifted(graph, build.unary(graph, "abs", y), 0.5)
        return build.binary(graph, "div", x, y)
    return build.binary(graph, rng.choice(["add", "sub", "mul", "maximum", "minimum"]), x, y)


def reduced(graph, rng, x, pool):
    axes = sorted(rng.sample(range(len(x.shape)), rng.randint(1, len(x.shape))))
    value = build.reduce(graph, rng.choice(["sum", "mean", "max"]), x, axes)
    return build.binary(graph, "sub", x, build.broadcast(graph, value, x.shape)) if rng.random() < 0.5 else value


def product(graph, rng, x, pool):
    """x times a matrix of its type; at times a bias, and back to x's shape."""
    n = rng.choice([x.shape[-1], x.shape[-1], 1, 8])
    turned = rng.random() < 0.5
    w = argument(graph, rng, (n, x.shape[-1]) if turned else (x.shape[-1], n), x.dtype)
    y = build.matmul(graph, x, w, turn_b=turned)
    if rng.random() < 0.5:
        y = build.binary(graph, "add", y, build.broadcast(graph, argument(graph, rng, (n,), x.dtype), y.shape))
    return y


def shares(graph, rng, x, pool):
    return build.softmax(graph, x)


def mixed_types(graph, rng, x, pool):
    """A way through f32, or through the other 16 bits."""
    y = build.cast(graph, x, rng.choice(["f32", "f16" if x.dtype == "bf16" else "bf16"]))
    y = build.unary(graph, rng.choice(ONE), y)
    return build.cast(graph, y, x.dtype) if rng.random() < 0.7 else y
