"""ATen's sources, views and indexing."""

from __future__ import annotations

import math

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, Unsupported, lower

# Sources


@lower("full.default", "full_like.default", "new_full.default")
def full(c, out, x, *rest, **_):
    values = [value for value in rest if isinstance(value, (bool, int, float, Value))]
    if not values:
        raise NotLowered("no value")
    return c.to_kind(values[0], out)


@lower("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default",
       "new_empty.default", "new_empty_strided.default", "empty_strided.default", "empty_permuted.default",
       "_efficientzerotensor.default")
def zeros(c, out, *_, **__):
    return c.to_kind(0, out)


@lower("ones.default", "ones_like.default", "new_ones.default")
def ones(c, out, *_, **__):
    return c.to_kind(1, out)


@lower("scalar_tensor.default")
def scalar_tensor(c, out, value, **_):
    return c.to_kind(value, out)


@lower("arange.default", "arange.start", "arange.start_step")
def arange(c, out, *numbers, **_):
    if len(numbers) == 1:
        numbers = (0, numbers[0])
    start, step = numbers[0], numbers[2] if len(numbers) > 2 else 1
    return progression(c, out, start, step)


@lower("prims.iota.default")
def iota(c, out, length, *, start, step, **_):
    return progression(c, out, start, step)


def progression(c: Lowering, out, start, step) -> Value:
    sizes, element = c.kind(out)
    whole = isinstance(start, int) and isinstance(step, int)
    exact = element if element in ("i32", "i64", "f32") else "f32"
    if whole and element == "f32":
        exact = "i64"
    x = c.g.iota(0, sizes, exact)
    if step != 1:
        x = c.g.binary("mul", x, c.like(step, x))
    if start != 0:
        x = c.g.binary("add", x, c.like(start, x))
    return c.cast(x, element)


@lower("eye.default", "eye.m")
def eye(c, out, *_, **__):
    sizes, element = c.kind(out)
    return c.cast(c.g.compare("eq", c.g.iota(0, sizes, "i32"), c.g.iota(1, sizes, "i32")), element)


# Views

@lower("view.default", "_unsafe_view.default", "reshape.default", "_reshape_alias.default", "view_copy.default",
       "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "flatten.using_ints",
       "unflatten.int", "_reshape_copy.default")
def reshape(c, out, x, *_, **__):
    return c.g.reshape(x, tuple(out.shape))


@lower("permute.default", "permute_copy.default")
def permute(c, out, x, dims):
    return c.g.transpose(x, [c.axis(dim, x.rank) for dim in dims])


@lower("t.default", "numpy_T.default")
def matrix_transpose(c, out, x):
    return c.g.transpose(x, range(x.rank - 1, -1, -1))


@lower("transpose.int", "swapaxes.default")
def transpose(c, out, x, a, b):
    order = list(range(x.rank))
    if order:
        a, b = c.axis(a, x.rank), c.axis(b, x.rank)
        order[a], order[b] = order[b], order[a]
    return c.g.transpose(x, order)


@lower("expand.default", "expand_copy.default", "broadcast_to.default")
def expand(c, out, x, sizes, **_):
    return c.g.broadcast(x, tuple(out.shape))


@lower("slice.Tensor", "slice_copy.Tensor")
def slice_of(c, out, x, dim=0, start=None, end=None, step=1):
    dim = c.axis(dim, x.rank)
    size = x.sizes[dim]
    start, end = bounds(size, start, end)
    starts, limits = [0] * x.rank, list(x.sizes)
    starts[dim], limits[dim] = start, max(start, end)
    steps = [1] * x.rank
    steps[dim] = step
    return c.g.slice(x, starts, limits, steps)


def bounds(size: int, start, end) -> tuple[int, int]:
    def clamped(at, default):
        at = default if at is None else at
        return min(max(at + size if at < 0 else at, 0), size)
    return clamped(start, 0), clamped(end, size)


@lower("select.int", "select_copy.int")
def select(c, out, x, dim, index):
    dim = c.axis(dim, x.rank)
    starts, limits = [0] * x.rank, list(x.sizes)
    starts[dim] = index + x.sizes[dim] if index < 0 else index
    limits[dim] = starts[dim] + 1
    return c.g.reshape(c.g.slice(x, starts, limits), tuple(out.shape))


@lower("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default", "chunk.default",
       "unsafe_split.Tensor")
def split(c, out, x, _, dim=0):
    dim = c.axis(dim, x.rank)
    made, at = [], 0
    for part in out:
        starts, limits = [0] * x.rank, list(x.sizes)
        starts[dim], limits[dim] = at, at + part.shape[dim]
        made.append(c.g.slice(x, starts, limits))
        at += part.shape[dim]
    return made


@lower("unbind.int")
def unbind(c, out, x, dim=0):
    return [select(c, part, x, dim, i) for i, part in enumerate(out)]


@lower("cat.default")
def cat(c, out, parts, dim=0):
    rank = out.dim()
    parts = [part for part in parts if part.rank == rank or math.prod(part.sizes)]
    parts = [c.cast(part, c.element(out.dtype)) for part in parts if part.rank == rank]
    return joined(c, parts, c.axis(dim, rank))


