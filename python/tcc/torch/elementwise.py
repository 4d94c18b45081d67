"""ATen's elementwise ops."""

from __future__ import annotations

import math

import torch

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower

# One operand, one op


def _unary(name: str, op: str) -> None:
    @lower(f"{name}.default")
    def lowered(c: Lowering, out, x):
        return c.g.unary(op, c.to_kind(x, out))


for _name, _op in {"exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh", "sin": "sin",
                   "cos": "cos", "erf": "erf", "sigmoid": "sigmoid", "silu": "silu", "log1p": "log1p",
                   "expm1": "expm1"}.items():
    _unary(_name, _op)


@lower("neg.default")
def neg(c, out, x):
    return c.g.unary("neg", c.to_kind(x, out))


@lower("abs.default")
def absolute(c, out, x):
    return x if x.element == "i1" else c.g.unary("abs", x)


@lower("relu.default")
def relu(c, out, x):
    return c.g.unary("relu", x) if x.is_float else c.g.binary("maximum", x, c.like(0, x))


@lower("prims.fma.default")
def multiply_add(c, out, a, b, addend):
    a, b = c.pair(a, b, out)
    return c.g.binary("add", c.g.binary("mul", a, b), c.to_kind(addend, out))


@lower("reciprocal.default")
def reciprocal(c, out, x):
    x = c.to_kind(x, out)
    return c.g.binary("div", c.like(1, x), x)


def _rounding(name: str) -> None:
    @lower(f"{name}.default")
    def lowered(c: Lowering, out, x):
        return c.g.unary(name, x) if x.is_float else x


for _name in ("floor", "ceil", "round", "trunc"):
    _rounding(_name)


@lower("round.decimals")
def round_decimals(c, out, x, *, decimals):
    if not x.is_float:
        raise NotLowered("integers")
    if decimals == 0:
        return c.g.unary("round", x)
    wide, op, back = c.wide(x), "mul", "div"
    if decimals < 0:
        op, back = back, op
    ten = c.like(10.0 ** abs(decimals), wide)
    return c.cast(c.g.binary(back, c.g.unary("round", c.g.binary(op, wide, ten)), ten), x.element)


@lower("sign.default", "sgn.default")
def sign(c, out, x):
    if x.element == "i1":
        return x
    return c.g.unary("sign", x)


def gelu_of(c: Lowering, x: Value, approximate: str) -> Value:
    g = c.g
    if approximate == "tanh":
        return g.unary("gelu", x)
    y = c.wide(x)
    half = g.binary("mul", y, c.like(0.5, y))
    share = g.binary("add", g.unary("erf", g.binary("mul", y, c.like(math.sqrt(0.5), y))), c.like(1, y))
    return c.cast(g.binary("mul", half, share), x.element)


@lower("gelu.default")
def gelu(c, out, x, approximate="none"):
    return gelu_of(c, x, approximate)


def times_slope(c: Lowering, activation: str, x: Value, dy: Value) -> Value:
    """dy times the slope of gelu or silu at x, which have the same type."""
    return c.g.line(f"{activation}_gradient", f"{x.name}, {dy.name} : {x.type}", x.sizes, x.element)


@lower("silu_backward.default")
def silu_backward(c, out, dy, x):
    return times_slope(c, "silu", c.to_kind(x, out), c.to_kind(dy, out))


@lower("gelu_backward.default")
def gelu_backward(c, out, dy, x, approximate="none"):
    g, dy = c.g, c.to_kind(dy, out)
    if approximate == "tanh":
        return times_slope(c, "gelu", x, dy)
    y, d = c.wide(x), c.wide(dy)
    share = g.binary("add", g.unary("erf", g.binary("mul", y, c.like(math.sqrt(0.5), y))), c.like(1, y))
    cdf = g.binary("mul", share, c.like(0.5, y))
    density = g.unary("exp", g.binary("mul", g.binary("mul", y, y), c.like(-0.5, y)))
    density = g.binary("mul", density, c.like(1 / math.sqrt(2 * math.pi), y))
    slope = g.binary("add", cdf, g.binary("mul", y, density))
    return c.cast(g.binary("mul", d, slope), x.element)


@lower("isnan.default")
def isnan(c, out, x):
    return c.g.compare("ne", x, x) if x.is_float else c.g.constant(False, "i1", x.sizes)


@lower("isinf.default")
def isinf(c, out, x):
    if not x.is_float:
        return c.g.constant(False, "i1", x.sizes)
    return c.g.compare("eq", c.g.unary("abs", x), c.like(math.inf, x))


@lower("logical_not.default")
def logical_not(c, out, x):
    return c.g.unary("not", truth(c, x))


@lower("bitwise_not.default")
def bitwise_not(c, out, x):
    return c.g.unary("not", x)


def truth(c: Lowering, x) -> Value:
    x = c.tensor(x)
    return x if x.element == "i1" else c.g.compare("ne", x, c.like(0, x))


# Types

@lower("_to_copy.default", "prims.convert_element_type.default", "clone.default", "alias.default", "detach.default",
       "lift_fresh_copy.default", "lift_fresh.default", "lift.default", "contiguous.default", "to.dtype",
       "prims.device_put.default", "prims.copy_strided.default")
