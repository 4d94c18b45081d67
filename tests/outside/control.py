"""Ops with bodies: cond, repeat, custom ops and gradients inside them, in the language's words and in PyTorch's.

A body is a graph of its own, grown by the same ops. What it needs from around it becomes an operand of the op, as the
language wants it. Domains are looked at with the values of the first turn; a graph that has huge values or NaN in
another turn is rejected.
"""

import numpy
import torch

import language
from graph import FLOATS, Graph, Rejected, is_float, leaf, run_steps
from language import normal, wrap

BODY_SHAPES = [(), (1,), (3,), (17,), (1, 1), (2, 3), (7, 5), (1, 9), (4, 4), (2, 3, 4), (5, 1, 2)]
LARGE_SHAPES = [(1031,), (37, 41), (64, 40), (2, 19, 33)]
OPS = {}  # those that may stand in a body: the caller's


class Body(Graph):
    """The graph of a body. `outer` values are bound to its arguments; a closed one takes no further ones."""

    def __init__(self, outer, prefix, turns, like=None):
        super().__init__(prefix=prefix, turns=turns, depth=outer.depth + 1, derived=outer.derived)
        self.outer, self.bound, self.closed = outer, [], False
        if like is not None:
            for value, bound in zip(like.arguments, like.bound):
                self.bind(bound, value.data, value.dtype)

    def bind(self, value, data=None, dtype=None):
        """An argument of the body that stands for `value` of the graph around it, or for what `data` shows of it."""
        self.bound.append(value)
        return super().argument(dtype or value.dtype, value.data if data is None else data,
                                f"{self.prefix}x{len(self.arguments)}")

    def argument(self, dtype, data, name=None):
        if self.closed:
            raise Rejected
        return self.bind(self.outer.argument(dtype, data))

    def run(self, yields, generator, operands):
        """The values of `yields` for these operands, which are fp64, int64 or bool tensors."""
        env = {value.index: leaf(data) for value, data in zip(self.arguments, operands)}
        run_steps(self, env, generator, watched=generator is None)
        return tuple(env[value.index] for value in yields)

    def text(self, yields):
        lines = [step.text for step in self.steps]
        names, types = ", ".join("%" + v.name for v in yields), ", ".join(v.type for v in yields)
        lines.append(f"tcc.yield {names} : {types}")
        return "".join("\n  " + line.replace("\n", "\n  ") for line in lines)

    def header(self, first=0, last=None):
        """The arguments from `first` on, and what they are bound to."""
        pairs = list(zip(self.arguments, self.bound))[first:last]
        return "(" + ", ".join(f"%{value.name} = %{bound.name} : {bound.type}" for value, bound in pairs) + ")"


def prefix_of(graph, rng):
    """Names of a body: those of its neighbours or its own, and never those around it."""
    return f"b{graph.depth}_" if rng.random() < 0.5 else f"b{graph.depth}n{len(graph.values)}_"


def grow(graph, rng, wanted):
    """Adds up to `wanted` ops; an f32 value first, where there is none."""
    if not any(v.dtype == "f32" and small(v) for v in graph.values):
        shape, number = rng.choice(BODY_SHAPES), rng.choice([0.5, -1.0, 2.0])
        graph.emit(f"constant dense<{number}> : {{r0}}", [], ["f32"],
                   lambda: torch.full(shape, number, dtype=torch.float64), ulps=0)
    names, end = list(OPS), len(graph.steps) + wanted
    for _ in range(60):
        if len(graph.steps) >= end:
            return
        before = len(graph.values), len(graph.arguments), len(graph.steps)
        name = rng.choice(names) if rng.random() > 0.12 or graph.depth >= 3 else rng.choice(list(CONTROL))
        attempt(graph, before, lambda: (CONTROL.get(name) or OPS[name])(graph, rng))


def attempt(graph, before, add):
    """Whether `add` found operands and gave sensible values; else the graph is what it was before."""
    try:
        done = add()
    except Rejected:
        done = False
    if done and all(bool((v.data.abs() < 1e6).all()) for v in graph.values[before[0]:] if is_float(v.dtype)):
        return True
    del graph.values[before[0]:], graph.arguments[before[1]:], graph.steps[before[2]:]
    if isinstance(graph, Body):
        del graph.bound[before[1]:]
    return False


# ---- values of a wanted type ----------------------------------------------------------------------------------------


