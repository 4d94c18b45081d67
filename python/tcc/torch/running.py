"""ATen's ops along a dim: running sums and extremes, places of extremes, order."""

from __future__ import annotations

import math

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower

#: Elements are ordered by comparing each with each along a dim of at most so many; ATen sorts longer ones faster.
ORDERED = 512


def _running(name: str, op: str) -> None:
    @lower(f"{name}.default")
    def lowered(c: Lowering, out, x, dim, **_):
        x = c.to_kind(x, out)
        if x.rank == 0 or not math.prod(x.sizes):
            return x
        return c.g.running(op, x, c.axis(dim, x.rank))


_running("cumsum", "cumsum")
_running("cumprod", "cumprod")


@lower("prod.default", "prod.dim_int")
def product(c, out, x, dim=None, keepdim=False, **_):
    x = c.cast(x, c.element(out.dtype))
    return c.reduce("reduce_prod", x, c.axes(dim, x.rank), keepdim)


def doubled(c: Lowering, parts: list[Value], dim: int, join) -> list[Value]:
    """Running results of an associative join(earlier, later), by twice the distance each turn."""
    g, size, distance = c.g, parts[0].sizes[dim], 1
    while distance < size:
        place = g.iota(dim, parts[0].sizes, "i32")
        has_earlier = g.compare("ge", place, c.like(distance, place))
        earlier = []
        for part in parts:
            limits, low = list(part.sizes), [0] * part.rank
            limits[dim], low[dim] = size - distance, distance
            earlier.append(g.pad(g.slice(part, [0] * part.rank, limits), low, [0] * part.rank))
        joined = join(earlier, parts)
        parts = [g.select(has_earlier, new, old) for new, old in zip(joined, parts)]
        distance *= 2
    return parts


def _running_extreme(name: str, predicate: str) -> None:
    @lower(f"{name}.default")
    def lowered(c: Lowering, out, x, dim):
        g = c.g
        if x.element == "i1":
            raise NotLowered("truth values")
        index = g.constant(0, "i64", x.sizes)
        if x.rank == 0 or not math.prod(x.sizes):
            return [x, index]
        dim = c.axis(dim, x.rank)
        index = g.cast(g.iota(dim, x.sizes, "i32"), "i64")

        def join(earlier, later):
            # The later of equal ones, and NaN from its first place on.
            takes = g.compare(predicate, later[0], earlier[0])
            if x.is_float:
                takes = g.binary("or", takes, g.compare("ne", later[0], later[0]))
            return [g.select(takes, new, old) for old, new in zip(earlier, later)]
        return doubled(c, [x, index], dim, join)


_running_extreme("cummax", "ge")
_running_extreme("cummin", "le")


@lower("logcumsumexp.default")
def log_running_sum(c, out, x, dim):
    if x.rank == 0 or not math.prod(x.sizes):
        return x
    g, wide = c.g, c.wide(x)

    def join(earlier, later):
        (a,), (b,) = earlier, later
        most, least = g.binary("maximum", a, b), g.binary("minimum", a, b)
        sum_ = g.binary("add", most, g.unary("log1p", g.unary("exp", g.binary("sub", least, most))))
        is_plain = g.binary("or", g.is_finite(most), g.compare("ne", most, most))
        return [g.select(is_plain, sum_, most)]
    return c.cast(doubled(c, [wide], c.axis(dim, x.rank), join)[0], x.element)


# Places of extremes

def place(c: Lowering, x: Value, op: str, dim: int) -> Value:
    if x.element == "i1":
        x = c.g.cast(x, "i32")
    return c.g.cast(c.g.place_of(op, x, dim), "i64")


def _place(name: str) -> None:
    @lower(f"{name}.default")
    def lowered(c: Lowering, out, x, dim=None, keepdim=False):
        if dim is None or x.rank == 0:
            dim, x = 0, c.g.reshape(x, (math.prod(x.sizes),))
        return c.g.reshape(place(c, x, name, c.axis(dim, x.rank)), tuple(out.shape))


_place("argmax")
_place("argmin")


def _extreme(name: str, op: str, largest: bool) -> None:
    @lower(f"{name}.dim")
    def lowered(c: Lowering, out, x, dim, keepdim=False):
        from tcc.torch.reductions import extreme
        if x.rank == 0:
            return [x, c.g.constant(0, "i64")]
        dim = c.axis(dim, x.rank)
        return [extreme(c, x, [dim], keepdim, largest), c.g.reshape(place(c, x, op, dim), tuple(out[1].shape))]