def convert(c, out, x, *_, **__):
    return c.to_kind(x, out)


@lower("copy.default")
def copy(c, out, x, source, *_):
    return c.to_kind(source, out)


# Two operands

def _sum(names, op: str, swapped: bool = False) -> None:
    @lower(*names)
    def lowered(c: Lowering, out, a, b, alpha=1):
        if swapped:
            a, b = b, a
        if c.element(out.dtype) == "i1":
            return logical(c, out, a, b, "or" if op == "add" else "ne")
        a, b = c.pair(a, b, out)
        if alpha != 1:
            if out.dtype in (torch.bfloat16, torch.float16):  # torch rounds the factor and the sum, but not the product
                alpha = torch.tensor(alpha, dtype=out.dtype).item()
                a, b = c.cast(a, "f32"), c.cast(b, "f32")
            b = c.g.binary("mul", b, c.like(alpha, b))
        return c.cast(c.g.binary(op, a, b), c.element(out.dtype))


_sum(["add.Tensor", "add.Scalar"], "add")
_sum(["sub.Tensor", "sub.Scalar"], "sub")
_sum(["rsub.Scalar", "rsub.Tensor"], "sub", swapped=True)


@lower("mul.Tensor", "mul.Scalar")
def mul(c, out, a, b):
    if c.element(out.dtype) == "i1":
        return logical(c, out, a, b, "and")
    return c.scaled("mul", a, b, out)


@lower("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(c, out, a, b):
    return c.scaled("div", a, b, out)


@lower("div.Tensor_mode", "div.Scalar_mode")
def div_rounded(c, out, a, b, *, rounding_mode=None):
    if rounding_mode is None:
        return div(c, out, a, b)
    refuse_zero(c, out, b)
    a, b = c.pair(a, b, out)
    if rounding_mode == "floor":
        return c.g.binary("floor_divide", a, b)
    if a.is_float:
        return c.g.unary("trunc", c.g.binary("div", a, b))
    # Rounded down, and 1 more where that is less than the quotient, which is negative.
    g, down = c.g, c.g.binary("floor_divide", a, b)
    rest = g.binary("remainder", a, b)
    differ = g.compare("lt", g.binary("mul", g.unary("sign", a), g.unary("sign", b)), c.like(0, a))
    more = g.binary("and", differ, g.compare("ne", rest, c.like(0, a)))
    return g.binary("add", down, g.cast(more, a.element))


def refuse_zero(c: Lowering, out, b) -> None:
    """torch raises where an integer is divided by 0; a step would give 0, so ATen divides by what it cannot know."""
    if not out.dtype.is_floating_point and (isinstance(b, Value) or b == 0):
        raise NotLowered("a division of integers by a tensor, which raises an error for 0")


def _rest(name: str, op: str) -> None:
    @lower(f"{name}.Tensor", f"{name}.Scalar", f"{name}.Scalar_Tensor")
    def lowered(c: Lowering, out, a, b):
        refuse_zero(c, out, b)
        return c.g.binary(op, *c.pair(a, b, out))


_rest("remainder", "remainder")
_rest("fmod", "fmod")


def _extreme(name: str, op: str, truths: str) -> None:
    @lower(name)
    def lowered(c: Lowering, out, a, b):
        if c.element(out.dtype) == "i1":
            return logical(c, out, a, b, truths)
        return c.g.binary(op, *c.pair(a, b, out))


_extreme("maximum.default", "maximum", "or")
_extreme("minimum.default", "minimum", "and")


def _comparison(name: str, predicate: str) -> None:
    @lower(f"{name}.Tensor", f"{name}.Scalar")
    def lowered(c: Lowering, out, a, b):
        sizes = tuple(out.shape)
        element = c.common(a, b)
        a, b = c.tensor(a, element, sizes), c.tensor(b, element, sizes)
        if element == "i1":
            a, b = c.cast(a, "i32"), c.cast(b, "i32")
        return c.g.compare(predicate, a, b)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name, _name)


def logical(c: Lowering, out, a, b, op: str) -> Value:
    sizes = tuple(out.shape)
    a, b = (c.g.broadcast(truth(c, x), sizes) for x in (a, b))
    if op == "ne":
        return c.g.compare("ne", c.cast(a, "i32"), c.cast(b, "i32"))
    return c.g.binary(op, a, b)