def fitted(graph, rng, value, dtype, shape, reductions=("sum", "sum", "max")):
    """A value of type `dtype` and `shape` that is computed from `value`."""
    if value.dtype == dtype and value.shape == shape:
        return value
    if value.dtype == dtype and dtype in ("i32", "i64") and value.data.numel() == 1 and value.shape == ():
        return graph.emit("broadcast {0} : {t0} -> {r0}", [value], [dtype], lambda v: v.expand(shape), ulps=0)
    if value.dtype != "f32":
        value = graph.emit("cast {0} : {t0} -> {r0}", [value], ["f32"],
                           lambda v: v if v.dtype == torch.float64 else v.double().to(torch.float32).double(), ulps=0)
    if value.shape != shape:
        if value.shape:
            axes, name = list(range(len(value.shape))), rng.choice(reductions)
            function = (lambda v: v.sum(axes, keepdim=True)) if name == "sum" else lambda v: v.amax(axes, keepdim=True)
            value = graph.emit(f"reduce_{name} {{0}} axes {axes} : {{t0}} -> {{r0}}", [value], ["f32"], function,
                               lambda n, v: function(n(v)), ulps=2 if name == "sum" else 0)
            value = graph.emit("reshape {0} : {t0} -> {r0}", [value], ["f32"], lambda v: v.reshape(()), ulps=0)
        if shape:
            value = graph.emit("broadcast {0} : {t0} -> {r0}", [value], ["f32"], lambda v: v.expand(shape), ulps=0)
    return value if dtype == "f32" else converted(graph, rng, value, dtype)


def converted(graph, rng, value, dtype):
    """An f32 value in another type."""
    if dtype == "i1":
        number = float(numpy.float32(rng.gauss(0, 1)))
        other = graph.emit(f"constant dense<{number!r}> : {{r0}}", [], ["f32"],
                           lambda: torch.full(value.shape, number, dtype=torch.float64), ulps=0)

        def noisy(n, a, b):
            return (a > b) ^ ((a - b).abs() <= 8 * FLOATS["f32"][0] * (1 + a.abs()))

        name, function = rng.choice([("gt", torch.gt), ("le", torch.le)])
        return graph.emit(f"compare {name} {{0}}, {{1}} : {{t0}} -> {{r0}}", [value, other], ["i1"], function,
                          noisy if name == "gt" else lambda n, a, b: ~noisy(n, a, b))
    if dtype in ("i32", "i64"):
        def noisy(n, v):  # what lies next to a whole number may be either one
            near = (v != v.round()) & ((v - v.round()).abs() <= 8 * FLOATS["f32"][0] * (1 + v.abs()))
            return v.detach().trunc().to(torch.int64) + near.to(torch.int64)

        return graph.emit("cast {0} : {t0} -> {r0}", [value], [dtype], lambda v: v.detach().trunc().to(torch.int64),
                          noisy)
    if not bool((value.data.abs() < 60000).all()):
        raise Rejected
    return rounded(graph, value, dtype)


def rounded(graph, value, dtype):
    """An f32 value in 16 bits."""
    return graph.emit("cast {0} : {t0} -> {r0}", [value], [dtype], lambda v: language._Cast.apply(v, "f32", dtype),
                      noisy=lambda n, v: v, ulps=1.0)


def joined(graph, rng, a, b):
    """Some op of two values of one type, which keeps within bounds."""
    kind = rng.choice(["add", "sub", "maximum", "minimum", "mul"])
    function, ulps = language.BINARY[kind]
    if a.dtype == "i1":
        name, logic = rng.choice([("and", torch.logical_and), ("or", torch.logical_or)])
        return graph.emit(name + " {0}, {1} : {t0}", [a, b], ["i1"], logic)
    if not is_float(a.dtype):
        return graph.emit(kind + " {0}, {1} : {t0}", [a, b], [a.dtype], lambda x, y: wrap(function(x, y), a.dtype))
    result = graph.emit(kind + " {0}, {1} : {t0}", [a, b], [a.dtype], function, ulps=ulps)
    if rng.random() < 0.6:
        name, bound, ulps = rng.choice([("tanh", language.tanh, 3), ("sin", torch.sin, 2)])
        result = graph.emit(name + " {0} : {t0}", [result], [a.dtype], bound, ulps=ulps)
    return result


def next_of(body, rng, carried):
    """What a carried value becomes."""
    same = [v for v in body.values if v.type == carried.type]
    kind = rng.random()
    if kind < 0.12:
        return carried
    if kind < 0.3:
        return rng.choice(same)
    computed = [v for step in body.steps for v in step.results]
    other = rng.choice(computed[-4:] if computed and rng.random() < 0.85 else body.values)
    return joined(body, rng, carried, fitted(body, rng, other, carried.dtype, carried.shape))


