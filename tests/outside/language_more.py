"""The ops of the language, continued: reductions, indexing, products, layers, the optimizer."""

import math

import numpy
import torch
import torch.nn.functional as F

import language
from graph import FLOATS
from language import LARGEST, floats, normal, pick, singles

# ---- reductions -----------------------------------------------------------------------------------------------------


def some_axes(rng, rank):
    return sorted(rng.sample(range(rank), rng.randint(1, rank)))


def sum_ulps(count):
    return 1 + math.sqrt(count) / 16


def loose_maximum(v, axes, unit):
    """The maximum; where rounding may have parted or joined equal ones, its gradient goes to any of them."""
    top = v.amax(axes, keepdim=True)
    near = (v >= top - 8 * unit * top.abs()).detach()
    if not bool((near & (v != top)).any()):
        return top
    several = near.sum(axes, keepdim=True) > 1
    weights = torch.where(several, torch.rand(v.shape, dtype=torch.float64), 1.0) * near
    return top.detach() + ((v - v.detach()) * weights).sum(axes, keepdim=True)


def _reduction(name, function, noisy, rounded):
    def add(graph, rng):
        x = pick(graph, rng, lambda v: floats(v) and v.shape)
        if x is None:
            return False
        axes = some_axes(rng, len(x.shape))
        count = math.prod(x.shape[axis] for axis in axes)
        graph.emit(f"{name} {{0}} axes {axes} : {{t0}} -> {{r0}}", [x], [x.dtype], lambda v: function(v, axes),
                   noisy=lambda n, v: noisy(n, v, axes, FLOATS[x.dtype][0]), ulps=sum_ulps(count) if rounded else 0)
        return True

    return add


add_reduce_sum = _reduction("reduce_sum", lambda v, axes: v.sum(axes, keepdim=True),
                            lambda n, v, axes, unit: n(v).sum(axes, keepdim=True), True)
add_reduce_mean = _reduction("reduce_mean", lambda v, axes: v.mean(axes, keepdim=True),
                             lambda n, v, axes, unit: n(v).mean(axes, keepdim=True), True)
add_reduce_max = _reduction("reduce_max", lambda v, axes: v.amax(axes, keepdim=True),
                            lambda n, v, axes, unit: loose_maximum(v, axes, unit), False)

# ---- indexing -------------------------------------------------------------------------------------------------------


def index_argument(graph, rng, shape, rows):
    data = numpy.random.default_rng(rng.getrandbits(64)).integers(0, rows, shape)
    return graph.argument(rng.choice(["i32", "i64"]), torch.tensor(data, dtype=torch.int64).reshape(shape))


def add_gather(graph, rng):
    table = pick(graph, rng, lambda v: floats(v) and v.shape)
    if table is None:
        return False
    shape = [rng.choice([1, 2, 3, 7]) for _ in range(rng.randrange(3))]
    if math.prod(shape) * table.data.numel() // table.shape[0] > LARGEST:
        return False
    index = index_argument(graph, rng, shape, table.shape[0])
    graph.emit("gather {0} at {1} : {t0}, {t1} -> {r0}", [table, index], [table.dtype], lambda t, i: t[i],
               noisy=lambda n, t, i: n(t)[i], ulps=0)
    return True


def add_scatter_add(graph, rng):
    base = pick(graph, rng, lambda v: singles(v) and v.shape)
    if base is None:
        return False
    shape = tuple(rng.choice([1, 2, 5]) for _ in range(rng.randrange(1, 3)))
    wanted = shape + base.shape[1:]
    rows = pick(graph, rng, lambda v: v.dtype == "f32" and v.shape == wanted)
    rows = rows or graph.argument("f32", normal(rng, wanted))
    index = index_argument(graph, rng, shape, base.shape[0])

    def truth(b, i, r):
        return b.index_add(0, i.reshape(-1), r.reshape((-1,) + base.shape[1:]))

    graph.emit("scatter_add {0} at {1}, {2} : {t0}, {t1}, {t2}", [base, index, rows], ["f32"], truth,
               noisy=lambda n, b, i, r: truth(n(b), i, n(r)), ulps=3)
    return True


# ---- products -------------------------------------------------------------------------------------------------------


