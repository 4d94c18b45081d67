"""ATen's matrix products and attention."""

from __future__ import annotations

import math

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower


@lower("mm.default", "bmm.default")
def product(c, out, a, b):
    return multiply(c, out, a, b)


def multiply(c: Lowering, out, a: Value, b: Value) -> Value:
    if not out.dtype.is_floating_point:
        raise NotLowered("a product of integers")
    element = c.element(out.dtype)
    return c.g.matmul(c.cast(a, element), c.cast(b, element))


@lower("addmm.default", "baddbmm.default")
def add_product(c, out, addend, a, b, beta=1, alpha=1):
    g, made = c.g, multiply(c, out, a, b)
    if alpha != 1:
        made = g.binary("mul", made, c.like(alpha, made))
    if beta == 0:
        return made
    addend = c.to_kind(addend, out)
    if beta != 1:
        addend = g.binary("mul", addend, c.like(beta, addend))
    return g.binary("add", made, addend)


@lower("mv.default")
def matrix_vector(c, out, a, x):
    if not x.is_float:
        raise NotLowered("a product of integers")
    return c.g.reshape(c.g.matmul(a, c.g.reshape(x, (x.sizes[0], 1))), tuple(out.shape))


@lower("dot.default", "vdot.default")
def dot(c, out, a, b):
    return c.reduce("reduce_sum", c.g.binary("mul", a, b), [0], keepdim=False)


@lower("linear.default")
def linear(c, out, x, weight, bias=None):
    g = c.g
    rows = g.reshape(x, (math.prod(x.sizes[:-1]), x.sizes[-1]))
    made = g.reshape(g.matmul(rows, weight, transposed_b=True), tuple(out.shape))
    return made if bias is None else g.binary("add", made, c.to_kind(bias, out))


# Convolutions whose windows tile the input, as a vision transformer's patches do: products of patches and filters.

