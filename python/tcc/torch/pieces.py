"""A graph put together from pieces: what is computed in the same way for many tensors is traced once for each kind of
them, since tracing costs more than half a millisecond an op."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tcc.torch.backend import decompositions


class Pieces:
    """A graph that grows. Its nodes have fake tensors of `mode` in meta["val"]."""

    def __init__(self, mode: FakeTensorMode):
        self.mode, self.graph = mode, torch.fx.Graph()
        self.root = torch.nn.Module()      # holds the tensors that belong to the graph itself
        self.traced: dict = {}

    def argument(self, name: str, tensor: torch.Tensor) -> torch.fx.Node:
        node = self.graph.placeholder(name)
        node.meta["val"] = tensor
        return node

    def once(self, function: Callable, nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
        """The results of `function`, a list of tensors, for the values of these nodes. What it computes may hold tensors
        of its own, so it is traced for this call alone, of which a graph has at most one."""
        module = self.trace(function, nodes)
        self.root = module
        return self.copied(module, nodes)

    def call(self, key: Hashable, function: Callable, nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
        """The same, with the trace of an earlier call of this key with tensors of the same shapes, strides, types and
        devices. What `function` computes is to depend on nothing else."""
        values = [node.meta["val"] for node in nodes]
        kind = (key, *((tuple(value.shape), value.stride(), value.dtype, value.device) for value in values))
        module = self.traced.get(kind)
        if module is None:
            module = self.traced[kind] = self.trace(function, nodes)
            if any(node.op == "get_attr" for node in module.graph.nodes):
                raise AssertionError(f"a piece of a graph, {key}, holds a tensor")
        return self.copied(module, nodes)

    def trace(self, function: Callable, nodes: list[torch.fx.Node]) -> torch.fx.GraphModule:
        with torch.fx.traceback.preserve_node_meta(), self.mode, torch.no_grad():
            # Copies of one piece have one fake tensor; tracing would take arguments that are one tensor for one argument.
            arguments = [torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
                         for value in (node.meta["val"] for node in nodes)]
            return make_fx(torch.func.functionalize(function, remove="mutations"),
                           decomposition_table=decompositions(), record_stack_traces=True,
                           _allow_non_fake_inputs=True)(*arguments)

    def copied(self, module: torch.fx.GraphModule, nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        return list(self.graph.graph_copy(module.graph, dict(zip(placeholders, nodes, strict=True))))

    def module(self, results: list[torch.fx.Node]) -> torch.fx.GraphModule:
        self.graph.output(tuple(results))
        return torch.fx.GraphModule(self.root, self.graph)
