"""The ops of the language: for each a way to add it to a graph, and PyTorch's function of the same meaning.

Each `add_*` function takes a `Graph` and a random generator, looks for operands that lie in the op's domain, and returns
whether it found some. What an op means is taken from the language's definition alone.
"""

import math

import numpy
import torch
import torch.nn.functional as F

from graph import FLOATS, is_float

LARGEST = 4096  # elements of a value that is made by broadcasting or products


def pick(graph, rng, accept):
    found = [value for value in graph.values if accept(value)]
    return rng.choice(found) if found else None


def floats(value):
    return is_float(value.dtype) and value.data.numel() > 0


def singles(value):
    return value.dtype == "f32" and value.data.numel() > 0


def within(low, high):
    return lambda value: floats(value) and bool(((value.data >= low) & (value.data <= high)).all())


def normal(rng, shape, scale=1.0):
    """f32 values, as fp64."""
    data = numpy.random.default_rng(rng.getrandbits(64)).normal(0, scale, shape).astype("float32")
    return torch.tensor(data, dtype=torch.float64).reshape(shape)


def partner(graph, rng, value):
    """Another value of the same type: one that exists, or a new argument."""
    same = [v for v in graph.values if v.type == value.type and v is not value]
    if same and rng.random() < 0.7:
        return rng.choice(same)
    if value.dtype != "f32":
        return value if rng.random() < 0.3 else None
    return graph.argument("f32", normal(rng, value.shape))


# ---- one operand, elementwise --------------------------------------------------------------------------------------


class _Slope(torch.autograd.Function):
    """torch.sigmoid and torch.tanh with slopes whose tails do not cancel, as y (1 - y) and 1 - y² do in fp64 too."""

    @staticmethod
    def forward(ctx, x, name):
        ctx.save_for_backward(x)
        ctx.name = name
        return getattr(torch, name)(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        if ctx.name == "tanh":
            return dy * 4 * torch.sigmoid(2 * x) * torch.sigmoid(-2 * x), None
        return dy * torch.sigmoid(x) * torch.sigmoid(-x), None


def tanh(x):
    return _Slope.apply(x, "tanh")


def sigmoid(x):
    return _Slope.apply(x, "sigmoid")


def gelu(x, n=lambda v, _=0: v):
    """The tanh form; (1 + tanh(u)) / 2 = sigmoid(2u)."""
    twice = 2 * math.sqrt(2 / math.pi) * (n(x, 0) + 0.044715 * n(x, 0) ** 3)
    return n(x, 0) * n(sigmoid(n(twice, 2)), 2)


def silu(x, n=lambda v, _=0: v):
    return n(x, 0) * n(sigmoid(n(x, 0)), 2)


class _Quotient(torch.autograd.Function):
    """x / y of equal shapes; y's gradient is that of x times the quotient as it was rounded, a subnormal one to few digits."""

    @staticmethod
    def forward(ctx, x, y, n):
        quotient = n(x / y)
        ctx.save_for_backward(y, quotient)
        return quotient

    @staticmethod
    def backward(ctx, dy):
        y, quotient = ctx.saved_tensors
        return dy / y, -dy / y * quotient, None


# erf's slope is an exponential of x², whose rounding counts as x's would.
NOISY = {"gelu": lambda n, x: gelu(x, n), "silu": lambda n, x: silu(x, n), "erf": lambda n, x: torch.erf(n(x)),
         "div": lambda n, x, y: _Quotient.apply(x, y, n)}


UNARY = {  # name: function, domain, ulps
    "neg": (torch.neg, floats, 0), "abs": (torch.abs, floats, 0), "exp": (torch.exp, within(-30, 30), 2),
    "log": (torch.log, within(1e-3, 1e30), 2), "sqrt": (torch.sqrt, within(1e-3, 1e30), 1),
    "rsqrt": (torch.rsqrt, within(1e-3, 1e30), 2), "tanh": (tanh, floats, 3), "sin": (torch.sin, floats, 2),
    "cos": (torch.cos, floats, 2), "erf": (torch.erf, floats, 3), "gelu": (gelu, floats, 4),
    "silu": (silu, floats, 4), "sigmoid": (sigmoid, floats, 4), "relu": (F.relu, floats, 0),
}


def _unary(name):
    function, domain, ulps = UNARY[name]

    def add(graph, rng):
        x = pick(graph, rng, domain)
        if x is None:
            return False
        graph.emit(name + " {0} : {t0}", [x], [x.dtype], function, noisy=NOISY.get(name), ulps=ulps)
        return True

    return add


def add_detach(graph, rng):
    x = pick(graph, rng, floats)
    graph.emit("detach {0} : {t0}", [x], [x.dtype], lambda v: v.detach(), ulps=0)
    return True


# ---- two operands, elementwise -------------------------------------------------------------------------------------

BINARY = {"add": (torch.add, 1), "sub": (torch.sub, 1), "mul": (torch.mul, 1), "div": (torch.div, 1),
          "maximum": (torch.maximum, 0), "minimum": (torch.minimum, 0)}


def _binary(name):
    function, ulps = BINARY[name]

    def add(graph, rng):
        x = pick(graph, rng, floats)
        y = partner(graph, rng, x)
        if y is None or (name == "div" and float(y.data.abs().min()) < 0.05):
            return False
        graph.emit(name + " {0}, {1} : {t0}", [x, y], [x.dtype], function, noisy=NOISY.get(name), ulps=ulps)
        return True

    return add


def wrap(data, dtype):
    return data.to(torch.int32).to(torch.int64) if dtype == "i32" else data


def add_integers(graph, rng):
    x = pick(graph, rng, lambda v: v.dtype in ("i32", "i64"))
    y = x and pick(graph, rng, lambda v: v.type == x.type)
    if x is None:
        return False
    name = rng.choice(["add", "sub", "mul", "maximum", "minimum"])
    function = BINARY[name][0]
    graph.emit(name + " {0}, {1} : {t0}", [x, y], [x.dtype], lambda a, b: wrap(function(a, b), x.dtype))
    return True


def add_integer_unary(graph, rng):
    x = pick(graph, rng, lambda v: v.dtype in ("i32", "i64"))
    if x is None:
        return False
    name = rng.choice(["neg", "abs"])
    graph.emit(name + " {0} : {t0}", [x], [x.dtype], lambda a: wrap(UNARY[name][0](a), x.dtype))
    return True


# ---- truth values ---------------------------------------------------------------------------------------------------

COMPARE = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}


