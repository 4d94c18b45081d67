"""ATen's matrix products and attention."""

from __future__ import annotations

import math

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower


#: Of integers, in one matrix product: ATen has no fast code for them either, but blocks of rows for the cache.
MOST_PRODUCTS = 1 << 24


@lower("mm.default", "bmm.default")
def product(c, out, a, b):
    return multiply(c, out, a, b)


def multiply(c: Lowering, out, a: Value, b: Value, wide: bool = False) -> Value:
    element = c.element(out.dtype)
    a, b = c.cast(a, element), c.cast(b, element)
    return c.g.matmul(a, b, wide=wide) if out.dtype.is_floating_point else integer_product(c, a, b)


def integer_product(c: Lowering, a: Value, b: Value) -> Value:
    """[…, m, k] and […, k, n] as sums of products: matmuls are of floats."""
    g, (*batch, m, k), n = c.g, a.sizes, b.sizes[-1]
    if math.prod(batch) * m * k * n > MOST_PRODUCTS:
        raise NotLowered(f"{math.prod(batch) * m * k * n} products of integers")
    rank = len(batch)
    sizes = (*batch, m, n, k)
    a = g.reshape(a, (*batch, m, 1, k))
    b = g.reshape(g.transpose(b, [*range(rank), rank + 1, rank]), (*batch, 1, n, k))
    terms = g.binary("mul", g.broadcast(a, sizes), g.broadcast(b, sizes))
    return c.reduce("reduce_sum", terms, [rank + 2], keepdim=False)


@lower("addmm.default", "baddbmm.default")
def add_product(c, out, addend, a, b, beta=1, alpha=1):
    scales = alpha != 1 or beta not in (0, 1)  # which torch does before it rounds
    g, made = c.g, multiply(c, out, a, b, wide=scales)
    if alpha != 1:
        made = g.binary("mul", made, c.like(alpha, made))
    if beta != 0:
        addend = c.tensor(addend, made.element, made.sizes)
        if beta != 1:
            addend = g.binary("mul", addend, c.like(beta, addend))
        made = g.binary("add", made, addend)
    return c.cast(made, c.element(out.dtype))


@lower("mv.default")
def matrix_vector(c, out, a, x):
    return c.g.reshape(multiply(c, out, a, c.g.reshape(x, (x.sizes[0], 1))), tuple(out.shape))


@lower("dot.default", "vdot.default")
def dot(c, out, a, b):
    return c.reduce("reduce_sum", c.g.binary("mul", a, b), [0], keepdim=False)


@lower("linear.default")
def linear(c, out, x, weight, bias=None):
    g = c.g
    rows = g.reshape(x, (math.prod(x.sizes[:-1]), x.sizes[-1]))
    made = g.reshape(g.matmul(rows, weight, transposed_b=True), tuple(out.shape))
    return made if bias is None else g.binary("add", made, c.to_kind(bias, out))


# Attention. torch has [B, H, T, d], compiled code [B, T, H, d].

def scale_of(q: Value, scale) -> float:
    return 1 / math.sqrt(q.sizes[-1]) if scale is None else scale


def swapped(c: Lowering, x: Value) -> Value:
    return c.g.transpose(x, [0, 2, 1, 3])


def bias_of(c: Lowering, mask: Value | None, q: Value, k: Value) -> Value | None:
    """What a mask adds to the scores, f32 [B, H, T, S]."""
    if mask is None:
        return None
    g = c.g
    if mask.element == "i1":
        zero = g.constant(0, "f32", mask.sizes)
        mask = g.select(mask, zero, c.like(-math.inf, zero))
    return c.tensor(mask, "f32", (q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]))


@lower("_scaled_dot_product_flash_attention_for_cpu.default")
def attention(c, out, q, k, v, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    if dropout:
        raise NotLowered("dropout")
    if v.sizes[-1] != q.sizes[-1]:
        raise NotLowered("values of another size than keys")
    y, lse = c.g.flash_attention(swapped(c, q), swapped(c, k), swapped(c, v), scale_of(q, scale), 0 if causal else None,
                                 bias_of(c, attn_mask, q, k))
    return [swapped(c, y), lse]


@lower("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(c, out, dy, q, k, v, y, lse, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    if dropout:
        raise NotLowered("dropout")
    made = c.g.flash_attention_backward(*[swapped(c, x) for x in (q, k, v, y)], lse, swapped(c, dy), scale_of(q, scale),
                                        0 if causal else None, bias_of(c, attn_mask, q, k))
    return [swapped(c, x) for x in made]
