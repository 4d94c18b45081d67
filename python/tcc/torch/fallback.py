"""Ops that compiled code does not have: ATen computes them inside the step, on the step's memory."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from tcc import _native
from tcc.torch.layouts import dlpack_type, row_major


@dataclass
class Fallback:
    """An op that ATen computes, with what it has cost."""

    op: str
    reason: str
    place: str
    calls: int = 0
    seconds: float = 0.0


class HostOp:
    """One call of an op, with everything but its tensors fixed. `write(*operands, *results)` computes it."""

    def __init__(self, record: Fallback, op, template, spec, tensors: list[int], results: list[int | None]):
        self.record, self.op, self.template, self.spec = record, op, template, spec
        self.tensors, self.results = tensors, results

    def write(self, *memory):
        start = time.perf_counter()
        leaves = list(self.template)
        for at, tensor in zip(self.tensors, memory):
            leaves[at] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        with torch.no_grad():
            made = self.op(*args, **kwargs)
            made = list(made) if isinstance(made, (tuple, list)) else [made]
            for at, target in zip(self.results, memory[len(self.tensors):]):
                target.copy_(made[at])
        self.record.calls += 1
        self.record.seconds += time.perf_counter() - start


def register(record: Fallback, op, args, kwargs, is_tensor, operands, results):
    """Numbers for `Graph.host`: `operands` and `results` are the fake tensors of both."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
    template = [None if is_tensor(leaf) else leaf for leaf in leaves]
    host = HostOp(record, op, template, spec, tensors, [i for i, _ in results])
    return _native.host_function(host.write, [dense(fake) for fake in operands], [dense(fake) for _, fake in results])


def dense(fake) -> tuple:
    """The layout of a row-major tensor."""
    sizes = [int(size) for size in fake.shape]
    return (*dlpack_type(fake.dtype), sizes, row_major(sizes))
