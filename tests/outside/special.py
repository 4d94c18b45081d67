"""Single ops on special values: zeros of both signs, subnormals, huge numbers, infinities, NaN; values and gradients."""

import numpy
import torch
import torch.nn.functional as F

from graph import Graph
from language import BINARY, COMPARE, NOISY, UNARY, normal

VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e-40, -1e-40, 1.4e-45, 1.17549435e-38, -1.17549435e-38, 1e-30, 1e-10,
          -1e-10, 1e-4, -3e-4, 3.0, -3.0, 8.0, -8.0, 10.0, -10.0, 15.0, -15.0, 18.0, -18.0, 40.0, -40.0, 87.0, -87.0, 88.7,
          -88.7, 89.0, -89.0, 103.0, -103.0, 104.5, -104.5, 1e3, -1e3, 1e5, 123456.789, -1e7, 1e10, 1e18, -1e18, 1e25, -1e25,
          1e30, 3e38, -3e38, 3.4028234e38, -3.4028234e38, float("inf"), float("-inf"), float("nan")]


def draw(rng, count, finite=False):
    numbers = [rng.choice(VALUES) if rng.random() < 0.8 else rng.gauss(0, 1) * 10.0 ** rng.uniform(-40, 38)
               for _ in range(count)]
    data = numpy.array(numbers, dtype="float64").astype("float32").astype("float64")
    if finite:
        data = numpy.where(numpy.isfinite(data), data, 1.0)
    return torch.tensor(data)


def graph_of(rng):
    """A graph with one op, its outputs and, where the op has one, its gradient."""
    graph = Graph()
    kind = rng.choice(["unary"] * 5 + ["binary"] * 3 + ["compare", "reduce", "cast", "select", "softmax", "cross_entropy"])
    result, wrt = globals()["_" + kind](graph, rng)
    if result.dtype != "f32" or not wrt:
        return graph, [result], []
    shape = result.shape
    weights = graph.argument("f32", normal(rng, shape).abs() + 0.25)
    product = graph.emit("mul {0}, {1} : {t0}", [result, weights], ["f32"], torch.mul)
    axes = list(range(len(shape)))
    if axes:
        product = graph.emit(f"reduce_sum {{0}} axes {axes} : {{t0}} -> {{r0}}", [product], ["f32"],
                             lambda v: v.sum(axes, keepdim=True))
        product = graph.emit("reshape {0} : {t0} -> {r0}", [product], ["f32"], lambda v: v.reshape(()), ulps=0)
    return graph, [result], [(product, wrt)]


def _unary(graph, rng):
    name = rng.choice(list(UNARY))
    function, _, ulps = UNARY[name]
    # x · slope(x) at an infinity is inf · 0: nothing is said of it
    x = graph.argument("f32", draw(rng, rng.choice([1, 7, 40, 61]), finite=name in ("gelu", "silu")))
    return graph.emit(name + " {0} : {t0}", [x], ["f32"], function, noisy=NOISY.get(name), ulps=ulps), [x]


def _binary(graph, rng):
    name = rng.choice(list(BINARY))
    function, ulps = BINARY[name]
    count = rng.choice([1, 9, 50])
    x, y = graph.argument("f32", draw(rng, count)), graph.argument("f32", draw(rng, count))
    return graph.emit(name + " {0}, {1} : {t0}", [x, y], ["f32"], function, noisy=NOISY.get(name), ulps=ulps), [x, y]


def _compare(graph, rng):
    name = rng.choice(list(COMPARE))
    x, y = graph.argument("f32", draw(rng, 50)), graph.argument("f32", draw(rng, 50))
    return graph.emit(f"compare {name} {{0}}, {{1}} : {{t0}} -> {{r0}}", [x, y], ["i1"], COMPARE[name]), []


def _reduce(graph, rng):
    rows, columns = rng.choice([(1, 5), (7, 3), (4, 33)])
    x = graph.argument("f32", draw(rng, rows * columns).reshape(rows, columns))
    axes = rng.choice([[0], [1], [0, 1]])
    name = rng.choice(["reduce_max", "reduce_sum"])
    function = (lambda v: v.amax(axes, keepdim=True)) if name == "reduce_max" else (lambda v: v.sum(axes, keepdim=True))

    def noisy(n, v):  # where a part of the sum may overflow, its order decides: nothing is said of it
        sizes = torch.where(v.isfinite(), v.abs(), 0).sum(axes, keepdim=True)
        return function(n(v)) + torch.where(sizes > 3.4e38, float("nan"), 0.0)

    return graph.emit(f"{name} {{0}} axes {axes} : {{t0}} -> {{r0}}", [x], ["f32"], function,
                      noisy=None if name == "reduce_max" else noisy,
                      ulps=0 if name == "reduce_max" else 2), [x]


def _cast(graph, rng):
    target = rng.choice(["bf16", "f16"])
    x = graph.argument("f32", draw(rng, 61))
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[target]
    low = graph.emit("cast {0} : {t0} -> {r0}", [x], [target], lambda v: v.to(torch.float32).to(kind).double(), ulps=0)
    return graph.emit("cast {0} : {t0} -> {r0}", [low], ["f32"], lambda v: v + 0, ulps=0), []


def _select(graph, rng):
    x, y = graph.argument("f32", draw(rng, 50)), graph.argument("f32", draw(rng, 50))
    condition = graph.emit("compare lt {0}, {1} : {t0} -> {r0}", [x, y], ["i1"], torch.lt)
    taken = graph.emit("log {0} : {t0}", [x], ["f32"], torch.log, ulps=2)
    return graph.emit("select {0}, {1}, {2} : {t0}, {t1}", [condition, y, taken], ["f32"], torch.where, ulps=0), [y]


def _rows(rng):
    rows, columns = rng.choice([(1, 4), (3, 7), (2, 50)])
    offset = rng.choice([0.0, 1e4, -1e4, 1e8, 3e38, -3e38, 1e-40])
    data = draw(rng, rows * columns, finite=True) if rng.random() < 0.4 else normal(rng, rows * columns) + offset
    return torch.tensor(data.numpy().astype("float32").astype("float64")).reshape(rows, columns).nan_to_num(0, 3e38, -3e38)


def _softmax(graph, rng):
    x = graph.argument("f32", _rows(rng))
    steps = lambda n, v: n(torch.exp(n(v - v.amax(-1, keepdim=True).detach())))
    whole = lambda n, v: n(steps(n, v) / n(steps(n, v).sum(-1, keepdim=True)))
    return graph.emit("softmax {0} : {t0}", [x], ["f32"], lambda v: F.softmax(v, -1), noisy=whole), [x]


def _cross_entropy(graph, rng):
    x = graph.argument("f32", _rows(rng))
    numbers = [rng.randrange(x.shape[1]) for _ in range(x.shape[0])]
    targets = graph.argument("i32", torch.tensor(numbers))

    def steps(n, v, t):
        rest = n(v - v.amax(-1, keepdim=True).detach())
        losses = n(torch.log(n(torch.exp(rest).sum(-1), 2)))
        total = n(losses - torch.gather(rest, -1, t.unsqueeze(-1)).squeeze(-1)).sum()
        return n(n(total, 2) / t.numel())  # the sum may overflow where the mean does not

    return graph.emit("cross_entropy {0}, {1} : {t0}, {t1} -> {r0}", [x, targets], ["f32"], F.cross_entropy,
                      noisy=steps, ulps=2), [x]
