"""ATen's elementwise ops that the language writes with others: inverse trigonometry, hyperbolic and special functions.

Polynomials are those of the Cephes library (Moshier) in single precision unless another source is named. All are
computed in f32, whose errors are a few units in the last place.
"""

from __future__ import annotations

import math

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower


def polynomial(c: Lowering, x: Value, *factors: float) -> Value:
    """Horner's rule; the highest power's factor comes first."""
    g, made = c.g, c.like(factors[0], x)
    for factor in factors[1:]:
        made = g.binary("add", g.binary("mul", made, x), c.like(factor, x))
    return made


def _wide(*names: str):
    """A translation of one operand: the function sees f32, the result has the op's type."""
    def register(function):
        @lower(*names)
        def lowered(c: Lowering, out, x):
            if not out.dtype.is_floating_point:
                raise NotLowered("integers")
            x = c.to_kind(x, out)
            return c.cast(function(c, c.wide(x)), x.element)
        return function
    return register


def scaled(c: Lowering, x: Value, factor: float) -> Value:
    return c.g.binary("mul", x, c.like(factor, x))


def shifted(c: Lowering, x: Value, by: float) -> Value:
    return c.g.binary("add", x, c.like(by, x))


def below(c: Lowering, x: Value, bound: float) -> Value:
    return c.g.compare("lt", x, c.like(bound, x))


def signed(c: Lowering, size: Value, x: Value) -> Value:
    """`size` with the sign of x, and x itself where it is 0."""
    g = c.g
    made = g.select(below(c, x, 0.0), g.unary("neg", size), size)
    return g.select(g.compare("eq", x, c.like(0.0, x)), x, made)


