"""The back end "tcc" of torch.compile: forward, backward and inference graphs of AOTAutograd become steps."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree

from tcc import _native
from tcc.torch import reporting
from tcc.torch.convert import Converted, boxed, convert
from tcc.torch.decompositions import decompositions
from tcc.torch.fallback import NO_TRANSLATION
from tcc.torch.layouts import DEVICES
from tcc.torch.lowering import Unsupported
from tcc.torch.masks import as_selects


@dataclass
class Options:
    """`options=` of torch.compile."""

    flags: list = field(default_factory=list)  # of the command line: "-O3", "--threads=2", "--dtype=bf16"
    fallback: str = "step"  # what ops without a translation are: "step": part of the step, computed by ATen; "error"

    @classmethod
    def of(cls, mode, given) -> "Options":
        given = dict(given or {})
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            raise ValueError(f"no such option: {', '.join(sorted(unknown))}; there are "
                             f"{', '.join(cls.__dataclass_fields__)}")
        options = cls(**given)
        if isinstance(options.flags, str):
            raise ValueError(f"flags is a list, such as [{options.flags!r}], not a text")
        if options.fallback not in ("step", "error"):
            raise ValueError(f"fallback is 'step' or 'error', not {options.fallback!r}")
        if mode not in (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
            raise ValueError(f"no such mode: {mode!r}")
        return options

    def all_flags(self, device: torch.device) -> list[str]:
        is_given = device.type != "cpu" or any(flag.startswith("--threads") for flag in self.flags)
        return [*self.flags, *([] if is_given else [f"--threads={torch.get_num_threads()}"])]


#: Raised while torch traces.
DEPENDS_ON_VALUES = (DataDependentOutputException, DynamicOutputShapeException)


class Fallbacks(RuntimeError):
    """With fallback="error": ops of a graph that have no translation."""


def has_symbols(module: torch.fx.GraphModule) -> bool:
    def is_symbolic(value) -> bool:
        if isinstance(value, torch.Tensor):
            return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
        return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))

    return any(is_symbolic(leaf) for node in module.graph.nodes for leaf in pytree.tree_leaves(node.meta.get("val")))


def compile_module(module: torch.fx.GraphModule, name: str, options: Options, visible: int | None = None,
                   takes: bool = False):
    """A function of a list of the graph's arguments; `takes`: see Converted.call(). A graph that cannot be a step runs
    by ATen, op by op."""
    start = time.perf_counter()
    try:
        converted = convert(module, name, options.all_flags, visible)
    except (Unsupported, _native.Error) as why:
        if options.fallback == "error":
            raise
        reporting.refused(name, str(why))
        return boxed(lambda args: list(module(*args)))
    return call_of(converted, start, options, takes)


def call_of(converted: Converted, start: float, options: Options, takes: bool = False):
    """The function of a step whose compilation began at `start`, which the report then knows. Throws Fallbacks."""
    reporting.add(converted, (time.perf_counter() - start) * 1e3)
    if converted.fallbacks and options.fallback == "error":
        seen = sorted({fallback.op + ("" if fallback.reason == NO_TRANSLATION else f" ({fallback.reason})")
                       for fallback in converted.fallbacks})
        raise Fallbacks(f"{converted.name}: no translation of {', '.join(seen)}")
    return converted.call(takes)


class Sized:
    """A graph of sizes that change: one step for each set of sizes that it is called with."""

    MOST = 256  # steps that are kept; the one that was called first goes

    def __init__(self, module, name: str, options: Options, visible: int | None, takes: bool):
        self.module, self.name, self.options, self.visible, self.takes = module, name, options, visible, takes
        self.calls: dict = {}

    def run(self, args):
        key = tuple((tuple(arg.shape), arg.stride()) if isinstance(arg, torch.Tensor) else arg for arg in args)
        call = self.calls.get(key)
        if call is None:
            if self.calls:
                reporting.recompiled(self.name, next(reversed(self.calls)), key)
            if len(self.calls) >= self.MOST:
                del self.calls[next(iter(self.calls))]
            call = compile_module(self.specialised(args), self.name, self.options, self.visible, self.takes)
            self.calls[key] = call
        return call(args)

    def specialised(self, args) -> torch.fx.GraphModule:
        """The graph with the sizes of these arguments."""
        made = torch.fx.GraphModule(self.module, copy.deepcopy(self.module.graph))
        fix_sizes(made, args)
        return made


def fix_sizes(module: torch.fx.GraphModule, args) -> None:
    """Gives each value of the graph the shape and type that it has with these arguments."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    with torch.no_grad():
        FakeTensorProp(module, mode).propagate_dont_convert_inputs(*fakes)
    for node, arg in zip((n for n in module.graph.nodes if n.op == "placeholder"), fakes):
        node.meta["val"] = arg


def visible_results() -> int | None:
    """How many results of the forward graph that AOTAutograd compiles are not only saved for the backward."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    return getattr(metadata, "num_forward_returns", None)


def compiler(kind: str, options: Options, name: str):
    def compile_graph(module: torch.fx.GraphModule, example_inputs):
        called = f"{name}.{kind}"
        visible = visible_results() if kind == "forward" else 0 if kind == "backward" else None
        takes = kind == "backward"  # what is saved for it
        if has_symbols(module):
            sized = Sized(module, called, options, visible, takes)
            return boxed(lambda args: sized.run(args))
        return compile_module(module, called, options, visible, takes)

    return compile_graph


_count = 0


def tcc(module: torch.fx.GraphModule, example_inputs, *, mode=None, options=None):
    """The back end: a function for Dynamo's graph `module`."""
    global _count
    chosen = Options.of(mode, options)
    name = f"graph{_count}"
    _count += 1
    for tensor in example_inputs:
        if isinstance(tensor, torch.Tensor) and tensor.device.type not in DEVICES:
            raise RuntimeError(f"backend 'tcc' compiles for the CPU and for CUDA; a tensor of {tensor.device} was given")
    as_selects(module)
    differentiate = aot_autograd(fw_compiler=compiler("forward", chosen, name),
                                 bw_compiler=compiler("backward", chosen, name),
                                 inference_compiler=compiler("inference", chosen, name),
                                 decompositions=decompositions, partition_fn=min_cut_rematerialization_partition,
                                 keep_inference_input_mutations=True)
    try:
        return differentiate(module, example_inputs)
    except DEPENDS_ON_VALUES as why: # Dynamo runs the function by ATen, and counts no graph break
        text = f"{why.func} depends on what tensors hold"
        if chosen.fallback == "error":
            raise Fallbacks(f"{name}: {text}") from why
        reporting.refused(name, text)
        raise