def result_of(body, rng):
    """A value that a body gives: mostly one of its last, at times an argument as it came."""
    computed = [v for step in body.steps for v in step.results if small(v)]
    return rng.choice(computed[-3:] if computed and rng.random() < 0.85 else body.values)


def small(value):
    return 0 < value.data.numel() <= 2600


def some(graph, rng, most, accept=small):
    """Up to `most` values, one of them perhaps twice."""
    found = [value for value in graph.values if accept(value)]
    return [rng.choice(found) for _ in range(rng.randint(0, most))] if found else []


def fresh(graph, rng, shape=None):
    """A new argument of a random type."""
    if shape is None:
        shape = rng.choice(BODY_SHAPES if rng.random() < 0.9 else LARGE_SHAPES)
    dtype = rng.choice(["f32"] * 6 + ["i32", "i64", "i1"])
    if dtype == "f32":
        return graph.argument("f32", normal(rng, shape))
    numbers = numpy.random.default_rng(rng.getrandbits(64))
    data = numbers.random(shape) < 0.5 if dtype == "i1" else numbers.integers(-5, 6, shape)
    value = graph.argument(dtype, torch.tensor(data).reshape(shape))
    while isinstance(graph, Body):
        graph = graph.outer
    graph.arguments[-1].free = True
    return value


# ---- the ops --------------------------------------------------------------------------------------------------------


def predicate(graph, rng):
    found = [v for v in graph.values if v.dtype == "i1" and v.shape == ()]
    if found and rng.random() < 0.4:
        return rng.choice(found)
    if rng.random() < 0.25:
        return graph.argument("i1", torch.tensor(rng.random() < 0.5))
    values = [v for v in graph.values if small(v)]
    return fitted(graph, rng, rng.choice(values) if values else fresh(graph, rng), "i1", ())


def add_cond(graph, rng):
    condition, prefix = predicate(graph, rng), prefix_of(graph, rng)
    bodies = []
    for number in range(2):
        body = Body(graph, prefix, graph.turns, bodies[0] if bodies else None)
        if number == 0:
            for value in some(graph, rng, 3):
                body.bind(value)
        if not bodies:
            grow(body, rng, rng.choice([0, 2, 3, 4, 5, 6]))
            yields = [[result_of(body, rng) for _ in range(rng.randint(1, 3))]]
            if not all(small(v) for v in yields[0]):
                return False
        else:
            grow(body, rng, rng.choice([0, 2, 3, 4, 5, 6]))
            yields.append([other_of(body, rng, like) for like in yields[0]])
        bodies.append(body)
    then, other = bodies
    operands = [condition, *other.bound]

    def region(generator, p, *inputs):
        return then.run(yields[0], generator, inputs) if bool(p) else other.run(yields[1], generator, inputs)

    types = [v.type for v in yields[0]]
    text = (f"cond %{condition.name} {other.header()} -> {types_text(types)} {{{then.text(yields[0])}\n}} else {{"
            f"{other.text(yields[1])}\n}}")
    data = region(None, *(value.data for value in operands))
    graph.emit_region(text, operands, [v.dtype for v in yields[0]], [part.detach() for part in data], region)
    return True


def other_of(body, rng, like):
    """A value of the type of `like`, which another body gives."""
    same = [v for v in body.values if v.type == like.type]
    value = rng.choice(same) if same and rng.random() < 0.4 else result_of(body, rng)
    return fitted(body, rng, value, like.dtype, like.shape)


def types_text(types):
    return types[0] if len(types) == 1 else "(" + ", ".join(types) + ")"


