"""On a GPU: models as a judge, and what programs do around a step. Needs a GPU, which no test has; run it where one is.

    judge_gpu.py [--checks REGEX] [--device cpu]

Five training steps of each model by torch.compile(backend="tcc") and by train_step, in f32 and with bf16 autocast, beside
eager PyTorch on the same GPU; then what real programs do: streams, threads, graphs of CUDA, memory, sizes that change, f16
with a GradScaler, optimizers, checkpoints. Prints a line each; status 1 where one is wrong or fails. With --device cpu it
runs what makes sense there, to try the program itself.
"""

from __future__ import annotations

import argparse
import copy
import functools
import io
import re
import sys
import threading
import time
import traceback

import models
import torch
import torch.nn as nn
import torch.nn.functional as F

import tcc.torch

STEPS = 5
#: Losses of five steps, as a share; bf16 rounds each product.
TOLERANCES = {torch.float32: 2e-4, torch.bfloat16: 2e-2, torch.float16: 2e-2}
#: What the program runs on; main() sets it.
DEVICE = torch.device("cuda")


def loss_of(model, **batch):
    return model(**batch)


def moved(batch):
    return {name: value.to(DEVICE) for name, value in batch.items()}


def cast_to(dtype):
    return torch.autocast(DEVICE.type, torch.float16 if dtype == torch.float32 else dtype, enabled=dtype != torch.float32)


def compare(seen, wanted, tolerance: float, what: str) -> float:
    """The largest error of numbers as a share; AssertionError where it is above the tolerance."""
    worst = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(seen, wanted, strict=True))
    if not worst <= tolerance:
        raise AssertionError(f"{what}: {worst:.2g} off: {seen} for {wanted}; {notes()}")
    return worst


def compare_states(seen: nn.Module, wanted: nn.Module, tolerance: float) -> None:
    for (name, a), b in zip(seen.state_dict().items(), wanted.state_dict().values(), strict=True):
        gap = ((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-12)).item()
        if not gap <= tolerance:
            raise AssertionError(f"{name} is {gap:.2g} off; {notes()}")


def notes() -> str:
    report = tcc.torch.report()
    made = f"{len(report.steps)} steps" + (f", refused {report.refused}" if report.refused else "")
    return made + (f", breaks {report.breaks}" if report.breaks else "")


def whole() -> str:
    """The report of a step of training that is to be one executable for each kind of batch."""
    report = tcc.torch.report()
    if report.refused or report.cuts or not report.steps:
        raise AssertionError(f"not one executable: {notes()}")
    return notes()


# Models

def losses(model, batches, way: str, dtype):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1)
    if way == "step":
        def loss(model, **batch):
            with cast_to(dtype):
                return model(**batch)
        step = tcc.torch.train_step(model, loss, optimizer, clip=1.0)
        return [step(**batch).item() for batch in batches]
    forward = torch.compile(model, backend="tcc") if way == "compile" else model
    made = []
    for batch in batches:
        with cast_to(dtype):
            loss = forward(**batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        made.append(loss.item())
    return made


def check_model(name: str, way: str, dtype) -> str:
    make, make_batch = {**models.NATIVE, **models.OTHERS}[name]
    model = make().to(DEVICE)
    batches = [moved(make_batch()) for _ in range(STEPS)]
    wanted = losses(copy.deepcopy(model), batches, "eager", dtype)
    worst = compare(losses(copy.deepcopy(model), batches, way, dtype), wanted, TOLERANCES[dtype], "losses")
    report = tcc.torch.report()
    if not report.steps:
        if way == "compile" and not report.cuts and not report.refused:
            return f"{worst:.1g} off; Dynamo itself leaves the model to PyTorch, so that nothing is compiled: {notes()}"
        raise AssertionError(f"nothing was compiled: {notes()}")
    return f"{worst:.1g} off, {notes()}"


# Around a step

class Mlp(nn.Module):
    """Matrices alone, which Muon can train, and a buffer that each step changes."""

    def __init__(self, size=64):
        super().__init__()
        self.up, self.down = nn.Linear(size, 2 * size, bias=False), nn.Linear(2 * size, size, bias=False)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, target):
        if self.training:
            self.seen += 1
        return (self.down(F.gelu(self.up(x))) - target).square().mean()


