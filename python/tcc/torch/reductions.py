"""ATen's reductions, softmax and norms."""

from __future__ import annotations

import math

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower


@lower("sum.default", "sum.dim_IntList")
def total(c, out, x, dims=None, keepdim=False, **_):
    x = c.cast(x, c.element(out.dtype)) if not x.is_float or not out.dtype.is_floating_point else x
    axes = c.axes(dims, x.rank)
    return c.cast(c.reduce("reduce_sum", x, axes, keepdim), c.element(out.dtype))


@lower("mean.default", "mean.dim")
def mean(c, out, x, dims=None, keepdim=False, **_):
    axes = c.axes(dims, x.rank)
    made = c.mean(c.wide(c.cast(x, c.element(out.dtype))), axes)
    return c.cast(c.g.reshape(made, tuple(out.shape)), c.element(out.dtype))


@lower("amax.default", "max.default")
def amax(c, out, x, dims=(), keepdim=False):
    return extreme(c, x, dims, keepdim, largest=True)


@lower("amin.default", "min.default")
def amin(c, out, x, dims=(), keepdim=False):
    return extreme(c, x, dims, keepdim, largest=False)


def extreme(c: Lowering, x: Value, dims, keepdim: bool, largest: bool) -> Value:
    g, axes, element = c.g, c.axes(dims, x.rank), x.element
    if not math.prod(x.sizes):
        raise NotLowered("no elements")
    if element == "i1":
        x = g.cast(x, "i32")
    if not largest and not x.is_float: # the least integer has no negative
        x = g.binary("sub", c.like(-1, x), x)
    elif not largest:
        x = g.unary("neg", x)
    made = c.reduce("reduce_max", x, axes, keepdim)
    if not largest:
        made = g.unary("neg", made) if made.is_float else g.binary("sub", c.like(-1, made), made)
    return g.cast(made, element)


@lower("any.default", "any.dim", "any.dims")
def any_of(c, out, x, dims=None, keepdim=False):
    return truth_over(c, x, dims, keepdim, negated=False)


@lower("all.default", "all.dim", "all.dims")
def all_of(c, out, x, dims=None, keepdim=False):
    return truth_over(c, x, dims, keepdim, negated=True)


def truth_over(c: Lowering, x: Value, dims, keepdim: bool, negated: bool) -> Value:
    from tcc.torch.elementwise import truth
    g, x = c.g, truth(c, x)
    x = g.cast(g.unary("not", x) if negated else x, "i32")
    made = c.reduce("reduce_sum", x, c.axes(dims, x.rank), keepdim)
    return g.compare("eq" if negated else "ne", made, c.like(0, made))


@lower("var.correction", "var_mean.correction")
def variance(c, out, x, dims=None, *, correction=1, keepdim=False):
    g, axes = c.g, c.axes(dims, x.rank)
    wide = c.wide(x)
    mean = c.mean(wide, axes)
    apart = g.binary("sub", wide, c.same_as(mean, wide))
    count = math.prod(x.sizes[dim] for dim in axes) - (1 if correction is None else correction)
    squares = g.reduce("reduce_sum", g.binary("mul", apart, apart), axes)
    made = g.binary("div", squares, c.like(float(max(count, 0)), squares))
    if isinstance(out, (tuple, list)):
        return [c.cast(g.reshape(value, tuple(fake.shape)), x.element) for value, fake in zip((made, mean), out)]
    return c.cast(g.reshape(made, tuple(out.shape)), x.element)


# Softmax

def exponentials(c: Lowering, x: Value, dim: int) -> tuple[Value, Value, Value]:
    """x less its maximum, the exponentials of that, and their sum."""
    g = c.g
    most = g.reduce("reduce_max", x, [dim])
    apart = g.binary("sub", x, c.same_as(most, x))
    powers = g.unary("exp", apart)
    return apart, powers, g.reduce("reduce_sum", powers, [dim])


