"""Values that are read twice and more often, stored, recomputed, compared with themselves: the same bits everywhere."""

import build
import torch
from case import Case, add_gradient
from graph import Graph
from language import normal

SHAPES = [(3, 5), (8, 33), (1, 64), (16, 16), (31, 17), (64, 100), (5, 257), (33, 7), (9, 1000)]


def read_twice(rng):
    graph, shape = Graph(), rng.choice(SHAPES)
    case = Case(graph, [])
    base = [graph.argument("f32", normal(rng, shape)) for _ in range(2)]
    base.append(product(graph, rng, shape))
    for pattern in rng.sample(PATTERNS, rng.randint(1, 3)):
        pattern(case, rng, base, shape)
    if rng.random() < 0.5:
        loss = [value for value in case.outputs if value.dtype == "f32"][-3:]
        case.gradients = add_gradient(graph, rng, loss)
    return case


def product(graph, rng, shape):
    """x · w + b, which a kernel may compute once, or again where it is read."""
    inner = rng.choice([3, 16, 31])
    x, w = graph.argument("f32", normal(rng, (shape[0], inner))), graph.argument("f32", normal(rng, (inner, shape[1])))
    bias = build.broadcast(graph, graph.argument("f32", normal(rng, shape[1:])), shape)
    return build.binary(graph, "add", build.matmul(graph, x, w), bias)


def expression(graph, rng, base):
    """How to write a value that kernels may recompute: a function that writes it once more."""
    a, b, c = (rng.choice(base) for _ in range(3))
    first, second = rng.choice(["mul", "add", "sub"]), rng.choice(["mul", "add", "sub", "maximum"])
    name = rng.choice([None, "exp", "tanh", "sin", "sigmoid", "gelu", "erf", "silu"])

    def write():
        value = build.binary(graph, second, build.binary(graph, first, a, b), c)
        return build.unary(graph, name, build.unary(graph, "tanh", value) if name == "exp" else value) if name else value

    return write


def maximum_in_row(case, rng, base, shape):
    """A maximum equals an element of its row, and the gradient of it reaches the row whole."""
    graph, x = case.graph, expression(case.graph, rng, base)()
    axis = rng.randrange(2)
    top = build.reduce(graph, "max", x, [axis])
    same = build.compare(graph, "eq", x, build.broadcast(graph, top, shape))
    found = build.reduce(graph, "max", build.cast(graph, same, "f32"), [axis])
    (slope,) = build.gradient(graph, build.total(graph, top), [x])
    shares = build.reduce(graph, "sum", slope, [axis])
    none = build.compare(graph, "lt", shares, build.number(graph, 0.999, shares.shape))
    lost = build.reduce(graph, "max", build.cast(graph, none, "f32"), [0, 1])
    case.fixed += [(found, 1.0), (lost, 0.0)]
    case.outputs += [found, lost, top] + [x] * (rng.random() < 0.6)


def difference_of_squares(case, rng, base, shape):
    """x·x - y·y is 0 where y is x, written once more or moved there and back."""
    graph, write = case.graph, expression(case.graph, rng, base)
    x, y = write(), moved(graph, rng, write())
    squares = [build.binary(graph, "mul", v, v) for v in (x, y)]
    zero = build.binary(graph, "sub", *squares)
    if rng.random() < 0.4:
        zero = detached(graph, build.unary(graph, "sqrt", zero))  # its slope is infinite
    case.fixed.append((zero, 0.0))
    case.outputs += [zero] + [rng.choice([x, y, squares[0]])] * (rng.random() < 0.6)


def written_twice(case, rng, base, shape):
    """The same text twice, read by other ops each."""
    graph, write = case.graph, expression(case.graph, rng, base)
    x, y = write(), write()
    case.equal.append((x, y))
    row = build.reduce(graph, "sum", build.binary(graph, "mul", y, rng.choice(base)), [1])
    case.outputs += [x, y, row, build.reduce(graph, "max", x, [0])]


def stored_and_recomputed(case, rng, base, shape):
    """A value that is returned, read by a row sum, a column sum, and by elementwise ops after each."""
    graph, x = case.graph, expression(case.graph, rng, base)()
    rows, columns = build.reduce(graph, "mean", x, [1]), build.reduce(graph, "mean", x, [0])
    a = build.binary(graph, "sub", x, build.broadcast(graph, rows, shape))
    b = build.binary(graph, "mul", x, build.broadcast(graph, columns, shape))
    c = build.binary(graph, "sub", build.binary(graph, "add", x, a), build.binary(graph, "add", x, a))
    case.fixed.append((c, 0.0))
    again = moved(graph, rng, x)
    case.equal.append((x, again))
    case.outputs += [x, a, b, c, again]


def softmax_by_hand(case, rng, base, shape):
    """Softmax in pieces, of which several are returned, and logsumexp from the same ones."""
    graph, x = case.graph, expression(case.graph, rng, base)()
    top = build.reduce(graph, "max", x, [1])
    e = build.unary(graph, "exp", build.binary(graph, "sub", x, build.broadcast(graph, top, shape)))
    most = build.reduce(graph, "max", e, [1])
    s = build.reduce(graph, "sum", e, [1])
    p = build.binary(graph, "div", e, build.broadcast(graph, s, shape))
    case.fixed.append((most, 1.0))  # the maximum less itself is 0
    entropy = build.reduce(graph, "sum", build.binary(graph, "mul", p, p), [1])
    lse = build.binary(graph, "add", build.unary(graph, "log", s), top)
    case.outputs += [most, *rng.sample([e, s, p, entropy, lse, top], rng.randint(2, 5))]


def returned_twice(case, rng, base, shape):
    """One value as two results, one of them seen through views, and an argument as a result."""
    graph, x = case.graph, expression(case.graph, rng, base)()
    same = moved(graph, rng, x)
    held = detached(graph, x)
    case.equal += [(x, same), (x, held)]
    case.outputs += [x, same, held, base[0], build.matmul(graph, x, x, turn_b=True)]


def detached(graph, x):
    return graph.emit("detach {0} : {t0}", [x], ["f32"], torch.Tensor.detach, ulps=0)


def moved(graph, rng, x):
    """x through views, and back."""
    kind = rng.choice(["transpose", "reshape", "parts", "select"])
    if kind == "transpose":
        return build.transpose(graph, build.transpose(graph, x, [1, 0]), [1, 0])
    if kind == "reshape":
        return build.reshape(graph, build.reshape(graph, x, (x.data.numel(),)), x.shape)
    if kind == "parts":
        cut = x.shape[1] // 2
        parts = [(0, cut), (cut, x.shape[1])]
        return build.concat(graph, [build.slices(graph, x, [0, a], [x.shape[0], b]) for a, b in parts], 1)
    return build.select(graph, build.compare(graph, "le", x, build.number(graph, 0.25, x.shape)), x, x)


PATTERNS = [maximum_in_row, difference_of_squares, written_twice, stored_and_recomputed, softmax_by_hand, returned_twice]