def add_compare(graph, rng):
    x = pick(graph, rng, lambda v: v.dtype != "i1")
    y = pick(graph, rng, lambda v: v.type == x.type)
    name = rng.choice(list(COMPARE))
    unit = FLOATS[x.dtype][0] if is_float(x.dtype) else 0

    def noisy(n, a, b):  # values that rounding may make equal, or keep apart: the answer may be either
        near = (a != b) & ((a - b).abs() <= 4 * unit * torch.maximum(a.abs(), b.abs()))
        return COMPARE[name](a, b) ^ near

    graph.emit(f"compare {name} {{0}}, {{1}} : {{t0}} -> {{r0}}", [x, y], ["i1"], COMPARE[name], noisy)
    return True


def add_is_finite(graph, rng):
    x = pick(graph, rng, floats)
    graph.emit("is_finite {0} : {t0} -> {r0}", [x], ["i1"], torch.isfinite)
    return True


def add_logic(graph, rng):
    x = pick(graph, rng, lambda v: v.dtype == "i1")
    if x is None:
        return False
    y = pick(graph, rng, lambda v: v.type == x.type)
    name = rng.choice(["and", "or", "not"])
    if name == "not":
        graph.emit("not {0} : {t0}", [x], ["i1"], torch.logical_not)
    else:
        function = torch.logical_and if name == "and" else torch.logical_or
        graph.emit(name + " {0}, {1} : {t0}", [x, y], ["i1"], function)
    return True


def add_select(graph, rng):
    condition = pick(graph, rng, lambda v: v.dtype == "i1")
    x = condition and pick(graph, rng, lambda v: v.shape == condition.shape and v.dtype != "i1")
    y = x and pick(graph, rng, lambda v: v.type == x.type)
    if not y:
        return False
    graph.emit("select {0}, {1}, {2} : {t0}, {t1}", [condition, x, y], [x.dtype], torch.where, ulps=0)
    return True


# ---- conversions ----------------------------------------------------------------------------------------------------

TORCH = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, source, target):
        ctx.source = source
        return x.to(TORCH[source]).to(TORCH[target]).double()

    @staticmethod
    def backward(ctx, dy):
        return dy.to(TORCH[ctx.source]).double(), None, None


def add_cast(graph, rng):
    x = pick(graph, rng, within(-60000, 60000))
    if x is None:
        return False
    target = rng.choice([dtype for dtype in FLOATS if dtype != x.dtype])
    graph.emit("cast {0} : {t0} -> {r0}", [x], [target], lambda v: _Cast.apply(v, x.dtype, target), ulps=0,
               noisy=lambda n, v: v)
    graph.steps[-1].ulps = 1.0 if FLOATS[target][0] > FLOATS[x.dtype][0] else 0
    return True


