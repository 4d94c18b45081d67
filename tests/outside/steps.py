"""Training steps: parameters and moments as states, updated by hand or by adamw, over several runs."""

import build
import torch
from case import Case
from graph import Graph
from language import normal


def training(rng):
    graph = Graph()
    case = Case(graph, [], runs=rng.randint(2, 5))
    parameters, loss = rng.choice([linear_model, hidden_model, table_model, free_model])(graph, rng)
    gradients = build.gradient(graph, loss, parameters)
    case.outputs.append(loss)
    if rng.random() < 0.35:
        gradients = clipped(graph, rng, gradients, case)
    apply = finite(graph, gradients) if rng.random() < 0.3 else None
    update = rng.choice([descent, momentum, adam, lion, fraction, adam])
    for parameter, slope in zip(parameters, gradients):
        update(case, rng, parameter, slope, apply)
    if rng.random() < 0.4:
        counter(case, rng)
    if rng.random() < 0.3:
        average(case, rng, rng.choice(parameters))
    case.outputs += [value for value in gradients if rng.random() < 0.3]
    return case


def kept(case, argument, value, apply=None):
    """Makes `argument` a state that becomes `value`, where `apply` holds."""
    graph = case.graph
    if apply is not None:
        value = build.select(graph, build.broadcast(graph, apply, value.shape), value, argument)
    case.outputs.append(value)
    case.states.append((argument, value))


# ---- models -----------------------------------------------------------------------------------------------------------


def linear_model(graph, rng):
    m, k, n = rng.choice([(4, 3, 2), (7, 16, 5), (16, 33, 8)])
    w, b = graph.argument("f32", normal(rng, (k, n), 0.5)), graph.argument("f32", normal(rng, (n,)))
    x, t = graph.argument("f32", normal(rng, (m, k))), graph.argument("f32", normal(rng, (m, n)))
    y = build.binary(graph, "add", build.matmul(graph, x, w), build.broadcast(graph, b, (m, n)))
    return [w, b], squares(graph, y, t)


def hidden_model(graph, rng):
    m, k, n = rng.choice([(4, 3, 2), (7, 8, 5), (9, 17, 4)])
    w1, w2 = graph.argument("f32", normal(rng, (k, 2 * k), 0.5)), graph.argument("f32", normal(rng, (2 * k, n), 0.5))
    x, t = graph.argument("f32", normal(rng, (m, k))), graph.argument("f32", normal(rng, (m, n)))
    h = build.unary(graph, rng.choice(["tanh", "gelu", "silu", "relu"]), build.matmul(graph, x, w1))
    return [w1, w2], squares(graph, build.matmul(graph, h, w2), t)


def table_model(graph, rng):
    """Rows of a table, read by numbers, some of them twice."""
    rows, size = rng.choice([3, 11]), rng.choice([1, 4, 8])
    table = graph.argument("f32", normal(rng, (rows, size)))
    count = rng.choice([2, 7])
    index = graph.argument("i32", torch.tensor([rng.randrange(rows) for _ in range(count)]))
    x = graph.emit("gather {0} at {1} : {t0}, {t1} -> {r0}", [table, index], ["f32"], lambda t, i: t[i], ulps=0)
    return [table], squares(graph, build.unary(graph, "tanh", x), graph.argument("f32", normal(rng, (count, size))))


def free_model(graph, rng):
    """Elementwise functions of several parameters of different shapes."""
    shape = rng.choice([(3, 5), (17, 4), (1, 129)])
    a, b = graph.argument("f32", normal(rng, shape)), graph.argument("f32", normal(rng, shape[1:]))
    y = build.binary(graph, "mul", build.unary(graph, "sin", a), build.broadcast(graph, b, shape))
    return [a, b], squares(graph, y, graph.argument("f32", normal(rng, shape)))


def squares(graph, y, t):
    d = build.binary(graph, "sub", y, t)
    return build.reshape(graph, build.reduce(graph, "mean", build.binary(graph, "mul", d, d), range(len(d.shape))), ())


# ---- updates ----------------------------------------------------------------------------------------------------------


def clipped(graph, rng, gradients, case):
    """Gradients of a global norm of at most 0.5."""
    total = None
    for slope in gradients:
        square = build.total(graph, build.binary(graph, "mul", slope, slope))
        total = square if total is None else build.binary(graph, "add", total, square)
    norm = build.unary(graph, "sqrt", build.shifted(graph, total, 1e-6))
    case.outputs.append(norm)
    most = build.number(graph, rng.choice([0.5, 100.0]))
    factor = build.binary(graph, "minimum", build.binary(graph, "div", most, norm), build.number(graph, 1.0))
    return [build.binary(graph, "mul", slope, build.broadcast(graph, factor, slope.shape)) for slope in gradients]


def finite(graph, gradients):
    """Whether all gradients are finite."""
    result = None
    for slope in gradients:
        total = build.total(graph, slope)
        one = graph.emit("is_finite {0} : {t0} -> {r0}", [total], ["i1"], torch.isfinite)
        result = one if result is None else graph.emit("and {0}, {1} : {t0}", [result, one], ["i1"], torch.logical_and)
    return result