_extreme("max", "argmax", True)
_extreme("min", "argmin", False)


# Order

def ordered(c: Lowering, x: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    """x in order along `dim`, equal elements as they stood, NaN as the largest; and where each stood (i64)."""
    g, was = c.g, x.element
    if x.sizes[dim] > ORDERED:
        raise NotLowered(f"more than {ORDERED} elements to put in order")
    values, places = g.sort(g.cast(x, "i32") if was == "i1" else x, dim, descending)
    return g.cast(values, was), g.cast(places, "i64")


@lower("sort.default", "sort.stable")
def sort(c, out, x, dim=-1, descending=False, *, stable=None):
    if x.rank == 0 or not math.prod(x.sizes):
        return [x, c.g.constant(0, "i64", x.sizes)]
    return list(ordered(c, x, c.axis(dim, x.rank), descending))


def part(c: Lowering, x: Value, dim: int, start: int, count: int) -> Value:
    starts, limits = [0] * x.rank, list(x.sizes)
    starts[dim], limits[dim] = start, start + count
    return c.g.slice(x, starts, limits)


@lower("topk.default")
def topk(c, out, x, k, dim=-1, largest=True, sorted=True):
    if x.rank == 0:
        return [x, c.g.constant(0, "i64")]
    dim = c.axis(dim, x.rank)
    return [part(c, value, dim, 0, k) for value in ordered(c, x, dim, largest)]


@lower("kthvalue.default")
def kth_value(c, out, x, k, dim=-1, keepdim=False):
    if x.rank == 0:
        return [x, c.g.constant(0, "i64")]
    if not x.is_float:
        raise NotLowered("integers, of which many are equal: torch has an order of its own for them")
    dim = c.axis(dim, x.rank)
    return [c.g.reshape(part(c, value, dim, k - 1, 1), tuple(fake.shape))
            for value, fake in zip(ordered(c, x, dim, False), out)]


def middle(c: Lowering, x: Value, dim: int) -> list[Value]:
    """The lower median along `dim`, which stays; where there is a NaN, its first place."""
    g, size = c.g, x.sizes[dim]
    values, stood = ordered(c, x, dim, False)
    made = [part(c, value, dim, (size - 1) // 2, 1) for value in (values, stood)]
    if x.is_float:
        nan = g.compare("ne", x, x)
        has_nan = g.reduce("reduce_max", g.cast(nan, "i32"), [dim])
        has_nan = g.compare("ne", has_nan, c.like(0, has_nan))
        first = g.cast(g.place_of("argmax", x, dim), "i64")
        made = [g.select(has_nan, c.like(math.nan, made[0]), made[0]), g.select(has_nan, first, made[1])]
    return made


@lower("median.default", "median.dim")
def median(c, out, x, dim=None, keepdim=False):
    if not math.prod(x.sizes):
        if dim is not None or not x.is_float:
            raise NotLowered("no elements")
        return c.g.constant(math.nan, x.element)
    if dim is None or x.rank == 0:
        flat = c.g.reshape(x, (math.prod(x.sizes),))
        made = middle(c, flat, 0)
        if dim is None:
            return c.g.reshape(made[0], ())
    else:
        made = middle(c, x, c.axis(dim, x.rank))
    return [c.g.reshape(value, tuple(fake.shape)) for value, fake in zip(made, out)]


@lower("searchsorted.Tensor")
def searchsorted(c, out, row, x, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None or not math.prod(x.sizes) or row.sizes[-1] > 2 * ORDERED or x.rank == 0:
        raise NotLowered("a sorter, or a long row")
    g = c.g
    right = right or side == "right"
    element = c.common(row, x)
    row, x = c.cast(row, element), c.cast(x, element)
    size = row.sizes[-1]
    if row.rank == 1:
        row = g.reshape(row, (1,) * x.rank + (size,))
    else:
        row = g.reshape(row, row.sizes[:-1] + (1, size))
    cube = x.sizes + (size,)
    row, x = g.broadcast(row, cube), g.broadcast(g.reshape(x, x.sizes + (1,)), cube)
    passed = g.compare("le" if right else "lt", row, x)
    if x.is_float: # NaN is the largest
        unknown = g.compare("ne", x, x)
        if not right:
            unknown = g.binary("and", unknown, g.compare("eq", row, row))
        passed = g.binary("or", passed, unknown)
    count = g.reduce("reduce_sum", g.cast(passed, "i32"), [len(cube) - 1])
    return g.cast(g.reshape(count, tuple(out.shape)), c.element(out.dtype))
