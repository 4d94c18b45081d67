"""ATen's ops that write at indices, and diagonals.

What is added at indices is the language's `scatter_add` of rows, or of single elements in a flat tensor. What is put
there, or combined otherwise, is found by comparing each index with each place, so only small ones are: ATen does the
others.
"""

from __future__ import annotations

import math

import torch

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower
from tcc.torch.views import rows_at, wrapped

#: The most comparisons of an index with a place that one op may cost, where that is more than one for each place.
COMPARISONS = 1 << 22


def affordable(count: int, places: int) -> None:
    if count > max(COMPARISONS, places):
        raise NotLowered(f"{count} comparisons of indices with places")


# Rows

def added(c: Lowering, table: Value, at: Value, rows: Value) -> Value:
    """`table` with rows added at places of its first dim, duplicates too."""
    g = c.g
    if table.is_float:
        return c.cast(g.scatter_add(c.wide(table), at, c.wide(rows)), table.element)
    k = at.rank
    at, rows = g.reshape(at, (math.prod(at.sizes),)), g.reshape(rows, (math.prod(at.sizes),) + rows.sizes[k:])
    hit, each = meeting(c, table, at, rows)
    if table.element == "i1":
        raise NotLowered("truth values")
    sums = g.reduce("reduce_sum", g.select(hit, each, c.like(0, each)), [1])
    return g.binary("add", table, g.reshape(sums, table.sizes))


def meeting(c: Lowering, table: Value, at: Value, rows: Value) -> tuple[Value, Value]:
    """In [places, indices, rest...]: whether the index names the place, and the rows."""
    g = c.g
    cube = (table.sizes[0],) + rows.sizes
    affordable(math.prod(cube), math.prod(table.sizes))
    index = g.reshape(at, (1,) + at.sizes + (1,) * (len(cube) - 2))
    index = g.broadcast(index, cube)
    return g.compare("eq", g.iota(0, cube, index.element), index), g.broadcast(g.reshape(rows, (1,) + rows.sizes), cube)


def put(c: Lowering, table: Value, at: Value, rows: Value) -> Value:
    """`table` with rows in place of those that the indices (one dim) name; the last of equal indices stays."""
    g, count = c.g, at.sizes[0]
    if not count or not math.prod(table.sizes):
        return table
    grid = (table.sizes[0], count)
    affordable(math.prod(grid), math.prod(table.sizes))
    hit = g.compare("eq", g.iota(0, grid, at.element), g.broadcast(g.reshape(at, (1, count)), grid))
    number = g.iota(1, grid, "i32")
    last = g.reshape(g.reduce("reduce_max", g.select(hit, number, c.like(-1, number)), [1]), (table.sizes[0],))
    is_named = g.compare("ge", last, c.like(0, last))
    new = g.gather(rows, g.binary("maximum", last, c.like(0, last)))
    is_named = g.broadcast(g.reshape(is_named, table.sizes[:1] + (1,) * (table.rank - 1)), table.sizes)
    return g.select(is_named, new, table)


@lower("index_put.default", "_unsafe_index_put.default", "_index_put_impl.default")
def index_put(c, out, x, indices, values, accumulate=False, *_):
    g = c.g
    used = [(dim, i) for dim, i in enumerate(indices) if i is not None]
    if x.rank == 0 or not used:
        raise NotLowered("no dim")
    if any(i.element == "i1" for _, i in used):
        return put_mask(c, x, used, values, accumulate)
    if accumulate and x.element == "i1":
        raise NotLowered("truth values")
    dims = [dim for dim, _ in used]
    rest = [dim for dim in range(x.rank) if dim not in dims]
    shape = tuple(torch.broadcast_shapes(*[i.sizes for _, i in used]))
    flat = None
    for dim, at in used:
        at = g.broadcast(wrapped(c, g.cast(at, "i64"), x.sizes[dim]), shape)
        flat = at if flat is None else g.binary("add", g.binary("mul", flat, c.like(x.sizes[dim], flat)), at)
    kept = tuple(x.sizes[dim] for dim in rest)
    # The values stand as a result of x[indices] would.
    k, together = len(shape), dims == list(range(dims[0], dims[0] + len(dims)))
    first = dims[0] if together else 0
    values = c.tensor(values, x.element, kept[:first] + shape + kept[first:])
    values = g.transpose(values, [*range(first, first + k), *range(first), *range(first + k, values.rank)])
    count = math.prod(shape)
    flat, values = g.reshape(flat, (count,)), g.reshape(values, (count,) + kept)
    table = g.transpose(x, dims + rest)
    turned = table.sizes
    table = g.reshape(table, (math.prod(turned[:len(dims)]),) + kept)
    made = g.reshape((added if accumulate else put)(c, table, flat, values), turned)
    order = dims + rest
    return g.transpose(made, [order.index(dim) for dim in range(x.rank)])


