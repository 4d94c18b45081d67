"""ATen's random numbers, drawn inside the step from one seed a run, which torch's generator gives."""

from __future__ import annotations

from tcc.torch.lowering import lower


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
    return c.g.select(kept, c.g.binary("mul", dy, c.like(scale, dy)), c.like(0, dy))


@lower("rand.default", "rand_like.default", "inductor_random.default")
def uniform(c, out, *_, **__):
    sizes, element = c.kind(out)
    return c.cast(c.uniform(sizes), element)


@lower("bernoulli.p", "bernoulli.default")
def bernoulli(c, out, x, p=None, **_):
    from tcc.graph import Value
    sizes, element = c.kind(out)
    if p is None or isinstance(p, Value):
        p = c.tensor(x if p is None else p, "f32", sizes)
    else:
        p = c.g.constant(p, "f32", sizes)
    return c.cast(c.g.compare("lt", c.uniform(sizes), p), element)
