"""Long sums and long ways: reductions of thousands, tall and wide; products of long K; chains of a hundred ops."""

import build
import torch
from case import Case, add_gradient
from graph import Graph
from language import normal
from language_more import sum_ulps

LONG = [1023, 1024, 1025, 2048, 3000, 4095, 4096, 4097, 5003, 8191, 8200]
VERY_LONG = [12289, 16384, 20011, 50021]


def long_sums(rng):
    return rng.choice([rows, columns, whole, inner, deep, deep, stretched, norms])(rng)


def cases_of(graph, rng, outputs, share=0.6):
    return Case(graph, outputs, add_gradient(graph, rng, outputs) if rng.random() < share else [])


def source(graph, rng, shape):
    """Values of one sign, whose sums grow, or of both, whose sums cancel; at times computed."""
    x = graph.argument("f32", normal(rng, shape).abs() if rng.random() < 0.4 else normal(rng, shape))
    kind = rng.random()
    if kind < 0.3:
        return build.unary(graph, rng.choice(["tanh", "sin", "gelu", "sigmoid"]), x)
    if kind < 0.5:
        return build.binary(graph, "mul", x, graph.argument("f32", normal(rng, shape)))
    return x


def rows(rng):
    """Few long rows."""
    graph = Graph()
    x = source(graph, rng, (rng.choice([1, 2, 3, 7]), rng.choice(LONG)))
    outputs = [build.reduce(graph, name, x, [1]) for name in rng.sample(["sum", "mean", "max"], rng.randint(1, 3))]
    if rng.random() < 0.5:
        y = build.binary(graph, "sub", x, build.broadcast(graph, build.reduce(graph, "mean", x, [1]), x.shape))
        outputs.append(build.reduce(graph, "mean", build.binary(graph, "mul", y, y), [1]))
    return cases_of(graph, rng, outputs)


def columns(rng):
    """Few columns of many rows, or many slices."""
    graph, count = Graph(), rng.choice(LONG)
    shape, axes = rng.choice([((count, 3), [0]), ((count, 1), [0]), ((2, count, 2), [1]), ((count, 2, 2), [0, 2]),
                              ((count, 5), [0]), ((3, count, 1), [0, 1])])
    x = source(graph, rng, shape)
    outputs = [build.reduce(graph, name, x, axes) for name in rng.sample(["sum", "mean", "max"], rng.randint(1, 3))]
    return cases_of(graph, rng, outputs)


def whole(rng):
    """The sum of everything, perhaps of a square, and what is divided by it."""
    graph, count = Graph(), rng.choice(LONG + VERY_LONG)
    shape = rng.choice([(count,), (1, count), (count // 64, 64)])
    x = source(graph, rng, shape)
    s = build.total(graph, build.binary(graph, "mul", x, x))
    norm = build.unary(graph, "rsqrt", build.shifted(graph, s, 1.0))
    y = build.binary(graph, "mul", x, build.broadcast(graph, norm, shape))
    return cases_of(graph, rng, [build.total(graph, x), s, y])


def inner(rng):
    """Products of a long contraction, as a layer and as the gradient of one has them."""
    graph, k = Graph(), rng.choice(LONG[:7])
    m, n = rng.choice([(1, 1), (1, 5), (3, 2), (2, 7), (5, 3)])
    turn_a, turn_b = rng.random() < 0.5, rng.random() < 0.5
    a, b = source(graph, rng, (k, m) if turn_a else (m, k)), source(graph, rng, (n, k) if turn_b else (k, n))
    y = build.matmul(graph, a, b, turn_a, turn_b)
    bias = graph.argument("f32", normal(rng, (n,)))
    outputs = [y] + [build.binary(graph, "add", y, build.broadcast(graph, bias, y.shape))] * (rng.random() < 0.6)
    return cases_of(graph, rng, outputs)


def deep(rng):
    """A hundred ops in a row: residual steps, each with a row reduction at times."""
    graph, shape = Graph(), rng.choice([(3, 5), (7, 33), (16, 16), (2, 129)])
    x = graph.argument("f32", normal(rng, shape))
    other, kept = graph.argument("f32", normal(rng, shape)), []
    weight = graph.argument("f32", normal(rng, (shape[1], shape[1]), 0.3))
    for turn in range(rng.randint(12, 40)):
        kind = rng.random()
        if kind < 0.4:
            step = build.unary(graph, rng.choice(["tanh", "sin", "sigmoid", "relu", "erf"]), x)
        elif kind < 0.6:
            step = build.binary(graph, "mul", x, build.unary(graph, "tanh", other))
        elif kind < 0.75:
            step = build.broadcast(graph, build.reduce(graph, rng.choice(["mean", "max"]), x, [rng.randrange(2)]), shape)
        elif kind < 0.85:
            step = build.unary(graph, "tanh", build.matmul(graph, x, weight))
        else:
            step = build.softmax(graph, x)
        x = build.binary(graph, rng.choice(["add", "sub"]), build.scaled(graph, x, 0.8), build.scaled(graph, step, 0.5))
        kept += [step, x]
    return cases_of(graph, rng, [x, *rng.sample(kept, 3)], 0.8)


def stretched(rng):
    """A small value stretched over many rows: its gradient is the long sum."""
    graph, count = Graph(), rng.choice(LONG)
    x = graph.argument("f32", normal(rng, rng.choice([(1, 1), (1, 3), (3,), ()])))
    y = source(graph, rng, (count, 3))
    z = build.binary(graph, rng.choice(["mul", "add", "sub"]), build.broadcast(graph, x, y.shape), y)
    return cases_of(graph, rng, [build.unary(graph, rng.choice(["tanh", "sin", "neg"]), z)], 1.0)


def norms(rng):
    """Softmax, cross entropy and layer norms of long rows."""
    graph, shape = Graph(), (rng.choice([1, 2, 3]), rng.choice(LONG[:8]))
    x = source(graph, rng, shape)
    if rng.random() < 0.3:
        y = build.softmax(graph, x)
        return cases_of(graph, rng, [y, build.reduce(graph, "max", y, [1])])
    if rng.random() < 0.5:
        targets = graph.argument("i32", torch.tensor([rng.randrange(shape[1]) for _ in range(shape[0])]))
        return cases_of(graph, rng, [cross_entropy(graph, x, targets)], 1.0)
    mean = build.reduce(graph, "mean", x, [1])
    centred = build.binary(graph, "sub", x, build.broadcast(graph, mean, shape))
    variance = build.reduce(graph, "mean", build.binary(graph, "mul", centred, centred), [1])
    deviation = build.unary(graph, "rsqrt", build.shifted(graph, variance, 1e-5))
    y = build.binary(graph, "mul", centred, build.broadcast(graph, deviation, shape))
    return cases_of(graph, rng, [y, mean, variance], 1.0)


def cross_entropy(graph, x, targets):
    def steps(n, v, t):
        rest = n(v - v.amax(-1, keepdim=True).detach())
        losses = n(torch.log(n(torch.exp(rest).sum(-1), sum_ulps(v.shape[-1]))))
        return n(n(losses - torch.gather(rest, -1, t.unsqueeze(-1)).squeeze(-1)).mean())

    return graph.emit("cross_entropy {0}, {1} : {t0}, {t1} -> {r0}", [x, targets], ["f32"], torch.nn.functional.cross_entropy,
                      noisy=steps, ulps=2)