def add_matmul(graph, rng):
    a = pick(graph, rng, lambda v: singles(v) and len(v.shape) >= 2 and v.data.numel() <= LARGEST)
    if a is None:
        return False
    turn_a, turn_b = rng.random() < 0.3, rng.random() < 0.4
    batch = a.shape[:-2]
    single = not batch or (rng.random() < 0.5 and not turn_a)
    k = a.shape[-2] if turn_a else a.shape[-1]
    m = a.shape[-1] if turn_a else a.shape[-2]
    n = rng.choice([1, 2, 5, 16, 33])
    if math.prod(batch) * m * n > LARGEST:
        return False
    shape = (() if single else batch) + ((n, k) if turn_b else (k, n))
    b = pick(graph, rng, lambda v: v.dtype == "f32" and v.shape == shape) if rng.random() < 0.5 else None
    b = b or graph.argument("f32", normal(rng, shape))

    def truth(x, y):
        return torch.matmul(x.transpose(-1, -2) if turn_a else x, y.transpose(-1, -2) if turn_b else y)

    text = f"matmul {{0}}{' transposed' * turn_a}, {{1}}{' transposed' * turn_b} : {{t0}}, {{t1}} -> {{r0}}"
    graph.emit(text, [a, b], ["f32"], truth, noisy=lambda n, x, y: truth(n(x), n(y)), ulps=sum_ulps(k))
    return True


def add_linear(graph, rng):
    x = pick(graph, rng, lambda v: singles(v) and len(v.shape) >= 2 and v.data.numel() <= LARGEST)
    if x is None:
        return False
    out, size = rng.choice([1, 3, 8, 17]), x.shape[-1]
    weight = graph.argument("f32", normal(rng, (size, out)))
    bias = [graph.argument("f32", normal(rng, (out,)))] if rng.random() < 0.6 else []

    def truth(v, w, b=None):
        return F.linear(v, w.t(), b)

    text = "linear {0}, {1}, {2} : {t0}, {t1}, {t2} -> {r0}" if bias else "linear {0}, {1} : {t0}, {t1} -> {r0}"
    graph.emit(text, [x, weight] + bias, ["f32"], truth, noisy=lambda n, *v: truth(*map(n, v)), ulps=sum_ulps(size))
    return True


# ---- layers over the last dim ---------------------------------------------------------------------------------------


def softmax_steps(n, x):
    e = n(torch.exp(n(x - x.amax(-1, keepdim=True).detach())))
    return n(e / n(e.sum(-1, keepdim=True)))


def add_softmax(graph, rng):
    x = pick(graph, rng, lambda v: floats(v) and v.shape)
    if x is None:
        return False
    graph.emit("softmax {0} : {t0}", [x], [x.dtype], lambda v: F.softmax(v, -1), noisy=softmax_steps)
    return True


def add_layer_norm(graph, rng):
    x = pick(graph, rng, lambda v: singles(v) and v.shape)
    if x is None:
        return False
    size = x.shape[-1]
    weight, bias = graph.argument("f32", normal(rng, (size,))), graph.argument("f32", normal(rng, (size,)))
    eps = rng.choice([None, 1e-6, 0.1])
    attribute = "" if eps is None else f" {{{{eps = {eps:.6e}}}}}"

    def steps(n, v, w, b):
        v = n(v)
        centred = n(v - n(v.mean(-1, keepdim=True)))
        variance = n((centred * centred).mean(-1, keepdim=True), sum_ulps(size))
        return n(n(centred * n(torch.rsqrt(variance + (eps or 1e-5)))) * w) + b

    graph.emit("layer_norm {0}, {1}, {2}" + attribute + " : {t0}, {t1}, {t2}", [x, weight, bias], ["f32"],
               lambda v, w, b: F.layer_norm(v, (size,), w, b, eps or 1e-5), noisy=steps, ulps=2)
    return True


def add_rms_norm(graph, rng):
    x = pick(graph, rng, lambda v: singles(v) and v.shape)
    if x is None:
        return False
    weight, eps = graph.argument("f32", normal(rng, (x.shape[-1],))), rng.choice([None, 1e-6, 0.1])
    attribute = "" if eps is None else f" {{{{eps = {eps:.6e}}}}}"

    def truth(v, w):
        return v / torch.sqrt(torch.mean(torch.square(v), -1, keepdim=True) + (eps or 1e-5)) * w

    def steps(n, v, w):
        square = n(torch.mean(n(torch.square(n(v))), -1, keepdim=True), sum_ulps(x.shape[-1]))
        return n(v * n(torch.rsqrt(square + (eps or 1e-5)))) * w

    graph.emit("rms_norm {0}, {1}" + attribute + " : {t0}, {t1}", [x, weight], ["f32"], truth, noisy=steps, ulps=3)
    return True


