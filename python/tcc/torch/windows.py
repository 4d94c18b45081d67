"""ATen's convolutions and pools: products, maxima and means of windows, and the sums of windows that are their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcc.graph import Value
from tcc.torch.lowering import Lowering, NotLowered, lower


def per_dim(given, count: int) -> list[int]:
    given = [given] if isinstance(given, int) else list(given)
    return given * count if len(given) == 1 else given


@dataclass
class Windows:
    """Windows over the last dims of x, along each of which there are so many places."""

    size: list[int]
    step: list[int]
    padding: list[int]
    dilation: list[int]
    places: tuple[int, ...]

    @classmethod
    def of(cls, size, step, padding, dilation, places) -> Windows:
        count = len(places)
        size = per_dim(size, count)
        return cls(size, per_dim(step, count) if step else size, per_dim(padding, count), per_dim(dilation, count),
                   tuple(places))

    def dims(self, rank: int) -> list[int]:
        """Those of space, of a tensor of this rank."""
        return list(range(rank - len(self.size), rank))

    def extent(self, i: int) -> int:
        """From the first window's first element to the last window's last one."""
        return (self.places[i] - 1) * self.step[i] + (self.size[i] - 1) * self.dilation[i] + 1

    def around(self, c: Lowering, x: Value, outside=0) -> Value:
        """x with padding before it, and cut or padded to what the windows cover."""
        g, dims = c.g, self.dims(x.rank)
        low, high, limits = [0] * x.rank, [0] * x.rank, list(x.sizes)
        for i, dim in enumerate(dims):
            low[dim] = min(self.padding[i], self.extent(i))
            limits[dim] = min(x.sizes[dim], self.extent(i) - low[dim])
            high[dim] = self.extent(i) - low[dim] - limits[dim]
        return g.pad(g.slice(x, [0] * x.rank, limits), low, high, outside)

    def inside(self, c: Lowering, x: Value, sizes) -> Value:
        """The other way round: what `around` has of a tensor of these sizes, 0 for what it left out."""
        g = c.g
        starts, limits, high = [0] * x.rank, list(x.sizes), [0] * x.rank
        for i, dim in enumerate(self.dims(x.rank)):
            starts[dim] = min(self.padding[i], x.sizes[dim])
            limits[dim] = min(starts[dim] + sizes[dim], x.sizes[dim])
            high[dim] = sizes[dim] - (limits[dim] - starts[dim])
        return g.pad(g.slice(x, starts, limits), [0] * x.rank, high)

    def shown(self, c: Lowering, x: Value, outside=0) -> Value:
        """[..., space...] as [..., places..., window...]."""
        return c.g.window(self.around(c, x, outside), self.dims(x.rank), self.size, self.step, self.dilation)

    def folded(self, c: Lowering, windows: Value, sizes) -> Value:
        """The sum of windows [..., places..., window...] in a tensor of these sizes."""
        dims = self.dims(len(sizes))
        whole = list(sizes)
        for i, dim in enumerate(dims):
            whole[dim] = self.extent(i)
        return self.inside(c, c.g.fold(windows, whole, dims, self.step, self.dilation), sizes)

    def columns(self, c: Lowering, x: Value, groups: int) -> Value:
        """[batch, channels, space...] as [groups, channels · window, batch · places]."""
        g, space = c.g, len(self.size)
        batch, channels = x.sizes[:2]
        x = g.transpose(self.shown(c, x), [1, *range(2 + space, 2 + 2 * space), 0, *range(2, 2 + space)])
        return g.reshape(x, (groups, channels // groups * math.prod(self.size), batch * math.prod(self.places)))

    def of_columns(self, c: Lowering, columns: Value, sizes) -> Value:
        """The sum of such columns in [batch, channels, space...] of these sizes."""
        g, space = c.g, len(self.size)
        batch, channels = sizes[:2]
        x = g.reshape(columns, (channels, *self.size, batch, *self.places))
        x = g.transpose(x, [1 + space, 0, *range(2 + space, 2 + 2 * space), *range(1, 1 + space)])
        return self.folded(c, x, sizes)


# Convolutions

def rows_of(c: Lowering, y: Value, groups: int) -> Value:
    """[batch, channels, places...] as [groups, channels of one, batch · places]."""
    g = c.g
    turned = g.transpose(y, [1, 0, *range(2, y.rank)])
    return g.reshape(turned, (groups, y.sizes[1] // groups, y.sizes[0] * math.prod(y.sizes[2:])))


def weight_of(c: Lowering, weight: Value, groups: int) -> Value:
    """[out, channels, window...] as [groups, out of one, channels · window]."""
    return c.g.reshape(weight, (groups, weight.sizes[0] // groups, math.prod(weight.sizes[1:])))


def grouped_product(c: Lowering, a: Value, b: Value, transposed_a: bool = False, transposed_b: bool = False) -> Value:
    g = c.g
    if a.sizes[0] != 1:
        return g.matmul(a, b, transposed_a, transposed_b)
    made = g.matmul(g.reshape(a, a.sizes[1:]), g.reshape(b, b.sizes[1:]), transposed_a, transposed_b)
    return g.reshape(made, (1, *made.sizes))


def check_space(x: Value) -> None:
    if not 3 <= x.rank <= 5 or not x.is_float:
        raise NotLowered(f"a convolution of {x.type}")


@lower("convolution.default")
def convolution(c, out, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    check_space(x)
    if not math.prod(out.shape):
        return c.g.constant(0, x.element, tuple(out.shape))
    space, sizes = x.rank - 2, tuple(out.shape)
    stride, padding, dilation = (per_dim(given, space) for given in (stride, padding, dilation))
    if not math.prod(x.sizes):
        raise NotLowered("no channels")
    if not transposed:
        return c.g.convolution(x, weight, bias, sizes, stride, padding, dilation, groups)
    windows = Windows.of(weight.sizes[2:], stride, padding, dilation, x.sizes[2:])
    columns = grouped_product(c, weight_of(c, weight, groups), rows_of(c, x, groups), transposed_a=True)
    made = windows.of_columns(c, columns, sizes)
    if bias is None:
        return made
    column = c.g.reshape(bias, (bias.sizes[0], *[1] * space))
    return c.g.binary("add", made, c.g.broadcast(column, sizes))


@lower("convolution_backward.default")
def convolution_backward(c, out, dy, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
                         groups, mask):
    check_space(x)
    if not math.prod(x.sizes) or not math.prod(dy.sizes):
        raise NotLowered("no elements")
    g, made = c.g, [None, None, None]
    if transposed: # the other way round: dx is a convolution of dy
        windows = Windows.of(weight.sizes[2:], stride, padding, dilation, x.sizes[2:])
        columns, rows = windows.columns(c, dy, groups), rows_of(c, x, groups)
        if mask[0]:
            product = grouped_product(c, weight_of(c, weight, groups), columns)
            turned = g.reshape(product, (x.sizes[1], x.sizes[0], *x.sizes[2:]))
            made[0] = g.transpose(turned, [1, 0, *range(2, x.rank)])
    else:
        windows = Windows.of(weight.sizes[2:], stride, padding, dilation, dy.sizes[2:])
        rows = rows_of(c, dy, groups)
        columns = windows.columns(c, x, groups) if mask[1] else None
        if mask[0]:
            product = grouped_product(c, weight_of(c, weight, groups), rows, transposed_a=True)
            made[0] = windows.of_columns(c, product, x.sizes)
    if mask[1]:
        made[1] = g.reshape(grouped_product(c, rows, columns, transposed_b=True), weight.sizes)
    if mask[2]:
        made[2] = c.cast(c.reduce("reduce_sum", c.wide(dy), [0, *range(2, dy.rank)], keepdim=False), dy.element)
    return made


# Pools

#: Stands for the place of an element of padding.
NOWHERE = 2 ** 31 - 1


def places_in(c: Lowering, windows: Windows, space, rank: int) -> Value:
    """The number of each window's element in its plane, i32 [1..., places..., window...]."""
    g = c.g
    plane = g.reshape(g.iota(0, (math.prod(space),), "i32"), tuple(space))
    shown = windows.shown(c, plane, NOWHERE)
    return g.reshape(shown, (1,) * (rank - len(space)) + shown.sizes)