def add_cast_to_integer(graph, rng):
    x = pick(graph, rng, lambda v: v.dtype in ("i1", "i32", "f32"))
    if x is None:
        return False
    target = "f32" if x.dtype != "f32" else rng.choice(["i32", "i64"])

    def truth(v):
        if target == "f32":
            return v.double().to(torch.float32).double()
        limit = 2.0**31 if target == "i32" else 2.0**63
        top = 2**31 - 1 if target == "i32" else 2**63 - 1
        v = v.detach()
        inside = torch.where(v.abs() < limit, v, torch.zeros_like(v)).trunc().to(torch.int64)
        inside = torch.where(v >= limit, torch.full_like(inside, top), inside)
        return torch.where(v <= -limit, torch.full_like(inside, -top - 1), inside)

    graph.emit("cast {0} : {t0} -> {r0}", [x], [target], truth, ulps=0)
    return True


# ---- sources --------------------------------------------------------------------------------------------------------


def literal(data):
    if data.dim() == 0:
        return repr(float(data)) if data.dtype.is_floating_point else str(int(data))
    return "[" + ", ".join(literal(part) for part in data) + "]"


def add_constant(graph, rng):
    like = pick(graph, rng, singles)
    if rng.random() < 0.5 or like.data.numel() > 200:
        number = float(numpy.float32(rng.uniform(-3, 3)))
        data, text = torch.full(like.shape, number, dtype=torch.float64), repr(number)
    else:
        data = normal(rng, like.shape)
        text = literal(data)
    if "e" in text and "." not in text:
        return False
    graph.emit(f"constant dense<{text}> : {{r0}}", [], ["f32"], lambda: data, ulps=0)
    return True


def add_iota(graph, rng):
    like = pick(graph, rng, lambda v: len(v.shape) > 0)
    if like is None:
        return False
    dim, dtype = rng.randrange(len(like.shape)), rng.choice(["i32", "i64", "f32"])

    def truth():
        line = torch.arange(like.shape[dim])
        line = line.reshape([-1 if i == dim else 1 for i in range(len(like.shape))]).expand(like.shape)
        return line.double() if dtype == "f32" else line.contiguous()

    graph.emit(f"iota dim {dim} -> {{r0}}", [], [dtype], truth, ulps=0)
    return True


def random_words(seed, stream, shape, first=0):
    """The bits of random_bits: Philox4x32-10 (Salmon et al. 2011), key (seed, stream), counter (outer index, row and
    column without bit 3, 0); these two bits choose the word. `first` counts along dim 0."""
    places = [numpy.arange(size, dtype="uint64") for size in shape]
    if places:
        places[0] = places[0] + numpy.uint64(first)
    grid = numpy.meshgrid(*places, indexing="ij") if places else []
    zero = numpy.zeros(shape, dtype="uint64")
    outer = zero
    for size, place in zip(shape[:-2], grid[:-2]):
        outer = outer * numpy.uint64(size) + place
    row = grid[-2] if len(grid) > 1 else zero
    column = grid[-1] if grid else zero
    mask, eight = numpy.uint64(0xFFFFFFFF), numpy.uint64(8)
    counter = [outer & mask, row & mask & ~eight, column & mask & ~eight, zero]
    key = [seed & 0xFFFFFFFF, stream & 0xFFFFFFFF]
    for _ in range(10):
        low = counter[0] * numpy.uint64(0xD2511F53)
        high = counter[2] * numpy.uint64(0xCD9E8D57)
        counter = [(high >> numpy.uint64(32)) ^ counter[1] ^ numpy.uint64(key[0]), high & mask,
                   (low >> numpy.uint64(32)) ^ counter[3] ^ numpy.uint64(key[1]), low & mask]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    of_row = [numpy.where(column & eight, counter[i + 1], counter[i]) for i in (0, 2)]
    return numpy.where(row & eight, of_row[1], of_row[0])


def seed_argument(graph, rng):
    seed = rng.choice([0, 1, 7, 123456789, 2**31 - 1])
    return seed, graph.argument("i32", torch.tensor(seed))


def first_argument(graph, rng, shape):
    """A number of a part of a batch with its words in the text and its argument; mostly none."""
    if not shape or rng.random() < 0.6:
        return 0, "", []
    first = rng.choice([1, 7, 8, 100, 2**31 - 1])
    return first, " first {%d}", [graph.argument("i32", torch.tensor(first))]


def add_random_bits(graph, rng):
    like = pick(graph, rng, singles)
    (seed, argument), stream = seed_argument(graph, rng), rng.randrange(100)
    first, text, more = first_argument(graph, rng, like.shape)
    words = torch.tensor(random_words(seed, stream, like.shape, first).astype("uint32").view("int32").astype("int64"))
    graph.emit(f"random_bits {{0}} stream {stream}{text and text % 1} : {{t0}} -> {{r0}}", [argument, *more], ["i32"],
               lambda *_: words.reshape(like.shape))
    return True


