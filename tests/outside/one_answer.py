"""Graphs of which each result has one right answer, bit for bit: chains of correctly rounded ops, and sums of whole numbers."""

import build
import numpy
import torch
from case import Case
from graph import Graph
from language import normal

SHAPES = [(3, 5), (7, 33), (16, 16), (31, 17), (1, 1), (129, 4), (2, 300), (64, 65), (2, 3, 7), (4, 1, 9)]


def one_answer(rng):
    return rng.choice([chain, chain, whole_numbers, whole_layers])(rng)


def chain(rng):
    """Correctly rounded ops in a row, of any spelling that invites to be joined or reordered."""
    graph, shape = Graph(), rng.choice(SHAPES)
    dtype = rng.choice(["f32", "f32", "f32", "bf16", "f16"])
    pool = [build.cast(graph, graph.argument("f32", normal(rng, shape)), dtype) for _ in range(3)]
    for _ in range(rng.randint(3, 16)):
        value = rng.choice([arithmetic, arithmetic, arithmetic, with_number, choice, move, stretched])(graph, rng, pool)
        if bool((value.data.abs() < 1e4).all()):
            pool.append(value)
        else:
            pool.append(build.binary(graph, "minimum", build.binary(graph, "maximum", value, pool[0]), pool[1]))
    outputs = list({id(value): value for value in [pool[-1], *rng.sample(pool[3:], min(len(pool) - 3, 4))]}.values())
    outputs.append(build.reduce(graph, "max", pool[-1], [len(shape) - 1]))
    return Case(graph, outputs)


def arithmetic(graph, rng, pool):
    name, x, y = rng.choice(["add", "sub", "mul", "mul", "div", "sqrt"]), rng.choice(pool), rng.choice(pool)
    if name == "sqrt":
        return build.unary(graph, "sqrt", build.unary(graph, "abs", x))
    if name == "div" and float(y.data.abs().min()) < 0.01:
        y = build.shifted(graph, build.binary(graph, "mul", y, y), 0.5)
    return build.binary(graph, name, x, y)


def with_number(graph, rng, pool):
    """An op with a constant on either side; several in a row must not become one."""
    x, name = rng.choice(pool), rng.choice(["add", "sub", "mul", "div", "maximum"])
    c = build.number(graph, rng.choice([0.1, 3.0, 1.0, -1.0, 7.0, 1 / 3, 0.5, 100.0]), x.shape, x.dtype)
    if rng.random() < 0.3 and (name != "div" or float(x.data.abs().min()) > 0.01):
        return build.binary(graph, name, c, x)
    return build.binary(graph, name, x, c)


def choice(graph, rng, pool):
    x, y, z = (rng.choice(pool) for _ in range(3))
    kind = rng.random()
    if kind < 0.4:
        return build.select(graph, build.compare(graph, rng.choice(["lt", "ge", "eq", "ne"]), x, y), y, z)
    if kind < 0.7:
        return build.binary(graph, rng.choice(["maximum", "minimum"]), x, y)
    return build.unary(graph, rng.choice(["neg", "abs", "relu"]), x)


def move(graph, rng, pool):
    """The same numbers elsewhere, in x's shape."""
    x = rng.choice(pool)
    kind, last = rng.choice(["reverse", "roll", "reshape"]), len(x.shape) - 1
    if kind == "reshape":
        return build.reshape(graph, build.transpose(graph, x, list(range(last, -1, -1))), x.shape)
    axis = rng.randrange(last + 1)
    cut = rng.randint(0, x.shape[axis] - 1)
    if cut == 0:
        return build.unary(graph, "neg", x)
    begin, end, middle = [0] * (last + 1), list(x.shape), [0] * (last + 1)
    middle[axis] = cut
    upto = list(x.shape)
    upto[axis] = cut
    return build.concat(graph, [build.slices(graph, x, middle, end), build.slices(graph, x, begin, upto)], axis)


def stretched(graph, rng, pool):
    """A maximum of rows or columns, stretched and used at once."""
    x, y = rng.choice(pool), rng.choice(pool)
    top = build.broadcast(graph, build.reduce(graph, "max", x, [rng.randrange(len(x.shape))]), x.shape)
    return build.binary(graph, rng.choice(["sub", "mul", "add"]), y, top)


def integers(graph, rng, shape, most=4):
    data = numpy.random.default_rng(rng.getrandbits(64)).integers(-most, most + 1, shape)
    return graph.argument("f32", torch.tensor(data, dtype=torch.float64).reshape(shape))


def whole_numbers(rng):
    """Sums, products and scattered rows of small whole numbers: the same in any order."""
    graph, m, k, n = Graph(), rng.choice([1, 3, 17, 64]), rng.choice([1, 5, 31, 256, 1500]), rng.choice([1, 2, 33])
    turn_a, turn_b = rng.random() < 0.4, rng.random() < 0.4
    a, b = integers(graph, rng, (k, m) if turn_a else (m, k)), integers(graph, rng, (n, k) if turn_b else (k, n))
    y = build.matmul(graph, a, b, turn_a, turn_b)
    z = build.binary(graph, "add", y, build.broadcast(graph, integers(graph, rng, (n,)), y.shape))
    half = build.scaled(graph, z, 0.5)
    outputs = [y, z, half, build.reduce(graph, "sum", a, [rng.randrange(2)]), build.reduce(graph, "sum", b, [0, 1])]
    index = graph.argument("i32", torch.tensor([rng.randrange(n + 1) for _ in range(m)]))
    base, rows = integers(graph, rng, (n, k)), integers(graph, rng, (m, k))
    inside = build.binary_integers(graph, "minimum", index, build.number(graph, n - 1, (m,), "i32"))
    outputs.append(graph.emit("scatter_add {0} at {1}, {2} : {t0}, {t1}, {t2}", [base, inside, rows], ["f32"],
                              lambda t, i, r: t.index_add(0, i, r), ulps=3))
    return Case(graph, rng.sample(outputs, rng.randint(2, len(outputs))))


def whole_layers(rng):
    """Layers of whole numbers with relu between them, reduced along both axes, as one fused step would be."""
    graph, rows, size = Graph(), rng.choice([2, 9, 40]), rng.choice([3, 8, 17])
    x, outputs = integers(graph, rng, (rows, size), 3), []
    for _ in range(rng.randint(1, 3)):
        x = build.unary(graph, "relu", build.matmul(graph, x, integers(graph, rng, (size, size), 1)))
        x = build.binary(graph, "minimum", x, build.number(graph, 50.0, x.shape))
        top = build.broadcast(graph, build.reduce(graph, "max", x, [1]), x.shape)
        outputs += [x, build.reduce(graph, "sum", x, [0]), build.binary(graph, "sub", top, x)]
    return Case(graph, rng.sample(outputs, rng.randint(2, len(outputs))))
