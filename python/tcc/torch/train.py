"""train_step: forward, backward, clipping and optimizer as one executable over torch's own memory."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable

import torch
from torch._decomp import get_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import stateless
from torch.utils import _pytree as pytree

from tcc.torch import reporting
from tcc.torch.backend import Options, call_of, decompositions
from tcc.torch.convert import convert
from tcc.torch.optimizers import rule_of

aten = torch.ops.aten


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
        self.trained = [(p, group) for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        names = {id(p): name for name, p in model.named_parameters()}
        for parameter, _ in self.trained:
            if id(parameter) not in names:
                raise ValueError("the optimizer has a parameter that is not the model's")
            if parameter.device.type != "cpu":
                raise RuntimeError(f"train_step compiles for the CPU; a parameter is on {parameter.device}")
        self.names = [names[id(p)] for p, _ in self.trained]
        self.others = [(name, p) for name, p in model.named_parameters()
                       if id(p) not in {id(q) for q, _ in self.trained}]
        #: Where each buffer is held: a module's own dict, and the name there.
        self.buffers = [(model.get_submodule(name.rpartition(".")[0])._buffers, name.rpartition(".")[2])
                        for name, _ in model.named_buffers()]
        self.norm: torch.Tensor | None = None
        self.calls: dict = {}

    def __call__(self, *batch, **named) -> torch.Tensor:
        leaves, form = flattened(batch, named)
        for parameter, group in self.trained:
            self.rule.prepare(self.optimizer, parameter, group)
        counters = [self.rule.counter(self.optimizer.state[parameter]) for parameter, _ in self.trained]
        counters = [counter for counter in counters if counter is not None]
        if counters:
            torch._foreach_add_(counters, 1)
        try:
            distinct, own = self.shared_numbers()
            key = self.key(leaves, form, own)
            call = self.calls.get(key)
            if call is None:
                if self.calls:
                    reporting.recompiled("train_step", next(reversed(self.calls)), key)
                call = self.calls[key] = self.compile(*pytree.tree_flatten((batch, named)), distinct, own)
            numbers = scalars(distinct)
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            made = call([*self.tensors(), *numbers, *tensors])
        except BaseException:
            if counters: # a step that did not run is not counted
                torch._foreach_sub_(counters, 1)
            raise
        self.optimizer._opt_called = True  # what torch's schedulers ask for, to see that the order is right
        torch.autograd.graph.increment_version([p for p, _ in self.trained])
        self.norm = made[1] if self.clip is not None else None
        return made[0]

    # What a step is made of

    def tensors(self) -> list[torch.Tensor]:
        """Parameters, their states, parameters that stay, buffers: in the order of the traced function's arguments."""
        made = [p for p, _ in self.trained]
        for parameter, group in self.trained:
            state = self.optimizer.state[parameter]
            made += [state[name] for name in self.rule.states(state, group)]
        return made + [p for _, p in self.others] + [held[name] for held, name in self.buffers]

    def shared_numbers(self):
        """The distinct lists of this step's numbers, and for each parameter which of them is its own."""
        distinct, places, own = [], {}, []
        for parameter, group in self.trained:
            state = self.optimizer.state[parameter]
            key = (id(group), float(state["step"]) if "step" in state else 0.0)
            if key not in places:
                places[key] = len(distinct)
                distinct.append(self.rule.numbers(state, group))
            own.append(places[key])
        return distinct, own

    def key(self, leaves, form, own):
        def shape(leaf):
            return (tuple(leaf.shape), leaf.stride(), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf

        groups = tuple((tuple(group.get(name) for name in self.rule.fixed)) for group in self.optimizer.param_groups)
        return (tuple(shape(leaf) for leaf in leaves), form, self.model.training, groups,
                tuple(own), torch.get_num_threads(),
                torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"))

    # Tracing

    def compile(self, leaves, spec, distinct, own):
        start = time.perf_counter()
        module = self.traced(leaves, spec, distinct, own)
        return call_of(convert(module, "train_step", self.options.all_flags()), start, self.options)

    def traced(self, leaves, spec, distinct, own) -> torch.fx.GraphModule:
        """The step as a graph whose last ops write the new values into the arguments that they belong to."""
        tensors = self.tensors()
        numbers = scalars(distinct)
        batch = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        buffers = [name for name, _ in self.model.named_buffers()]
        ends = list(itertools.accumulate(len(n) for n in distinct))

        def function(*arguments):
            parts = iter(arguments)
            parameters = [next(parts) for _ in self.trained]
            states = [[next(parts) for _ in self.rule.states(self.optimizer.state[p], group)]
                      for p, group in self.trained]
            others = [next(parts) for _ in self.others]
            held = [next(parts) for _ in buffers]
            rates = [next(parts) for _ in numbers]
            given = [next(parts) if tensor else leaf for tensor, leaf in zip(is_tensor, leaves)]
            loss, gradients, held = self.forward_and_backward(parameters, others, held, buffers, given, spec)
            norm = None
            if self.clip is not None:
                squares = [g.float().square().sum() for g in gradients]
                norm = torch.stack(squares).sum().sqrt()
                factor = torch.clamp(self.clip / (norm + 1e-6), max=1.0)
                gradients = [g * factor.to(g.dtype) for g in gradients]
            updated, moved = [], []
            with torch.no_grad():
                for i, (parameter, group) in enumerate(self.trained):
                    first = ends[own[i]] - len(distinct[own[i]])
                    new, new_states = self.rule.update(parameters[i], gradients[i], states[i],
                                                       rates[first:ends[own[i]]], group)
                    updated.append(new.to(parameter.dtype))
                    moved += [s.to(old.dtype) for s, old in zip(new_states, states[i])]
            return [loss] + ([norm] if norm is not None else []) + updated + moved + held

        mode = FakeTensorMode(allow_non_fake_inputs=True)
        arguments = [mode.from_tensor(t.detach()) for t in [*tensors, *numbers, *batch]]
        with torch.fx.traceback.preserve_node_meta():
            with self.scopes(), mode:
                traced = make_fx(function, decomposition_table=written_out(), record_stack_traces=True,
                                 _allow_non_fake_inputs=True)(*arguments)
            functional = torch.func.functionalize(lambda *args: torch.fx.Interpreter(traced).run(*args),
                                                  remove="mutations")
            with mode, torch.no_grad():
                module = make_fx(functional, decomposition_table=decompositions(),
                                 _allow_non_fake_inputs=True)(*arguments)
        self.write_back(module, len(tensors), len(self.others))
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    def forward_and_backward(self, parameters, others, held, buffers, given, spec):
        for parameter in parameters:
            parameter.requires_grad_()
        total, gradients = None, None
        for part in range(self.accumulate):
            batch, named = pytree.tree_unflatten([self.part(leaf, part) for leaf in given], spec)
            values = {name: p for name, p in zip(self.names, parameters)}
            values |= {name: value for (name, _), value in zip(self.others, others)}
            mutable = {name: value.clone() for name, value in zip(buffers, held)}
            with stateless._reparametrize_module(self.model, values | mutable, tie_weights=True):
                loss = self.loss(self.model, *batch, **named)
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.is_floating_point():
                raise TypeError("the loss of train_step is not one number")
            loss = loss.reshape(()) / self.accumulate if self.accumulate > 1 else loss.reshape(())
            new = torch.autograd.grad(loss, parameters, allow_unused=True)
            new = [torch.zeros_like(p) if g is None else g for g, p in zip(new, parameters)]
            gradients = new if gradients is None else [a + b for a, b in zip(gradients, new)]
            total = loss.detach() if total is None else total + loss.detach()
            held = [mutable[name].detach() for name in buffers]
        return total, [g.detach() for g in gradients], held

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

    def write_back(self, module: torch.fx.GraphModule, tensors: int, others: int) -> None:
        """Each result but the loss (and norm) becomes the new value of its argument."""
        graph = module.graph
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        output = next(node for node in graph.nodes if node.op == "output")
        results = list(output.args[0])
        seen = 2 if self.clip is not None else 1
        states = tensors - others - len(list(self.model.named_buffers()))
        targets = placeholders[:states] + placeholders[states + others:tensors]
        with graph.inserting_before(output):
            for target, result in zip(targets, results[seen:], strict=True):
                if result is not target:
                    graph.call_function(aten.copy_.default, (target, result))
        output.args = (results[:seen],)
        names = self.argument_names()
        for node, name in zip(placeholders, names):
            node.meta["tcc.name"] = name
        module.recompile()

    def argument_names(self) -> list[str]:
        names = list(self.names)
        for name, (parameter, group) in zip(self.names, self.trained):
            names += [f"{name}.{state}" for state in self.rule.states(self.optimizer.state[parameter], group)]
        return names + [name for name, _ in self.others] + [name for name, _ in self.model.named_buffers()]


@functools.cache
def written_out() -> dict:
    """Ops that write into their operands and whose schemas do not say so, which functionalize would pass by."""
    return get_decompositions([aten.native_batch_norm])


def flattened(batch: tuple, named: dict):
    """The leaves of a call's arguments, and what else tells calls apart. A spec of torch's costs more than all the rest of
    a small call, so arguments that are leaves have none."""
    leaves = [*batch, *named.values()]
    if all(isinstance(leaf, (torch.Tensor, int, float, str, type(None))) for leaf in leaves):
        return leaves, (len(batch), *named)
    return pytree.tree_flatten((batch, named))


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