def add_dropout(graph, rng):
    """At rate 0 the identity; at others the kept elements are those whose bits are at least rate · 2^32."""
    x = pick(graph, rng, singles)
    (seed, argument), stream = seed_argument(graph, rng), rng.randrange(100)
    rate = rng.choice([0.0, 0.1, 0.25, 0.5])
    first, text, more = first_argument(graph, rng, x.shape)
    threshold = int(rate * 2**32)
    kept = torch.tensor(random_words(seed, stream, x.shape, first) >= threshold).reshape(x.shape)
    graph.emit(f"dropout {{0}}, {{1}} rate {rate!r} stream {stream}{text and text % 2} : {{t0}}, {{t1}}",
               [x, argument, *more], ["f32"],
               lambda v, *_: torch.where(kept, v / (1 - threshold / 2**32), torch.zeros_like(v)))
    return True


# ---- views ----------------------------------------------------------------------------------------------------------


def add_broadcast(graph, rng):
    x = pick(graph, rng, lambda v: v.data.numel() <= 512)
    if x is None:
        return False
    shape = [rng.choice([2, 3, 5]) if size == 1 and rng.random() < 0.7 else size for size in x.shape]
    while len(shape) < 4 and rng.random() < 0.5:
        shape.insert(0, rng.choice([1, 2, 3]))
    if math.prod(shape) > LARGEST:
        return False
    graph.emit("broadcast {0} : {t0} -> {r0}", [x], [x.dtype], lambda v: v.expand(shape), ulps=0)
    return True


def split_sizes(rng, count):
    """A random factorisation of `count` into at most four sizes."""
    sizes = []
    while len(sizes) < 3 and rng.random() < 0.8:
        divisors = [d for d in range(1, min(count, 64) + 1) if count % d == 0] or [1]
        sizes.append(rng.choice(divisors))
        count //= sizes[-1]
    sizes.insert(rng.randrange(len(sizes) + 1), count)
    return sizes


def add_reshape(graph, rng):
    x = pick(graph, rng, lambda v: v.data.numel() > 0)
    shape = split_sizes(rng, x.data.numel())
    graph.emit("reshape {0} : {t0} -> {r0}", [x], [x.dtype], lambda v: v.reshape(shape), ulps=0)
    return True


def add_transpose(graph, rng):
    x = pick(graph, rng, lambda v: len(v.shape) > 1)
    if x is None:
        return False
    order = rng.sample(range(len(x.shape)), len(x.shape))
    graph.emit(f"transpose {{0}} {order} : {{t0}} -> {{r0}}", [x], [x.dtype], lambda v: v.permute(order), ulps=0)
    return True


def add_slice(graph, rng):
    x = pick(graph, rng, lambda v: v.data.numel() > 1)
    if x is None:
        return False
    starts = [rng.randrange(size) if rng.random() < 0.5 else 0 for size in x.shape]
    limits = [rng.randint(start + 1, size) if rng.random() < 0.6 else -1 for start, size in zip(starts, x.shape)]
    where = tuple(slice(start, None if limit < 0 else limit) for start, limit in zip(starts, limits))
    graph.emit(f"slice {{0}} {starts} to {limits} : {{t0}} -> {{r0}}", [x], [x.dtype], lambda v: v[where], ulps=0)
    return True


def add_pad(graph, rng):
    x = pick(graph, rng, lambda v: 0 < len(v.shape) and 0 < v.data.numel() <= 1024 and v.dtype != "i1")
    if x is None:
        return False
    low = [rng.choice([0, 0, 1, 3]) for _ in x.shape]
    high = [rng.choice([0, 0, 1, 2]) for _ in x.shape]
    if math.prod(a + b + c for a, b, c in zip(low, high, x.shape)) > LARGEST:
        return False
    sides = [side for pair in reversed(list(zip(low, high))) for side in pair]
    graph.emit(f"pad {{0}} {low}, {high} : {{t0}} -> {{r0}}", [x], [x.dtype], lambda v: F.pad(v, sides), ulps=0)
    return True


def add_concat(graph, rng):
    x = pick(graph, rng, lambda v: 0 < len(v.shape) and 0 < v.data.numel() <= 1024)
    if x is None:
        return False
    axis = rng.randrange(len(x.shape))
    rest = lambda shape: shape[:axis] + shape[axis + 1:]
    fits = lambda v: (v.dtype == x.dtype and len(v.shape) == len(x.shape) and rest(v.shape) == rest(x.shape)
                      and v.data.numel() <= 1024)
    parts = [x] + [pick(graph, rng, fits) for _ in range(rng.randrange(3))]
    names = ", ".join(f"{{{i}}}" for i in range(len(parts)))
    types = ", ".join(f"{{t{i}}}" for i in range(len(parts)))
    graph.emit(f"concat {names} axis {axis} : {types} -> {{r0}}", parts, [x.dtype],
               lambda *v: torch.cat(v, axis), ulps=0)
    return True
