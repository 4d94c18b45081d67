"""How torch's tensors lie in memory, and how a graph sees them: graphs have dense row-major tensors alone."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from tcc.torch.lowering import Unsupported

_DLPACK = {torch.float16: (2, 16), torch.float32: (2, 32), torch.float64: (2, 64), torch.bfloat16: (4, 16),
           torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64), torch.uint8: (1, 8),
           torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64), torch.bool: (6, 8),
           torch.complex32: (5, 32), torch.complex64: (5, 64), torch.complex128: (5, 128)}


#: Of which there are steps.
DEVICES = ("cpu", "cuda")


def named(device: torch.device) -> str:
    return "the CPU" if device.type == "cpu" else str(device)


def device_of(graph: torch.fx.Graph) -> torch.device:
    """The device on which a graph computes. Tensors of the CPU in a graph of a GPU are arguments that it moves there.
    Throws Unsupported where there are several."""
    found = set()
    for node in graph.nodes:
        leaves = [] if node.op == "output" else pytree.tree_leaves(node.meta.get("val"))
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu":
                found.add(leaf.device)
    if len(found) > 1:
        raise Unsupported(f"tensors of several devices: {', '.join(sorted(map(str, found)))}")
    device = next(iter(found), torch.device("cpu"))
    if device.type not in DEVICES:
        raise Unsupported(f"tensors of {device}")
    return device


def dlpack_type(dtype: torch.dtype) -> tuple[int, int]:
    """DLPack's code and bits of a type."""
    if dtype not in _DLPACK:
        raise TypeError(f"tensors of {dtype} cannot be handed to a step")
    return _DLPACK[dtype]


@dataclass(frozen=True)
class Seen:
    """A tensor of torch as a graph sees it: transposed so that it is dense, expanded dims once.

    `order[n]` is torch's dim that is the graph's dim n; `sizes` are the graph's; `strides` are what torch's tensor must
    have, torch's dims in their order.
    """

    order: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    is_exact: bool  # whether the tensor has these strides already


def seen(sizes, strides, expands: bool = True) -> Seen:
    """How a graph sees a tensor of these sizes and strides; what is not dense in any order counts as row-major."""
    sizes, strides = [int(n) for n in sizes], [int(n) for n in strides]
    once = [1 if expands and stride == 0 and size > 1 else size for size, stride in zip(sizes, strides)]
    # Dims of one element stay where their neighbours leave them: they have no stride of their own.
    order = sorted(range(len(sizes)), key=lambda dim: (-strides[dim], dim) if once[dim] != 1 else (-strides[dim], dim))
    step, dense = 1, True
    for dim in reversed(order):
        if once[dim] != 1:
            dense = dense and strides[dim] == step
            step *= once[dim]
    if 0 in sizes:
        return Seen(tuple(range(len(sizes))), tuple(sizes), tuple(strides), True)
    if not dense:
        return as_rows(sizes)
    return Seen(tuple(order), tuple(once[dim] for dim in order), tuple(strides), True)


def as_rows(sizes) -> Seen:
    """A tensor that must be row-major; it is copied where it is not."""
    return Seen(tuple(range(len(sizes))), tuple(sizes), tuple(row_major(sizes)), False)


def turned(tensor: torch.Tensor, look: Seen) -> torch.Tensor:
    """A new tensor with the elements of `tensor` as the graph's memory has them."""
    once = tuple(slice(0, size) for size in look.sizes)  # of a dim that is expanded, the one element
    return tensor.detach().permute(look.order)[once].clone(memory_format=torch.contiguous_format)


def row_major(sizes) -> list[int]:
    """Strides of a dense tensor in this order of dims."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


#: allocate(sizes, strides, dtype): a tensor of the CPU, its elements as they happen to be.
allocate = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None) or (
    lambda sizes, strides, dtype: torch.empty_strided(sizes, strides, dtype=dtype))


def allocator(device: torch.device):
    """The same for tensors of a device."""
    if device.type == "cpu":
        return allocate
    return lambda sizes, strides, dtype: torch.empty_strided(sizes, strides, dtype=dtype, device=device)


def copier(device: torch.device):
    """copied() for the arguments of a step on this device."""
    return copied if device.type == "cpu" else functools.partial(copied, device=device)


def copied(tensor, sizes, like=None, device=torch.device("cpu")):
    """Gives a tensor of these sizes and strides (`like`) with the elements of `tensor`; or, where `sizes` is None, puts
    the elements of `tensor` back into `like`. A step on a GPU also takes tensors of the CPU, where the graph has them."""
    with torch.no_grad():
        if sizes is None:
            like.copy_(tensor)
            return like
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"a tensor is expected, not {type(tensor).__name__}")
        if list(tensor.shape) != list(sizes):
            raise ValueError(f"a tensor of sizes {list(sizes)} is expected, not {list(tensor.shape)}")
        if tensor.device != device and tensor.device.type != "cpu":
            raise ValueError(f"a tensor of {named(device)} is expected, not of {tensor.device}")
        # An expanded dim has one element in memory, which is written once.
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in like)
        made = torch.empty_strided(sizes, like, dtype=tensor.dtype, device=device)
        made[once].copy_(tensor[once])
        return made


def viewed(tensor, sizes, strides, offset):
    """A view whose first element stands `offset` elements after that of `tensor`."""
    return tensor.as_strided(sizes, strides, tensor.storage_offset() + offset)
