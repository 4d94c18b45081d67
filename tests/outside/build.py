"""Single ops added to a graph on chosen operands, for generators that know what they want to write."""

import math

import numpy
import torch

from control import rounded
from graph import FLOATS, is_float
from language import BINARY, COMPARE, NOISY, UNARY, _Cast, wrap
from language_more import loose_maximum, softmax_steps, sum_ulps


def unary(graph, name, x):
    function, _, ulps = UNARY[name]
    return graph.emit(name + " {0} : {t0}", [x], [x.dtype], function, noisy=NOISY.get(name), ulps=ulps)


def binary(graph, name, x, y):
    function, ulps = BINARY[name]
    return graph.emit(name + " {0}, {1} : {t0}", [x, y], [x.dtype], function, noisy=NOISY.get(name), ulps=ulps)


def compare(graph, name, x, y):
    def noisy(n, a, b):  # values that rounding may make equal, or keep apart: the answer may be either
        near = (a != b) & ((a - b).abs() <= 4 * FLOATS[x.dtype][0] * torch.maximum(a.abs(), b.abs()))
        return COMPARE[name](a, b) ^ near

    return graph.emit(f"compare {name} {{0}}, {{1}} : {{t0}} -> {{r0}}", [x, y], ["i1"], COMPARE[name],
                      noisy if is_float(x.dtype) else None)


def select(graph, condition, x, y):
    return graph.emit("select {0}, {1}, {2} : {t0}, {t1}", [condition, x, y], [x.dtype], torch.where, ulps=0)


def cast(graph, x, dtype):
    if dtype == x.dtype:
        return x
    if is_float(x.dtype) and dtype != "f32":
        if x.dtype == "f32":
            return rounded(graph, x, dtype)
        return cast(graph, cast(graph, x, "f32"), dtype)
    source = x.dtype

    def truth(v):
        if is_float(source):
            return _Cast.apply(v, source, dtype)
        return v.double().to(torch.float32).double()

    return graph.emit("cast {0} : {t0} -> {r0}", [x], [dtype], truth, noisy=(lambda n, v: v) if is_float(source) else None, ulps=0)


def reduce(graph, name, x, axes, shift=False):
    """`shift`: a maximum that a softmax takes off, and whose gradients cancel, though not to the last place."""
    axes = list(axes)
    count = math.prod(x.shape[axis] for axis in axes)
    function = {"sum": lambda v: v.sum(axes, keepdim=True), "mean": lambda v: v.mean(axes, keepdim=True),
                "max": lambda v: v.amax(axes, keepdim=True)}[name]
    fine = of_f32(x.dtype)
    noisy = lambda n, v: function(n(v, fine))
    if name == "max":
        noisy = (lambda n, v: function(v.detach())) if shift else lambda n, v: loose_maximum(v, axes, FLOATS[x.dtype][0])
    return graph.emit(f"reduce_{name} {{0}} axes {axes} : {{t0}} -> {{r0}}", [x], [x.dtype], function, noisy=noisy,
                      ulps=0 if name == "max" else sum_ulps(count) if x.dtype == "f32" else 1)


def of_f32(dtype):
    """A unit in the last place of f32, in which sums are computed, in those of `dtype`."""
    return FLOATS["f32"][0] / FLOATS[dtype][0]


def total(graph, x):
    """The sum of all elements, a scalar."""
    if not x.shape:
        return x
    return reshape(graph, reduce(graph, "sum", x, range(len(x.shape))), ())


def broadcast(graph, x, shape):
    shape = tuple(shape)
    if shape == x.shape:
        return x
    return graph.emit("broadcast {0} : {t0} -> {r0}", [x], [x.dtype], lambda v: v.expand(shape), ulps=0)


def reshape(graph, x, shape):
    shape = tuple(shape)
    return graph.emit("reshape {0} : {t0} -> {r0}", [x], [x.dtype], lambda v: v.reshape(shape), ulps=0)


def transpose(graph, x, order):
    order = list(order)
    return graph.emit(f"transpose {{0}} {order} : {{t0}} -> {{r0}}", [x], [x.dtype], lambda v: v.permute(order), ulps=0)


def slices(graph, x, starts, limits):
    where = tuple(slice(a, b) for a, b in zip(starts, limits))
    return graph.emit(f"slice {{0}} {list(starts)} to {list(limits)} : {{t0}} -> {{r0}}", [x], [x.dtype], lambda v: v[where],
                      ulps=0)


def concat(graph, parts, axis):
    names, types = (", ".join(f"{{{kind}{i}}}" for i in range(len(parts))) for kind in ("", "t"))
    return graph.emit(f"concat {names} axis {axis} : {types} -> {{r0}}", parts, [parts[0].dtype], lambda *v: torch.cat(v, axis),
                      ulps=0)


def matmul(graph, a, b, turn_a=False, turn_b=False):
    def truth(x, y):
        return torch.matmul(x.transpose(-1, -2) if turn_a else x, y.transpose(-1, -2) if turn_b else y)

    count, fine = a.shape[-2] if turn_a else a.shape[-1], of_f32(a.dtype)
    text = f"matmul {{0}}{' transposed' * turn_a}, {{1}}{' transposed' * turn_b} : {{t0}}, {{t1}} -> {{r0}}"
    return graph.emit(text, [a, b], [a.dtype], truth, noisy=lambda n, x, y: truth(n(x, fine), n(y, fine)),
                      ulps=sum_ulps(count) if a.dtype == "f32" else 1)


def softmax(graph, x):
    return graph.emit("softmax {0} : {t0}", [x], [x.dtype], lambda v: torch.softmax(v, -1), noisy=softmax_steps)


def number(graph, value, shape=(), dtype="f32"):
    """A constant that is `value` everywhere, as its type rounds it."""
    value = float(numpy.float32(value)) if is_float(dtype) else int(value)
    data = torch.full(shape, value, dtype=torch.float64 if is_float(dtype) else torch.int64)
    if dtype == "bf16" or dtype == "f16":
        data = data.to(torch.bfloat16 if dtype == "bf16" else torch.float16).double()
        value = float(data.flatten()[0])
    text = f"{value:.9e}" if is_float(dtype) else str(value)
    return graph.emit(f"constant dense<{text}> : {{r0}}", [], [dtype], lambda: data, ulps=0)


def scaled(graph, x, value):
    return binary(graph, "mul", x, number(graph, value, x.shape, x.dtype))


def shifted(graph, x, value):
    return binary(graph, "add", x, number(graph, value, x.shape, x.dtype))


def gradient(graph, loss, wrt):
    """The gradients, as values that other ops may read."""
    return graph.emit_gradient(loss, wrt)


def binary_integers(graph, name, x, y):
    return graph.emit(name + " {0}, {1} : {t0}", [x, y], [x.dtype], lambda a, b: wrap(BINARY[name][0](a, b), x.dtype))
