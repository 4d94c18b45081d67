"""Random training programs as a judge: train_step and torch.compile by tcc beside eager PyTorch.

    judge_programs.py [--seeds 200] [--from 1000] [--ways step,compile] [--kinds REGEX] [--device cuda] [--out FILE.jsonl]

A seed makes a model of a few random statements (layers, writes through masks, views that are written into, branches and
shapes that depend on values, buffers that change), an optimizer, clipping, accumulation. Three steps by each way end in
losses, parameters, buffers and states of the optimizer; each may be as far from those of eager in float64 as ten times
what eager in float32 is, or as rounding. A program that changes by rounding alone (a branch on a sum near 0) is not
judged. Prints a line for each seed that is wrong or fails, and a count; status 1 where there is one.
"""

from __future__ import annotations

import argparse
import copy
import json
import pathlib
import random
import re
import sys
import time
import traceback
import warnings

import torch
import torch._dynamo
import torch.nn.functional as F

import tcc.torch

STEPS = 3
#: Of a tensor's largest element: what rounding may do in any program, and where eager itself is too far off.
ROUNDING, TOO_FAR = 2e-5, 2e-2


class Scaled(torch.autograd.Function):
    """Twice x, with a gradient of its own."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.factor, None


#: Statements: of a model that may keep parameters and buffers, its random numbers and sizes, a function of a list of
#: values [rows, width], which gives another value of that shape.
STATEMENTS = {}


def statement(function):
    STATEMENTS[function.__name__] = function
    return function


def one(draw):
    """The number, from the end, of a value."""
    return -draw.choice([1, 1, 1, 2, 3])


def at(values, place):
    return values[max(place, -len(values))]


@statement
def linear(m, draw, rows, width):
    layer, place = m.keep(torch.nn.Linear(width, width, bias=draw.random() < 0.7)), one(draw)
    return lambda m, v: m.layers[layer](at(v, place))


@statement
def tied_linear(m, draw, rows, width):
    layer, place = m.keep(torch.nn.Linear(width, width, bias=False)), one(draw)
    return lambda m, v: F.linear(F.linear(at(v, place), m.layers[layer].weight), m.layers[layer].weight.t())


@statement
def bottleneck(m, draw, rows, width):
    inner = draw.choice([1, 3, 8, 17])
    a, b, place = m.keep(torch.nn.Linear(width, inner)), m.keep(torch.nn.Linear(inner, width)), one(draw)
    activation = draw.choice([F.gelu, F.silu, torch.tanh, F.relu, torch.sigmoid, F.softplus, F.elu, F.leaky_relu])
    return lambda m, v: at(v, place) + m.layers[b](activation(m.layers[a](at(v, place))))


@statement
def norm(m, draw, rows, width):
    kind = draw.choice([torch.nn.LayerNorm, torch.nn.RMSNorm, torch.nn.BatchNorm1d])
    layer, place = m.keep(kind(width)), one(draw)
    return lambda m, v: m.layers[layer](at(v, place))


@statement
def pointwise(m, draw, rows, width):
    function = draw.choice([
        lambda x, y: x * y.tanh(), lambda x, y: x - y, lambda x, y: x / (y.square() + 1),
        lambda x, y: torch.lerp(x, y, 0.3),
        lambda x, y: torch.where(x > y, x, y * 0.5), torch.maximum, lambda x, y: x.clamp(-1, 1) + y.abs().sqrt(),
        lambda x, y: torch.exp(-x.square()) * y, torch.logaddexp, lambda x, y: torch.atan2(x, y + 3)])
    a, b = one(draw), one(draw)
    return lambda m, v: function(at(v, a), at(v, b))


@statement
def reduction(m, draw, rows, width):
    dim, place = draw.choice([0, 1]), one(draw)
    function = draw.choice([
        lambda x: x - x.mean(dim, keepdim=True), lambda x: x / (1e-3 + x.norm(dim=dim, keepdim=True)),
        lambda x: torch.softmax(x, dim) * x, lambda x: x - x.amax(dim, keepdim=True),
        lambda x: torch.cumsum(x, dim) * 0.1,
        lambda x: x - torch.logsumexp(x, dim, keepdim=True), lambda x: x.var(dim, keepdim=True) + x,
        lambda x: F.log_softmax(x, dim), lambda x: x * x.prod(dim, keepdim=True).tanh()])
    return lambda m, v: function(at(v, place))


@statement
def views(m, draw, rows, width):
    place = one(draw)
    function = draw.choice([
        lambda x: x.t().contiguous().t() * 2, lambda x: torch.cat(x.chunk(2, 0)[::-1]), lambda x: x.flip(1),
        lambda x: x.roll(1, 0),
        lambda x: torch.stack([x, x * 2]).sum(0), lambda x: F.pad(x, (1, 2))[:, 2:-1] if width > 1 else x,
        lambda x: x.reshape(-1).view(width, rows).t() + x, lambda x: x.expand(2, rows, width).mean(0),
        lambda x: x.unfold(0, 1, 1)[..., 0],
        lambda x: torch.einsum("ij,kj->ik", x, x) @ x * 0.1, lambda x: x[:, ::2].repeat_interleave(2, 1)[:, :width],
        lambda x: torch.tril(x) + torch.triu(x, 1), lambda x: x.diagonal_scatter(x.diagonal() * 2)])
    return lambda m, v: function(at(v, place))


@statement
def order(m, draw, rows, width):
    place, count = one(draw), draw.randint(1, width)
    function = draw.choice([
        lambda x: torch.sort(x, 1).values, lambda x: torch.take_along_dim(x, x.argsort(1, descending=True), 1),
        lambda x: F.pad(x.topk(count, 1).values, (0, width - count)), lambda x: x * F.one_hot(x.argmax(1), width),
        lambda x: torch.cummax(x, 1).values, lambda x: x - x.median(1, keepdim=True).values])
    return lambda m, v: function(at(v, place))


@statement
def indexed(m, draw, rows, width):
    place, index = one(draw), m.keep_buffer(torch.tensor([draw.randrange(rows) for _ in range(rows)]))
    function = draw.choice([
        lambda x, i: x[i], lambda x, i: torch.zeros_like(x).index_add(0, i, x), lambda x, i: x.index_select(0, i) + x,
        lambda x, i: x.index_copy(0, i[:1], x[:1] * 3),
        lambda x, i: torch.zeros_like(x).index_put((i,), x, accumulate=True),
        lambda x, i: x.scatter_add(0, i[:, None].expand_as(x), x * 0.5),
        lambda x, i: x.gather(0, i[:, None].expand_as(x))])
    return lambda m, v: function(at(v, place), m.held(index))


@statement
def table(m, draw, rows, width):
    layer, place = m.keep(torch.nn.Embedding(5, width)), one(draw)
    index = m.keep_buffer(torch.tensor([draw.randrange(5) for _ in range(rows)]))
    return lambda m, v: at(v, place) + m.layers[layer](m.held(index))


@statement
def attention(m, draw, rows, width):
    layer, place, causal = m.keep(torch.nn.Linear(width, 3 * width)), one(draw), draw.random() < 0.4
    heads = draw.choice([h for h in (1, 2, 3) if width % h == 0])
    mask = None if causal or draw.random() < 0.4 else m.keep_buffer(
        draw.choice([torch.rand(rows, rows) > 0.3, torch.randn(rows, rows), torch.rand(1, rows) > 0.2]).index_fill(
            1, torch.tensor([0]), 1))

    def run(m, v):
        q, k, w = (x.reshape(1, rows, heads, width // heads).transpose(1, 2)
                   for x in m.layers[layer](at(v, place)).chunk(3, 1))
        hides = None if mask is None else m.held(mask)
        hides = hides.to(q.dtype) if hides is not None and hides.is_floating_point() else hides
        made = F.scaled_dot_product_attention(q, k, w, attn_mask=hides, is_causal=causal)
        return made.transpose(1, 2).reshape(rows, width)

    return run


@statement
def window(m, draw, rows, width):
    layer, place = m.keep(torch.nn.Conv1d(1, 2, 3, padding=1)), one(draw)
    pool = draw.choice([lambda x: F.max_pool1d(x, 3, 1, 1), lambda x: F.avg_pool1d(x, 3, 1, 1), lambda x: x])
    return lambda m, v: pool(m.layers[layer](at(v, place)[:, None])).sum(1)


@statement
def written_view(m, draw, rows, width):
    place, number = one(draw), draw.uniform(-1, 1)

    def first_row(x):
        x[0] = number

    def columns(x):
        x[:, ::2] *= 2

    def row_by_row(x):
        for i in range(1, min(rows, 4)):
            x[i] += x[i - 1].tanh()

    def flat(x):
        x.view(-1)[: width].add_(number)

    def whole(x):
        x.mul_(1.5).add_(number).clamp_(-3, 3)

    def of_others(x):
        x[:, 0] = x[:, -1] * 2

    write = draw.choice([first_row, columns, row_by_row, flat, whole, of_others])

    def run(m, v):
        x = at(v, place).clone()
        write(x)
        return x

    return run


@statement
def written_mask(m, draw, rows, width):
    place, number = one(draw), draw.choice([0, 0.5, -float("inf")])
    weight = m.keep_parameter(torch.randn(width))

    def by_number(m, x):
        x[x > 0] = 0.0 if number == -float("inf") else number

    def by_rows(m, x):
        x[x.sum(1) > 0] = 0.25

    def by_vector(m, x):
        x[x.sum(1) > 0] = m.numbers[weight]

    def by_scalar(m, x):
        x[x > 0.5] = m.numbers[weight].mean()

    def by_own(m, x):
        x[x > 0] = x[x > 0] * 2

    def added(m, x):
        x[x > 0] += 0.5

    def put(m, x):
        x.index_put_((x > 1,), torch.tensor(0.5, dtype=x.dtype))

    def filled(m, x):
        x.masked_fill_(x < -0.5, -0.5)

    def softmax(m, x):
        x[:, 1:][x[:, 1:] < 0] = number
        x.copy_(x.softmax(1))

    def of_another(m, x):
        mask = x > 0
        x[mask] = (x.detach() * 3)[mask]

    def ored(m, x):
        mask = (x > 0) | (x < -1)
        x[mask] = torch.arange(1, dtype=x.dtype)

    write = draw.choice([by_number, by_rows, by_vector, by_scalar, by_own, added, put, filled, softmax, of_another,
                         ored])

    def run(m, v):
        x = at(v, place).clone()
        write(m, x)
        return x

    return run


@statement
def depends_on_values(m, draw, rows, width):
    place = one(draw)

    def branch(x):
        return x * 2 if x.sum() > 0.1 else x - 1

    def item(x):
        return x / (x.detach().abs().max().item() + 1)

    def picked(x):
        return x + x[x > 0].sum() * 0.01

    def counted(x):
        return x * (1 + 0.01 * torch.nonzero(x > 0).shape[0])

    def repeated(x):
        turns = (x[:, 0] > 0).long() + 1
        return x + torch.repeat_interleave(x, turns, 0).mean(0) * 0.1

    def looped(x):
        turns = 0
        while x.abs().max() > 2 and turns < 5:
            x, turns = x / 2, turns + 1
        return x

    def as_list(x):
        return x * len([value for value in x[:, 0].tolist() if value > 0])

    def selected(x):
        return x + torch.masked_select(x, x < 0).square().mean() * 0.1

    def split(x):
        count = int((x[:, 0] > 0).sum())
        return torch.cat([x[count:], x[:count] * 2])

    def distinct(x):
        return x * (torch.unique((x.detach() > 0).long()).numel() * 0.5)

    function = draw.choice([branch, item, picked, counted, repeated, looped, as_list, selected, split, distinct])
    return lambda m, v: function(at(v, place))


@statement
def buffer(m, draw, rows, width):
    place, mean, count = one(draw), m.keep_buffer(torch.zeros(width)), m.keep_buffer(torch.zeros((), dtype=torch.int64))
    kind = draw.choice(["in place", "replaced", "counted", "row"])

    def run(m, v):
        x = at(v, place)
        with torch.no_grad():
            if kind == "in place":
                m.held(mean).mul_(0.9).add_(x.mean(0), alpha=0.1)
            elif kind == "replaced":
                setattr(m, f"buffer{mean}", 0.9 * m.held(mean) + 0.1 * x.mean(0))
            elif kind == "counted":
                m.held(count).add_(1)
            else:
                m.held(mean)[0] = x.mean()
        return x - m.held(mean) * 0.5 + m.held(count) * 0.01

    return run


@statement
def gradient_rules(m, draw, rows, width):
    place, factor = one(draw), draw.choice([2.0, 0.5])
    function = draw.choice([
        lambda x: Scaled.apply(x, factor), lambda x: x + x.detach() * factor,
        lambda x: torch.utils.checkpoint.checkpoint(lambda y: torch.tanh(y) * factor, x, use_reentrant=False),
        lambda x: x + (x > 0).to(x.dtype) * factor])
    return lambda m, v: function(at(v, place))


class Program(torch.nn.Module):
    """Random statements over values [rows, width], and their losses against y."""

    def __init__(self, seed: int, kinds: list[str]):
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.rows, self.width = draw.choice([2, 5, 8, 12]), draw.choice([1, 3, 6, 12, 16])
        self.layers, self.numbers, self.buffer_count = torch.nn.ModuleList(), torch.nn.ParameterList(), 0
        self.keep(torch.nn.Linear(self.width, self.width))
        self.kinds = [draw.choice(kinds) for _ in range(draw.randint(2, 6))]
        self.run = [STATEMENTS[kind](self, draw, self.rows, self.width) for kind in self.kinds]
        self.loss = draw.choice([F.mse_loss, F.l1_loss, F.smooth_l1_loss, lambda x, y: F.cross_entropy(x, y.argmax(1)),
                                 lambda x, y: (x * y).sum()])
        self.optimizer = draw.choice(["adamw", "adam", "sgd", "momentum", "lion"])
        self.clip, self.accumulate = draw.choice([None, 0.5, 100.0]), draw.choice([1, 1, 2])
        if draw.random() < 0.2 and len(self.layers) > 1:
            self.layers[0].requires_grad_(False)

    def keep(self, layer) -> int:
        self.layers.append(layer)
        return len(self.layers) - 1

    def keep_parameter(self, value) -> int:
        self.numbers.append(torch.nn.Parameter(value))
        return len(self.numbers) - 1

    def keep_buffer(self, value) -> int:
        self.register_buffer(f"buffer{self.buffer_count}", value)
        self.buffer_count += 1
        return self.buffer_count - 1

    def held(self, number: int):
        return getattr(self, f"buffer{number}")

    def forward(self, x, y):
        values = [self.layers[0](x)]
        for run in self.run:
            values.append(run(self, values))
        return self.loss(values[-1], y) + sum(value.square().mean() for value in values) * 0.1

    def describe(self) -> str:
        return (f"{self.rows}x{self.width} {', '.join(self.kinds)}; {self.optimizer}, clip {self.clip}, "
                f"accumulate {self.accumulate}")

    def make_optimizer(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        return {"adamw": lambda: torch.optim.AdamW(trained, 1e-3), "adam": lambda: torch.optim.Adam(trained, 1e-3),
                "sgd": lambda: torch.optim.SGD(trained, 1e-2), "lion": lambda: tcc.torch.Lion(trained, 1e-3),
                "momentum": lambda: torch.optim.SGD(trained, 1e-2, momentum=0.9)}[self.optimizer]()


def loss_of(model, x, y):
    return model(x, y)


def batches(model, seed):
    generator = torch.Generator().manual_seed(seed + 1)
    shape = (model.rows * model.accumulate, model.width)
    def drawn():
        return torch.randn(shape, generator=generator, device="cpu").to(torch.get_default_device())
    return [(drawn(), drawn()) for _ in range(STEPS)]


def in_parts(model, function, optimizer, given):
    """Steps with PyTorch's own loop."""
    losses = []
    for x, y in given:
        total = 0.0
        for some, wanted in zip(x.chunk(model.accumulate), y.chunk(model.accumulate)):
            loss = function(model, some, wanted) / model.accumulate
            loss.backward()
            total += loss.detach()
        if model.clip is not None:
            torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], model.clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def results(model, way: str, seed: int) -> dict[str, torch.Tensor]:
    """What three steps end in."""
    torch._dynamo.reset()
    tcc.torch.reset()
    torch.manual_seed(3)
    optimizer, given = model.make_optimizer(), batches(model, seed)
    if way == "float64":
        model, given = model.double(), [(x.double(), y.double()) for x, y in given]
        optimizer = model.make_optimizer()
    if way == "step":
        step = tcc.torch.train_step(model, loss_of, optimizer, clip=model.clip, accumulate=model.accumulate)
        losses = [step(x, y) for x, y in given]
    else:
        compiled = torch.compile(loss_of, backend="tcc") if way == "compile" else loss_of
        losses = in_parts(model, compiled, optimizer, given)
    made = {f"loss {i}": loss for i, loss in enumerate(losses)}
    made |= {name: value.detach() for name, value in (*model.named_parameters(), *model.named_buffers())}
    names = {id(p): name for name, p in model.named_parameters()}
    for parameter, state in optimizer.state.items():
        made |= {f"{names[id(parameter)]}.{entry}": value for entry, value in state.items()
                 if isinstance(value, torch.Tensor)}
    return made


