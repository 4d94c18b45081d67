"""A graph of the language beside the same computation in PyTorch.

A `Graph` grows by `argument` and `emit`; every value has its .graph type and its true value, computed in fp64 at once,
so that a generator can look at domains. `evaluate` computes the whole graph again: once exactly, and several times with
each rounded result moved by about one unit in the last place, forward and backward. How far those runs spread is what
rounding may do to this graph; a compiled result further off than a small multiple of that is wrong.
"""

from dataclasses import dataclass, field

import torch

FLOATS = {"f32": (2.0**-23, 3.4028235677973366e38, 2.0**-149), "bf16": (2.0**-7, 3.3961775292304957e38, 2.0**-133),
          "f16": (2.0**-10, 65520.0, 2.0**-24)}  # unit in the last place, first value that rounds to inf, least value
NUMPY = {"f32": "float32", "i32": "int32", "i64": "int64", "i1": "bool"}


def is_float(dtype):
    return dtype in FLOATS


def tensor_type(dtype, shape):
    return "tensor<" + "".join(f"{size}x" for size in shape) + dtype + ">"


@dataclass
class Value:
    name: str
    dtype: str
    shape: tuple
    data: torch.Tensor  # fp64, int64 or bool
    index: int
    free: bool = False  # an argument of integers or truth values that may be others

    @property
    def type(self):
        return tensor_type(self.dtype, self.shape)


@dataclass
class Step:
    text: str
    operands: list
    results: list
    truth: object  # PyTorch's own function; None of a gradient
    noisy: object  # its steps where inner values are rounded: (n, operands...), or None
    ulps: float  # how far the result may be off, 0 where it is not rounded
    region: object = None  # of an op with bodies, in truth's place: (generator, operands...)


@dataclass
class Graph:
    values: list = field(default_factory=list)
    arguments: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    prefix: str = ""  # of the names of results
    turns: int = 0  # how many turns loops may have, nested ones multiplied; 0: there are no ops with bodies
    depth: int = 0
    derived: bool = False  # whether gradients go through what is added
    shaken: float = 0.0  # by how many units in the last place each use of a value is moved

    def _value(self, name, dtype, data):
        value = Value(name, dtype, tuple(data.shape), data.detach(), len(self.values))
        self.values.append(value)
        return value

    def argument(self, dtype, data, name=None):
        value = self._value(name or f"a{len(self.arguments)}", dtype, data)
        self.arguments.append(value)
        return value

    def emit(self, text, operands, dtypes, truth, noisy=None, ulps=1.0):
        """Adds `text` (with {0}, {1}, ... for operands, {t0}, ... for their types, {r0}, ... for results' types)."""
        results = truth(*(value.data for value in operands))
        if not isinstance(results, tuple):
            results = (results,)
        number = len(self.steps)
        values = []
        for position, (dtype, data) in enumerate(zip(dtypes, results)):
            name = f"{self.prefix}v{number}" + (f"#{position}" if len(results) > 1 else "")
            values.append(self._value(name, dtype, _in_range(data, dtype)))
        names = {f"t{i}": value.type for i, value in enumerate(operands)}
        names |= {f"r{i}": value.type for i, value in enumerate(values)}
        line = self._head(len(values)) + text.format(*("%" + value.name for value in operands), **names)
        self.steps.append(Step(line, [v.index for v in operands], values, truth, noisy, ulps))
        return values if len(values) > 1 else values[0]

    def emit_region(self, text, operands, dtypes, results, region):
        """Adds an op with bodies: its whole text, its results' data, and `region`, which computes them."""
        number = len(self.steps)
        names = [f"{self.prefix}v{number}" + (f"#{i}" if len(dtypes) > 1 else "") for i in range(len(dtypes))]
        values = [self._value(*parts) for parts in zip(names, dtypes, results)]
        self.steps.append(Step(self._head(len(values)) + text, [v.index for v in operands], values, None, None, 0, region))
        return values

    def emit_gradient(self, loss, wrt):
        """Adds a gradient whose results other ops can read."""
        env = run_steps(self, {value.index: leaf(value.data) for value in self.arguments})
        parts = gradients_of(env, loss, wrt)
        number = len(self.steps)
        values = [self._value(f"{self.prefix}v{number}" + (f"#{i}" if len(wrt) > 1 else ""), value.dtype, data)
                  for i, (value, data) in enumerate(zip(wrt, parts))]
        names, types = ", ".join("%" + v.name for v in wrt), ", ".join(v.type for v in [loss, *wrt])
        line = self._head(len(wrt)) + f"gradient %{loss.name} wrt {names} : {types}"
        self.steps.append(Step(line, [v.index for v in [loss, *wrt]], values, None, None, 1.0))
        return values

    def _head(self, count):
        return f"%{self.prefix}v{len(self.steps)}" + (f":{count}" if count > 1 else "") + " = tcc."


