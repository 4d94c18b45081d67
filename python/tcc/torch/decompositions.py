"""How ATen's ops are written with smaller ones before they are translated, beyond what torch itself does."""

from __future__ import annotations

import functools

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

from tcc.torch import foreach, gpu_attention
from tcc.torch.lowering import TABLE

aten = torch.ops.aten

#: Ops that stay whole although torch can write them with smaller ones: they have better translations.
KEPT = (aten.gelu, aten.gelu_backward, aten.native_layer_norm, aten.native_layer_norm_backward, aten._softmax,
        aten._softmax_backward_data, aten.silu, aten.silu_backward, aten.sigmoid_backward,
        aten.tanh_backward, aten.threshold_backward, aten.native_dropout, aten.native_dropout_backward,
        aten.embedding_dense_backward, aten.rsub, aten.log1p, aten.expm1, aten.masked_fill, aten.roll, aten.linalg_cross,
        aten.trace, aten.index_add, aten.index_copy, aten.eye,
        aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention_for_cpu_backward)
#: Ops that torch's core set keeps, and can write with smaller ones all the same.
FURTHER = (aten.elu, aten.hardtanh, aten.leaky_relu, aten.addmv, aten.native_group_norm, aten._native_batch_norm_legit,
           aten._native_batch_norm_legit_no_training, aten._native_batch_norm_legit_functional, aten.dist,
           aten.ldexp, aten._log_softmax, aten._log_softmax_backward_data)


