"""Gradients to third order: of each function alone, and of small networks, by directions that differ at each order."""

import build
import torch
from case import Case
from graph import Graph
from language import UNARY, normal

FUNCTIONS = ["exp", "log", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf", "gelu", "silu", "sigmoid", "softplus", "neg", "relu",
             "abs"]
SHAPES = [(), (1,), (5,), (17,), (2, 3), (3, 7), (8, 16), (1, 33), (5, 1)]
POSITIVE = ["log", "sqrt", "rsqrt"]
CORNERED = ["relu", "abs", "neg"]


def third_order(rng):
    graph = Graph(shaken=1.0)
    parts, wrt = rng.choice([function, function, function, quotient, rows, network, products, attention])(graph, rng)
    outputs, order = [], rng.choice([2, 3, 3])
    for turn in range(order):
        last = turn == order - 1
        loss = joined(graph, rng, parts)
        if last:
            return Case(graph, outputs, [(loss, wrt)])
        parts = build.gradient(graph, loss, wrt)
        outputs += parts


def joined(graph, rng, parts):
    """A scalar: the parts in random directions, at times squared, so that lower orders count too."""
    loss = None
    for part in parts:
        if rng.random() < 0.3:
            part = build.binary(graph, "mul", part, part)
        term = build.total(graph, build.binary(graph, "mul", part, graph.argument("f32", normal(rng, part.shape))))
        loss = term if loss is None else build.binary(graph, "add", loss, term)
    return loss


def argument(graph, rng, shape, positive=False):
    data = normal(rng, shape, rng.choice([0.5, 1.0, 2.0]))
    if not positive and rng.random() < 0.3:
        data = torch.where(data > 0.3, torch.zeros_like(data), data)  # slopes at 0 itself
    return graph.argument("f32", (data.abs() + 0.25).float().double() if positive else data)


def applied(graph, name, x):
    function, _, ulps = (softplus, None, 4) if name == "softplus" else UNARY[name]

    def noisy(n, v):  # slopes of higher order cancel at 0, where a relative move is none
        return function(n(v + 1) - 1)

    return graph.emit(name + " {0} : {t0}", [x], ["f32"], function, noisy=None if name in CORNERED else noisy, ulps=ulps)


def softplus(x):
    return torch.logaddexp(x, torch.zeros_like(x))


def function(graph, rng):
    """One function, or one of another."""
    name = rng.choice(FUNCTIONS)
    x = argument(graph, rng, rng.choice(SHAPES), name in POSITIVE)
    y = applied(graph, name, x)
    if rng.random() < 0.4:
        y = applied(graph, rng.choice(["tanh", "sin", "sigmoid", "gelu", "silu", "erf"]), y)
    return [y], [x]


def quotient(graph, rng):
    shape = rng.choice(SHAPES)
    x, y = argument(graph, rng, shape), argument(graph, rng, shape, True)
    z = build.binary(graph, rng.choice(["div", "mul", "div"]), x, y)
    if rng.random() < 0.4:
        z = build.binary(graph, "maximum", z, build.unary(graph, "sin", y))
    return [z], [x, y]


def rows(graph, rng):
    """Softmax, log-sum-exp, variance: functions of a row in primitives."""
    x = argument(graph, rng, rng.choice([(1, 3), (3, 7), (5, 16), (2, 33)]))
    kind, shape = rng.choice(["softmax", "logsumexp", "variance", "norm", "max"]), x.shape
    if kind == "max":
        return [build.reduce(graph, "max", build.unary(graph, "sin", x), [1])], [x]
    if kind in ("variance", "norm"):
        mean = build.reduce(graph, "mean", x, [1])
        centred = build.binary(graph, "sub", x, build.broadcast(graph, mean, shape))
        variance = build.shifted(graph, build.reduce(graph, "mean", build.binary(graph, "mul", centred, centred), [1]), 0.1)
        if kind == "variance":
            return [build.unary(graph, rng.choice(["sqrt", "log"]), variance)], [x]
        return [build.binary(graph, "mul", centred, build.broadcast(graph, build.unary(graph, "rsqrt", variance), shape))], [x]
    e = build.unary(graph, "exp", x)
    total = build.reduce(graph, "sum", e, [1])
    if kind == "logsumexp":
        return [build.unary(graph, "log", total)], [x]
    return [build.binary(graph, "div", e, build.broadcast(graph, total, shape))], [x]


def network(graph, rng):
    """Two layers with a bias."""
    m, k, n = rng.choice([(2, 3, 4), (5, 7, 3), (3, 16, 8)])
    x, w = argument(graph, rng, (m, k)), graph.argument("f32", normal(rng, (k, n), 0.5))
    b = graph.argument("f32", normal(rng, (n,)))
    y = build.binary(graph, "add", build.matmul(graph, x, w), build.broadcast(graph, b, (m, n)))
    y = applied(graph, rng.choice(["tanh", "gelu", "silu", "sigmoid", "sin", "softplus"]), y)
    if rng.random() < 0.5:
        y = build.matmul(graph, y, graph.argument("f32", normal(rng, (n, 2))))
    return [y], rng.sample([x, w, b], rng.randint(1, 3))


def products(graph, rng):
    """Products of one value with itself, through views."""
    x = argument(graph, rng, rng.choice([(3, 3), (4, 7), (8, 2)]))
    y = build.matmul(graph, x, x, turn_b=True)
    y = build.unary(graph, rng.choice(["sin", "tanh"]), build.scaled(graph, y, 0.3))
    return [build.matmul(graph, y, build.transpose(graph, build.transpose(graph, x, [1, 0]), [1, 0]))], [x]


def attention(graph, rng):
    """Attention by hand, of a few rows."""
    rows, size = rng.choice([2, 5, 8]), rng.choice([2, 4])
    q, k, v = (argument(graph, rng, (rows, size)) for _ in range(3))
    s = build.scaled(graph, build.matmul(graph, q, k, turn_b=True), 0.5)
    e = build.unary(graph, "exp", s)
    p = build.binary(graph, "div", e, build.broadcast(graph, build.reduce(graph, "sum", e, [1]), s.shape))
    return [build.matmul(graph, p, v)], rng.sample([q, k, v], rng.randint(1, 3))