def add_repeat(graph, rng):
    if graph.turns < 1:
        return False
    scanned = []
    count = rng.choice([c for c in (1, 2, 2, 3, 3, 4, 5, 6, 7, 16, 31, 40) if c <= graph.turns])
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        found = [v for v in graph.values if v.shape and 1 <= v.shape[0] <= graph.turns and v.data.numel() <= 2000]
        same = [v for v in found if v.shape[0] == count]
        if not scanned and found and rng.random() < 0.3:
            scanned.append(rng.choice(found))
            count = scanned[0].shape[0]
        elif same and rng.random() < 0.5:
            scanned.append(rng.choice(same))
        else:
            scanned.append(fresh(graph, rng, (count, *rng.choice(BODY_SHAPES))))
    body = Body(graph, prefix_of(graph, rng), graph.turns // count)
    start = some(graph, rng, 3) or [fresh(graph, rng)]
    if rng.random() < 0.3:
        start.append(rng.choice(start))  # two of one type may change places
    for value in start:
        body.bind(value)
    for value in scanned:
        body.bind(value, value.data[0])
    for value in some(graph, rng, 2):
        body.bind(value)
    if rng.random() < 0.25:
        read_by_number(graph, body, rng)
    grow(body, rng, rng.choice([0, 1, 2, 3, 4, 5, 6]))
    carried = body.arguments[:len(start)]
    yields = [next_of(body, rng, value) for value in carried]
    if rng.random() < 0.25:
        for i in range(len(carried) - 1):
            if carried[i].type == carried[i + 1].type:
                yields[i], yields[i + 1] = carried[i + 1], carried[i]
                break
    finish_repeat(graph, body, yields, count, len(start), len(start) + len(scanned))
    return True


def finish_repeat(graph, body, yields, count, first, last):
    """Adds the loop: `first` carried arguments, then up to `last` scanned ones."""

    def region(generator, *operands):
        values = operands[:first]
        for turn in range(count):
            values = body.run(yields, generator, [*values, *(part[turn] for part in operands[first:last]), *operands[last:]])
        return tuple(values)

    data = region(None, *(value.data for value in body.bound))
    text = f"repeat {count} {body.header(0, first)}"
    text += f" slices {body.header(first, last)}" if last > first else ""
    text += f" uses {body.header(last)}" if len(body.bound) > last else ""
    graph.emit_region(f"{text} {{{body.text(yields)}\n}}", list(body.bound), [v.dtype for v in body.bound[:first]],
                      [part.detach() for part in data], region)


def read_by_number(graph, body, rng):
    """A row of a table by a carried or constant integer, or NaN where there is none."""
    integers = [v for v in body.arguments if v.dtype in ("i32", "i64") and v.data.numel() <= 8]
    tables = [v for v in body.arguments if v.dtype != "i1" and v.shape and small(v)]
    if not integers or not tables:
        return
    table, index = rng.choice(tables), rng.choice(integers)
    rows = table.shape[0]
    # rows that do not exist are NaN, which ends as a graph of huge values: numbers are cut to what there is
    low, high = (body.emit(f"constant dense<{number}> : {{r0}}", [], [index.dtype],
                           lambda number=number: torch.full(index.shape, number), ulps=0) for number in (0, rows - 1))
    inside = body.emit("maximum {0}, {1} : {t0}", [index, low], [index.dtype], torch.maximum)
    if rng.random() < 0.8 or is_float(table.dtype):
        inside = body.emit("minimum {0}, {1} : {t0}", [inside, high], [index.dtype], torch.minimum)

    def truth(t, i):
        found = t[i.clamp(max=rows - 1)]
        outside = (i >= rows).reshape(i.shape + (1,) * (found.dim() - i.dim()))
        return torch.where(outside, torch.zeros_like(found), found)

    body.emit("gather {0} at {1} : {t0}, {t1} -> {r0}", [table, inside], [table.dtype], truth, ulps=0)


def add_places(graph, rng):
    """A loop whose carried values change places, start as one value, or stay: their memory must not be mixed up."""
    count = rng.choice([c for c in (1, 2, 3, 4, 5, 16) if c <= graph.turns] or [1])
    shape = rng.choice(BODY_SHAPES if rng.random() < 0.7 else LARGE_SHAPES)
    values = [graph.argument("f32", normal(rng, shape)) for _ in range(rng.randint(1, 3))]
    start = [rng.choice(values) for _ in range(rng.randint(2, 4))]
    body = Body(graph, prefix_of(graph, rng), graph.turns // count)
    for value in [*start, *(rng.choice(values) for _ in range(rng.randrange(2)))]:
        body.bind(value)
    for _ in range(rng.randrange(3)):
        joined(body, rng, rng.choice(body.values), rng.choice(body.values))
    if rng.random() < 0.3 and graph.depth < 2:
        attempt(body, (len(body.values), len(body.arguments), len(body.steps)), lambda: add_cond(body, rng))
    same = [v for v in body.values if v.type == values[0].type]
    finish_repeat(graph, body, [rng.choice(same) for _ in start], count, len(start), len(start))
    return True


class _Custom(torch.autograd.Function):
    """A body with a gradient that another graph computes."""

    @staticmethod
    def forward(ctx, forward, backward, generator, *operands):
        with torch.enable_grad():
            results = tuple(data.detach() for data in forward.run(forward.yields, generator, operands))
        ctx.backward_body, ctx.generator, ctx.count = backward, generator, len(operands)
        ctx.save_for_backward(*operands, *results)
        ctx.mark_non_differentiable(*(r for r in results if not r.is_floating_point()))
        return results

    @staticmethod
    def backward(ctx, *gradients):
        saved, body = ctx.saved_tensors, ctx.backward_body
        results = saved[ctx.count:]
        slopes = [g for g, r in zip(gradients, results) if r.is_floating_point()]
        with torch.enable_grad():
            found = iter(body.run(body.yields, ctx.generator, [*saved, *slopes]))
        return None, None, None, *(next(found) if x.is_floating_point() else None for x in saved[:ctx.count])


def add_custom(graph, rng):
    body = Body(graph, prefix_of(graph, rng), graph.turns)
    for value in some(graph, rng, 3):
        body.bind(value)
    grow(body, rng, rng.randint(1, 5))
    body.yields = [result_of(body, rng) for _ in range(rng.choice([1, 1, 2, 3]))]
    if not all(small(v) for v in body.yields):
        return False
    back = backward_of(graph, body, rng) if rng.random() < 0.4 else None

    def region(generator, *operands):
        if back is None:
            return body.run(body.yields, generator, operands)
        return _Custom.apply(body, back, generator, *operands)

    data = region(None, *(value.data for value in body.bound))
    name = rng.choice(["op", "my.op", "A_1", f"op{len(graph.values)}"])
    text = f'custom "{name}" {body.header()} -> {types_text([v.type for v in body.yields])} {{{body.text(body.yields)}\n}}'
    if back is not None:
        arguments = ", ".join(f"%{v.name}: {v.type}" for v in back.arguments)
        text += f" gradient ({arguments}) {{{back.text(back.yields)}\n}}"
    graph.emit_region(text, list(body.bound), [v.dtype for v in body.yields], [part.detach() for part in data], region)
    return True


def backward_of(graph, body, rng):
    """A graph that is said to be the gradient of `body`; it needs not be right, only be used. None: no float operand."""
    floats = [v for v in body.arguments if is_float(v.dtype)]
    if not floats or not any(is_float(v.dtype) for v in body.yields):
        return None
    back = Body(graph, prefix_of(graph, rng), body.turns)
    back.derived = graph.derived
    for value in [*body.arguments, *body.yields]:
        Graph.argument(back, value.dtype, value.data, f"{back.prefix}x{len(back.arguments)}")
    back.closed = True
    grow(back, rng, rng.randint(0, 4))
    known = list(back.values)
    slopes = [Graph.argument(back, v.dtype, normal(rng, v.shape), f"{back.prefix}x{len(back.arguments)}")
              for v in body.yields if is_float(v.dtype)]
    back.yields = []
    for number, like in enumerate(floats):  # linear in the slopes, since it may be asked for no slope at all
        part = fitted(back, rng, slopes[number % len(slopes)], like.dtype, like.shape, ["sum"])
        if rng.random() < 0.7:
            factor = fitted(back, rng, rng.choice(known), like.dtype, like.shape)
            part = back.emit("mul {0}, {1} : {t0}", [part, factor], [like.dtype], torch.mul)
        back.yields.append(part)
    return back




def wrt_of(graph, values):
    """Those of `values` with respect to which a gradient has one meaning: whether an earlier gradient is computed from
    the value of an op that it goes through, or from the op's operands, is a matter of formulas."""
    last = max((number for number, step in enumerate(graph.steps) if step.truth is None and step.region is None), default=-1)
    between = {id(value) for step in graph.steps[:max(last, 0)] for value in step.results}
    return [value for value in values if id(value) not in between]


def add_gradient_inside(graph, rng):
    """A gradient of a loss that is computed here, whose results other ops read."""
    if not graph.derived:
        return False
    values = [v for v in graph.values if is_float(v.dtype) and small(v)]
    if not values:
        return False
    loss = rng.choice(values[-3:])
    if loss.shape or loss.dtype != "f32":
        loss = fitted(graph, rng, loss, "f32", ())
    values = wrt_of(graph, values)
    if not values:
        return False
    wrt = rng.sample(values, min(len(values), rng.randint(1, 3)))
    graph.emit_gradient(loss, wrt)
    return True


CONTROL = {"cond": add_cond, "repeat": add_repeat, "places": add_places, "custom": add_custom,
           "gradient_inside": add_gradient_inside}
