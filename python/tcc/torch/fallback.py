"""Ops that compiled code does not have: ATen computes them inside the step, on the step's memory."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from tcc import _native
from tcc.torch.layouts import dlpack_type, row_major

NO_TRANSLATION = "no translation"  # the usual reason
PROVIDER = "torch"  # ops of it are texts, which `described` makes


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

    def __init__(self, record: Fallback, op, args, kwargs, is_tensor, results: list[int]):
        self.record, self.op, self.results = record, op, results
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.tensors = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
        self.template = [None if is_tensor(leaf) else leaf for leaf in leaves]

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
    """What `Graph.host` takes: `operands` and `results` are the fake tensors of both."""
    layouts = [dense(fake) for fake in operands], [dense(fake) for _, fake in results]
    places = [i for i, _ in results]
    with contextlib.suppress(NoText):
        return PROVIDER, described(op, args, kwargs, is_tensor, places, layouts)
    return _native.host_function(HostOp(record, op, args, kwargs, is_tensor, places).write, *layouts)


def dense(fake) -> tuple:
    """The layout of a row-major tensor."""
    sizes = [int(size) for size in fake.shape]
    return (*dlpack_type(fake.dtype), sizes, row_major(sizes))


# Calls as texts, so that a step with them can be kept on disk and loaded by another process

class NoText(Exception):
    """A call of which some argument has no text, as a graph or a generator."""


#: Constants of torch, which are written as (kind, name).
_CONSTANTS = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


def described(op, args, kwargs, is_tensor, results: list[int], layouts) -> str:
    """A call as JSON, from which call_of() makes it again. Tensors are numbered in the order of pytree's leaves."""
    if not isinstance(op, torch._ops.OpOverload) or find(str(op)) is not op:
        raise NoText
    count = 0

    def encoded(value):
        nonlocal count
        if is_tensor(value):
            count += 1
            return {"tensor": count - 1}
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, list):
            return [encoded(item) for item in value]
        if isinstance(value, tuple) and type(value) is tuple:
            return {"tuple": [encoded(item) for item in value]}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        for kind, of in _CONSTANTS.items():
            if isinstance(value, of):
                return {kind: str(value).removeprefix("torch.")}
        raise NoText

    return json.dumps({"op": str(op), "args": [encoded(arg) for arg in args],
                       "kwargs": {name: encoded(arg) for name, arg in kwargs.items()}, "results": results,
                       "operands": layouts[0], "made": layouts[1]})


def find(name: str):
    """The op "namespace.name.overload"; None if there is none."""
    found = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class Operand:
    """The place of a tensor."""


def call_of(text: str, record: Fallback) -> tuple:
    """What tcc._native.provider's `resolve` gives."""
    call = json.loads(text)

    def decoded(value):
        if isinstance(value, list):
            return [decoded(item) for item in value]
        if not isinstance(value, dict):
            return value
        (kind, what), = value.items()
        if kind == "tensor":
            return Operand()
        if kind == "tuple":
            return tuple(decoded(item) for item in what)
        if kind == "float":
            return float(what)
        if kind == "device":
            return torch.device(what)
        constant = getattr(torch, what)
        if not isinstance(constant, _CONSTANTS[kind]):
            raise ValueError(f"torch.{what} is no {kind}")
        return constant

    op = find(call["op"])
    if not isinstance(op, torch._ops.OpOverload):
        raise LookupError(f"torch has no op {call['op']}")
    args = tuple(decoded(arg) for arg in call["args"])
    kwargs = {name: decoded(arg) for name, arg in call["kwargs"].items()}
    host = HostOp(record, op, args, kwargs, lambda leaf: isinstance(leaf, Operand), call["results"])
    return host.write, [tuple(layout) for layout in call["operands"]], [tuple(layout) for layout in call["made"]]


_compiling = threading.local()


@contextlib.contextmanager
def counted(records: dict[str, list[Fallback]]):
    """Ops that are looked up on this thread meanwhile count in these records, by their text, in turn."""
    _compiling.records = defaultdict(list, {text: list(of) for text, of in records.items()})
    try:
        yield
    finally:
        del _compiling.records


def resolve(text: str):
    records = getattr(_compiling, "records", {}).get(text)
    if not records:
        return call_of(text, Fallback(json.loads(text)["op"], "", ""))
    records.append(records.pop(0))
    return call_of(text, records[-1])


_native.provider(PROVIDER, torch.__version__, resolve)
