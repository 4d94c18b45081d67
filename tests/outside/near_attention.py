"""Attention as programs write it, and what is nearly attention: each differs in one place, and must keep its own meaning."""

import math

import build
import torch
from case import Case, add_gradient
from graph import Graph
from language import normal

MISSES = ["none", "none", "no scale", "negative scale", "scale of q", "scale of k", "scale after mask", "divided", "scale tensor",
          "strict mask", "lower mask", "shifted mask", "mask of numbers", "soft mask", "column mask", "row mask", "mask of zeros",
          "transposed scores", "softmax over queries", "softmax over heads", "no maximum", "row maximum of all", "logsumexp",
          "squared sum", "division after", "second user of scores", "second user of probabilities", "probabilities twice",
          "detached maximum", "bias", "tanh cap", "gate", "v is k", "q is k", "all one", "v transposed", "dropped", "relu"]


def near_attention(rng):
    graph, miss = Graph(), rng.choice(MISSES)
    batch, heads = rng.choice([1, 2]), rng.choice([1, 2, 4])
    rows, size = rng.choice([1, 3, 8, 16, 17, 33]), rng.choice([1, 4, 8, 16])
    square = "mask" in miss or miss in ("v transposed", "transposed scores", "q is k", "all one")
    keys = rows if rng.random() < 0.7 or square else rng.choice([1, 5, 19])
    lead = rng.choice([(batch, heads), (batch, heads), (batch * heads,), ()])
    wanted = {"v is k": (0, 1, 1), "q is k": (0, 0, 1), "all one": (0, 0, 0)}.get(miss, (0, 1, 2))
    shapes = [(*lead, rows, size), (*lead, keys, size), (*lead, keys, size)]
    groups = len(lead) == 2 and heads > 1 and rng.random() < 0.3 and wanted == (0, 1, 2)
    made = []
    for number, shape in enumerate(shapes):
        made.append(grouped(graph, rng, shape) if groups and number else laid_out(graph, rng, shape))
    q, k, v = (made[i] for i in wanted)
    masked = "mask" in miss or rng.random() < 0.3 and rows == keys
    more = []
    y = write(graph, rng, q, k, v, miss, masked, more)
    if len(lead) == 2 and rng.random() < 0.4:  # heads side by side again
        turned = build.transpose(graph, y, [0, 2, 1, 3])
        y = build.reshape(graph, turned, (lead[0], turned.shape[1], turned.shape[2] * turned.shape[3]))
    outputs = [y, *more]
    inner = rng.random() < 0.2  # a gradient of scores alone keeps them apart
    return Case(graph, outputs, add_gradient(graph, rng, outputs, inner) if rng.random() < 0.8 else [])


def laid_out(graph, rng, shape):
    """A value of this shape: an argument, or the transposed parts of a projection."""
    if len(shape) != 4 or rng.random() < 0.5:
        return graph.argument("f32", normal(rng, shape))
    batch, heads, rows, size = shape
    x = graph.argument("f32", normal(rng, (batch, rows, heads * size)))
    return build.transpose(graph, build.reshape(graph, x, (batch, rows, heads, size)), [0, 2, 1, 3])


