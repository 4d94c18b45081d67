"""train_step: forward, backward, clipping and optimizer as one executable over torch's own memory."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch._decomp import get_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import stateless
from torch.utils import _pytree as pytree

from tcc import _native
from tcc.torch import reporting
from tcc.torch.apart import Apart, NoForeignWrites, attributes, line_of, refuse_foreign_writes
from tcc.torch.backend import DEPENDS_ON_VALUES, Fallbacks, Options, call_of
from tcc.torch.convert import convert
from tcc.torch.layouts import DEVICES
from tcc.torch.lowering import Unsupported
from tcc.torch.masks import Selects
from tcc.torch.optimizers import rule_of
from tcc.torch.pieces import Pieces
from tcc.torch.recurrent import Unrolled

aten = torch.ops.aten


#: Of an optimizer that keeps nothing of a parameter.
NO_STATE: dict = {}


@dataclass
class Traced:
    """Forward and backward as a graph of (trained parameters, others, buffers, tensors of the batch)."""

    module: torch.fx.GraphModule  # gives the loss, the gradients of the parameters `used`, the buffers
    used: tuple[int, ...]         # numbers of the trained parameters that have a gradient


class TrainStep:
    """A whole step of training, compiled for each set of shapes that it is called with.

    A call takes a batch, updates parameters, buffers and the optimizer's states where torch has them, and gives the
    loss, a scalar. `norm` is the gradients' norm before clipping, where there is clipping.
    """

    def __init__(self, model: torch.nn.Module, loss: Callable, optimizer: torch.optim.Optimizer, *, clip: float | None,
                 accumulate: int, options: Options):
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.clip, self.accumulate, self.options = clip, accumulate, options
        self.rule = rule_of(optimizer)
        if accumulate < 1:
            raise ValueError(f"accumulate is {accumulate}; at least 1")
        self.take_model()
        self.norm: torch.Tensor | None = None
        self.compiled_loss = None  # forward, where it cannot be one graph with the optimizer

    def take_model(self) -> None:
        """What is trained now, and what else the model has; nothing is compiled for it yet."""
        self.trains = self.what_trains()
        self.trained = [(p, group) for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]
        names = {id(p): name for name, p in self.model.named_parameters()}
        for parameter, _ in self.trained:
            if id(parameter) not in names:
                raise ValueError("the optimizer has a parameter that is not the model's")
            if parameter.device.type not in DEVICES:
                raise RuntimeError(f"train_step compiles for the CPU and for CUDA; a parameter is on {parameter.device}")
        self.names = [names[id(p)] for p, _ in self.trained]
        own = {id(p) for p, _ in self.trained}
        self.others = [(name, p) for name, p in self.model.named_parameters() if id(p) not in own]
        #: Where each buffer is held: a module's own dict, and the name there.
        self.buffers = [(self.model.get_submodule(name.rpartition(".")[0])._buffers, name.rpartition(".")[2])
                        for name, _ in self.model.named_buffers()]
        self.modules = list(self.model.modules())
        self.traces: dict = {}   # what forward and backward depend on → Traced
        self.apart: set = set()  # where they cannot be one graph with the optimizer
        self.calls: dict = {}

    def what_trains(self) -> list[bool]:
        return [p.requires_grad for group in self.optimizer.param_groups for p in group["params"]]

    def __call__(self, *batch, **named) -> torch.Tensor:
        if self.what_trains() != self.trains:
            self.take_model()
        leaves, form = flattened(batch, named)
        key = self.key(leaves, form)
        if key not in self.apart:
            try:
                return self.whole(key, leaves, batch, named)
            except Apart as why:  # before anything has changed
                if self.options.fallback == "error":
                    raise Fallbacks(f"train_step: {why}") from why.__cause__
                reporting.cut("train_step", f"{why}; forward and backward are compiled apart from the optimizer")
                self.apart.add(key)
        return self.in_parts(key, batch, named)

    def whole(self, key, leaves, batch, named) -> torch.Tensor:
        """All of the step as one executable. Throws Apart."""
        traced = self.traces.get(key)
        if traced is None:
            traced = self.traces[key] = self.traced(*pytree.tree_flatten((batch, named)))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        made = self.update(key, traced.used, traced, [*self.held(), *tensors])
        self.norm = made[1] if self.clip is not None else None
        return made[0]

    def in_parts(self, key, batch, named) -> torch.Tensor:
        """Forward and backward as torch.compile has them, with its graph breaks; clipping and optimizer as one
        executable over their gradients."""
        if self.compiled_loss is None:
            self.compiled_loss = torch.compile(self.loss, backend="tcc", options=dataclasses.asdict(self.options))
        total, gradients = self.accumulated(
            *pytree.tree_flatten((batch, named)), [p for p, _ in self.trained],
            lambda some, some_named: self.compiled_loss(self.model, *some, **some_named))
        used = tuple(i for i, gradient in enumerate(gradients) if gradient is not None)
        made = self.update(key, used, None, [gradients[i] for i in used]) if used else [None]
        self.norm = made[0] if self.clip is not None else None
        return total

    def update(self, key, used: tuple[int, ...], traced: Traced | None, rest: list[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the executable that ends in the update of the parameters of the numbers `used`, those with a gradient:
        the others, and their states, stay as they are."""
        fresh = [self.rule.prepare(self.optimizer, *self.trained[i]) for i in used]
        states = [self.state(i) for i in used]
        counters = [counter for state in states if (counter := self.rule.counter(state)) is not None]
        if counters:
            torch._foreach_add_(counters, 1)
        try:
            distinct, own = self.shared_numbers(used, states, fresh)
            groups = tuple(tuple(group.get(name) for name in self.rule.fixed) for group in self.optimizer.param_groups)
            full = (*key, groups, used, tuple(own))
            call = self.calls.get(full)
            if call is None:
                if self.calls:
                    reporting.recompiled("train_step", next(reversed(self.calls)), full)
                call = self.calls[full] = self.compile(traced, used, distinct, own, rest)
            made = call([*self.tensors(used, states), *scalars(distinct), *rest])
        except BaseException:
            if counters: # a step that did not run is not counted
                torch._foreach_sub_(counters, 1)
            for i, is_new in zip(used, fresh):
                if is_new:
                    del self.optimizer.state[self.trained[i][0]]
            raise
        self.optimizer._opt_called = True  # what torch's schedulers ask for, to see that the order is right
        torch.autograd.graph.increment_version([self.trained[i][0] for i in used])
        return made

    # What a step is made of

    def tensors(self, used, states) -> list[torch.Tensor]:
        """Parameters, and the states of those that are updated."""
        made = [p for p, _ in self.trained]
        for i, state in zip(used, states):
            made += [state[name] for name in self.rule.states(state, self.trained[i][1])]
        return made

    def state(self, i: int) -> dict:
        """What the optimizer keeps of a trained parameter."""
        return self.optimizer.state.get(self.trained[i][0], NO_STATE)

    def names_of_states(self, i: int) -> list[str]:
        return self.rule.states(self.state(i), self.trained[i][1])

    def held(self) -> list[torch.Tensor]:
        """What the model has beside them: parameters that stay, and buffers."""
        return [p for _, p in self.others] + [held[name] for held, name in self.buffers]

    def shared_numbers(self, used, states, fresh):
        """The distinct lists of this step's numbers, and for each updated parameter which of them is its own."""
        distinct, places, own = [], {}, []
        for i, state, is_new in zip(used, states, fresh):
            group = self.trained[i][1]
            key = (id(group), is_new, float(state["step"]) if "step" in state else 0.0)
            if key not in places:
                places[key] = len(distinct)
                distinct.append(self.rule.numbers(state, group, is_new))
            own.append(places[key])
        return distinct, own

    def key(self, leaves, form):
        """What the graph of forward and backward depends on."""
        def shape(leaf):
            return (tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device) if isinstance(leaf, torch.Tensor) else leaf

        return (tuple(shape(leaf) for leaf in leaves), form, tuple(module.training for module in self.modules),
                torch.get_num_threads(),
                *(torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) for kind in DEVICES))

    # Tracing

    def compile(self, traced: Traced | None, used, distinct, own, rest):
        start = time.perf_counter()
        try:
            module = self.with_update(traced, used, distinct, own, rest)
        except Exception as why:
            if traced is None:
                raise
            raise Apart(untraced(why)) from why
        name = "train_step" if traced else "train_step.optimizer"
        try:
            converted = convert(module, name, self.options.all_flags)
        except (Unsupported, _native.Error) as why:
            if traced is None:
                raise
            raise Apart(str(why)) from why
        return call_of(converted, start, self.options)

    def traced(self, leaves, spec) -> Traced:
        """Forward and backward as a graph. Throws Apart where they depend on what tensors hold."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        buffers = [name for name, _ in self.model.named_buffers()]
        used = ()

        def function(*arguments):
            nonlocal used
            parts = iter(arguments)
            parameters = [next(parts) for _ in self.trained]
            others = [next(parts) for _ in self.others]
            held = [next(parts) for _ in buffers]
            given = [next(parts) if tensor else leaf for tensor, leaf in zip(is_tensor, leaves)]
            loss, gradients, held = self.forward_and_backward(parameters, others, held, buffers, given, spec)
            used = tuple(i for i, gradient in enumerate(gradients) if gradient is not None)
            return [loss] + [gradients[i] for i in used] + held

        arguments = fakes([*(p for p, _ in self.trained), *self.held(), *tensors])
        with (torch.fx.traceback.preserve_node_meta(), self.scopes(), attributes(self.model), arguments.mode,
              NoForeignWrites(), Selects(), Unrolled()):
            try:
                module = make_fx(function, decomposition_table=written_out(), record_stack_traces=True,
                                 _allow_non_fake_inputs=True)(*arguments.tensors)
            except DEPENDS_ON_VALUES as why:
                raise Apart(f"{why.func} depends on what tensors hold{line_of(why)}") from why
            except Apart:
                raise
            except Exception as why:
                if is_own(why):
                    raise
                raise Apart(untraced(why)) from why
        refuse_foreign_writes(module)
        return Traced(module, used)

    def with_update(self, traced: Traced | None, used, distinct, own, rest) -> torch.fx.GraphModule:
        """The step as a graph whose last ops write the new values into the arguments that they belong to. `rest` are
        the arguments of the traced part after the parameters; without one, the gradients."""
        tensors, numbers = self.tensors(used, [self.state(i) for i in used]), scalars(distinct)
        ends = list(itertools.accumulate(len(n) for n in distinct))
        arguments = fakes([*tensors, *numbers, *rest])
        pieces = Pieces(arguments.mode)
        nodes = [pieces.argument(f"argument{i}", tensor) for i, tensor in enumerate(arguments.tensors)]
        parts = iter(nodes)
        parameters = [next(parts) for _ in self.trained]
        states = [[next(parts) for _ in self.names_of_states(i)] for i in used]
        rates = [next(parts) for _ in numbers]
        made = list(parts)
        if traced:
            made = pieces.once(torch.fx.Interpreter(traced.module).run, [*parameters, *made])
        loss, made = (made[:1], made[1:]) if traced else ([], made)
        gradients, buffers = made[:len(used)], made[len(used):]
        norm = []
        if self.clip is not None:
            squares = [pieces.call("square", square, [g])[0] for g in gradients]
            *norm, factor = pieces.call("norm", self.norm_and_factor, squares)
            gradients = [pieces.call("clip", clipped, [g, factor])[0] for g in gradients]
        updated, moved = [], []
        for i, gradient, old, mine in zip(used, gradients, states, own):
            first = ends[mine] - len(distinct[mine])
            group = self.trained[i][1]
            new, *new_states = pieces.call(("update", id(group)), self.updated(group, len(old)),
                                           [parameters[i], gradient, *old, *rates[first:ends[mine]]])
            updated.append(new)
            moved += new_states
        module = pieces.module(loss + norm + updated + moved + buffers)
        self.write_back(module, used, len(tensors), len(numbers), has_model=traced is not None)
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    def norm_and_factor(self, *squares):
        """The norm of all gradients, and what each is multiplied by."""
        norm = torch.stack(squares or [torch.zeros(())]).sum().sqrt()
        return [norm, torch.clamp(self.clip / (norm + 1e-6), max=1.0)]

    def updated(self, group: dict, count: int) -> Callable:
        """The update of a parameter with so many states as a function of them, its gradient and the step's numbers."""
        def function(parameter, gradient, *rest):
            old = list(rest[:count])
            new, states = self.rule.update(parameter, gradient, old, rest[count:], group)
            return [new.to(parameter.dtype), *(state.to(before.dtype) for state, before in zip(states, old))]

        return function

    def forward_and_backward(self, parameters, others, held, buffers, given, spec):
        for parameter in parameters:
            parameter.requires_grad_()

        def loss_of_part(batch, named):
            nonlocal held
            values = {name: p for name, p in zip(self.names, parameters)}
            values |= {name: value for (name, _), value in zip(self.others, others)}
            values |= {name: value.clone() for name, value in zip(buffers, held)}
            with stateless._reparametrize_module(self.model, values, tie_weights=True):
                loss = self.loss(self.model, *batch, **named)
            held = [self.new_buffer(name, values[name], old) for name, old in zip(buffers, held)]
            return loss

        total, gradients = self.accumulated(given, spec, parameters, loss_of_part)
        return total, [g if g is None else g.detach() for g in gradients], held

    def accumulated(self, leaves, spec, parameters, loss_of_part):
        """The loss and the gradients of all parts of a batch; loss_of_part gives that of one part's arguments."""
        total, gradients = None, None
        for part in range(self.accumulate):
            batch, named = pytree.tree_unflatten([self.part(leaf, part) for leaf in leaves], spec)
            loss = self.scalar(loss_of_part(batch, named))
            gradients = summed(gradients, gradients_of(loss, parameters))
            total = loss.detach() if total is None else total + loss.detach()
        return total, gradients

    @staticmethod
    def new_buffer(name: str, value, old: torch.Tensor) -> torch.Tensor:
        """A buffer after forward, which may have put another tensor in its place. Throws Apart."""
        if not isinstance(value, torch.Tensor) or (value.shape, value.dtype) != (old.shape, old.dtype):
            raise Apart(f"the buffer {name} becomes another kind of tensor")
        return value.detach()

    def scalar(self, loss):
        """The share of this part of the batch in the loss."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.is_floating_point():
            raise TypeError("the loss of train_step is not one number")
        return loss.reshape(()) / self.accumulate if self.accumulate > 1 else loss.reshape(())

    def part(self, leaf, part: int):
        if self.accumulate == 1 or not isinstance(leaf, torch.Tensor) or leaf.dim() == 0:
            return leaf
        if leaf.shape[0] % self.accumulate:
            raise ValueError(f"a batch of {leaf.shape[0]} cannot be cut into {self.accumulate} parts")
        rows = leaf.shape[0] // self.accumulate
        return leaf[part * rows:(part + 1) * rows]

    @contextlib.contextmanager
    def scopes(self):
        """While it lasts, nodes know which module they come from."""
        stack, handles = [], []

        def enter(name):
            def hook(module, args):
                context = torch.fx.traceback.annotate({"tcc.scope": name})
                context.__enter__()
                stack.append(context)
            return hook

        def leave(module, args, output):
            stack.pop().__exit__(None, None, None)

        for name, module in self.model.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(enter(name)))
                handles.append(module.register_forward_hook(leave, always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def write_back(self, module: torch.fx.GraphModule, used, tensors: int, numbers: int, has_model: bool) -> None:
        """Each result but the loss (and norm) becomes the new value of its argument."""
        graph = module.graph
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        output = next(node for node in graph.nodes if node.op == "output")
        results = list(output.args[0])
        seen = has_model + (self.clip is not None)
        count = len(self.trained)
        buffers = [name for name, _ in self.model.named_buffers()] if has_model else []
        first = tensors + numbers + len(self.others) # of the buffers
        targets = ([placeholders[i] for i in used] + placeholders[count:tensors] +
                   placeholders[first:first + len(buffers)])
        with graph.inserting_before(output):
            for target, result in zip(targets, results[seen:], strict=True):
                if result is not target:
                    graph.call_function(aten.copy_.default, (target, result))
        output.args = (results[:seen],)
        names = list(self.names)
        names += [f"{self.names[i]}.{state}" for i in used for state in self.names_of_states(i)]
        for node, name in zip(placeholders, names):
            node.meta["tcc.name"] = name
        if has_model:
            for node, name in zip(placeholders[tensors + numbers:], [*(name for name, _ in self.others), *buffers]):
                node.meta["tcc.name"] = name
        module.recompile()


@functools.cache
def written_out() -> dict:
    """Ops that write into their operands and whose schemas do not say so, which functionalize would pass by."""
    return get_decompositions([aten.native_batch_norm, aten.cudnn_batch_norm])


def is_own(error: Exception) -> bool:
    """Whether it is train_step itself that refuses its arguments."""
    return traceback.extract_tb(error.__traceback__)[-1].filename == __file__


def untraced(error: Exception) -> str:
    """What a report says of a model that PyTorch cannot trace. Where the model itself is wrong, running it says so again."""
    first = (str(error).splitlines() or [""])[0]
    return f"tracing ends with {type(error).__name__}: {first}{line_of(error)}"


class Fakes(NamedTuple):
    mode: FakeTensorMode
    tensors: list[torch.Tensor]


def fakes(tensors) -> Fakes:
    """Tensors of these shapes that have no elements."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    return Fakes(mode, [mode.from_tensor(t.detach()) for t in tensors])