def _logical(name: str, op: str) -> None:
    @lower(f"logical_{name}.default")
    def lowered(c: Lowering, out, a, b):
        return logical(c, out, a, b, op)

    @lower(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar")
    def bits(c: Lowering, out, a, b):
        if c.element(out.dtype) != "i1":
            return c.g.binary("xor" if op == "ne" else op, *c.pair(a, b, out))
        return logical(c, out, a, b, op)


for _name, _op in {"and": "and", "or": "or", "xor": "ne"}.items():
    _logical(_name, _op)


def _shift(name: str) -> None:
    """By a product or a quotient of a power of 2. torch shifts all bits out where the number of places is negative or
    too large, as for each larger number."""
    @lower(f"bitwise_{name}_shift.Tensor", f"bitwise_{name}_shift.Tensor_Scalar", f"bitwise_{name}_shift.Scalar_Tensor")
    def lowered(c: Lowering, out, x, places):
        g, (x, places) = c.g, c.pair(x, places, out)
        bits = int(x.element[1:])
        fits = g.binary("and", g.compare("ge", places, c.like(0, x)), g.compare("lt", places, c.like(bits - 1, x)))
        power = c.like(1, x)
        for digit in range(bits.bit_length() - 1):
            is_set = g.compare("ne", g.binary("and", places, c.like(1 << digit, x)), c.like(0, x))
            power = g.binary("mul", power, g.select(is_set, c.like(1 << (1 << digit), x), c.like(1, x)))
        power = g.select(fits, power, c.like(1, x))
        if name == "left":
            low = g.binary("and", x, c.like(1, x))  # all that is left of a shift by one place less than there are
            last = g.select(g.compare("eq", low, c.like(0, x)), c.like(0, x), c.like(-1 << (bits - 1), x))
            rest = g.select(g.compare("eq", places, c.like(bits - 1, x)), last, c.like(0, x))
            return g.select(fits, g.binary("mul", x, power), rest)
        sign = g.select(g.compare("lt", x, c.like(0, x)), c.like(-1, x), c.like(0, x))
        return g.select(fits, g.binary("floor_divide", x, power), sign)


_shift("left")
_shift("right")


@lower("pow.Tensor_Scalar")
def power(c, out, x, exponent):
    g, x = c.g, c.to_kind(x, out)
    if exponent == 1:
        return x
    if exponent == 0:
        return c.like(1, x)
    if exponent == 2:
        return g.binary("mul", x, x)
    if exponent == 3:
        return g.binary("mul", g.binary("mul", x, x), x)
    if x.is_float and exponent == 0.5:
        return g.unary("sqrt", x)
    if x.is_float and exponent == -0.5:
        return g.unary("rsqrt", x)
    if x.is_float and exponent == -1:
        return g.binary("div", c.like(1, x), x)
    if x.is_float and exponent == -2:
        return g.binary("div", c.like(1, x), g.binary("mul", x, x))
    if x.is_float:
        return c.cast(g.binary("pow", c.wide(x), c.like(exponent, c.wide(x))), x.element)
    if isinstance(exponent, int) and 0 < exponent <= 64:
        made = None
        for bit in bin(exponent)[2:]: # the highest first
            made = x if made is None else g.binary("mul", made, made)
            if bit == "1" and made is not x:
                made = g.binary("mul", made, x)
        return made
    raise NotLowered(f"exponent {exponent} of integers")


@lower("pow.Tensor_Tensor", "pow.Scalar")
def power_of_tensors(c, out, x, exponent):
    if not out.dtype.is_floating_point:
        raise NotLowered("integers")
    x, exponent = (c.wide(value) for value in c.pair(x, exponent, out))
    return c.cast(c.g.binary("pow", x, exponent), c.element(out.dtype))


# Three operands

@lower("where.self", "where.ScalarOther", "where.ScalarSelf")
def where(c, out, condition, a, b):
    a, b = c.pair(a, b, out)
    return c.g.select(c.tensor(truth(c, condition), None, a.sizes), a, b)


@lower("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c, out, x, mask, value):
    x = c.to_kind(x, out)
    return c.g.select(c.tensor(mask, None, x.sizes), c.tensor(value, x.element, x.sizes), x)


def _clamp(names, first: str) -> None:
    @lower(*names)
    def lowered(c: Lowering, out, x, low=None, high=None, **named):
        low, high = named.get("min", low), named.get("max", named.get("max_val", high))
        low = named.get("min_val", low)
        if first == "max":
            low, high = None, low if low is not None else high
        x = c.to_kind(x, out)
        for bound, op in ((low, "maximum"), (high, "minimum")):
            if bound is None:
                continue
            if not isinstance(bound, Value) and bound != bound:
                return c.like(math.nan, x)
            if not isinstance(bound, Value) and math.isinf(bound) and not x.is_float:
                continue
            x = c.g.binary(op, x, c.tensor(bound, x.element, x.sizes))
        return x


_clamp(["clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_min.Tensor"], "min")
_clamp(["clamp_max.default", "clamp_max.Tensor"], "max")


@lower("threshold_backward.default")
def threshold_backward(c, out, dy, x, threshold):
    dy = c.to_kind(dy, out)
    low = c.g.compare("le", c.to_kind(x, out), c.like(threshold, dy))
    return c.g.select(low, c.like(0, dy), dy)


@lower("sigmoid_backward.default")
def sigmoid_backward(c, out, dy, y):
    g, dy, y = c.g, c.to_kind(dy, out), c.to_kind(y, out)
    return g.binary("mul", dy, g.binary("mul", g.binary("sub", c.like(1, y), y), y))


@lower("tanh_backward.default")
def tanh_backward(c, out, dy, y):
    g, dy, y = c.g, c.to_kind(dy, out), c.to_kind(y, out)
    return g.binary("mul", dy, g.binary("sub", c.like(1, y), g.binary("mul", y, y)))