def _max_pool(dims: int) -> None:
    @lower(f"max_pool{dims}d_with_indices.default")
    def pool(c, out, x, size, step=(), padding=0, dilation=1, ceil_mode=False):
        if not x.is_float or not math.prod(x.sizes):
            raise NotLowered(f"a maximum over windows of {x.type}")
        g, windows = c.g, Windows.of(size, step, padding, dilation, out[0].shape[-dims:])
        shown = windows.shown(c, x, -math.inf)
        axes = list(range(shown.rank - dims, shown.rank))
        most = g.reduce("reduce_max", shown, axes)
        is_most = g.binary("or", g.compare("eq", shown, c.same_as(most, shown)), g.compare("ne", shown, shown))
        place = g.broadcast(places_in(c, windows, x.sizes[-dims:], x.rank), shown.sizes)
        first = g.reduce("reduce_min", g.select(is_most, place, c.like(NOWHERE, place)), axes)
        return [g.reshape(most, tuple(out[0].shape)), g.cast(g.reshape(first, tuple(out[1].shape)), "i64")]

    @lower(f"max_pool{dims}d_with_indices_backward.default")
    def backward(c, out, dy, x, size, step, padding, dilation, ceil_mode, indices):
        if not math.prod(dy.sizes):
            raise NotLowered("no elements")
        g, windows = c.g, Windows.of(size, step, padding, dilation, dy.sizes[-dims:])
        sizes = dy.sizes + tuple(windows.size)

        def over_windows(value: Value) -> Value:
            return g.broadcast(g.reshape(value, value.sizes + (1,) * dims), sizes)
        place = g.broadcast(places_in(c, windows, x.sizes[-dims:], x.rank), sizes)
        is_most = g.compare("eq", place, over_windows(g.cast(indices, "i32")))
        share = over_windows(dy)
        return windows.folded(c, g.select(is_most, share, c.like(0, share)), x.sizes)