def patches(c: Lowering, x: Value, window) -> Value:
    """[B, C, n·k, …] as [B·n…, C·k…]."""
    g, spatial = c.g, len(window)
    split = x.sizes[:2] + tuple(n for size, k in zip(x.sizes[2:], window) for n in (size // k, k))
    x = g.reshape(x, split)
    order = [0] + [2 + 2 * i for i in range(spatial)] + [1] + [3 + 2 * i for i in range(spatial)]
    x = g.transpose(x, order)
    return g.reshape(x, (math.prod(x.sizes[:1 + spatial]), math.prod(x.sizes[1 + spatial:])))


def unpatched(c: Lowering, rows: Value, sizes, window) -> Value:
    """The other way round: [B·n…, C·k…] as [B, C, n·k, …] of these sizes."""
    g, spatial = c.g, len(window)
    counts = tuple(size // k for size, k in zip(sizes[2:], window))
    x = g.reshape(rows, (sizes[0], *counts, sizes[1], *window))
    order = [0, 1 + spatial]
    for i in range(spatial):
        order += [1 + i, 2 + spatial + i]
    return g.reshape(g.transpose(x, order), tuple(sizes))


def check_tiles(x: Value, weight: Value, stride, padding, dilation, is_transposed, output_padding, groups) -> tuple:
    window = weight.sizes[2:]
    stride = list(stride) * (len(window) if len(stride) == 1 else 1)
    padding = list(padding) * (len(window) if len(padding) == 1 else 1)
    if is_transposed or groups != 1 or any(padding) or any(n != 1 for n in dilation) or tuple(stride) != window:
        raise NotLowered("windows that do not tile the input")
    if any(size % k for size, k in zip(x.sizes[2:], window)):
        raise NotLowered("windows that do not tile the input")
    return window


@lower("convolution.default")
def convolution(c, out, x, weight, bias, *how):
    window = check_tiles(x, weight, *how)
    g, filters = c.g, weight.sizes[0]
    rows = g.matmul(patches(c, x, window), g.reshape(weight, (filters, math.prod(weight.sizes[1:]))), transposed_b=True)
    if bias is not None:
        rows = g.binary("add", rows, g.broadcast(bias, rows.sizes))
    sizes = tuple(out.shape)
    y = g.reshape(rows, (sizes[0], *sizes[2:], filters))
    return g.transpose(y, [0, y.rank - 1, *range(1, y.rank - 1)])


@lower("convolution_backward.default")
def convolution_backward(c, out, dy, x, weight, bias_sizes, *rest):
    *how, mask = rest
    window = check_tiles(x, weight, *how)
    g, filters = c.g, weight.sizes[0]
    rows = g.transpose(dy, [0, *range(2, dy.rank), 1])
    rows = g.reshape(rows, (math.prod(rows.sizes[:-1]), filters))
    flat = g.reshape(weight, (filters, math.prod(weight.sizes[1:])))
    made = [None, None, None]
    if mask[0]:
        made[0] = unpatched(c, g.matmul(rows, flat), x.sizes, window)
    if mask[1]:
        made[1] = g.reshape(g.matmul(rows, patches(c, x, window), transposed_a=True), weight.sizes)
    if mask[2]:
        made[2] = c.reduce("reduce_sum", rows, [0], keepdim=False)
    return made


# Attention. torch has [B, H, T, d], compiled code [B, T, H, d].

def scale_of(q: Value, scale) -> float:
    return 1 / math.sqrt(q.sizes[-1]) if scale is None else scale


def swapped(c: Lowering, x: Value) -> Value:
    return c.g.transpose(x, [0, 2, 1, 3])


@lower("_scaled_dot_product_flash_attention_for_cpu.default")
def attention(c, out, q, k, v, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    if dropout:
        raise NotLowered("dropout")
    if attn_mask is not None:
        return masked_attention(c, out, q, k, v, causal, attn_mask, scale_of(q, scale))
    if v.sizes[-1] != q.sizes[-1]:
        raise NotLowered("values of another size than keys")
    y, lse = c.g.flash_attention(swapped(c, q), swapped(c, k), swapped(c, v), scale_of(q, scale), 0 if causal else None)
    return [swapped(c, y), lse]


@lower("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(c, out, dy, q, k, v, y, lse, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    if dropout:
        raise NotLowered("dropout")
    if attn_mask is not None:
        return masked_attention_backward(c, dy, q, k, v, y, lse, causal, attn_mask, scale_of(q, scale))
    made = c.g.flash_attention_backward(*[swapped(c, x) for x in (q, k, v, y)], lse, swapped(c, dy), scale_of(q, scale),
                                        0 if causal else None)
    return [swapped(c, x) for x in made]


def scores(c: Lowering, q: Value, k: Value, causal: bool, mask: Value, scale: float) -> Value:
    g = c.g
    made = c.wide(g.matmul(q, repeated(c, k, q), transposed_b=True))
    made = g.binary("mul", made, c.like(scale, made))
    if causal:
        row, column = g.iota(2, made.sizes, "i32"), g.iota(3, made.sizes, "i32")
        made = g.select(g.compare("le", column, row), made, c.like(-math.inf, made))
    if mask.element == "i1":
        return g.select(g.broadcast(mask, made.sizes), made, c.like(-math.inf, made))
    return g.binary("add", made, c.tensor(mask, "f32", made.sizes))


def repeated(c: Lowering, k: Value, q: Value) -> Value:
    """Keys' heads as often as queries have heads."""
    if k.sizes[1] == q.sizes[1]:
        return k
    batch, heads, rows, size = k.sizes
    times = q.sizes[1] // heads
    k = c.g.broadcast(c.g.reshape(k, (batch, heads, 1, rows, size)), (batch, heads, times, rows, size))
    return c.g.reshape(k, (batch, heads * times, rows, size))


def masked_attention(c, out, q, k, v, causal, mask, scale) -> list[Value]:
    g = c.g
    s = scores(c, q, k, causal, mask, scale)
    most = g.reduce("reduce_max", s, [3])
    seen = g.is_finite(most)                             # a row that sees nothing gives 0, and -inf
    base = g.select(seen, most, c.like(0, most))
    powers = g.unary("exp", g.binary("sub", s, c.same_as(base, s)))
    total = g.reduce("reduce_sum", powers, [3])
    some = g.select(seen, total, c.like(1, total))
    p = c.cast(g.binary("div", powers, c.same_as(some, s)), q.element)
    lse = g.binary("add", g.unary("log", total), base)
    return [g.matmul(p, repeated(c, v, q)), g.reshape(lse, lse.sizes[:3])]


def masked_attention_backward(c, dy, q, k, v, y, lse, causal, mask, scale) -> list[Value]:
    if k.sizes[1] != q.sizes[1]:
        raise NotLowered("a mask and grouped heads")
    g = c.g
    s = scores(c, q, k, causal, mask, scale)
    lse = g.reshape(lse, lse.sizes + (1,))
    base = g.select(g.is_finite(lse), lse, c.like(math.inf, lse))
    p = g.unary("exp", g.binary("sub", s, c.same_as(base, s)))
    dp = c.wide(g.matmul(dy, v, transposed_b=True))
    inner = g.reduce("reduce_sum", g.binary("mul", c.wide(dy), c.wide(y)), [3])
    ds = g.binary("mul", p, g.binary("sub", dp, c.same_as(inner, dp)))
    ds = c.cast(g.binary("mul", ds, c.like(scale, ds)), q.element)
    return [g.matmul(ds, k), g.matmul(ds, q, transposed_a=True),
            g.matmul(c.cast(p, q.element), dy, transposed_a=True)]
