"""FX graphs of ATen ops → steps of tcc.

1. Each placeholder becomes an argument that the graph sees dense and row-major (layouts.py); one that the graph
   updates in place becomes a state.
2. Each op becomes the values that its translation writes (TABLE in lowering.py), or one op that ATen computes.
3. Results: what is a view of an argument or of an earlier result is made by torch after the run, without a copy.
"""

from __future__ import annotations

import collections
import itertools
import math
import operator
import pathlib
import re
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from tcc import _native
from tcc.graph import Graph, Place, Value
from tcc.torch import elementwise, indexing, products, random, reductions, running, special, views, windows  # noqa: F401 (they fill the table)
from tcc.torch.fallback import NO_TRANSLATION, PROVIDER, Fallback, counted, register
from tcc.torch.layouts import Seen, allocator, as_rows, copier, device_of, dlpack_type, named, seen, viewed
from tcc.torch.lowering import CARRIERS, ELEMENTS, TABLE, Lowering, NotLowered, Unsupported

aten = torch.ops.aten

#: Frames of files in it are not the user's.
TORCH_FOLDER = str(pathlib.Path(torch.__file__).parent)
#: Ops whose result is another look at the operand's memory.
VIEWS = {aten.view.default, aten._unsafe_view.default, aten.permute.default, aten.t.default, aten.transpose.int,
         aten.expand.default, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
         aten.slice.Tensor, aten.select.int, aten.alias.default, aten.detach.default, aten.split.Tensor,
         aten.split_with_sizes.default, aten.unbind.int, aten.as_strided.default, aten._reshape_alias.default}
#: Ops by which tracing makes tensors of what code writes out.
LIFTS = {aten.lift.default, aten.lift_fresh.default, aten.lift_fresh_copy.default}
#: Only shape: these run by torch on numbers.
_NUMBERS = (int, float, bool, str, torch.dtype, torch.device, torch.layout, torch.memory_format, type(None))


@dataclass
class Converted:
    """A step with all that its calls need."""

    name: str
    text: str
    step: object
    arguments: list
    results: list
    constants: list = field(default_factory=list)  # tensors of the graph itself, handed after the arguments
    is_random: bool = False
    fallbacks: list[Fallback] = field(default_factory=list)
    lowered: int = 0                               # ops that have a translation
    device: torch.device = torch.device("cpu")

    def call(self, takes: bool = False):
        """What takes the graph's arguments, as a list, and gives its results. With `takes` it empties the list, and lets
        tensors go while the step runs."""
        device = self.device
        call = _native.Call(self.step, self.arguments, self.results, allocator(device), copier(device), viewed,
                            takes)
        constants, is_random = self.constants, self.is_random

        def run(args):
            return call(args)

        def run_with_more(args):
            more = list(args) + constants
            if is_random:
                more.append(torch.randint(-2 ** 63, 2 ** 63 - 1, (), device=device))
            if takes:
                args.clear()
            return call(more)

        run = run_with_more if constants or is_random else run
        return boxed(outside_of_captures(run) if device.type == "cuda" else run)


def outside_of_captures(run):
    """Refuses a call while PyTorch captures its stream: a step has a stream and a CUDA graph of its own, and would end the
    capture with an error that names neither."""
    def checked(args):
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("a step of tcc cannot be part of torch.cuda.graph; tcc captures its steps itself")
        return run(args)
    return checked


def boxed(function):
    """Says to AOTAutograd that a function takes one list."""
    function._boxed_call = True
    return function


def place_of(node) -> Place:
    """The user's line and the part of the model that an FX node comes from."""
    trace = node.meta.get("stack_trace") or ""
    found = re.findall(r'File "([^"]+)", line (\d+)', trace)
    own = [frame for frame in found if not frame[0].startswith(TORCH_FOLDER)] or found
    file, line = own[-1] if own else ("", 0)
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    scope = ""
    annotated = (node.meta.get("custom") or {}).get("tcc.scope")
    if annotated:
        scope = annotated
    elif stack:
        scope = list(stack.values())[-1][0]
        scope = re.sub(r"^L\['self'\]\.?", "", scope)
        scope = re.sub(r"\[['\"]?([^'\"\]]+)['\"]?\]", r".\1", scope)
        scope = ".".join(part for part in re.split(r"[^A-Za-z0-9_]+", scope) if part and part != "_modules")
    if node.meta.get("partitioner_tag") == "is_backward" or "fwd_nn_module_stack" in node.meta:
        scope = f"{scope}.grad" if scope else "grad"
    target = str(node.target) if node.op == "call_function" else ""
    op = target.split(".")[1] if target.count(".") == 2 else ""
    return Place(file, int(line), scope, op.lstrip("_"))