def arctangent(c: Lowering, x: Value) -> Value:
    g, a = c.g, c.g.unary("abs", x)
    is_far, is_middle = g.compare("gt", a, c.like(2.414213562373095, a)), g.compare("gt", a, c.like(0.4142135623730950, a))
    base = g.select(is_far, c.like(math.pi / 2, a), g.select(is_middle, c.like(math.pi / 4, a), c.like(0.0, a)))
    far = g.binary("div", c.like(-1.0, a), a)
    middle = g.binary("div", shifted(c, a, -1.0), shifted(c, a, 1.0))
    y = g.select(is_far, far, g.select(is_middle, middle, a))
    z = g.binary("mul", y, y)
    p = polynomial(c, z, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
    part = g.binary("add", g.binary("mul", g.binary("mul", p, z), y), y)
    return signed(c, g.binary("add", base, part), x)


def arcsine_parts(c: Lowering, a: Value) -> tuple[Value, Value]:
    """Of 0 <= a <= 1: whether it is above 1/2, and the arcsine of a, or of sqrt((1 - a) / 2) where it is."""
    g = c.g
    is_far = g.compare("gt", a, c.like(0.5, a))
    z = g.select(is_far, scaled(c, g.binary("sub", c.like(1.0, a), a), 0.5), g.binary("mul", a, a))
    x = g.select(is_far, g.unary("sqrt", z), a)
    p = polynomial(c, z, 4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
    return is_far, g.binary("add", g.binary("mul", g.binary("mul", p, z), x), x)


@_wide("atan.default")
def atan(c, x):
    return arctangent(c, x)


@_wide("asin.default")
def asin(c, x):
    is_far, part = arcsine_parts(c, c.g.unary("abs", x))
    other = c.g.binary("sub", c.like(math.pi / 2, x), scaled(c, part, 2.0))
    return signed(c, c.g.select(is_far, other, part), x)


@_wide("acos.default")
def acos(c, x):
    g = c.g
    is_far, part = arcsine_parts(c, g.unary("abs", x))
    double = scaled(c, part, 2.0)
    far = g.select(below(c, x, 0.0), g.binary("sub", c.like(math.pi, x), double), double)
    near = g.binary("sub", c.like(math.pi / 2, x), g.select(below(c, x, 0.0), g.unary("neg", part), part))
    return g.select(is_far, far, near)


@lower("atan2.default")
def atan2(c, out, y, x):
    g = c.g
    y, x = (c.wide(value) for value in c.pair(y, x, out))
    # Quotients of two infinities count as 1, of two zeros as 0.
    ay, ax = g.unary("abs", y), g.unary("abs", x)
    are_infinite = g.compare("eq", g.binary("minimum", ay, ax), c.like(math.inf, x))
    are_zero = g.compare("eq", g.binary("maximum", ay, ax), c.like(0.0, x))
    quotient = g.select(are_zero, c.like(0.0, x), g.select(are_infinite, c.like(1.0, x), g.binary("div", ay, ax)))
    angle = arctangent(c, quotient)
    angle = g.select(has_sign(c, x), g.binary("sub", c.like(math.pi, x), angle), angle)
    return c.cast(g.select(has_sign(c, y), g.unary("neg", angle), angle), c.element(out.dtype))


def has_sign(c: Lowering, x: Value) -> Value:
    """Whether the sign is minus, that of -0 too."""
    g = c.g
    if not x.is_float:
        return g.compare("lt", x, c.like(0, x))
    inverse = g.binary("div", c.like(1.0, x), x)
    is_zero = g.compare("eq", x, c.like(0.0, x))
    return g.binary("or", below(c, x, 0.0), g.binary("and", is_zero, below(c, inverse, 0.0)))


@lower("signbit.default")
def signbit(c, out, x):
    return c.g.constant(False, "i1", x.sizes) if x.element == "i1" else has_sign(c, x)


@lower("copysign.Tensor", "copysign.Scalar")
def copysign(c, out, a, b):
    g = c.g
    if not out.dtype.is_floating_point:
        raise NotLowered("integers")
    a, b = c.pair(a, b, out)
    size = g.unary("abs", a)
    return g.select(has_sign(c, b), g.unary("neg", size), size)


@_wide("tan.default")
def tan(c, x):
    return c.g.binary("div", c.g.unary("sin", x), c.g.unary("cos", x))


@_wide("sinh.default")
def sinh(c, x):
    g, a = c.g, c.g.unary("abs", x)
    e = g.unary("expm1", a)
    near = scaled(c, g.binary("add", e, g.binary("div", e, shifted(c, e, 1.0))), 0.5)
    root = g.unary("exp", scaled(c, a, 0.5))                                  # e^a itself may be infinite
    far = g.binary("mul", scaled(c, root, 0.5), root)
    return signed(c, g.select(below(c, a, 9.0), near, far), x)


@_wide("cosh.default")
def cosh(c, x):
    g, a = c.g, c.g.unary("abs", x)
    root = g.unary("exp", scaled(c, a, 0.5))
    return g.binary("add", g.binary("mul", scaled(c, root, 0.5), root), scaled(c, g.unary("exp", g.unary("neg", a)), 0.5))


@_wide("asinh.default")
def asinh(c, x):
    g, a = c.g, c.g.unary("abs", x)
    square = g.binary("mul", a, a)
    root = shifted(c, g.unary("sqrt", shifted(c, square, 1.0)), 1.0)
    near = g.unary("log1p", g.binary("add", a, g.binary("div", square, root)))
    far = shifted(c, g.unary("log", a), math.log(2))
    return signed(c, g.select(below(c, a, 1e9), near, far), x)


@_wide("acosh.default")
def acosh(c, x):
    g, t = c.g, shifted(c, x, -1.0)
    near = g.unary("log1p", g.binary("add", t, g.unary("sqrt", g.binary("add", scaled(c, t, 2.0), g.binary("mul", t, t)))))
    made = g.select(below(c, x, 1e9), near, shifted(c, g.unary("log", x), math.log(2)))
    return g.select(below(c, x, 1.0), c.like(math.nan, x), made)


@_wide("atanh.default")
def atanh(c, x):
    g, a = c.g, c.g.unary("abs", x)
    double = scaled(c, a, 2.0)
    inside = g.binary("div", double, g.binary("sub", c.like(1.0, a), a))
    return signed(c, scaled(c, g.unary("log1p", inside), 0.5), x)


@_wide("exp2.default")
def exp2(c, x):
    return c.g.binary("pow", c.like(2.0, x), x)


@_wide("log2.default")
def log2(c, x):
    return scaled(c, c.g.unary("log", x), 1 / math.log(2))


@_wide("log10.default")
def log10(c, x):
    return scaled(c, c.g.unary("log", x), 1 / math.log(10))


@_wide("erfinv.default")
def erfinv(c, x):
    # Giles 2010, "Approximating the erfinv function", single precision.
    g = c.g
    w = g.binary("mul", g.binary("sub", c.like(1.0, x), x), shifted(c, x, 1.0))
    w = g.unary("neg", g.unary("log", w))
    near = polynomial(c, shifted(c, w, -2.5), 2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                      0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)
    far = polynomial(c, shifted(c, g.unary("sqrt", w), -3.0), -0.000200214257, 0.000100950558, 0.00134934322,
                     -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)
    made = g.binary("mul", g.select(below(c, w, 5.0), near, far), x)
    is_end = g.compare("eq", g.unary("abs", x), c.like(1.0, x))
    return g.select(is_end, g.binary("mul", x, c.like(math.inf, x)), made)


@lower("fmax.default")
def fmax(c, out, a, b):
    return number_of(c, out, a, b, "maximum")


@lower("fmin.default")
def fmin(c, out, a, b):
    return number_of(c, out, a, b, "minimum")


def number_of(c: Lowering, out, a, b, op: str) -> Value:
    """An extreme for which NaN is no number."""
    from tcc.torch.elementwise import logical
    if c.element(out.dtype) == "i1":
        return logical(c, out, a, b, "or" if op == "maximum" else "and")
    g = c.g
    a, b = c.pair(a, b, out)
    made = g.binary(op, a, b)
    if not a.is_float:
        return made
    return g.select(g.compare("ne", a, a), b, g.select(g.compare("ne", b, b), a, made))


@lower("hypot.default")
def hypot(c, out, a, b):
    g = c.g
    a, b = (g.unary("abs", c.wide(x)) for x in c.pair(a, b, out))
    most, least = g.binary("maximum", a, b), g.binary("minimum", a, b)
    share = g.binary("div", least, most)
    made = g.binary("mul", most, g.unary("sqrt", shifted(c, g.binary("mul", share, share), 1.0)))
    is_plain = g.binary("and", g.compare("ne", most, c.like(0.0, most)), g.is_finite(most))
    return c.cast(g.select(is_plain, made, most), c.element(out.dtype))


@lower("angle.default")
def angle(c, out, x):
    if not out.dtype.is_floating_point:
        raise NotLowered("integers")
    was = x
    x = c.to_kind(x, out)
    made = c.g.select(below(c, x, 0.0), c.like(math.pi, x), c.like(0.0, x))
    return c.g.select(c.g.compare("ne", x, x), x, made) if was.is_float else made