def put_mask(c: Lowering, x: Value, used, values, accumulate: bool) -> Value:
    """One number where a mask is true."""
    g, (dim, mask) = c.g, used[0]
    if len(used) != 1 or dim != 0 or math.prod(values.sizes) != 1:
        raise NotLowered("a mask as index")
    values = c.tensor(g.reshape(values, ()), x.element, x.sizes)
    mask = g.broadcast(g.reshape(mask, mask.sizes + (1,) * (x.rank - mask.rank)), x.sizes)
    if accumulate:
        values = g.binary("add", x, values)
    return g.select(mask, values, x)


def by_first_dim(c: Lowering, x: Value, dim: int, rows, change) -> Value:
    """change(x, rows), both with `dim` first."""
    order = [dim] + [i for i in range(x.rank) if i != dim]
    made = change(c.g.transpose(x, order), c.g.transpose(rows, order) if isinstance(rows, Value) else rows)
    return c.g.transpose(made, [order.index(i) for i in range(x.rank)])


def alone(c: Lowering, x: Value, source: Value, change) -> Value:
    """change(x, source) of scalars, both as vectors of one element."""
    made = change(c.g.reshape(x, (1,)), c.g.reshape(source, (math.prod(source.sizes),)))
    return c.g.reshape(made, ())


@lower("index_add.default")
def index_add(c, out, x, dim, index, source, alpha=1):
    g = c.g
    if x.element == "i1":
        raise NotLowered("truth values")
    if x.rank == 0:
        return alone(c, x, source, lambda *rows: index_add(c, out, rows[0], 0, index, rows[1], alpha))
    source = c.cast(source, x.element)
    if alpha != 1:
        source = g.binary("mul", source, c.like(alpha, source))
    index = g.reshape(index, (math.prod(index.sizes),))
    return by_first_dim(c, x, c.axis(dim, x.rank), source, lambda table, rows: added(c, table, index, rows))


@lower("index_copy.default")
def index_copy(c, out, x, dim, index, source):
    if x.rank == 0:
        return alone(c, x, source, lambda *rows: index_copy(c, out, rows[0], 0, index, rows[1]))
    if source.rank == 0:
        source = c.g.reshape(source, (1,))
    index = c.g.reshape(index, (math.prod(index.sizes),))
    return by_first_dim(c, x, c.axis(dim, x.rank), source, lambda table, rows: put(c, table, index, rows))