def with_effects(token, op, *args, **kwargs):
    """An op whose effect has its turn: ops that take the token that this one gives come later."""
    made = op(*args, **kwargs)
    return (token, *(made if isinstance(made, (tuple, list)) else [made]))


class Conversion:
    """One FX graph on its way. `fake` tensors in nodes' meta["val"] have sizes that are known."""

    def __init__(self, graph: torch.fx.Graph, owner, name: str, visible: int | None):
        self.fx, self.owner = graph, owner
        self.name = name
        self.device = device_of(graph)
        self.c = Lowering(Graph(re.sub(r"\W", "_", name.split(".")[-1]))) # equal graphs have equal texts
        self.names = {"seed"}      # of arguments
        self.numbers = {n: i for i, n in enumerate(n for n in graph.nodes if n.op == "placeholder")}
        self.values: dict = {}
        self.arguments: list = []  # (place, the graph's name, layout) of what a call hands over, or None
        self.looks: dict = {}      # placeholder → how the graph sees it, and its name there
        self.results: list = []
        self.constants: list = []  # tensors of the graph itself, and what `arguments` says of them
        self.constant_looks: list[Seen] = []
        self.handed: list = []
        self.fallbacks: list[Fallback] = []
        self.texts: dict[str, list[Fallback]] = {}  # of ops by ATen that have one
        self.lowered = 0
        self.hidden: list = []     # results of which only views are given
        self.visible = visible     # so many results are the user's, not saved for the backward; None: all
        self.count = 0
        self.outputs = itertools.count()
        self.strides: dict = {}    # node of a result in memory of its own → that memory's strides
        self.updates: dict = {}    # placeholder → its last value
        self.sharing: set = set()  # results that show all of the same memory as others

    # Arguments

    def prepare_updates(self) -> None:
        for node in self.fx.nodes:
            if node.target is aten.set_.source_Tensor:
                raise Unsupported("an argument that gets other memory")
            if node.target is aten.copy_.default:
                if node.args[0].op != "placeholder":
                    raise Unsupported(f"{node.target} of what is no argument")
                if self.is_elsewhere(node.args[0].meta["val"]):
                    raise Unsupported(f"{node.args[0].name}, of another device than the step's, is updated")
                self.updates[node.args[0]] = node.args[1]

    def is_elsewhere(self, fake: torch.Tensor) -> bool:
        """Whether a tensor of a GPU's graph is one of the CPU."""
        return self.device.type != "cpu" and fake.device != self.device

    def argument(self, node, fake) -> None:
        if not isinstance(fake, torch.Tensor):
            self.values[node] = fake
            self.arguments.append(None)
            return
        if not node.users:
            self.arguments.append(None)
            return
        if any(user.target is torch.ops.higher_order.with_effects and user.args[0] is node for user in node.users):
            self.arguments.append(None)  # a token: AOTAutograd hands over None
            self.values[node] = self.c.g.constant(0, "f32", (0,))
            return
        place = "state" if node in self.updates else "input"
        element, extra = carrier(fake.dtype)
        sizes = tuple(int(n) for n in fake.shape)
        look = seen(sizes, fake.stride(), expands=place == "input") if fake.dtype in ELEMENTS else as_rows(sizes)
        name = self.unique(re.sub(r"[^A-Za-z0-9_.]", "_", argument_name(node)))
        value = self.c.g.argument(name, look.sizes + extra, element, state=place == "state")
        self.arguments.append((place, name, (*dlpack_type(fake.dtype), list(fake.shape), list(look.strides))))
        self.values[node] = self.as_torch(value, look, sizes) if fake.dtype in ELEMENTS else value
        self.looks[node] = (look, name)

    def unique(self, name: str) -> str:
        candidates = itertools.chain([name], (f"{name}.{i}" for i in itertools.count(1)))
        made = next(candidate for candidate in candidates if candidate not in self.names)
        self.names.add(made)
        return made

    def as_torch(self, value: Value, look: Seen, sizes) -> Value:
        """The graph's argument in torch's order of dims."""
        inverse = [look.order.index(dim) for dim in range(len(look.order))]
        return self.c.g.broadcast(self.c.g.transpose(value, inverse), sizes)

    # Ops

    def run(self) -> None:
        self.prepare_updates()
        for node in self.fx.nodes:
            self.c.g.place = place_of(node)
            self.c.node = node
            if node.op == "placeholder":
                self.argument(node, node.meta.get("val"))
            elif node.op == "get_attr":
                self.values[node] = self.attribute(node)
            elif node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                self.output(node)

    def attribute(self, node):
        """A tensor that belongs to the graph, or to the user's code, is handed to each call after its arguments: code
        elsewhere may change it between them."""
        held = self.owner
        for part in node.target.split("."):
            held = getattr(held, part)
        if not isinstance(held, torch.Tensor):
            return held
        held = held.detach()
        if held.dim() == 0 and held.dtype in ELEMENTS and all(user.target in LIFTS for user in node.users):
            return self.c.g.constant(held.item(), ELEMENTS[held.dtype])  # a number in the user's code
        element, extra = carrier(held.dtype)
        sizes = tuple(held.shape)
        look = seen(sizes, held.stride()) if held.dtype in ELEMENTS else as_rows(sizes)
        name = self.unique("constant")
        self.constants.append(held)
        self.constant_looks.append(look)
        self.handed.append(("input", name, (*dlpack_type(held.dtype), list(held.shape), list(look.strides))))
        value = self.c.g.argument(name, look.sizes + extra, element)
        return self.as_torch(value, look, sizes) if held.dtype in ELEMENTS else value

    def call(self, node) -> None:
        target = node.target
        if target is aten.copy_.default:
            return
        if target is operator.getitem:
            source = self.values[node.args[0]]
            self.values[node] = source[node.args[1]]
            return
        fake = node.meta.get("val")
        args, kwargs = pytree.tree_map_only(torch.fx.Node, lambda x: self.values[x], (node.args, dict(node.kwargs)))
        if target is torch.ops.higher_order.with_effects:
            called = str(node.args[1])
            self.values[node] = self.fall_back(node, args, kwargs, fake, "it ends the program where something is wrong, "
                                               "or has another effect", with_effects, called)
            return
        if not isinstance(target, torch._ops.OpOverload):
            if any(isinstance(leaf, Value) for leaf in pytree.tree_leaves((args, kwargs))):
                raise Unsupported(f"{target} is no op of ATen")
            self.values[node] = target(*args, **kwargs)
            return
        if not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(fake)):
            self.values[node] = self.host_value(node, args, kwargs, fake)
            return
        reason = self.refusal(node, fake)
        if not reason and self.gives_nothing(target, fake):
            self.values[node] = pytree.tree_map_only(
                torch.Tensor, lambda tensor: self.c.g.constant(0, *reversed(self.c.kind(tensor))), fake)
            self.lowered += 1
            return
        if not reason:
            translation = TABLE.get(target)
            if translation is None:
                reason = NO_TRANSLATION
            else:
                try:
                    made = translation(self.c, fake, *args, **kwargs)
                    self.check(target, made, fake)
                    self.values[node] = made
                    self.lowered += 1
                    return
                except NotLowered as why:
                    reason = str(why)
        self.values[node] = self.fall_back(node, args, kwargs, fake, reason)

    def host_value(self, node, args, kwargs, fake):
        """An op that gives no tensor: a number that torch knows while it traces."""
        if isinstance(fake, _NUMBERS):
            return fake
        raise Unsupported(f"{node.target} gives a value that is known only when it runs")

    @staticmethod
    def gives_nothing(target, fake) -> bool:
        """Whether an op's results have no elements, and it does nothing else."""
        results = [leaf for leaf in pytree.tree_leaves(fake) if isinstance(leaf, torch.Tensor)]
        return all(math.prod(tensor.shape) == 0 for tensor in results) and not target._schema.is_mutable

    @staticmethod
    def refusal(node, fake) -> str:
        """Why no translation is asked: types that compiled code does not have."""
        operands = [leaf.meta.get("val") for leaf in pytree.tree_leaves((node.args, node.kwargs))
                    if isinstance(leaf, torch.fx.Node)]
        for tensor in itertools.chain(pytree.tree_leaves(operands), pytree.tree_leaves(fake)):
            if isinstance(tensor, torch.Tensor):
                if tensor.dtype not in ELEMENTS:
                    return f"no {str(tensor.dtype).removeprefix('torch.')} in compiled code"
                if tensor.dim() > 8:
                    return "more than 8 dims"
        return ""

    @staticmethod
    def check(target, made, fake) -> None:
        """A translation that gives other types than torch says is a mistake in it."""
        pairs = zip(made, fake) if isinstance(fake, (tuple, list)) else [(made, fake)]
        for value, tensor in pairs:
            if isinstance(value, Value) and isinstance(tensor, torch.Tensor):
                wanted = tuple(int(n) for n in tensor.shape), ELEMENTS[tensor.dtype]
                if (value.sizes, value.element) != wanted:
                    raise AssertionError(f"{target} gives {value.sizes} {value.element}, torch {wanted[0]} {wanted[1]}")

    def fall_back(self, node, args, kwargs, fake, reason: str, op=None, called: str = ""):
        op, called = op or node.target, called or str(node.target)
        if "as_strided" in called:
            raise Unsupported(f"{node.target}, which depends on how its operand lies in memory")
        if self.device.type != "cpu":
            raise Unsupported(f"{node.target} ({reason}); a step on a GPU has no ops of ATen inside")
        c = self.c
        place = c.g.place
        name = re.sub(r"[^A-Za-z0-9_.]", "_", called)
        record = Fallback(name, reason, f"{place.file}:{place.line}" if place.line else "")
        self.fallbacks.append(record)
        fakes = [leaf.meta["val"] for leaf in pytree.tree_leaves((node.args, dict(node.kwargs)))
                 if isinstance(leaf, torch.fx.Node) and isinstance(leaf.meta.get("val"), torch.Tensor)]
        several = isinstance(fake, (tuple, list))
        results = [(i, tensor) for i, tensor in enumerate(fake if several else [fake])
                   if isinstance(tensor, torch.Tensor)]
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Value)]
        code = register(record, op, args, kwargs, lambda leaf: isinstance(leaf, Value), fakes, results)
        if code[0] == PROVIDER:
            self.texts.setdefault(code[1], []).append(record)
        types = []
        for _, tensor in results:
            element, extra = carrier(tensor.dtype)
            types.append((tuple(int(n) for n in tensor.shape) + extra, element))
        made = c.g.host(name, code, operands, types)
        if not several:
            return made[0]
        given = [None] * len(fake)
        for (i, _), value in zip(results, made):
            given[i] = value
        return given

    # Results

    def base(self, node):
        """The node whose memory a result looks at."""
        while node.op == "call_function":
            if node.target in VIEWS or (node.target is operator.getitem and node.args[0].target in VIEWS):
                source = node.args[0]
                if node.target is operator.getitem:
                    source = source.args[0]
                if source in self.updates or not isinstance(source.meta.get("val"), torch.Tensor):
                    return node
                under = source.meta["val"]
                look = seen(under.shape, under.stride(), expands=False)
                if source.op != "placeholder" and (not look.is_exact or under.dtype not in ELEMENTS):
                    return node # memory of its own has no such layout
                node = source
            else:
                break
        return node

    def find_sharing(self, leaves) -> None:
        """Finds results that are views of all of another node's memory, in some shape and order, as others are."""
        bases = {}
        for leaf in leaves:
            if isinstance(leaf, torch.fx.Node) and isinstance(leaf.meta.get("val"), torch.Tensor):
                base = self.base(leaf)
                if base is not leaf and base.meta["val"].numel() == leaf.meta["val"].numel():
                    bases[leaf] = base
        shown = collections.Counter(bases.values())
        self.sharing = {leaf for leaf, base in bases.items() if shown[base] > 1}

    def output(self, node) -> None:
        given = {}
        leaves = pytree.tree_leaves(node.args[0], is_leaf=lambda leaf: leaf is None)
        self.visible = len(leaves) if self.visible is None else self.visible
        self.count = len(leaves)
        self.find_sharing(leaves)
        for result in leaves:
            self.results.append(self.result(result, given))
        self.results += self.hidden
        for argument, value in self.updates.items():
            look, name = self.looks[argument]
            made = self.values[value]
            if argument.meta["val"].dtype in ELEMENTS:
                made = self.c.g.transpose(made, look.order)
            self.c.g.result(made, f"new.{name}", updates=name)

    def result(self, node, given: dict):
        if not isinstance(node, torch.fx.Node):
            return ("object", node)
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            return ("object", self.values[node])
        if node.op == "placeholder" and node in self.updates and len(self.results) >= self.visible:
            # Saved for the backward, which computes with what the argument was before this step changes it.
            if node not in given:
                given[node] = len(self.results)
                return self.made(node)
            return ("part", given[node], list(fake.shape), self.strides[node], 0)
        if node.op == "placeholder":
            return ("argument", self.numbers[node])
        if node.target is aten.copy_.default:
            return ("argument", self.numbers[node.args[0]])
        base = self.base(node)
        if base.op == "placeholder" and base is not node:
            under = base.meta["val"]
            return ("view", self.numbers[base], list(fake.shape), list(fake.stride()),
                    fake.storage_offset() - under.storage_offset())
        if base in given and base is not node:
            under = base.meta["val"]
            return ("part", given[base], list(fake.shape), list(fake.stride()),
                    fake.storage_offset() - under.storage_offset())
        if node in given:
            return ("part", given[node], list(fake.shape), self.strides[node], 0)
        shows_strides = len(self.results) < self.visible and not seen(fake.shape, fake.stride(), expands=False).is_exact
        if base is not node and (shows_strides or node in self.sharing):
            # The user sees strides of a view, or several results show the same memory: that memory is made.
            given[base] = self.count + len(self.hidden)
            self.hidden.append(("hidden", *self.made(base)[1:]))
            return self.result(node, given)
        given[node] = len(self.results)
        return self.made(node)

    def made(self, node):
        """A result in memory of its own."""
        fake = node.meta["val"]
        if self.is_elsewhere(fake):
            raise Unsupported(f"{node.name}, a result on {named(fake.device)} of a step on {named(self.device)}")
        sizes = tuple(int(n) for n in fake.shape)
        look = seen(sizes, fake.stride(), expands=False) if fake.dtype in ELEMENTS else as_rows(sizes)
        self.strides[node] = list(look.strides)
        number = next(self.outputs)
        value = self.values[node]
        if fake.dtype in ELEMENTS:
            value = self.c.g.transpose(value, look.order)
        self.c.g.result(value, f"result{number}")
        return ("new", number, (*dlpack_type(fake.dtype), sizes, look.strides), (sizes, look.strides, fake.dtype))

    def finish(self, flags) -> Converted:
        graph = self.c.g
        text = graph.text()
        gpu = -1 if self.device.type == "cpu" else self.device.index or 0
        with counted(self.texts):
            step = _native.compile(text, self.name, flags, bool(self.fallbacks), gpu)
        numbers = {name: i for specs in (step.inputs, step.states) for i, (name, _, _) in enumerate(specs)}
        arguments = self.arguments + self.handed
        if self.c.is_random:
            arguments.append(("input", "seed", (0, 64, [], [])))
        arguments = [entry and (entry[0], numbers[entry[1]], entry[2]) for entry in arguments]
        return Converted(self.name, text, step, arguments, self.results, self.constants, self.c.is_random,
                         self.fallbacks, self.lowered, self.device)


def carrier(dtype: torch.dtype) -> tuple[str, tuple[int, ...]]:
    """The element type that a tensor has in a graph, and further dims: types that compiled code does not know pass
    through as bytes."""
    if dtype in ELEMENTS:
        return ELEMENTS[dtype], ()
    if dtype.itemsize == 16:
        return "i64", (2,)
    return CARRIERS[dtype.itemsize], ()


def argument_name(node) -> str:
    target = node.meta.get("tcc.name") or getattr(node.meta.get("desc"), "target", None)
    return target if isinstance(target, str) and target else node.name


def convert(module: torch.fx.GraphModule, name: str, flags, visible: int | None = None) -> Converted:
    """Compiles the graph of a module whose sizes are numbers, for the device of its tensors; `flags` gives the flags for
    one. The first `visible` results, or all, have the strides that torch says; others may be denser."""
    with _disable_current_modes(): # AOTAutograd's fake tensors: constants of the graph are real
        conversion = Conversion(module.graph, module, name, visible)
        conversion.run()
        return conversion.finish(flags(conversion.device))
