"""PyTorch's own tables of modules and optimizers as a judge.

    judge_modules.py [--only modules,optimizers,steps] [--names REGEX] [--out FILE.jsonl] [--samples 3]

modules: each module of module_db, forward and backward, and what it leaves in its buffers, against eager.
optimizers: each optimizer of optim_db, its step() compiled, with each of its options, three steps against eager.
steps: tcc.torch.train_step with AdamW, Adam, SGD, Muon and Lion in combinations of their options, against eager.

Prints a line for each that is wrong or crashes, and a table at the end; status 1 where there is one. With --out,
entries that the file has are not run again.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import pathlib
import re
import sys
import time
import warnings

import torch
import torch._dynamo
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

import tcc.torch
import op_truth
from op_truth import outputs

#: Modules whose results are random in training mode.
RANDOM = re.compile(r"Dropout|RReLU|FractionalMaxPool")


def difference(seen, wanted, dtype) -> str:
    """Beside eager alone: 2e-5 of a tensor's largest element in f32, where a module's ops each round."""
    return op_truth.difference(seen, wanted, dtype=dtype, units=4 if dtype == torch.bfloat16 else 168)


def fresh() -> None:
    torch._dynamo.reset()
    tcc.torch.reset()


def verdict(wrong: str = "") -> dict:
    """What a comparison says, with what ATen computed."""
    report = tcc.torch.report()
    found = sorted({fallback.op for fallback in report.fallbacks} | {"whole graph" for _ in report.refused})
    return {"wrong": [wrong] if wrong else [], "crash": [], "fallbacks": found,
            "refused": [why[:300] for why in report.refused][:2]}


# Modules

def run_module(module, args, kwargs, compiled: bool):
    leaves, spec = pytree.tree_flatten((args, kwargs))
    leaves = [leaf.detach().clone(memory_format=torch.preserve_format) if isinstance(leaf, torch.Tensor) else leaf
              for leaf in leaves]
    inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point]
    for leaf in inputs:
        leaf.requires_grad_()
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    module.zero_grad()
    call = torch.compile(module, backend="tcc", dynamic=False) if compiled else module
    torch.manual_seed(5)
    made = outputs(call(*args, **kwargs))
    scored = [m for m in made if m.requires_grad]
    if scored:
        generator = torch.Generator().manual_seed(6)
        torch.autograd.backward(scored, [torch.randn(m.shape, generator=generator).to(m.dtype) for m in scored])
    grads = [leaf.grad for leaf in itertools.chain(inputs, module.parameters()) if leaf.grad is not None]
    buffers = [buffer.clone() for buffer in module.buffers() if buffer is not None]
    return [m.detach() for m in made] + [g.detach().clone() for g in grads] + buffers


def modules(count: int, names: str):
    for info in module_db:
        for training in (True, False):
            key = f"module {info.name}{'' if training else ' eval'}"
            if not re.search(names, key):
                continue

            def entry(info=info, training=training):
                made = {"wrong": [], "crash": [], "fallbacks": [], "refused": [], "samples": 0}
                inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False,
                                                 training=training)
                for number, sample in enumerate(inputs[:count]):
                    given, forward = sample.constructor_input, sample.forward_input
                    if forward is None:
                        continue
                    torch.manual_seed(4)
                    module = info.module_cls(*given.args, **given.kwargs)
                    module.train(training)
                    try:
                        wanted = run_module(copy.deepcopy(module), forward.args, forward.kwargs, False)
                    except Exception:
                        continue
                    fresh()
                    made["samples"] += 1
                    try:
                        seen = run_module(copy.deepcopy(module), forward.args, forward.kwargs, True)
                    except Exception as problem:
                        made["crash"].append(f"sample {number}: {type(problem).__name__}: {str(problem)[:400]}")
                        continue
                    is_random = training and RANDOM.search(info.name)
                    one = verdict("" if is_random else difference(seen, wanted, torch.float32))
                    made["wrong"] += [f"sample {number} ({sample.desc}): {why}" for why in one["wrong"]]
                    made["fallbacks"] = sorted({*made["fallbacks"], *one["fallbacks"]})
                    made["refused"] += one["refused"]
                return made
            yield key, entry


# Optimizers under torch.compile

def small_model():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))


def data(steps: int):
    generator = torch.Generator().manual_seed(3)
    return [(torch.randn(5, 6, generator=generator), torch.randn(5, 4, generator=generator)) for _ in range(steps)]


def loss_of(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def states_of(model, optimizer):
    """Parameters, and the states of each in the order of their names."""
    made = [p.detach().clone() for p in model.parameters()]
    for parameter in model.parameters():
        state = optimizer.state.get(parameter, {})
        made += [state[name].detach().clone().float() for name in sorted(state)
                 if isinstance(state[name], torch.Tensor)]
    return made


def stepped(make, compiled: bool, steps: int = 3, only_matrices: bool = False):
    model = small_model()
    optimizer = make([p for p in model.parameters() if p.dim() == 2 or not only_matrices])

    def step():
        optimizer.step()

    run = torch.compile(step, backend="tcc", dynamic=False) if compiled else step
    for x, y in data(steps):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        run()
    return states_of(model, optimizer)


def optimizers(names: str):
    for info in optim_db:
        cls = info.optim_cls
        if cls.__name__ in ("LBFGS", "SparseAdam"): # a closure that is run many times; sparse gradients
            continue
        for number, given in enumerate(info.optim_inputs_func(device="cpu")):
            if given.params is not None:
                continue
            for kind in ("for-loop", "foreach") + (("fused",) if "fused" in info.supported_impls else ()):
                if kind != "for-loop" and kind not in info.supported_impls:
                    continue
                options = {k: v for k, v in given.kwargs.items()}
                if any(name in options for name in ("foreach", "fused", "differentiable")):
                    continue
                if kind != "for-loop":
                    options[kind] = True
                elif "foreach" in info.supported_impls:
                    options["foreach"] = False
                key = f"optimizer {cls.__name__} {kind} {number} {given.desc}"
                if not re.search(names, key):
                    continue

                def entry(cls=cls, options=options):
                    def make(parameters):
                        own = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
                        return cls(parameters, **own)
                    matrices = cls.__name__ == "Muon"
                    precision = torch.bfloat16 if matrices else torch.float32  # Muon makes its update in bf16
                    try:
                        wanted = stepped(make, False, only_matrices=matrices)
                    except Exception as problem:
                        return {**verdict(), "skipped": str(problem)[:200]}
                    fresh()
                    return verdict(difference(stepped(make, True, only_matrices=matrices), wanted, precision))
                yield key, entry


# train_step

def combinations():
    adam = [dict(zip(("weight_decay", "amsgrad", "maximize"), values))
            for values in itertools.product((0.0, 0.1), (False, True), (False, True))]
    sgd = [dict(zip(("momentum", "nesterov", "weight_decay", "maximize"), values))
           for values in itertools.product((0.0, 0.9), (False, True), (0.0, 0.1), (False, True))]
    yield from ((torch.optim.AdamW, {"lr": 1e-2, **options}) for options in adam)
    yield from ((torch.optim.Adam, {"lr": 1e-2, **options}) for options in adam)
    yield torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1, "decoupled_weight_decay": True}
    yield torch.optim.AdamW, {"lr": 1e-2, "betas": (0.5, 0.7), "eps": 1e-3}
    yield torch.optim.AdamW, {"lr": torch.tensor(1e-2)}
    yield torch.optim.AdamW, {"lr": 1e-2, "foreach": True}
    yield torch.optim.AdamW, {"lr": 1e-2, "fused": True}
    yield torch.optim.AdamW, {"lr": 1e-2, "capturable": False}
    yield from ((torch.optim.SGD, {"lr": 1e-2, **options}) for options in sgd
                if options["momentum"] or not options["nesterov"])
    yield torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9, "dampening": 0.3}
    yield from ((torch.optim.Muon, {"lr": 1e-2, "weight_decay": decay, "nesterov": nesterov, "adjust_lr_fn": adjust})
                for decay in (0.0, 0.1) for nesterov in (False, True)
                for adjust in ("original", "match_rms_adamw"))
    yield from ((tcc.torch.Lion, {"lr": 1e-3, "weight_decay": decay, "betas": betas})
                for decay in (0.0, 0.1) for betas in ((0.9, 0.99), (0.5, 0.8)))


def trained(cls, options, compiled: bool, steps: int, clip, scheduled: bool):
    model = small_model()
    if cls.__name__ == "Muon": # it takes matrices alone; the others stay
        for parameter in model.parameters():
            parameter.requires_grad_(parameter.dim() == 2)
    optimizer = cls([p for p in model.parameters() if p.requires_grad],
                    **{k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in options.items()})
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) if scheduled else None
    step = tcc.torch.train_step(model, loss_of, optimizer, clip=clip) if compiled else None
    losses = []
    for x, y in data(steps):
        if compiled:
            losses.append(step(x, y).detach().clone())
        else:
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            losses.append(loss.detach().clone())
        if scheduler:
            scheduler.step()
    return losses + states_of(model, optimizer)


def steps(names: str):
    for cls, options in combinations():
        for clip, scheduled in ((None, False), (0.05, True)):
            described = ", ".join(f"{name}={value}" for name, value in options.items())
            key = f"step {cls.__name__} {described}{' clip, scheduler' if scheduled else ''}"
            if not re.search(names, key):
                continue

            def entry(cls=cls, options=options, clip=clip, scheduled=scheduled):
                wanted = trained(cls, options, False, 4, clip, scheduled)
                fresh()
                # Muon computes in bf16: its products differ in the last place.
                dtype = torch.bfloat16 if cls.__name__ == "Muon" else torch.float32
                try:
                    seen = trained(cls, options, True, 4, clip, scheduled)
                except TypeError as refusal: # an option that the documentation says is refused
                    return {**verdict(), "skipped": str(refusal)}
                return verdict(difference(seen, wanted, dtype))
            yield key, entry


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="modules,optimizers,steps")
    parser.add_argument("--names", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--samples", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {}
    if given.out and pathlib.Path(given.out).exists():
        for line in open(given.out):
            entry = json.loads(line)
            known[entry["key"]] = entry
    kinds = {"modules": lambda: modules(given.samples, given.names), "optimizers": lambda: optimizers(given.names),
             "steps": lambda: steps(given.names)}
    for kind in given.only.split(","):
        for key, run in kinds[kind]():
            if key in known:
                continue
            start = time.monotonic()
            try:
                entry = run()
            except Exception as problem:
                entry = {"wrong": [], "crash": [f"{type(problem).__name__}: {str(problem)[:400]}"], "fallbacks": []}
            entry = {"key": key, **entry, "seconds": round(time.monotonic() - start, 2)}
            known[key] = entry
            for sort in ("wrong", "crash"):
                for text in entry[sort]:
                    print(f"{sort}: {key}: {text}", flush=True)
            if given.out:
                with open(given.out, "a") as file:
                    file.write(json.dumps(entry) + "\n")
    bad = 0
    for kind in ("module", "optimizer", "step"):
        entries = [entry for key, entry in known.items() if key.startswith(kind + " ")]
        tried = [e for e in entries if not e.get("skipped") and e.get("samples", 1)]
        wrong, crash = (sum(bool(e[sort]) for e in tried) for sort in ("wrong", "crash"))
        native = sum(not (e["wrong"] or e["crash"] or e["fallbacks"]) for e in tried)
        bad += wrong + crash
        print(f"{kind}s: {len(tried)} entries, {native} native, {wrong} wrong, {crash} crash, "
              f"{len(tried) - native - wrong - crash} with fallback, {len(entries) - len(tried)} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
