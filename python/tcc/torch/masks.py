"""Writes through a mask, `x[mask] = value`, as selects.

PyTorch differentiates such a write by value[mask's places], whose size is known only when it runs: a graph of forward
and backward cannot hold that. A value that is the same at each place of the mask needs no places. The write is changed
before PyTorch differentiates: in Dynamo's graph, and while train_step traces.
"""

from __future__ import annotations

import operator

import torch
from torch.overrides import TorchFunctionMode

aten = torch.ops.aten


def the_mask(x, index) -> torch.Tensor | None:
    """The mask over x's first dims that is all there is to an index."""
    if isinstance(index, (tuple, list)):
        index = list(index)
        while index and (index[-1] is Ellipsis or isinstance(index[-1], slice) and index[-1] == slice(None)):
            index.pop()
        index = index[0] if len(index) == 1 else None
    if not isinstance(x, torch.Tensor) or not isinstance(index, torch.Tensor) or index.dtype != torch.bool:
        return None
    return index if index.dim() <= x.dim() and index.shape == x.shape[:index.dim()] else None


def the_value(x, mask, value):
    """The value of each place of the mask, or None where the places may have values of their own."""
    rest = x.dim() - mask.dim()
    if isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, torch.Tensor):
        return None
    ones = max(value.dim() - rest, 0)
    if any(size != 1 for size in value.shape[:ones]):
        return None
    return value.reshape(value.shape[ones:])


def write(x, mask, value) -> None:
    wide = mask.reshape(mask.shape + (1,) * (x.dim() - mask.dim()))
    value = value.to(x.dtype) if isinstance(value, torch.Tensor) else value
    x.copy_(torch.where(wide, value, x))


def set_item(x, index, value) -> None:
    """`x[index] = value`."""
    mask = the_mask(x, index)
    value_of_each = None if mask is None else the_value(x, mask, value)
    if value_of_each is None:
        x[index] = value
    else:
        write(x, mask, value_of_each)


def index_put_(x, indices, values, accumulate=False):
    mask = None if accumulate else the_mask(x, indices)
    value_of_each = None if mask is None else the_value(x, mask, values)
    if value_of_each is None:
        return aten.index_put_(x, indices, values, accumulate)
    write(x, mask, value_of_each)
    return x


class Selects(TorchFunctionMode):
    """While it lasts, writes through masks are selects."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.Tensor.__setitem__:
            return set_item(*args, **kwargs)
        if function is torch.Tensor.index_put_:
            return index_put_(*args, **kwargs)
        return function(*args, **kwargs)


def as_selects(module: torch.fx.GraphModule) -> None:
    """Changes the writes of one of Dynamo's graphs, and of the graphs in it."""
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        changed = False
        for node in part.graph.nodes:
            if node.op == "call_function" and node.target is operator.setitem:
                node.target, changed = set_item, True
            elif node.op == "call_method" and node.target == "index_put_":
                node.op, node.target, changed = "call_function", index_put_, True
        if changed:
            part.recompile()