def numbers(rows=16, size=64):
    return moved({"x": torch.randn(rows, size), "target": torch.randn(rows, size)})


def eager_step(model, optimizer, *batches) -> float:
    """The mean loss of batches whose gradients are averaged."""
    total = 0.0
    for batch in batches:
        loss = model(**batch) / len(batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    return total


def pair(make_optimizer, make=Mlp):
    """A model for eager and one like it, with an optimizer each."""
    model = make().to(DEVICE)
    other = copy.deepcopy(model)
    return model, make_optimizer(model.parameters()), other, make_optimizer(other.parameters())


def adamw(parameters):
    return torch.optim.AdamW(parameters, 1e-2)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True),
    "foreach adamw": lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
    "lion": lambda p: tcc.torch.Lion(p, 1e-3, weight_decay=0.1),
    "muon": lambda p: torch.optim.Muon(p, 1e-2),
}


def check_optimizer(name: str) -> str:
    model, first, other, second = pair(OPTIMIZERS[name])
    step = tcc.torch.train_step(other, loss_of, second)
    batches = [numbers() for _ in range(4)]
    worst = compare([step(**b).item() for b in batches], [eager_step(model, first, b) for b in batches],
                    1e-2 if name == "muon" else 1e-4, "losses")  # Muon computes in bf16
    compare_states(other, model, 2e-2 if name == "muon" else 1e-3)
    return f"{worst:.1g} off, {whole()}"


def check_foreach_under_compile() -> str:
    """PyTorch's own optimizer inside of torch.compile, as some programs have it."""
    model, first, other, second = pair(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True))
    update = torch.compile(second.step, backend="tcc")
    for _ in range(3):
        batch = numbers()
        eager_step(model, first, batch)
        other(**batch).backward()
        update()
        second.zero_grad()
    compare_states(other, model, 1e-4)
    return notes()


def check_accumulation() -> str:
    """Of gradients: by train_step's parts of a batch, and by two backwards of a compiled model."""
    model, first, other, second = pair(adamw)
    third = copy.deepcopy(model)
    last, compiled = adamw(third.parameters()), torch.compile(third, backend="tcc")
    step = tcc.torch.train_step(other, loss_of, second, accumulate=2)
    for _ in range(3):
        halves = [numbers() for _ in range(2)]
        wanted = eager_step(model, first, *halves)
        both = {name: torch.cat([half[name] for half in halves]) for name in halves[0]}
        compare([step(**both).item(), eager_step(compiled, last, *halves)], [wanted] * 2, 1e-4, "losses")
    compare_states(other, model, 1e-3)
    compare_states(third, model, 1e-3)
    return notes()


def check_checkpoint() -> str:
    """Two steps, both states saved and loaded into a new model and optimizer, two steps; evaluation by eager after it; a
    learning rate that changes."""
    model, first, other, second = pair(adamw)
    batches = [numbers() for _ in range(4)]
    step = tcc.torch.train_step(other, loss_of, second)
    for turn, batch in enumerate(batches):
        if turn == 2:
            file = io.BytesIO()
            torch.save([other.state_dict(), second.state_dict()], file)
            file.seek(0)
            states = torch.load(file, map_location=DEVICE)
            other = Mlp().to(DEVICE)
            other.load_state_dict(states[0])
            second = adamw(other.parameters())
            second.load_state_dict(states[1])
            step = tcc.torch.train_step(other, loss_of, second)
        for optimizer in (first, second):
            optimizer.param_groups[0]["lr"] = 1e-2 / (turn + 1)
        compare([step(**batch).item()], [eager_step(model, first, batch)], 1e-4, f"step {turn}")
    compare_states(other, model, 1e-3)
    model.eval(), other.eval()
    with torch.no_grad():
        compare([other(**batches[0]).item()], [model(**batches[0]).item()], 1e-4, "evaluation")
    second.step()  # PyTorch's own, without gradients: its states are taken
    return whole()