@lower("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(c, out, x, dim, index, value):
    if x.rank == 0:
        raise NotLowered("a scalar")
    dim = c.axis(dim, x.rank)
    index = c.g.reshape(index, (math.prod(index.sizes),))
    rows = c.tensor(value, x.element, x.sizes[:dim] + index.sizes + x.sizes[dim + 1:])
    return by_first_dim(c, x, dim, rows, lambda table, given: put(c, table, wrapped(c, index, x.sizes[dim]), given))


# Elements

def met(c: Lowering, x: Value, dim: int, index: Value, source) -> tuple[Value, Value, Value, int]:
    """In x's dims, with one for the index's elements along `dim` after `dim`: whether the index names the place, the
    source, the number of the element; and that dim."""
    g = c.g
    if any(index.sizes[i] > size for i, size in enumerate(x.sizes) if i != dim):
        raise NotLowered("an index beyond the operand")
    count = index.sizes[dim]
    cube = x.sizes[:dim + 1] + (count,) + x.sizes[dim + 1:]
    affordable(math.prod(cube), math.prod(x.sizes))
    # Places that the index does not reach are named by none.
    more = [size - own if i != dim else 0 for i, (size, own) in enumerate(zip(x.sizes, index.sizes))]
    is_there = g.pad(g.constant(True, "i1", index.sizes), [0] * x.rank, more)
    padded = g.pad(index, [0] * x.rank, more)

    def spread(value: Value) -> Value:
        return g.broadcast(g.reshape(value, value.sizes[:dim] + (1,) + value.sizes[dim:]), cube)
    hit = g.compare("eq", g.iota(dim, cube, index.element), spread(padded))
    hit = g.binary("and", hit, spread(is_there)) if any(more) else hit
    if isinstance(source, Value):
        source = g.slice(source, [0] * source.rank, index.sizes)
        source = spread(g.pad(c.cast(source, x.element), [0] * x.rank, more))
    else:
        source = g.constant(source, x.element, cube)
    return hit, source, g.iota(dim + 1, cube, "i32"), dim + 1


def one_dim(c: Lowering, *values) -> list:
    """Scalars as tensors of one element."""
    return [c.g.reshape(v, (1,)) if isinstance(v, Value) and v.rank == 0 else v for v in values]


@lower("scatter.src", "scatter.value")
def scatter(c, out, x, dim, index, source):
    g, rank = c.g, x.rank
    if not math.prod(index.sizes):
        return x
    x, index, source = one_dim(c, x, index, source)
    dim = c.axis(dim, x.rank)
    hit, source, number, axis = met(c, x, dim, index, source)
    if index.sizes[dim] == 1: # as in the gradient of a loss over classes: no two indices meet
        made = g.select(*(g.reshape(value, x.sizes) for value in (hit, source)), x)
        return g.reshape(made, ()) if rank == 0 else made
    if source.element == "i1":
        source = g.cast(source, "i32")
    last = g.reduce("reduce_max", g.select(hit, number, c.like(-1, number)), [axis])
    is_last = g.compare("eq", number, g.broadcast(last, number.sizes))
    new = g.reshape(g.reduce("reduce_sum", g.select(is_last, source, c.like(0, source)), [axis]), x.sizes)
    is_named = g.reshape(g.compare("ge", last, c.like(0, last)), x.sizes)
    made = g.select(is_named, g.cast(new, x.element), x)
    return g.reshape(made, ()) if rank == 0 else made


@lower("scatter_add.default")
def scatter_add(c, out, x, dim, index, source):
    return reduced(c, x, dim, index, source, "sum", True)


@lower("scatter_reduce.two")
def scatter_reduce(c, out, x, dim, index, source, reduce, *, include_self=True):
    return reduced(c, x, dim, index, source, reduce, include_self)


def reduced(c: Lowering, x: Value, dim: int, index: Value, source: Value, how: str, include_self: bool) -> Value:
    g, rank = c.g, x.rank
    if not math.prod(index.sizes):
        return x
    if x.element == "i1":
        raise NotLowered("truth values")
    was = x.element
    x, index, source = one_dim(c, x, index, source)
    dim = c.axis(dim, x.rank)
    x, source = c.wide(x), c.wide(c.cast(source, was))
    if how == "sum" and include_self and x.is_float:
        made = add_elements(c, x, dim, index, source)
        return g.reshape(c.cast(made, was), tuple() if rank == 0 else x.sizes)
    hit, source, number, axis = met(c, x, dim, index, source)
    ops = {"sum": ("reduce_sum", "add", 0), "mean": ("reduce_sum", "add", 0), "prod": ("reduce_prod", "mul", 1),
           "amax": ("reduce_max", "maximum", None), "amin": ("reduce_min", "minimum", None)}
    over, join, neutral = ops[how]
    if neutral is None:
        bits = {"i32": 31, "i64": 63}.get(x.element)
        neutral = -math.inf if x.is_float else -2 ** bits
        if how == "amin":
            neutral = math.inf if x.is_float else 2 ** bits - 1
    made = g.reshape(g.reduce(over, g.select(hit, source, c.like(neutral, source)), [axis]), x.sizes)
    count = g.reshape(g.reduce("reduce_sum", g.cast(hit, "i32"), [axis]), x.sizes)
    is_named = g.compare("gt", count, c.like(0, count))
    if include_self:
        made = g.binary(join, x, made)
    if how == "mean":
        total = g.binary("add", count, c.like(1, count)) if include_self else count
        total = g.cast(g.binary("maximum", total, c.like(1, total)), x.element)
        made = g.binary("div" if x.is_float else "floor_divide", made, total)
    made = c.cast(g.select(is_named, made, x), was)
    return g.reshape(made, ()) if rank == 0 else made


def add_elements(c: Lowering, x: Value, dim: int, index: Value, source: Value) -> Value:
    """As `scatter_add` of single elements of the flat tensor."""
    g, flat = c.g, None
    source = g.slice(source, [0] * source.rank, index.sizes)
    for i, size in enumerate(x.sizes):
        at = g.cast(index, "i64") if i == dim else g.iota(i, index.sizes, "i64")
        flat = at if flat is None else g.binary("add", g.binary("mul", flat, c.like(size, flat)), at)
    count = math.prod(index.sizes)
    made = g.scatter_add(g.reshape(x, (math.prod(x.sizes),)), g.reshape(flat, (count,)), g.reshape(source, (count,)))
    return g.reshape(made, x.sizes)


# Diagonals

def diagonal_places(c: Lowering, x_sizes, offset: int, a: int, b: int, count: int) -> Value:
    """Places of a diagonal's elements in the flat dims a and b."""
    g = c.g
    i = g.iota(0, (count,), "i64")
    row = g.binary("add", i, c.like(max(-offset, 0), i))
    column = g.binary("add", i, c.like(max(offset, 0), i))
    return g.binary("add", g.binary("mul", row, c.like(x_sizes[b], row)), column)


def diagonal_of(c: Lowering, x: Value, offset: int, a: int, b: int, count: int) -> Value:
    g = c.g
    order = [a, b] + [i for i in range(x.rank) if i not in (a, b)]
    turned = g.transpose(x, order)
    table = g.reshape(turned, (x.sizes[a] * x.sizes[b],) + turned.sizes[2:])
    made = g.gather(table, diagonal_places(c, x.sizes, offset, a, b, count))
    return g.transpose(made, [*range(1, made.rank), 0])


@lower("diagonal.default", "diagonal_copy.default")
def diagonal(c, out, x, offset=0, dim1=0, dim2=1):
    return diagonal_of(c, x, offset, c.axis(dim1, x.rank), c.axis(dim2, x.rank), int(out.shape[-1]))


@lower("trace.default")
def trace(c, out, x):
    made = diagonal_of(c, x, 0, 0, 1, min(x.sizes))
    return c.reduce("reduce_sum", c.cast(made, c.element(out.dtype)), [0], keepdim=False)


@lower("diagonal_scatter.default")
def diagonal_scatter(c, out, x, source, offset=0, dim1=0, dim2=1):
    g, a, b = c.g, c.axis(dim1, x.rank), c.axis(dim2, x.rank)
    rest = [i for i in range(x.rank) if i not in (a, b)]
    count = source.sizes[-1]
    # The element of row i (or column i, whichever the diagonal begins in) stands at i less where it begins.
    low, size = (max(-offset, 0), x.sizes[a])
    source = g.pad(c.cast(source, x.element), [0] * len(rest) + [low], [0] * len(rest) + [size - low - count])
    source = g.broadcast(g.reshape(source, source.sizes + (1,)), source.sizes + (x.sizes[b],))
    order = rest + [a, b]
    source = g.transpose(source, [order.index(i) for i in range(x.rank)])
    row, column = g.iota(a, x.sizes, "i64"), g.iota(b, x.sizes, "i64")
    is_on = g.compare("eq", column, g.binary("add", row, c.like(offset, row)))
    return g.select(is_on, source, x)


# Other views of elements

@lower("roll.default")
def roll(c, out, x, shifts, dims=()):
    g, sizes = c.g, x.sizes
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        x, dims = g.reshape(x, (math.prod(sizes),)), [0]
    for shift, dim in zip(shifts, dims):
        dim = c.axis(dim, x.rank)
        size = x.sizes[dim] if x.rank else 0
        if not size or shift % size == 0:
            continue
        at, starts, limits = size - shift % size, [0] * x.rank, list(x.sizes)
        starts[dim], limits[dim] = at, at
        x = g.concat([g.slice(x, starts, list(x.sizes)), g.slice(x, [0] * x.rank, limits)], dim)
    return g.reshape(x, sizes)


@lower("unfold.default", "unfold_copy.default")
def unfold(c, out, x, dim, size, step):
    g = c.g
    if x.rank == 0:
        return g.reshape(x, tuple(out.shape))
    dim = c.axis(dim, x.rank)
    windows = int(out.shape[dim])
    at = g.iota(0, (windows, size), "i64")
    at = g.binary("add", g.binary("mul", at, c.like(step, at)), g.iota(1, (windows, size), "i64"))
    made = rows_at(c, x, dim, at)                       # [..., windows, size, ...]
    return g.transpose(made, [i for i in range(made.rank) if i != dim + 1] + [dim + 1])


@lower("linalg_cross.default")
def cross(c, out, a, b, *, dim=-1):
    g, (a, b) = c.g, c.pair(a, b, out)
    dim = c.axis(dim, a.rank)

    def turned(x: Value, by: int) -> Value:
        return roll(c, out, x, -by, dim)
    return g.binary("sub", g.binary("mul", turned(a, 1), turned(b, 2)), g.binary("mul", turned(a, 2), turned(b, 1)))


@lower("put.default")
def put_elements(c, out, x, index, source, accumulate=False):
    g, count = c.g, math.prod(index.sizes)
    flat = g.reshape(x, (math.prod(x.sizes),))
    at = g.reshape(wrapped(c, index, math.prod(x.sizes)), (count,))
    source = g.reshape(c.cast(source, x.element), (count,))
    return g.reshape((added if accumulate else put)(c, flat, at, source), x.sizes)


@lower("narrow_copy.default")
def narrow_copy(c, out, x, dim, start, length):
    dim = c.axis(dim, x.rank)
    start = start + x.sizes[dim] if start < 0 else start
    starts, limits = [0] * x.rank, list(x.sizes)
    starts[dim], limits[dim] = start, start + length
    return c.g.slice(x, starts, limits)


@lower("unbind_copy.int")
def unbind_copy(c, out, x, dim=0):
    from tcc.torch.views import select
    return [select(c, fake, x, dim, i) for i, fake in enumerate(out)]


@lower("_cdist_forward.default")
def cdist(c, out, a, b, p, mode=None):
    g = c.g
    if p not in (1.0, 2.0) or not math.prod(out.shape) or a.sizes[:-2] != b.sizes[:-2] or a.sizes[-1] == 0:
        raise NotLowered(f"power {p}")
    cube = a.sizes[:-1] + (b.sizes[-2], a.sizes[-1])
    affordable(math.prod(cube), 0)
    one = g.broadcast(g.reshape(a, a.sizes[:-1] + (1, a.sizes[-1])), cube)
    other = g.broadcast(g.reshape(b, b.sizes[:-2] + (1,) + b.sizes[-2:]), cube)
    apart = g.unary("abs", g.binary("sub", one, other))
    apart = g.binary("mul", apart, apart) if p == 2 else apart
    made = g.reshape(g.reduce("reduce_sum", apart, [len(cube) - 1]), tuple(out.shape))
    return g.unary("sqrt", made) if p == 2 else made