def places(mask: torch.Tensor, count: int) -> torch.Tensor:
    """For each element of a mask, the number of true ones before it, at most count - 1."""
    return (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(0, max(count - 1, 0))


def masked_scatter(x, mask, source):
    x, mask = torch.broadcast_tensors(x, mask)
    if not source.numel() or not x.numel():
        return x.clone()
    taken = source.reshape(-1).index_select(0, places(mask, source.numel())).reshape(x.shape)
    return torch.where(mask, taken, x)


def masked_scatter_backward(dy, mask, sizes):
    mask = mask.expand_as(dy)
    count = 1
    for size in sizes:
        count *= size
    made = dy.new_zeros(count)
    if count and dy.numel():
        made = made.index_add(0, places(mask, count), torch.where(mask, dy, 0).reshape(-1))
    return made.reshape(sizes)


def bucketize(x, boundaries, *, out_int32=False, right=False):
    return torch.searchsorted(boundaries, x, out_int32=out_int32, right=right)


def addbmm(x, a, b, *, beta=1, alpha=1):
    if not a.dtype.is_floating_point:
        alpha, beta = int(alpha), int(beta)
    made = torch.bmm(a, b).sum(0, dtype=a.dtype) * alpha
    return made.expand_as(x + made).clone() if beta == 0 else x * beta + made


def trilinear(a, b, weight, expand_a, expand_b, expand_weight, summed, unroll_dim=1):
    """The product of three tensors with dims of 1 put in, summed over dims."""
    for dim in expand_a:
        a = a.unsqueeze(dim)
    for dim in expand_b:
        b = b.unsqueeze(dim)
    for dim in expand_weight:
        weight = weight.unsqueeze(dim)
    made = a * b * weight
    return made.sum(summed) if summed else made


def nanmedian(x, dim, keepdim=False):
    """The lower median of what is no NaN, which sorts last; the first NaN where all are."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, places = torch.sort(x, dim=dim, stable=True)
    known = (x == x).sum(dim, keepdim=True)
    middle = torch.div(known - 1, 2, rounding_mode="floor").clamp(min=0)
    made = values.gather(dim, middle), places.gather(dim, middle)
    return made if keepdim else tuple(t.squeeze(dim) for t in made)


def nonzero_static(x, *, size, fill_value=-1):
    """The places of the first `size` elements that are not 0; `fill_value` where there are fewer."""
    is_set = x.reshape(-1) != 0
    rank = torch.cumsum(is_set, 0) - 1
    target = torch.where(is_set & (rank < size), rank, size)
    flat = torch.full((size + 1,), -1, dtype=torch.int64, device=x.device)
    if x.numel():
        flat = flat.scatter(0, target, torch.arange(x.numel(), device=x.device))
    flat, columns, stride = flat[:size], [], x.numel()
    for length in x.shape:
        stride //= max(length, 1)
        columns.append(torch.where(flat < 0, fill_value, flat // max(stride, 1) % max(length, 1)))
    return torch.stack(columns, 1) if columns else torch.empty((size, 0), dtype=torch.int64, device=x.device)


def triangle(rows: int, columns: int, offset: int, is_lower: bool, dtype, device):
    """The places of a matrix's triangle, row by row: [2, count]."""
    row, column = torch.arange(rows, device=device)[:, None], torch.arange(columns, device=device)
    inside = column - row <= offset if is_lower else column - row >= offset
    ends = [min(max(i + offset + is_lower, 0), columns) for i in range(rows)]
    count = sum(ends) if is_lower else rows * columns - sum(ends)
    return nonzero_static(inside, size=count).t().contiguous().to(dtype or torch.int64)


def tril_indices(row, col, offset=0, *, dtype=torch.int64, layout=None, device=None, pin_memory=None):
    return triangle(row, col, offset, True, dtype, device)


def triu_indices(row, col, offset=0, *, dtype=torch.int64, layout=None, device=None, pin_memory=None):
    return triangle(row, col, offset, False, dtype, device)


def index_reduce(x, dim, index, source, reduce, *, include_self=True):
    if not x.dim():
        return index_reduce(x[None], 0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self)[0]
    index = index.reshape([-1 if i == dim % x.dim() else 1 for i in range(x.dim())])
    return x.scatter_reduce(dim, index.expand_as(source), source, reduce, include_self=include_self)


def replication_pad_backward(dy, x, padding):
    made = dy
    for turn in range(len(padding) // 2):
        dim, low = x.dim() - 1 - turn, padding[2 * turn]
        source = (torch.arange(dy.shape[dim], device=dy.device) - low).clamp(0, x.shape[dim] - 1)
        sizes = [x.shape[i] if i == dim else size for i, size in enumerate(made.shape)]
        made = made.new_zeros(sizes).index_add(dim, source, made)
    return made


def adaptive_windows(size: int, count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each of `count` windows over `size` elements, the elements and whether each is in it: [count, longest]."""
    longest = max((-(-(i + 1) * size // count) - i * size // count for i in range(count)), default=0)
    numbers = torch.arange(count, device=device)
    index = numbers[:, None] * size // max(count, 1) + torch.arange(longest, device=device)
    ends = -(-(numbers + 1) * size // max(count, 1))
    return index.clamp(max=max(size - 1, 0)), index < ends[:, None]


def adaptive_max_pool(x, sizes):
    """The largest of each window, and where it stands among the elements of the pooled dims."""
    kept, pooled = list(x.shape[:-len(sizes)]), list(x.shape[-len(sizes):])
    place = torch.zeros((), dtype=torch.int64, device=x.device)
    inside, windows = torch.ones((), dtype=torch.bool, device=x.device), x
    dims = len(sizes)
    for turn, (size, count) in enumerate(zip(pooled, sizes)):
        index, own = adaptive_windows(size, count, x.device)
        at = len(kept) + 2 * turn
        windows = windows.index_select(at, index.reshape(-1)).unflatten(at, index.shape)
        shape = [1] * (2 * turn) + list(index.shape) + [1] * (2 * (dims - turn - 1))
        place, inside = place * size + index.reshape(shape), inside & own.reshape(shape)
    own_order = [*range(0, 2 * dims, 2), *range(1, 2 * dims, 2)]
    order = [*range(len(kept)), *(len(kept) + i for i in own_order)]
    windows = windows.permute(order).flatten(-dims)
    inside, place = (t.permute(own_order).flatten(-dims) for t in (inside, place))
    values, chosen = windows.masked_fill(~inside, -torch.inf).max(-1)
    places = place.expand(*kept, *place.shape).gather(-1, chosen[..., None])[..., 0]
    return values, places


def adaptive_max_pool_backward(dy, x, places, dims: int):
    flat = x.new_zeros([*x.shape[:-dims], 1]).expand(*x.shape[:-dims], x.shape[-dims:].numel())
    return flat.scatter_add(-1, places.flatten(-dims), dy.flatten(-dims)).reshape(x.shape)


#: Functions that write ops with others.
OWN = {aten.masked_scatter.default: masked_scatter, aten.masked_scatter_backward.default: masked_scatter_backward,
       aten.index_reduce.default: index_reduce, aten.bucketize.Tensor: bucketize,
       aten.addbmm.default: addbmm, aten._trilinear.default: trilinear, aten.nanmedian.dim: nanmedian,
       aten.nonzero_static.default: nonzero_static,
       aten.tril_indices.default: tril_indices, aten.triu_indices.default: triu_indices,
       aten.replication_pad1d_backward.default: replication_pad_backward,
       aten.replication_pad2d_backward.default: replication_pad_backward,
       aten.replication_pad3d_backward.default: replication_pad_backward,
       aten.adaptive_max_pool2d.default: adaptive_max_pool, aten.adaptive_max_pool3d.default: adaptive_max_pool,
       aten.adaptive_max_pool2d_backward.default: functools.partial(adaptive_max_pool_backward, dims=2),
       aten.adaptive_max_pool3d_backward.default: functools.partial(adaptive_max_pool_backward, dims=3)}


@functools.cache
def decompositions() -> dict:
    """What AOTAutograd and train_step write with smaller ops."""
    table = dict(core_aten_decompositions()) | get_decompositions(FURTHER) | foreach.decompositions() | OWN
    table |= gpu_attention.DECOMPOSITIONS
    for op in list(table):
        if getattr(op, "overloadpacket", None) in KEPT and op in TABLE:
            del table[op]
    return table