def add_cross_entropy(graph, rng):
    logits = pick(graph, rng, lambda v: singles(v) and len(v.shape) >= 2)
    if logits is None:
        return False
    vocabulary, rows = logits.shape[-1], math.prod(logits.shape[:-1])
    numbers = numpy.random.default_rng(rng.getrandbits(64)).integers(0, vocabulary, rows)
    if rows > 1 and rng.random() < 0.4:
        numbers[rng.randrange(rows)] = -1
    targets = graph.argument(rng.choice(["i32", "i64"]), torch.tensor(numbers).reshape(logits.shape[:-1]))

    def truth(v, t):
        return F.cross_entropy(v.reshape(-1, vocabulary), t.reshape(-1), ignore_index=-1)

    def steps(n, v, t):
        rest = n(v - v.amax(-1, keepdim=True).detach())
        losses = n(torch.log(n(torch.exp(rest).sum(-1), 2)))
        picked = torch.gather(rest, -1, t.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return n(n(losses - picked)[t >= 0].mean(), sum_ulps(rows))

    graph.emit("cross_entropy {0}, {1} : {t0}, {t1} -> {r0}", [logits, targets], ["f32"], truth, noisy=steps, ulps=2)
    return True


def add_attention(graph, rng):
    q = pick(graph, rng, lambda v: singles(v) and len(v.shape) >= 2 and v.data.numel() <= 2048)
    if q is None:
        return False
    causal = rng.random() < 0.5
    keys = q.shape[-2] if causal else rng.choice([1, 3, q.shape[-2]])
    shape = q.shape[:-2] + (keys, q.shape[-1])
    find = lambda: (pick(graph, rng, lambda v: v.dtype == "f32" and v.shape == shape) if rng.random() < 0.3 else None)
    k, v = (find() or graph.argument("f32", normal(rng, shape)) for _ in range(2))
    scale = float(numpy.float32(1 / math.sqrt(q.shape[-1])))

    def scores(a, b):
        s = torch.matmul(a, b.transpose(-1, -2)) * scale
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
        return s.masked_fill(hidden, float("-inf")) if causal else s

    def steps(n, a, b, c):
        return torch.matmul(softmax_steps(n, scores(n(a), n(b))), n(c))

    text = f"attention {{0}}, {{1}}, {{2}}{' causal' * causal} scale {scale:.9e} : {{t0}}, {{t1}}, {{t2}}"
    graph.emit(text, [q, k, v], ["f32"], lambda a, b, c: torch.matmul(F.softmax(scores(a, b), -1), c), noisy=steps,
               ulps=2)
    return True


# ---- optimizer ------------------------------------------------------------------------------------------------------


def add_adamw(graph, rng):
    parameter = pick(graph, rng, lambda v: singles(v) and v in graph.arguments)
    gradient = parameter and pick(graph, rng, lambda v: v.dtype == "f32" and v.shape == parameter.shape)
    if not gradient:
        return False
    moment = graph.argument("f32", normal(rng, parameter.shape, 0.1))
    square = graph.argument("f32", normal(rng, parameter.shape, 0.1).abs())
    count, rate = rng.choice([1, 2, 100]), float(numpy.float32(rng.choice([1e-3, 0.1])))
    scale_number, wanted = rng.choice([1.0, 0.5]), rng.random() < 0.8
    scalar = lambda number: graph.argument("f32", torch.tensor(number, dtype=torch.float64))
    lr, step, scale = scalar(rate), scalar(float(count)), scalar(scale_number)
    apply = graph.argument("i1", torch.tensor(wanted))
    beta1, beta2, eps, decay = rng.choice([0.9, 0.8]), rng.choice([0.95, 0.999]), 1e-8, rng.choice([0.0, 0.1])

    def truth(p, g, m, v, *_):
        if not wanted:
            return p.detach(), m.detach(), v.detach()
        p = p.detach().clone().requires_grad_()
        p.grad = g.detach() * scale_number
        optimizer = torch.optim.AdamW([p], lr=rate, betas=(beta1, beta2), eps=eps, weight_decay=decay)
        optimizer.state[p] = {"step": torch.tensor(float(count - 1)), "exp_avg": m.detach().clone(),
                              "exp_avg_sq": v.detach().clone()}
        optimizer.step()
        state = optimizer.state[p]
        return p.detach(), state["exp_avg"], state["exp_avg_sq"]

    text = ("adamw {0}, {1}, {2}, {3} lr {4} step {5} scale {6} apply {7} "
            f"{{{{beta1 = {beta1!r}, beta2 = {beta2!r}, eps = {eps:.1e}, weight_decay = {decay!r}}}}}"
            " : {t0}, {t1}, {t2}")
    graph.emit(text, [parameter, gradient, moment, square, lr, step, scale, apply], ["f32"] * 3, truth,
               noisy=lambda n, p, g, m, v, *_: truth(n(p), n(g), n(m), n(v)), ulps=4)
    return True


OPS = {name: language._unary(name) for name in language.UNARY}
OPS |= {name: language._binary(name) for name in language.BINARY}
OPS |= {name[4:]: function for module in (language, globals()) for name, function in
        (module if isinstance(module, dict) else vars(module)).items()
        if name.startswith("add_") and name != "add_adamw"}  # an update is no part of a loss
