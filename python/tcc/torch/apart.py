"""What forbids that train_step traces forward and backward into one graph with the optimizer."""

from __future__ import annotations

import contextlib
import os
import traceback

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tcc.torch.convert import TORCH_FOLDER


class Apart(Exception):
    """Forward and backward cannot be one graph with the rest; the message says why."""


FOREIGN = "writes into a tensor that is not the model's"


def written(op: torch._ops.OpOverload, args, kwargs) -> list:
    """The arguments that an op writes into."""
    arguments = op._schema.arguments
    given = list(zip(args, arguments)) + [(kwargs[a.name], a) for a in arguments if a.name in kwargs]
    return [value for value, argument in given if argument.alias_info is not None and argument.alias_info.is_write]


class NoForeignWrites(TorchDispatchMode):
    """While it lasts, writing into a tensor with elements throws Apart: tracing would do so once, and for real."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        for tensor in pytree.tree_leaves(written(op, args, kwargs or {})) if op._schema.is_mutable else ():
            if isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor):
                raise Apart(f"{op} {FOREIGN}")
        return op(*args, **(kwargs or {}))


def refuse_foreign_writes(module: torch.fx.GraphModule) -> None:
    """Throws Apart where the graph writes into a view of a tensor that is neither its argument nor its own."""
    for node in module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        for given in written(node.target, node.args, node.kwargs):
            while isinstance(given, torch.fx.Node) and given.op == "call_function" and given.args and \
                    getattr(given.target, "is_view", False):
                given = given.args[0]
            if isinstance(given, torch.fx.Node) and given.op == "get_attr":
                raise Apart(f"{node.target} {FOREIGN}")


def line_of(error: Exception) -> str:
    """The user's line that an error comes from, in brackets."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__)
           if not frame.filename.startswith((TORCH_FOLDER, os.path.dirname(__file__)))]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


@contextlib.contextmanager
def attributes(model: torch.nn.Module):
    """What a model keeps in attributes that are no buffers would be tensors without elements: throws Apart then, and
    puts the old ones back."""
    modules = list(model.modules())
    recurrent = [(module, list(module._flat_weights), list(module._flat_weight_refs)) for module in modules
                 if isinstance(module, torch.nn.RNNBase)]  # of its weights, which it looks up again where they change
    before = [dict(module.__dict__) for module in modules]
    kept = set()
    try:
        yield
    finally:
        for module, weights, references in recurrent:
            module.__dict__.update(_flat_weights=weights, _flat_weight_refs=references)
        for module, old in zip(modules, before):
            for name, value in list(module.__dict__.items()):
                leaves = () if value is old.get(name) else pytree.tree_leaves(value)
                if any(isinstance(leaf, FakeTensor) for leaf in leaves):
                    kept.add(f"{type(module).__name__}.{name}")
                    module.__dict__.pop(name)
                    module.__dict__.update({name: old[name]} if name in old else {})
    if kept:
        raise Apart(f"the model keeps a tensor in {', '.join(sorted(kept))}, which is no buffer")