def leaf(data):
    """`data` as a value of its own: gradients with respect to it are those of its uses from here on."""
    if not data.is_floating_point():
        return data
    return data.clone() if data.requires_grad else data.clone().requires_grad_()


def gradients_of(env, loss, wrt):
    found = torch.autograd.grad(env[loss.index], [env[w.index] for w in wrt], allow_unused=True, create_graph=True)
    return [torch.zeros_like(env[w.index]) if part is None else part for w, part in zip(wrt, found)]


class Rejected(Exception):
    """A graph of which nothing can be said: values outside of an op's domain, or huge ones."""


def _in_range(data, dtype):
    if not is_float(dtype):
        return data
    limit = FLOATS[dtype][1]
    return torch.where(data.abs() >= limit, data.sign() * float("inf"), data)


class _Rounded(torch.autograd.Function):
    """The identity, within the type's range, moved by up to `ulps` at random; its gradient by one."""

    @staticmethod
    def forward(ctx, x, dtype, ulps, generator):
        ctx.how = dtype, 1.0, generator
        return _rounded(x, dtype, ulps, generator)

    @staticmethod
    def backward(ctx, dy):
        return _rounded(dy, *ctx.how), None, None, None


def _rounded(x, dtype, ulps, generator):
    x = x.double()
    if generator is not None and ulps:
        unit, _, least = FLOATS[dtype]
        draw = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
        x = x + draw * ulps * (unit * x.abs().nan_to_num(0, 0, 0) + (x != 0) * least)
    return _in_range(x, dtype)


def overflowed(graph):
    """By shape, where an op of the graph has a finite fp64 result that its own type does not hold."""
    places = {}
    run_steps(graph, {value.index: leaf(value.data) for value in graph.arguments}, places=places)
    return places


def run_steps(graph, env, generator=None, watched=False, places=None):
    """Adds the results of the graph's steps to `env`, which has its arguments. Watched: huge values are rejected;
    `places` gets, by shape, where values are infinite in their own type alone."""
    for step in graph.steps:
        operands = [env[index] for index in step.operands]
        if generator is not None:  # each use of a value gives a share of its gradient, rounded by itself
            operands = [_Rounded.apply(x, graph.values[index].dtype, graph.shaken, generator)
                        if is_float(graph.values[index].dtype) else x for index, x in zip(step.operands, operands)]
        dtype = step.results[0].dtype
        if step.region is not None:
            results = step.region(generator, *operands)
        elif step.truth is None:
            values = [graph.values[index] for index in step.operands]
            results = tuple(gradients_of(env, values[0], values[1:]))
        elif generator is not None and step.noisy is not None:
            results = step.noisy(lambda x, ulps=1.0: _Rounded.apply(x, dtype, ulps, generator), *operands)
        else:
            results = step.truth(*operands)
        if not isinstance(results, tuple):
            results = (results,)
        for value, data in zip(step.results, results):
            if is_float(value.dtype):
                if watched and not bool((data.abs() < 1e6).all()):
                    raise Rejected
                lost = torch.isfinite(data) & (_in_range(data, value.dtype) != data)
                if places is not None and bool(lost.any()):
                    places[value.shape] = places.get(value.shape, False) | lost
                data = _Rounded.apply(data, value.dtype, step.ulps, generator)
                if not data.requires_grad:
                    data = data.detach().requires_grad_()
            env[value.index] = data
    return env


def evaluate(graph, outputs, gradients, generator=None, states=None):
    """Values of `outputs`, then for each (loss, wrt) of `gradients` those of d loss / d wrt, as fp64 tensors.

    `states` has the data of arguments, by index, that are no longer what they were at first.

    PyTorch's gradients read fp64 results also where those overflow in the graph's own type: see `overflowed`."""
    states = states or {}
    env = run_steps(graph, {v.index: leaf(states.get(v.index, v.data)) for v in graph.arguments}, generator)
    found = [env[value.index].detach() for value in outputs]
    for loss, wrt in gradients:
        wanted = [env[value.index] for value in wrt]
        parts = torch.autograd.grad(env[loss.index], wanted, allow_unused=True, retain_graph=True)
        found += [_in_range(torch.zeros_like(w) if p is None else p.detach(), value.dtype)
                  for value, w, p in zip(wrt, wanted, parts)]
    return found