def square(gradient: torch.Tensor) -> list[torch.Tensor]:
    return [gradient.float().square().sum()]


def clipped(gradient: torch.Tensor, factor: torch.Tensor) -> list[torch.Tensor]:
    return [gradient * factor.to(gradient.dtype)]


def summed(gradients, new) -> list:
    """Gradients of the parts before, and of a further one; None where a parameter has none."""
    if gradients is None:
        return list(new)
    return [b if a is None else a if b is None else a + b for a, b in zip(gradients, new)]


def flattened(batch: tuple, named: dict):
    """The leaves of a call's arguments, and what else tells calls apart. A spec of torch's costs more than all the rest of
    a small call, so arguments that are leaves have none."""
    leaves = [*batch, *named.values()]
    if all(isinstance(leaf, (torch.Tensor, int, float, str, type(None))) for leaf in leaves):
        return leaves, (len(batch), *named)
    return pytree.tree_flatten((batch, named))


def gradients_of(loss: torch.Tensor, parameters: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    """None for parameters that the loss does not depend on. Without parameters, as where all are frozen, there are none,
    and the loss may be of any kind."""
    return torch.autograd.grad(loss, parameters, allow_unused=True) if parameters else ()


def scalars(lists) -> list[torch.Tensor]:
    """The numbers of all lists as inputs of a step."""
    return [torch.tensor(number, dtype=torch.float32) for numbers in lists for number in numbers]


def train_step(model: torch.nn.Module, loss: Callable, optimizer: torch.optim.Optimizer, *, clip: float | None = None,
               accumulate: int = 1, options: dict | None = None) -> TrainStep:
    """A compiled step of training.

    loss(model, *batch) gives a scalar; it is called once for each set of shapes, with tensors that have no elements
    yet. `optimizer` is torch's AdamW, Adam, SGD or Muon, or tcc.torch.Lion, over parameters of the model; learning
    rates may change from call to call. `clip` is the largest norm of all gradients together. With `accumulate` the
    batch is cut along its first dim into so many parts, whose gradients are averaged.

        step = tcc.torch.train_step(model, lambda model, x, y: F.cross_entropy(model(x), y), optimizer, clip=1.0)
        for x, y in data:
            print(step(x, y).item())
    """
    return TrainStep(model, loss, optimizer, clip=clip, accumulate=accumulate, options=Options.of(None, options))