def joined(c: Lowering, parts: list[Value], dim: int, most: int = 32) -> Value:
    """A kernel has a bounded number of operands; so many are joined at once."""
    while len(parts) > 1:
        parts = [c.g.concat(parts[i:i + most], dim) for i in range(0, len(parts), most)]
    return parts[0]


@lower("stack.default")
def stack(c, out, parts, dim=0):
    dim = c.axis(dim, out.dim())
    parts = [c.cast(part, c.element(out.dtype)) for part in parts]
    return joined(c, [c.g.reshape(part, part.sizes[:dim] + (1,) + part.sizes[dim:]) for part in parts], dim)


@lower("constant_pad_nd.default")
def constant_pad(c, out, x, amounts, value=0):
    g, rank = c.g, x.rank
    low, high = [0] * rank, [0] * rank
    for i in range(len(amounts) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = amounts[2 * i], amounts[2 * i + 1]
    x = g.slice(x, [max(-n, 0) for n in low], [size - max(-n, 0) for size, n in zip(x.sizes, high)])
    low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if x.element == "i1":
        value = 1 if value else 0
    elif not x.is_float and abs(int(value)) > 1 << 53:
        raise NotLowered(f"padding with {value}")
    return g.pad(x, low, high, value if x.is_float else int(value))


@lower("repeat.default")
def repeat(c, out, x, times):
    g = c.g
    sizes = (1,) * (len(times) - x.rank) + x.sizes
    x = g.reshape(x, tuple(n for size in sizes for n in (1, size)))
    x = g.broadcast(x, tuple(n for count, size in zip(times, sizes) for n in (count, size)))
    return g.reshape(x, tuple(out.shape))


@lower("slice_scatter.default")
def slice_scatter(c, out, x, part, dim=0, start=None, end=None, step=1):
    g, dim = c.g, c.axis(dim, x.rank)
    start, _ = bounds(x.sizes[dim], start, end)
    part = c.cast(part, x.element)
    inside = g.constant(True, "i1", part.sizes)
    return g.select(spread(c, inside, x.sizes, dim, start, step), spread(c, part, x.sizes, dim, start, step), x)


def spread(c: Lowering, part: Value, sizes, dim: int, start: int, step: int) -> Value:
    """Zeros of these sizes with the part along `dim` from `start` on, at every step-th place."""
    g, count = c.g, part.sizes[dim]
    if count == 0:
        return g.constant(0, part.element, sizes)
    if step > 1 and count > 1:
        more, limits = [0] * (part.rank + 1), list(part.sizes)
        more[dim + 1] = step - 1
        part = g.pad(g.reshape(part, part.sizes[:dim + 1] + (1,) + part.sizes[dim + 1:]), [0] * (part.rank + 1), more)
        limits[dim] = (count - 1) * step + 1
        part = g.slice(g.reshape(part, (*limits[:dim], count * step, *limits[dim + 1:])), [0] * len(limits), limits)
    low, high = [0] * part.rank, [0] * part.rank
    low[dim], high[dim] = start, sizes[dim] - start - part.sizes[dim]
    return g.pad(part, low, high)


@lower("slice_backward.default")
def slice_backward(c, out, dy, sizes, dim, start, end, step):
    dim = c.axis(dim, len(sizes))
    start, _ = bounds(sizes[dim], start, end)
    return spread(c, dy, tuple(out.shape), dim, start, step)


@lower("select_scatter.default")
def select_scatter(c, out, x, part, dim, index):
    dim = c.axis(dim, x.rank)
    index = index + x.sizes[dim] if index < 0 else index
    part = c.g.reshape(part, x.sizes[:dim] + (1,) + x.sizes[dim + 1:])
    return slice_scatter(c, out, x, part, dim, index, index + 1)


@lower("flip.default")
def flip(c, out, x, dims):
    g = c.g
    for dim in c.axes(dims, x.rank) if dims else []:
        order = [dim] + [i for i in range(x.rank) if i != dim]
        rows = x.sizes[dim]
        if rows < 2:
            continue
        index = g.iota(0, (rows,), "i64")
        index = g.binary("sub", c.like(rows - 1, index), index)
        x = g.gather(g.transpose(x, order), index)
        x = g.transpose(x, [order.index(i) for i in range(x.rank)])
    return x


@lower("tril.default")
def tril(c, out, x, diagonal=0):
    return triangle(c, x, "le", diagonal)


@lower("triu.default")
def triu(c, out, x, diagonal=0):
    return triangle(c, x, "ge", diagonal)


def triangle(c: Lowering, x: Value, predicate: str, diagonal: int) -> Value:
    g = c.g
    row, column = g.iota(x.rank - 2, x.sizes, "i32"), g.iota(x.rank - 1, x.sizes, "i32")
    return g.select(g.compare(predicate, column, g.binary("add", row, c.like(diagonal, row))), x, c.like(0, x))


@lower("as_strided.default", "as_strided_copy.default")
def as_strided(c, out, x, sizes, strides, offset=None):
    """Elements by their place in memory, where x is all of its memory."""
    from tcc.torch.layouts import seen
    g, under = c.g, c.node.args[0].meta["val"]
    look = seen(under.shape, under.stride(), expands=False)
    if not look.is_exact or under.untyped_storage().nbytes() != under.numel() * under.itemsize:
        raise Unsupported("as_strided of a tensor that is a part of its memory")
    flat = g.reshape(g.transpose(x, look.order), (math.prod(x.sizes),))
    shape = tuple(out.shape)
    at = g.constant(out.storage_offset() if offset is None else int(offset), "i64", shape)
    for dim, stride in enumerate(strides):
        if shape[dim] > 1:
            step = g.iota(dim, shape, "i64")
            at = g.binary("add", at, g.binary("mul", step, c.like(int(stride), step)))
    return g.gather(flat, at)


# Indexing

def wrapped(c: Lowering, index: Value, rows: int) -> Value:
    """Negative indices count from the end."""
    negative = c.g.compare("lt", index, c.like(0, index))
    return c.g.select(negative, c.g.binary("add", index, c.like(rows, index)), index)


@lower("embedding.default")
def embedding(c, out, weight, index, *_, **__):
    return c.g.gather(weight, index)


@lower("embedding_dense_backward.default")
def embedding_backward(c, out, dy, index, rows, padding=-1, scale=False):
    if scale:
        raise NotLowered("scale_grad_by_freq")
    g = c.g
    if padding >= 0:
        skipped = g.compare("eq", index, c.like(padding, index))
        index = g.select(skipped, c.like(-1, index), index)
    base = g.constant(0, "f32", tuple(out.shape))
    return c.cast(g.scatter_add(base, index, c.wide(dy)), c.element(out.dtype))


@lower("index_select.default")
def index_select(c, out, x, dim, index):
    if x.rank == 0:
        return c.g.broadcast(x, tuple(out.shape))
    dim = c.axis(dim, x.rank)
    index = c.g.reshape(index, (math.prod(index.sizes),))
    return rows_at(c, x, dim, index)


def rows_at(c: Lowering, x: Value, dim: int, index: Value) -> Value:
    """x with its dim `dim` replaced by those of `index`."""
    g, k = c.g, index.rank
    order = [dim] + [i for i in range(x.rank) if i != dim]
    made = g.gather(g.transpose(x, order), index)
    rest = list(range(k, made.rank))
    return g.transpose(made, rest[:dim] + list(range(k)) + rest[dim:])


@lower("index.Tensor", "_unsafe_index.Tensor")
def index(c, out, x, indices):
    used = [(dim, i) for dim, i in enumerate(indices) if i is not None]
    if any(i.element == "i1" for _, i in used):
        raise NotLowered("a mask as index")
    dims = [dim for dim, _ in used]
    if len(used) == 1:
        dim, at = used[0]
        return rows_at(c, x, dim, wrapped(c, at, x.sizes[dim]))
    g = c.g
    import torch
    shape = tuple(torch.broadcast_shapes(*[i.sizes for _, i in used]))
    # The indexed dims come first and become one, and so do their indices.
    rest = [dim for dim in range(x.rank) if dim not in dims]
    flat = None
    for dim, at in used:
        at = g.broadcast(wrapped(c, g.cast(at, "i64"), x.sizes[dim]), shape)
        flat = at if flat is None else g.binary("add", g.binary("mul", flat, c.like(x.sizes[dim], flat)), at)
    x = g.transpose(x, dims + rest)
    made = g.gather(g.reshape(x, (math.prod(x.sizes[:len(dims)]),) + x.sizes[len(dims):]), flat)
    if dims != list(range(dims[0], dims[0] + len(dims))):
        return made
    # Indices of neighbours stand where these stood.
    k, first = len(shape), dims[0]
    return g.transpose(made, [*range(k, k + first), *range(k), *range(k + first, made.rank)])


@lower("gather.default")
def gather(c, out, x, dim, index, sparse_grad=False):
    if x.rank == 0:
        return x
    g, dim = c.g, c.axis(dim, x.rank)
    same = all(a == b for i, (a, b) in enumerate(zip(x.sizes, index.sizes)) if i != dim)
    if index.sizes[dim] != 1 or not same:
        return gather_each(c, x, dim, index)
    # One element a row: the sum of the row with all others 0.
    at = g.broadcast(index, x.sizes)
    hit = g.compare("eq", g.iota(dim, x.sizes, at.element), at)
    kept = g.select(hit, x, c.like(0, x))
    if x.element == "i1":
        return g.cast(g.reduce("reduce_max", g.cast(kept, "i32"), [dim]), "i1")
    return g.reduce("reduce_sum", kept, [dim])


def gather_each(c: Lowering, x: Value, dim: int, index: Value) -> Value:
    """Elements at coordinates: those of the result, but for `dim`, which the index has."""
    g, flat = c.g, None
    for i, size in enumerate(x.sizes):
        at = g.cast(index, "i64") if i == dim else g.iota(i, index.sizes, "i64")
        flat = at if flat is None else g.binary("add", g.binary("mul", flat, c.like(size, flat)), at)
    return g.gather(g.reshape(x, (math.prod(x.sizes),)), flat)
