"""On a GPU: models as a judge, and what programs do around a step. Needs a GPU, which no test has; run it where one is.

    judge_gpu.py [--models REGEX]

Five training steps of each model by torch.compile(backend="tcc") and by train_step, in f32 and with bf16 autocast, beside
eager PyTorch on the same GPU; then streams, graphs of CUDA, memory and sizes that change. Prints a line each; status 1 where
one is wrong or fails.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
import time
import traceback

import models
import torch
import torch.nn as nn

import tcc.torch

STEPS = 5
#: Losses of five steps, as a share; bf16 rounds each product.
TOLERANCES = {torch.float32: 2e-4, torch.bfloat16: 2e-2}


def loss_of(model, **batch):
    return model(**batch)


def moved(batch):
    return {name: value.cuda() for name, value in batch.items()}


def losses(model, batches, way: str, dtype):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1)
    cast = torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16)
    if way == "step":
        def loss(model, **batch):
            with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
                return model(**batch)
        step = tcc.torch.train_step(model, loss, optimizer, clip=1.0)
        return [step(**batch).item() for batch in batches]
    forward = torch.compile(model, backend="tcc") if way == "compile" else model
    made = []
    for batch in batches:
        with cast:
            loss = forward(**batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        made.append(loss.item())
    return made


def check_model(name: str, way: str, dtype) -> str:
    make, make_batch = {**models.NATIVE, **models.OTHERS}[name]
    torch.manual_seed(0)
    model = make().cuda()
    batches = [moved(make_batch()) for _ in range(STEPS)]
    wanted = losses(copy.deepcopy(model), batches, "eager", dtype)
    torch._dynamo.reset()
    tcc.torch.reset()
    seen = losses(copy.deepcopy(model), batches, way, dtype)
    worst = max(abs(a - b) / abs(b) for a, b in zip(seen, wanted))
    report = tcc.torch.report()
    notes = f"{len(report.steps)} steps" + (f", refused {report.refused}" if report.refused else "")
    notes += f", breaks {report.breaks}" if report.breaks else ""
    if not worst <= TOLERANCES[dtype]:
        raise AssertionError(f"{worst:.2g} off: {seen} for {wanted}; {notes}")
    if not report.steps:
        raise AssertionError(f"nothing was compiled: {notes}")
    return f"{worst:.1g} off, {notes}"


def check_streams() -> str:
    """A step on a stream begins after what is before it there, and what follows comes after it."""
    weight = torch.randn(512, 512, device="cuda")
    function = torch.compile(lambda x: (x @ weight).relu().sum(1), backend="tcc")
    function(torch.randn(512, 512, device="cuda"))
    for turn in range(20):
        stream = torch.cuda.Stream()
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


def check_memory() -> str:
    """Steps give back what they take."""
    model = models.NanoGpt().cuda()
    step = tcc.torch.train_step(model, loss_of, torch.optim.AdamW(model.parameters(), 1e-3))
    batch = moved(models.tokens())
    seen = []
    for turn in range(60):
        step(**batch)
        if turn % 20 == 19:
            torch.cuda.synchronize()
            seen.append((torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]))
    if seen[0][0] != seen[-1][0] or seen[0][1] - seen[-1][1] > 4 << 20:
        raise AssertionError(f"memory grows: {seen}")
    return f"{seen[-1][0] >> 10} KB stay"


def check_sizes() -> str:
    """Batches of other sizes, one after the other."""
    torch.manual_seed(0)
    model = models.NanoGpt().cuda()
    other = copy.deepcopy(model)
    first, second = (torch.optim.AdamW(m.parameters(), 1e-3) for m in (model, other))
    step = tcc.torch.train_step(other, loss_of, second)
    for size in (4, 3, 4, 5, 1, 4):
        batch = moved(models.tokens(size))
        wanted = model(**batch)
        wanted.backward()
        first.step()
        first.zero_grad()
        seen = step(**batch)
        if not abs(seen.item() - wanted.item()) <= 1e-4 * wanted.item():
            raise AssertionError(f"batch of {size}: {seen.item()} for {wanted.item()}")
    return "4, 3, 4, 5, 1, 4 rows"


def check_inference() -> str:
    model = models.NanoGpt().cuda().eval()
    function = torch.compile(model, backend="tcc")
    with torch.no_grad():
        for _ in range(4):
            batch = moved(models.tokens())
            torch.testing.assert_close(function(**batch), model(**batch), rtol=1e-4, atol=1e-4)
    return "4 batches"


def check_odd() -> str:
    """Three heads of 40, 200 tokens, a vocabulary of 1000, in bf16."""
    torch.manual_seed(0)
    model = models.NanoGpt(vocabulary=1000, positions=200, layers=2, heads=3, size=120).cuda()
    other = copy.deepcopy(model)
    tokens = torch.randint(0, 1000, (3, 200), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        wanted = model(tokens, tokens)
    wanted.backward()
    function = torch.compile(other, backend="tcc")
    with torch.autocast("cuda", torch.bfloat16):
        seen = function(tokens, tokens)
    seen.backward()
    gaps = [((a.grad - b.grad).norm() / b.grad.norm().clamp(min=1e-6)).item() for a, b in zip(other.parameters(), model.parameters())]
    if not abs(seen.item() - wanted.item()) <= 1e-2 * wanted.item() or not max(gaps) <= 0.05:
        raise AssertionError(f"{seen.item()} for {wanted.item()}, gradients off by {max(gaps):.2g}")
    return f"gradients within {max(gaps):.1g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    checks = [(check.__name__[6:], check) for check in (check_streams, check_memory, check_sizes, check_inference, check_odd)]
    checks += [(f"{name} {way} {dtype}".replace("torch.", ""), lambda name=name, way=way, dtype=dtype: check_model(name, way, dtype))
               for name in (*models.NATIVE, *models.OTHERS) for way in ("compile", "step")
               for dtype in (torch.float32, torch.bfloat16)]
    wrong = 0
    for name, check in checks:
        if not re.search(given.models, name):
            continue
        torch._dynamo.reset()
        tcc.torch.reset()
        start = time.monotonic()
        try:
            said = check()
        except Exception as problem:  # each of them is told, and the others run
            wrong += 1
            frames = traceback.extract_tb(problem.__traceback__)
            said = f"WRONG {type(problem).__name__}: {str(problem)[:600]} at {frames[-1].filename}:{frames[-1].lineno}"
        print(f"{name}: {said} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{wrong} of {len(checks)} are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