def descent(case, rng, parameter, slope, apply):
    kept(case, parameter, build.binary(case.graph, "sub", parameter, build.scaled(case.graph, slope, 0.1)), apply)


def mixed(graph, old, new, share):
    return build.binary(graph, "add", build.scaled(graph, old, share), build.scaled(graph, new, 1 - share))


def moment(case, rng, shape, positive=False):
    data = normal(rng, shape, 0.1)
    return case.graph.argument("f32", data.abs() if positive else data)


def momentum(case, rng, parameter, slope, apply):
    graph, m = case.graph, moment(case, rng, parameter.shape)
    new = build.binary(graph, "add", build.scaled(graph, m, 0.9), slope)
    step = build.binary(graph, "add", slope, build.scaled(graph, new, 0.9)) if rng.random() < 0.5 else new
    kept(case, parameter, build.binary(graph, "sub", parameter, build.scaled(graph, step, 0.05)), apply)
    kept(case, m, new, apply)


def adam(case, rng, parameter, slope, apply):
    """Adam by hand, with weight decay, the count of steps as a state."""
    graph, shape = case.graph, parameter.shape
    m, v = moment(case, rng, shape), moment(case, rng, shape, True)
    count = graph.argument("f32", torch.tensor(0.0, dtype=torch.float64))
    step = build.shifted(graph, count, 1.0)
    new_m, new_v = mixed(graph, m, slope, 0.9), mixed(graph, v, build.binary(graph, "mul", slope, slope), 0.95)
    power = build.unary(graph, "exp", build.scaled(graph, step, -0.10536051))
    whole = build.binary(graph, "sub", build.number(graph, 1.0), power)
    top = build.binary(graph, "div", new_m, build.broadcast(graph, whole, shape))
    root = build.shifted(graph, build.unary(graph, "sqrt", build.shifted(graph, new_v, 1e-6)), 1e-3)
    change = build.scaled(graph, build.binary(graph, "div", top, root), 0.01)
    kept(case, parameter, build.binary(graph, "sub", build.scaled(graph, parameter, 0.999), change), apply)
    kept(case, m, new_m, apply)
    kept(case, v, new_v, apply)
    kept(case, count, step)


def lion(case, rng, parameter, slope, apply):
    """The sign of a mixture, here x / (|x| + a little), which has no jump."""
    graph, m = case.graph, moment(case, rng, parameter.shape)
    mix = mixed(graph, m, slope, 0.9)
    sign = build.binary(graph, "div", mix, build.shifted(graph, build.unary(graph, "abs", mix), 0.01))
    kept(case, parameter, build.binary(graph, "sub", parameter, build.scaled(graph, sign, 0.01)), apply)
    kept(case, m, mixed(graph, m, slope, 0.99), apply)


def fraction(case, rng, parameter, slope, apply):
    """Adafactor's second moments: of rows and of columns."""
    graph, shape = case.graph, parameter.shape
    if len(shape) != 2:
        return momentum(case, rng, parameter, slope, apply)
    square = build.shifted(graph, build.binary(graph, "mul", slope, slope), 1e-3)
    r, c = moment(case, rng, (shape[0], 1), True), moment(case, rng, (1, shape[1]), True)
    new_r = build.shifted(graph, mixed(graph, r, build.reduce(graph, "mean", square, [1]), 0.9), 1e-4)
    new_c = build.shifted(graph, mixed(graph, c, build.reduce(graph, "mean", square, [0]), 0.9), 1e-4)
    mean = build.reduce(graph, "mean", new_r, [0, 1])
    v = build.binary(graph, "mul", build.broadcast(graph, new_r, shape), build.broadcast(graph, new_c, shape))
    v = build.binary(graph, "div", v, build.broadcast(graph, mean, shape))
    change = build.binary(graph, "mul", slope, build.unary(graph, "rsqrt", v))
    kept(case, parameter, build.binary(graph, "sub", parameter, build.scaled(graph, change, 0.01)), apply)
    kept(case, r, new_r, apply)
    kept(case, c, new_c, apply)


def counter(case, rng):
    """An integer that counts, and two states that change places."""
    graph = case.graph
    count = graph.argument("i32", torch.tensor([rng.randrange(100)] * 3))
    kept(case, count, build.binary_integers(graph, "add", count, build.number(graph, 3, (3,), "i32")))
    a, b = (graph.argument("f32", normal(rng, (5,))) for _ in range(2))
    x, y = build.unary(graph, "neg", a), build.unary(graph, "abs", b)
    kept(case, a, y)
    kept(case, b, x)


def average(case, rng, parameter):
    """A slow copy of a parameter, from the value that it has in this step."""
    shadow = case.graph.argument("f32", normal(rng, parameter.shape))
    kept(case, shadow, mixed(case.graph, shadow, parameter, 0.98))