def check_number_of_the_cpu() -> str:
    """A single number on the CPU beside tensors of the GPU, which PyTorch allows."""
    function = torch.compile(lambda x, factor: x * factor + 1, backend="tcc")
    x = torch.randn(64, device=DEVICE)
    for value in (2.0, 3.0, -1.5):
        torch.testing.assert_close(function(x, torch.tensor(value)), x * value + 1)
    return notes()


def check_scaler() -> str:
    """f16 autocast with a GradScaler, whose first scale overflows: steps are skipped, and the scale is halved."""
    model, first, other, second = pair(lambda p: torch.optim.SGD(p, 1e-2))
    compiled, scales, made = torch.compile(other, backend="tcc"), [], []
    for run, optimizer in ((model, first), (compiled, second)):
        scaler, generator = torch.amp.GradScaler(DEVICE.type, init_scale=2.0 ** 24), torch.Generator().manual_seed(1)
        for _ in range(12):
            batch = moved({name: torch.randn(16, 64, generator=generator) for name in ("x", "target")})
            with cast_to(torch.float16):
                loss = run(**batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            made.append(loss.item())
        scales.append(scaler.get_scale())
    worst = compare(made[12:], made[:12], TOLERANCES[torch.float16], "losses")
    if not scales[0] / 2 <= scales[1] <= 2 * scales[0]:  # a value near f16's largest may overflow in one alone
        raise AssertionError(f"scales {scales}")
    return f"{worst:.1g} off, scales {scales}, {notes()}"


def check_half() -> str:
    """train_step with f16 autocast, without a scale."""
    model, first, other, second = pair(lambda p: torch.optim.SGD(p, 1e-2))

    def loss(model, **batch):
        with cast_to(torch.float16):
            return model(**batch)
    step = tcc.torch.train_step(other, loss, second)
    batches = [numbers() for _ in range(3)]
    seen = [step(**batch).item() for batch in batches]
    wanted = []
    for batch in batches:
        value = loss(model, **batch)
        value.backward()
        first.step()
        first.zero_grad()
        wanted.append(value.item())
    return f"{compare(seen, wanted, TOLERANCES[torch.float16], 'losses'):.1g} off, {whole()}"


def check_results_stay() -> str:
    """Results of earlier calls keep their values, also when the caller changes them; inputs may begin anywhere."""
    function = torch.compile(lambda x: (x.exp(), x.t() * 2), backend="tcc")
    held, wanted = [], []
    for turn in range(12):
        x = torch.randn(40 * 40 + 12, device=DEVICE)[turn:turn + 1600].view(40, 40)  # begins at a multiple of 4 bytes
        made = function(x)
        made[0].add_(1)
        held.append(made)
        wanted.append((x.exp() + 1, x.t() * 2))
    for a, b in zip(held, wanted):
        torch.testing.assert_close(a[0], b[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(a[1], b[1])
    return notes()


def check_dropout() -> str:
    """The share that is dropped, and that a seed repeats it."""
    function = torch.compile(lambda x: F.dropout(x, 0.25), backend="tcc")
    x = torch.ones(512, 512, device=DEVICE)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(function(x))
    share = (made[0] == 0).float().mean().item()
    if not 0.24 < share < 0.26 or not torch.equal(made[0], made[1]) or torch.equal(made[0], made[2]):
        raise AssertionError(f"{share} is dropped")
    torch.testing.assert_close(made[0][made[0] != 0].unique(), torch.tensor([4 / 3], device=DEVICE))
    return f"{share:.3f} is dropped"


def check_channels_last() -> str:
    """Images whose channels are the last in memory."""
    model = models.ResNet().to(DEVICE).to(memory_format=torch.channels_last).eval()
    batch = moved(models.images())
    batch["pixel_values"] = batch["pixel_values"].contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        seen, wanted = torch.compile(model, backend="tcc")(**batch), model(**batch)
    return f"{compare([seen.item()], [wanted.item()], 1e-4, 'loss'):.1g} off, {notes()}"


def check_thread() -> str:
    """Calls of one compiled function by four threads, one after the other and all at once."""
    function = torch.compile(lambda x: (x @ x).relu().sum(1), backend="tcc")
    x = torch.randn(4, 128, 128, device=DEVICE)
    wanted = [(part @ part).relu().sum(1) for part in x]
    function(x[0])
    made = [None] * 4

    def run(i):
        for _ in range(10):
            made[i] = function(x[i])
    for at_once in (False, True):
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
            if not at_once:
                thread.join()
        for thread in threads:
            thread.join()
        for a, b in zip(made, wanted):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-2)
    return "4 threads"


def check_sizes() -> str:
    """Batches of other sizes, one after the other."""
    model, first, other, second = pair(lambda p: torch.optim.AdamW(p, 1e-3), models.NanoGpt)
    step = tcc.torch.train_step(other, loss_of, second)
    for size in (4, 3, 4, 5, 1, 4):
        batch = moved(models.tokens(size))
        compare([step(**batch).item()], [eager_step(model, first, batch)], 1e-4, f"batch of {size}")
    return "4, 3, 4, 5, 1, 4 rows"


def check_inference() -> str:
    model = models.NanoGpt().to(DEVICE).eval()
    function = torch.compile(model, backend="tcc")
    with torch.no_grad():
        for _ in range(4):
            batch = moved(models.tokens())
            torch.testing.assert_close(function(**batch), model(**batch), rtol=1e-4, atol=1e-4)
    return "4 batches"


def check_odd() -> str:
    """Three heads of 40, 200 tokens, a vocabulary of 1000, in bf16."""
    model = models.NanoGpt(vocabulary=1000, positions=200, layers=2, heads=3, size=120).to(DEVICE)
    other = copy.deepcopy(model)
    tokens = torch.randint(0, 1000, (3, 200), device=DEVICE)
    with cast_to(torch.bfloat16):
        wanted = model(tokens, tokens)
    wanted.backward()
    function = torch.compile(other, backend="tcc")
    with cast_to(torch.bfloat16):
        seen = function(tokens, tokens)
    seen.backward()
    gaps = [((a.grad - b.grad).norm() / b.grad.norm().clamp(min=1e-6)).item()
            for a, b in zip(other.parameters(), model.parameters())]
    compare([seen.item()], [wanted.item()], 1e-2, "loss")
    if not max(gaps) <= 0.05:
        raise AssertionError(f"gradients off by {max(gaps):.2g}")
    return f"gradients within {max(gaps):.1g}"


# Of a GPU alone

def check_streams() -> str:
    """A step on a stream begins after what is before it there, and what follows comes after it."""
    weight = torch.randn(512, 512, device="cuda")
    function = torch.compile(lambda x: (x @ weight).relu().sum(1), backend="tcc")
    function(torch.randn(512, 512, device="cuda"))
    for turn in range(20):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x = torch.zeros(512, 512, device="cuda")
            torch.cuda._sleep(2_000_000)
            x += turn + 1
            made = function(x)
            after = made * 2
        stream.synchronize()
        wanted = ((torch.full_like(x, turn + 1) @ weight).relu().sum(1)) * 2
        torch.testing.assert_close(after, wanted, rtol=1e-4, atol=1e-2)
    return "20 streams"


def check_two_streams() -> str:
    """One step on two streams by turns, with nothing that waits between them: each call has what is on its own stream."""
    weight = torch.randn(256, 256, device="cuda")
    function = torch.compile(lambda x: (x @ weight).relu() @ weight, backend="tcc")
    function(torch.randn(256, 256, device="cuda"))
    streams = [torch.cuda.Stream() for _ in range(2)]
    inputs = [torch.randn(256, 256, device="cuda") for _ in range(12)]
    torch.cuda.synchronize()
    made = []
    for turn, x in enumerate(inputs):
        with torch.cuda.stream(streams[turn % 2]):
            torch.cuda._sleep(1_000_000 if turn % 3 else 1)
            made.append(function(x + 1) * 2)
    torch.cuda.synchronize()
    for x, seen in zip(inputs, made):
        torch.testing.assert_close(seen, ((x + 1) @ weight).relu() @ weight * 2, rtol=1e-3, atol=1e-1)
    return "12 calls on 2 streams"


def check_memory() -> str:
    """Steps give back what they take, also where PyTorch's cache is emptied between them."""
    model = models.NanoGpt().cuda()
    step = tcc.torch.train_step(model, loss_of, torch.optim.AdamW(model.parameters(), 1e-3))
    batch = moved(models.tokens())
    seen = []
    for turn in range(60):
        step(**batch)
        if turn % 20 == 19:
            torch.cuda.empty_cache()
            tcc.torch.empty_cache()
            torch.cuda.synchronize()
            seen.append((torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]))
    if seen[0][0] != seen[-1][0] or seen[0][1] - seen[-1][1] > 4 << 20:
        raise AssertionError(f"memory grows: {seen}")
    return f"{seen[-1][0] >> 10} KB stay"


def check_capture() -> str:
    """A call inside of torch.cuda.graph is refused, and calls after it are right."""
    weight = torch.randn(128, 128, device="cuda")
    function = torch.compile(lambda x: (x @ weight).relu() + x, backend="tcc")
    x = torch.randn(128, 128, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function(x)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            function(x)
        raise AssertionError("the call was not refused")
    except RuntimeError as refusal:
        if "torch.cuda.graph" not in str(refusal):
            raise
    torch.cuda.synchronize()
    torch.testing.assert_close(function(x), (x @ weight).relu() + x, rtol=1e-4, atol=1e-2)
    return "refused"


def checks(on_gpu: bool) -> list:
    """Names, and what each of them runs. What may leave the GPU in disorder comes last."""
    made = [check_streams, check_two_streams, check_memory] if on_gpu else []
    made += [check_sizes, check_inference, check_odd, check_accumulation, check_checkpoint, check_number_of_the_cpu,
             check_scaler, check_half, check_results_stay, check_dropout, check_channels_last, check_thread,
             check_foreach_under_compile]
    named = [(check.__name__.removeprefix("check_"), check) for check in made]
    named += [(f"optimizer {name}", functools.partial(check_optimizer, name)) for name in OPTIMIZERS]
    named += [(f"{name} {way} {dtype}".replace("torch.", ""), functools.partial(check_model, name, way, dtype))
              for name in (*models.NATIVE, *models.OTHERS) for way in ("compile", "step")
              for dtype in (torch.float32, torch.bfloat16)]
    return named + ([("capture", check_capture)] if on_gpu else [])


def main() -> int:
    global DEVICE
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checks", default="", help="run those whose name matches")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    given = parser.parse_args()
    DEVICE = torch.device(given.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    begin, ran, wrong = time.monotonic(), 0, 0
    for name, check in checks(DEVICE.type == "cuda"):
        if not re.search(given.checks, name):
            continue
        start = time.monotonic()
        try:
            torch._dynamo.reset()
            tcc.torch.reset()
            torch.manual_seed(0)
            said = check()
        except Exception as problem:  # each of them is told, and the others run
            wrong += 1
            frames = traceback.extract_tb(problem.__traceback__)
            text = " ".join(str(problem).split())[:600]
            said = f"WRONG {type(problem).__name__}: {text} at {frames[-1].filename}:{frames[-1].lineno}"
        ran += 1
        print(f"{name}: {said} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{wrong} of {ran} are wrong ({time.monotonic() - begin:.0f} s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