_max_pool(2)
_max_pool(3)


def counts(c: Lowering, windows: Windows, space, counts_padding: bool, divisor) -> Value:
    """How many elements each window's mean is of, f32 [places...]."""
    g = c.g
    if divisor:
        return g.constant(float(divisor), "f32", windows.places)
    made = None
    for i, size in enumerate(space):
        low = -windows.padding[i] if counts_padding else 0
        high = size + windows.padding[i] if counts_padding else size
        begin = [place * windows.step[i] - windows.padding[i] for place in range(windows.places[i])]
        each = [min(at + windows.size[i], high) - max(at, low) for at in begin]
        if len(set(each)) == 1:
            part = g.constant(float(each[0]), "f32", windows.places)
        else:
            at = g.iota(i, windows.places, "i32")
            at = g.binary("sub", g.binary("mul", at, c.like(windows.step[i], at)), c.like(windows.padding[i], at))
            end = g.binary("minimum", g.binary("add", at, c.like(windows.size[i], at)), c.like(high, at))
            part = g.cast(g.binary("sub", end, g.binary("maximum", at, c.like(low, at))), "f32")
        made = part if made is None else g.binary("mul", made, part)
    return made


def mean_of_windows(c: Lowering, windows: Windows, x: Value, count: Value) -> Value:
    g, dims = c.g, len(windows.size)
    shown = windows.shown(c, c.wide(x))
    total = g.reduce("reduce_sum", shown, list(range(shown.rank - dims, shown.rank)))
    total = g.reshape(total, total.sizes[:-dims])
    return c.cast(g.binary("div", total, c.same_as(count, total)), x.element)


def spread_over_windows(c: Lowering, windows: Windows, dy: Value, count: Value, sizes) -> Value:
    g, dims = c.g, len(windows.size)
    wide = c.wide(dy)
    share = g.binary("div", wide, c.same_as(count, wide))
    share = g.broadcast(g.reshape(share, share.sizes + (1,) * dims), share.sizes + tuple(windows.size))
    return c.cast(windows.folded(c, share, sizes), dy.element)