def grouped(graph, rng, shape):
    """Keys or values of fewer heads, each read by several heads of queries."""
    batch, heads, rows, size = shape
    own = rng.choice([g for g in (1, 2) if heads % g == 0])
    x = graph.argument("f32", normal(rng, (batch, own, 1, rows, size)))
    return build.reshape(graph, build.broadcast(graph, x, (batch, own, heads // own, rows, size)), shape)


def write(graph, rng, q, k, v, miss, masked, more):
    scale = {"no scale": 1.0, "negative scale": -0.5}.get(miss, rng.choice([1 / math.sqrt(q.shape[-1]), 0.5, 0.125]))
    q = build.scaled(graph, q, scale) if miss == "scale of q" else q
    k = build.scaled(graph, k, scale) if miss == "scale of k" else k
    s = scores_of(graph, rng, q, k, miss)
    if miss == "divided":
        s = build.binary(graph, "div", s, build.number(graph, 1 / scale, s.shape))
    elif miss == "scale tensor":
        s = build.binary(graph, "mul", s, build.broadcast(graph, graph.argument("f32", normal(rng, (1,) * len(s.shape))), s.shape))
    elif miss not in ("no scale", "scale of q", "scale of k", "scale after mask"):
        s = build.scaled(graph, s, scale)
    if miss == "bias":
        s = build.binary(graph, "add", s, build.broadcast(graph, graph.argument("f32", normal(rng, s.shape[-2:])), s.shape))
    if miss == "tanh cap":
        s = build.scaled(graph, build.unary(graph, "tanh", build.scaled(graph, s, 0.5)), 2.0)
    if masked:
        s = hidden(graph, rng, s, miss)
    if miss == "scale after mask":
        s = build.scaled(graph, s, scale)
    if miss == "second user of scores":
        more.append(build.reduce(graph, "max", s, [len(s.shape) - 1]) if masked else s)
    if miss == "division after":
        last = [len(s.shape) - 1]
        top = build.broadcast(graph, build.reduce(graph, "max", s, last, shift=True), s.shape)
        e = build.unary(graph, "exp", build.binary(graph, "sub", s, top))
        y = build.matmul(graph, e, v)
        return build.binary(graph, "div", y, build.broadcast(graph, build.reduce(graph, "sum", e, last), y.shape))
    p = probabilities(graph, rng, s, miss)
    if miss == "second user of probabilities":
        more.append(rng.choice([p, build.reduce(graph, "sum", p, [len(p.shape) - 2])]))
    if miss == "gate":
        p = build.binary(graph, "mul", p, build.unary(graph, "sigmoid", graph.argument("f32", normal(rng, p.shape))))
    if miss == "probabilities twice":
        p = build.softmax(graph, p)
    if miss == "dropped":
        low, none = build.number(graph, 0.05, p.shape), build.number(graph, 0.0, p.shape)
        p = build.select(graph, build.compare(graph, "gt", p, low), p, none)
    if miss == "v transposed" and v.shape[-1] == p.shape[-1]:
        return build.matmul(graph, p, v, turn_b=True)
    y = build.matmul(graph, p, v)
    return y


def scores_of(graph, rng, q, k, miss):
    if miss == "transposed scores" and q.shape == k.shape:
        return build.matmul(graph, k, q, turn_b=True)
    if rng.random() < 0.5:
        return build.matmul(graph, q, k, turn_b=True)
    rank = len(k.shape)
    return build.matmul(graph, q, build.transpose(graph, k, [*range(rank - 2), rank - 1, rank - 2]))


def hidden(graph, rng, s, miss):
    """Scores with those hidden that a mask does not show: causal, or not quite."""
    shape, rank = s.shape, len(s.shape)
    row, column = (graph.emit(f"iota dim {rank - 2 + d} -> {{r0}}", [], ["i32"], lambda d=d: line(shape, rank - 2 + d), ulps=0)
                   for d in (0, 1))
    name = {"strict mask": "gt", "lower mask": "le"}.get(miss, "ge")
    if miss == "shifted mask":
        row = build.binary(graph, "add", row, build.number(graph, rng.choice([-1, 1, 3]), shape, "i32"))
    if miss == "column mask":
        row = build.number(graph, rng.choice([0, 1, 4]), shape, "i32")
    if miss == "row mask":
        column = build.number(graph, rng.choice([0, 1, 4]), shape, "i32")
    visible = build.compare(graph, name, row, column)
    if miss == "soft mask":
        return build.binary(graph, "sub", s, build.scaled(graph, build.cast(graph, build.binary(graph, "maximum",
                            build.binary(graph, "sub", column, row), build.number(graph, 0, shape, "i32")), "f32"), 0.5))
    low = {"mask of numbers": -2.0, "mask of zeros": 0.0}.get(miss, rng.choice([-1e9, -1e4, -3e38]))
    return build.select(graph, visible, s, build.number(graph, low, shape))


def line(shape, dim):
    places = torch.arange(shape[dim]).reshape([-1 if i == dim else 1 for i in range(len(shape))])
    return places.expand(shape).contiguous()


def probabilities(graph, rng, s, miss):
    shape, last = s.shape, len(s.shape) - 1
    if miss == "relu":
        return build.unary(graph, "relu", build.unary(graph, "tanh", s))
    if miss == "softmax over queries" or miss == "softmax over heads":
        last = last - 1 if miss == "softmax over queries" else 0
    elif rng.random() < 0.4 and miss not in ("no maximum", "row maximum of all", "logsumexp", "squared sum", "detached maximum"):
        return build.softmax(graph, s)
    top = build.reduce(graph, "max", s, list(range(last + 1)) if miss == "row maximum of all" else [last],
                       shift=miss not in ("row maximum of all", "squared sum"))
    if miss == "detached maximum":
        top = graph.emit("detach {0} : {t0}", [top], ["f32"], torch.Tensor.detach, ulps=0)
    rest = s if miss == "no maximum" and float(s.data.abs().max()) < 60 else \
        build.binary(graph, "sub", s, build.broadcast(graph, top, shape))
    e = build.unary(graph, "exp", rest)
    total = build.reduce(graph, "sum", e, [last])
    if miss == "squared sum":
        total = build.reduce(graph, "sum", build.binary(graph, "mul", e, e), [last])
    if miss == "row maximum of all":
        total = build.shifted(graph, total, 0.25)
    if miss == "logsumexp":
        log = build.unary(graph, "log", total)
        return build.unary(graph, "exp", build.binary(graph, "sub", rest, build.broadcast(graph, log, shape)))
    if rng.random() < 0.3:
        one = build.binary(graph, "div", build.number(graph, 1.0, total.shape), total)
        return build.binary(graph, "mul", e, build.broadcast(graph, one, shape))
    return build.binary(graph, "div", e, build.broadcast(graph, total, shape))