def off(seen, truth) -> float:
    """How far tensors are apart, as a share of the largest element; infinite where one is not what the other is."""
    if seen.shape != truth.shape:
        return float("inf")
    seen, truth = seen.double(), truth.double()
    if not torch.equal(seen.isfinite(), truth.isfinite()):
        return float("inf")
    finite = truth.isfinite()
    gap = torch.where(finite, seen - truth, 0).abs()
    return gap.max().item() / max(torch.where(finite, truth, 0).abs().max().item(), 1e-3) if gap.numel() else 0.0


def compared(seen, eager, truth) -> str:
    """What is wrong with results, or an empty text."""
    if seen.keys() != eager.keys():
        return f"other results: {sorted(seen.keys() ^ eager.keys())}"
    for name, value in seen.items():
        allowed = ROUNDING + 10 * off(eager[name], truth[name])
        if value.dtype != eager[name].dtype or not off(value, truth[name]) <= allowed:
            return (f"{name}: {value.flatten()[:4].tolist()} {value.dtype}, "
                    f"eager {eager[name].flatten()[:4].tolist()}: "
                    f"off by {off(value, truth[name]):.2g}, allowed {allowed:.2g}")
    return ""


def judge(seed: int, kinds: list[str], ways: list[str]) -> dict:
    entry = {"seed": seed}
    try:
        model = Program(seed, kinds)
        entry["program"] = model.describe()
        eager = results(copy.deepcopy(model), "eager", seed)
        truth = results(copy.deepcopy(model), "float64", seed)
    except Exception as problem:
        return {**entry, "is": "not built", "why": f"{type(problem).__name__}: {str(problem)[:200]}"}
    if any(not off(eager[name], truth[name]) <= TOO_FAR for name in eager) or not all(
            torch.isfinite(eager[f"loss {i}"]) for i in range(STEPS)):
        return {**entry, "is": "not judged", "why": "rounding changes what the program does"}
    entry["is"] = "right"
    for way in ways:
        try:
            why = compared(results(copy.deepcopy(model), way, seed), eager, truth)
            entry[way] = len(tcc.torch.report().breaks)
            if why:
                entry |= {"is": "wrong", "why": f"{way}: {why}"}
        except Exception as problem:
            frames = traceback.extract_tb(problem.__traceback__)
            entry |= {"is": "fails", "why": f"{way}: {type(problem).__name__}: {str(problem)[:300]} at "
                                            f"{frames[-1].filename}:{frames[-1].lineno}"}
    return entry


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--from", type=int, default=1000, dest="first")
    parser.add_argument("--ways", default="step,compile")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    torch.set_default_device(given.device)
    warnings.simplefilter("ignore")
    kinds = [kind for kind in STATEMENTS if re.search(given.kinds, kind)]
    known = {}
    if given.out and pathlib.Path(given.out).exists():
        known = {entry["seed"]: entry for entry in map(json.loads, open(given.out))}
    entries = []
    for seed in range(given.first, given.first + given.seeds):
        start = time.monotonic()
        entry = known.get(seed) or judge(seed, kinds, given.ways.split(","))
        entry.setdefault("seconds", round(time.monotonic() - start, 1))
        entries.append(entry)
        if entry["is"] in ("wrong", "fails"):
            print(f"{seed}: {entry['is']} {entry['why']}\n  {entry['program']}", flush=True)
        if given.out and seed not in known:
            with open(given.out, "a") as file:
                file.write(json.dumps(entry) + "\n")
    count = {}
    for entry in entries:
        count[entry["is"]] = count.get(entry["is"], 0) + 1
    print(", ".join(f"{number} {kind}" for kind, number in sorted(count.items(), key=lambda item: -item[1])))
    return 1 if count.get("wrong") or count.get("fails") else 0


if __name__ == "__main__":
    sys.exit(main())
