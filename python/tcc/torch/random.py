"""ATen's random numbers, drawn inside the step from one seed a run, which torch's generator gives."""

from __future__ import annotations

import functools
import math

from tcc.torch.lowering import Lowering, NotLowered, lower


@lower("native_dropout.default")
def dropout(c, out, x, rate, train=True):
    g = c.g
    if train is False or rate == 0:
        return [x, g.constant(True, "i1", x.sizes)]
    if rate == 1:
        return [c.like(0, x), g.constant(False, "i1", x.sizes)]
    kept = g.compare("ge", c.uniform(x.sizes), g.constant(rate, "f32", x.sizes))
    scaled = g.binary("mul", x, c.like(1 / (1 - rate), x))
    return [g.select(kept, scaled, c.like(0, x)), kept]


@lower("native_dropout_backward.default")
def dropout_backward(c, out, dy, kept, scale):
    dy = c.to_kind(dy, out)
    return c.g.select(kept, c.g.binary("mul", dy, c.like(scale, dy)), c.like(0, dy))


def drawn(*names: str):
    """A translation of an op that draws; one with a generator of its own is ATen's."""
    def register(function):
        @lower(*names)
        @functools.wraps(function)
        def lowered(c, out, *args, generator=None, **kwargs):
            if generator is not None:
                raise NotLowered("a generator of its own")
            return function(c, out, *args, **kwargs)
        return function
    return register


@drawn("rand.default", "rand_like.default", "inductor_random.default")
def uniform(c, out, *_, **__):
    sizes, element = c.kind(out)
    return c.cast(c.uniform(sizes), element)


@drawn("bernoulli.p", "bernoulli.default")
def bernoulli(c, out, x, p=None, **_):
    from tcc.graph import Value
    sizes, element = c.kind(out)
    if p is None or isinstance(p, Value):
        p = c.tensor(x if p is None else p, "f32", sizes)
    else:
        p = c.g.constant(p, "f32", sizes)
    return c.cast(c.g.compare("lt", c.uniform(sizes), p), element)


def positive(c: Lowering, sizes):
    """f32 in (0, 1]."""
    share = c.uniform(sizes)
    return c.g.binary("sub", c.like(1.0, share), share)


def normal(c: Lowering, sizes):
    """f32 of the standard normal distribution, by Box and Muller."""
    g, share, angle = c.g, positive(c, sizes), c.uniform(sizes)
    size = g.unary("sqrt", g.binary("mul", c.like(-2.0, share), g.unary("log", share)))
    return g.binary("mul", size, g.unary("cos", g.binary("mul", c.like(2 * math.pi, angle), angle)))


def floats(c: Lowering, out):
    """The sizes and the element type of a result that is a float."""
    if not out.dtype.is_floating_point:
        raise NotLowered("integers")
    return c.kind(out)


@drawn("randn.default", "randn_like.default")
def standard_normal(c, out, *_, **__):
    sizes, element = floats(c, out)
    return c.cast(normal(c, sizes), element)


def spread(c: Lowering, out, mean, deviation):
    sizes, element = floats(c, out)
    values = c.g.binary("mul", normal(c, sizes), c.tensor(deviation, "f32", sizes))
    return c.cast(c.g.binary("add", values, c.tensor(mean, "f32", sizes)), element)


@drawn("normal_functional.default")
def normal_over(c, out, x, mean=0.0, std=1.0):
    return spread(c, out, mean, std)


@drawn("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "normal.float_float")
def normal_of(c, out, mean, std=1.0, *_, **__):
    return spread(c, out, mean, std)


@drawn("uniform.default")
def uniform_over(c, out, x, low=0.0, high=1.0):
    sizes, element = floats(c, out)
    share = c.uniform(sizes)
    values = c.g.binary("mul", share, c.like(high - low, share))
    return c.cast(c.g.binary("add", values, c.like(low, values)), element)


@drawn("cauchy.default")
def cauchy(c, out, x, median=0.0, sigma=1.0):
    g, (sizes, element) = c.g, floats(c, out)
    share = c.uniform(sizes)
    angle = g.binary("mul", g.binary("sub", share, c.like(0.5, share)), c.like(math.pi, share))
    tangent = g.binary("div", g.unary("sin", angle), g.unary("cos", angle))
    values = g.binary("add", g.binary("mul", tangent, c.like(sigma, tangent)), c.like(median, tangent))
    return c.cast(values, element)


@drawn("exponential.default")
def exponential(c, out, x, rate=1.0):
    sizes, element = floats(c, out)
    depth = c.g.unary("log", positive(c, sizes))
    return c.cast(c.g.binary("mul", depth, c.like(-1.0 / rate, depth)), element)


@drawn("log_normal.default")
def log_normal(c, out, x, mean=1.0, std=2.0):
    sizes, element = floats(c, out)
    values = normal(c, sizes)
    values = c.g.binary("add", c.g.binary("mul", values, c.like(std, values)), c.like(mean, values))
    return c.cast(c.g.unary("exp", values), element)


@drawn("geometric.default")
def geometric(c, out, x, p):
    sizes, element = c.kind(out)
    if p >= 1:
        return c.g.constant(1, element, sizes)
    depth = c.g.unary("log", positive(c, sizes))
    turns = c.g.unary("ceil", c.g.binary("mul", depth, c.like(1 / math.log1p(-p), depth)))
    return c.cast(c.g.binary("maximum", turns, c.like(1.0, turns)), element)


def integers(c: Lowering, out, low: int, high: int):
    if high - low > 1 << 24:
        raise NotLowered("a range of more than 2^24 integers")
    g, (sizes, element) = c.g, c.kind(out)
    share = c.uniform(sizes)
    whole = g.unary("floor", g.binary("mul", share, c.like(float(high - low), share)))
    whole = g.cast(g.binary("minimum", whole, c.like(float(high - low - 1), whole)), "i64")
    return c.cast(g.binary("add", whole, c.like(low, whole)), element)


@drawn("randint.default", "randint_like.default")
def integers_below(c, out, *args, **_):
    return integers(c, out, 0, args[1] if hasattr(args[0], "element") else args[0])


@drawn("randint.low", "randint_like.low_dtype")
def integers_between(c, out, *args, **_):
    low, high = args[1:3] if hasattr(args[0], "element") else args[:2]
    return integers(c, out, low, high)


@drawn("rrelu_with_noise_functional.default")
def random_slopes(c, out, x, noise, lower=0.125, upper=1 / 3, training=False):
    g, element = c.g, x.element
    wide = c.wide(x)
    share = c.uniform(x.sizes) if training else None
    slope = c.like((lower + upper) / 2, wide) if share is None else g.binary(
        "add", g.binary("mul", share, c.like(upper - lower, share)), c.like(lower, share))
    slope = g.select(g.compare("le", wide, c.like(0.0, wide)), slope, c.like(1.0, wide))
    made = c.cast(g.binary("mul", wide, slope), element)
    return [made, c.cast(slope, element) if training else noise]


@lower("rrelu_with_noise_backward.default")
def random_slopes_backward(c, out, dy, x, noise, lower, upper, training, is_result):
    if training and upper - lower > 1e-6:
        return c.g.binary("mul", dy, noise)
    slope = c.g.binary("mul", dy, c.like((lower + upper) / 2, dy))
    return c.g.select(c.g.compare("gt", x, c.like(0, x)), dy, slope)