def _average_pool(dims: int) -> None:
    @lower(f"avg_pool{dims}d.default")
    def pool(c, out, x, size, step=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if not x.is_float or not math.prod(x.sizes):
            raise NotLowered(f"a mean over windows of {x.type}")
        windows = Windows.of(size, step, padding, 1, out.shape[-dims:])
        return mean_of_windows(c, windows, x, counts(c, windows, x.sizes[-dims:], count_include_pad, divisor_override))

    if dims == 1:
        return

    @lower(f"avg_pool{dims}d_backward.default")
    def backward(c, out, dy, x, size, step, padding, ceil_mode, count_include_pad, divisor_override):
        if not math.prod(dy.sizes):
            raise NotLowered("no elements")
        windows = Windows.of(size, step, padding, 1, dy.sizes[-dims:])
        count = counts(c, windows, x.sizes[-dims:], count_include_pad, divisor_override)
        return spread_over_windows(c, windows, dy, count, x.sizes)


_average_pool(1)
_average_pool(2)
_average_pool(3)


def shares(c: Lowering, size: int, places: int) -> Value:
    """What each element of a dim counts in each place's mean, f32 [places, size]: windows that may be of several sizes."""
    g = c.g
    place, element = g.iota(0, (places, size), "i32"), g.iota(1, (places, size), "i32")
    begin = g.binary("floor_divide", g.binary("mul", place, c.like(size, place)), c.like(places, place))
    next_ = g.binary("add", place, c.like(1, place))
    end = g.binary("add", g.binary("mul", next_, c.like(size, place)), c.like(places - 1, place))
    end = g.binary("floor_divide", end, c.like(places, place))
    is_in = g.binary("and", g.compare("ge", element, begin), g.compare("lt", element, end))
    count = g.cast(g.binary("sub", end, begin), "f32")
    return g.select(is_in, g.binary("div", c.like(1, count), count), c.like(0, count))


def with_shares(c: Lowering, x: Value, dim: int, table: Value, transposed: bool) -> Value:
    """x multiplied by a table of shares along `dim`."""
    g = c.g
    order = [i for i in range(x.rank) if i != dim] + [dim]
    turned = g.transpose(x, order)
    rows = g.reshape(turned, (math.prod(turned.sizes[:-1]), turned.sizes[-1]))
    made = g.matmul(rows, table, transposed_b=transposed)
    made = g.reshape(made, turned.sizes[:-1] + (made.sizes[-1],))
    return g.transpose(made, [order.index(i) for i in range(x.rank)])


def _adaptive_pool(dims: int, names: list[str]) -> None:
    def tiles(space, places) -> bool:
        return all(place and size % place == 0 for size, place in zip(space, places))

    def windows_of(space, places) -> Windows:
        size = [size // place for size, place in zip(space, places)]
        return Windows.of(size, size, 0, 1, places)

    @lower(names[0])
    def pool(c, out, x, _):
        space, places = x.sizes[-dims:], tuple(out.shape)[-dims:]
        if not x.is_float or not math.prod(x.sizes) or not math.prod(places):
            raise NotLowered(f"a mean over windows of {x.type}")
        if tiles(space, places):
            windows = windows_of(space, places)
            return mean_of_windows(c, windows, x, counts(c, windows, space, False, None))
        made = c.wide(x)
        for i in range(dims):
            made = with_shares(c, made, x.rank - dims + i, shares(c, space[i], places[i]), True)
        return c.cast(made, x.element)

    if len(names) == 1:
        return

    @lower(names[1])
    def backward(c, out, dy, x):
        space, places = x.sizes[-dims:], dy.sizes[-dims:]
        if not math.prod(x.sizes) or not math.prod(places):
            raise NotLowered("no elements")
        if tiles(space, places):
            windows = windows_of(space, places)
            return spread_over_windows(c, windows, dy, counts(c, windows, space, False, None), x.sizes)
        made = c.wide(dy)
        for i in range(dims):
            made = with_shares(c, made, x.rank - dims + i, shares(c, space[i], places[i]), False)
        return c.cast(made, dy.element)


_adaptive_pool(1, ["adaptive_avg_pool1d.default"])
_adaptive_pool(2, ["_adaptive_avg_pool2d.default", "_adaptive_avg_pool2d_backward.default"])
_adaptive_pool(3, ["_adaptive_avg_pool3d.default", "_adaptive_avg_pool3d_backward.default"])


# Windows by themselves

@lower("im2col.default")
def im2col(c, out, x, size, dilation, padding, step):
    if x.rank != 4 or not x.is_float or not math.prod(out.shape):
        raise NotLowered(f"columns of {x.type}")
    g, size, step = c.g, per_dim(size, 2), per_dim(step, 2)
    padding, dilation = per_dim(padding, 2), per_dim(dilation, 2)
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1
              for n, p, d, k, s in zip(x.sizes[2:], padding, dilation, size, step)]
    shown = Windows.of(size, step, padding, dilation, places).shown(c, x)
    return g.reshape(g.transpose(shown, [0, 1, 4, 5, 2, 3]), tuple(out.shape))


@lower("col2im.default")
def col2im(c, out, x, sizes, size, dilation, padding, step):
    if x.rank != 3 or not x.is_float or not math.prod(x.sizes):
        raise NotLowered(f"columns of {x.type}")
    g, size, step = c.g, per_dim(size, 2), per_dim(step, 2)
    padding, dilation = per_dim(padding, 2), per_dim(dilation, 2)
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(sizes, padding, dilation, size, step)]
    windows = g.reshape(x, (x.sizes[0], out.shape[1], *size, *places))
    windows = g.transpose(windows, [0, 1, 4, 5, 2, 3])
    return Windows.of(size, step, padding, dilation, places).folded(c, windows, tuple(out.shape))