@lower("_softmax.default", "softmax.int", "_safe_softmax.default")
def softmax(c, out, x, dim, *_, **__):
    g, x = c.g, c.wide(x)
    if x.rank == 0:
        return c.cast(c.like(1, x), c.element(out.dtype))
    dim = c.axis(dim, x.rank)
    _, powers, total = exponentials(c, x, dim)
    return c.cast(g.binary("div", powers, c.same_as(total, x)), c.element(out.dtype))


@lower("_log_softmax.default", "log_softmax.int")
def log_softmax(c, out, x, dim, *_, **__):
    g, x = c.g, c.wide(x)
    if x.rank == 0:
        return c.cast(c.like(0, x), c.element(out.dtype))
    apart, _, total = exponentials(c, x, c.axis(dim, x.rank))
    return c.cast(g.binary("sub", apart, c.same_as(g.unary("log", total), x)), c.element(out.dtype))


@lower("_softmax_backward_data.default")
def softmax_backward(c, out, dy, y, dim, _):
    g, dy, y = c.g, c.wide(dy), c.wide(y)
    if y.rank == 0:
        return c.cast(c.like(0, y), c.element(out.dtype))
    product = g.binary("mul", dy, y)
    total = g.reduce("reduce_sum", product, [c.axis(dim, y.rank)])
    return c.cast(g.binary("sub", product, g.binary("mul", y, c.same_as(total, y))), c.element(out.dtype))


@lower("_log_softmax_backward_data.default")
def log_softmax_backward(c, out, dy, y, dim, _):
    g, dy, y = c.g, c.wide(dy), c.wide(y)
    if y.rank == 0:
        return c.cast(c.like(0, y), c.element(out.dtype))
    total = g.reduce("reduce_sum", dy, [c.axis(dim, y.rank)])
    return c.cast(g.binary("sub", dy, g.binary("mul", g.unary("exp", y), c.same_as(total, y))),
                  c.element(out.dtype))


# Norms

@lower("native_layer_norm.default")
def layer_norm(c, out, x, shape, weight, bias, eps):
    g, wide = c.g, c.wide(x)
    axes = list(range(x.rank - len(shape), x.rank))
    mean = c.mean(wide, axes)
    apart = g.binary("sub", wide, c.same_as(mean, wide))
    variance = c.mean(g.binary("mul", apart, apart), axes)
    rstd = g.unary("rsqrt", g.binary("add", variance, c.like(eps, variance)))
    y = g.binary("mul", apart, c.same_as(rstd, apart))
    if weight is not None:
        y = g.binary("mul", y, c.tensor(weight, "f32", y.sizes))
    if bias is not None:
        y = g.binary("add", y, c.tensor(bias, "f32", y.sizes))
    return [c.cast(value, c.element(fake.dtype)) for value, fake in zip((y, mean, rstd), out)]


@lower("native_layer_norm_backward.default")
def layer_norm_backward(c, out, dy, x, shape, mean, rstd, weight, bias, mask):
    g, dy, wide = c.g, c.wide(dy), c.wide(x)
    axes, rows = list(range(x.rank - len(shape), x.rank)), list(range(x.rank - len(shape)))
    normal = g.binary("mul", g.binary("sub", wide, c.tensor(mean, "f32", wide.sizes)),
                      c.tensor(rstd, "f32", wide.sizes))
    made = [None, None, None]
    if mask[0]:
        d = g.binary("mul", dy, c.tensor(weight, "f32", dy.sizes)) if weight is not None else dy
        first, second = c.mean(d, axes), c.mean(g.binary("mul", d, normal), axes)
        inner = g.binary("sub", g.binary("sub", d, c.same_as(first, d)),
                         g.binary("mul", normal, c.same_as(second, d)))
        made[0] = c.cast(g.binary("mul", inner, c.tensor(rstd, "f32", d.sizes)), x.element)
    if mask[1] and weight is not None:
        made[1] = c.cast(c.reduce("reduce_sum", g.binary("mul", dy, normal), rows, keepdim=False), weight.element)
    if mask[2] and bias is not None:
        made[2] = c.cast(c.reduce("reduce_sum", dy, rows, keepdim=False), bias.element)
    return made
