"""PyTorch's own table of ops (op_db) as a judge: each op compiled by tcc, forward and backward, against eager.

    judge_ops.py [--types f32,bf16,i64] [--samples 3] [--ops REGEX] [--out FILE.jsonl] [--seed 0]

Prints one line an op and type that is wrong or crashes, and a table at the end; status 1 where there is one. With
--out, entries that the file has are not run again.
"""

from __future__ import annotations

import argparse
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
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import tcc.torch

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}
#: Results that are random, or memory as it happens to be.
UNDEFINED = re.compile(r"empty|rand|bernoulli|multinomial|normal|dropout|uniform|exponential|geometric|cauchy|poisson|"
                       r"rrelu|_like$|new_empty|resize|fractional|linalg.*(svd|eig|qr|lstsq|pca)|pca_lowrank|svd|eig|qr$")


def spread(tensor: torch.Tensor, kind: int) -> torch.Tensor:
    """The same elements in another layout."""
    if tensor.layout != torch.strided:
        return tensor
    if kind == 1 and tensor.dim() >= 2:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == 2 and tensor.dim() >= 1:
        return torch.stack([tensor, tensor], -1)[..., 0]
    return tensor


def outputs(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def run(function, leaves, backward: bool, seed: int):
    leaves = [leaf.detach().clone(memory_format=torch.preserve_format) if isinstance(leaf, torch.Tensor) else leaf
              for leaf in leaves]
    wanted = []
    for leaf in leaves:
        if backward and isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point:
            leaf.requires_grad_()
            wanted.append(leaf)
    torch.manual_seed(seed)
    made = outputs(function(leaves))
    if not wanted:
        return made
    scored = [m for m in made if m.requires_grad]
    if not scored:
        return [m.detach() for m in made]
    generator = torch.Generator().manual_seed(seed)
    directions = [torch.randn(m.shape, generator=generator, dtype=torch.float32).to(m.dtype) for m in scored]
    grads = torch.autograd.grad(scored, wanted, directions, allow_unused=True)
    return [m.detach() for m in made] + [g for g in grads if g is not None]


def difference(seen, wanted, dtype) -> str:
    if len(seen) != len(wanted):
        return f"{len(seen)} results, not {len(wanted)}"
    tolerance = {torch.bfloat16: 3e-2, torch.float32: 2e-5}.get(dtype, 2e-5)
    for n, (a, b) in enumerate(zip(seen, wanted)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {n}: {a.dtype} {tuple(a.shape)}, not {b.dtype} {tuple(b.shape)}"
        if a.layout != torch.strided or a.numel() == 0:
            continue
        if not (a.dtype.is_floating_point or a.dtype.is_complex):
            if not torch.equal(a, b):
                return f"result {n}: {(a != b).sum()} of {a.numel()} elements"
            continue
        a, b = a.to(torch.complex128 if a.dtype.is_complex else torch.float64), b.to(
            torch.complex128 if b.dtype.is_complex else torch.float64)
        finite = torch.isfinite(b)
        if not torch.equal(torch.isfinite(a), finite) or not torch.equal(torch.nan_to_num(a[~finite], 7.0),
                                                                         torch.nan_to_num(b[~finite], 7.0)):
            return f"result {n}: infinite or NaN in other places"
        if finite.any():
            scale = max(b[finite].abs().max().item(), 1e-30)
            error = (a[finite] - b[finite]).abs().max().item()
            if error > tolerance * scale:
                return f"result {n}: apart by {error:.3g} of {scale:.3g}"
    return ""


def judge(op, dtype, count: int, seed: int) -> dict:
    entry = {"native": 0, "fallback": 0, "wrong": [], "crash": [], "eager": 0, "fallbacks": []}
    backward = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu")
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception:
        return entry
    random.Random(f"{op.name}.{op.variant_test_name}.{seed}").shuffle(samples)
    for number, sample in enumerate(samples[:count]):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        leaves = [spread(leaf, number % 3) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

        def function(values):
            given, args, kwargs = pytree.tree_unflatten(values, spec)
            return op(given, *args, **kwargs)

        plain = [leaf.contiguous() if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided else leaf
                 for leaf in leaves]
        try:
            wanted = run(function, leaves, backward, seed)
            # What eager gives for another layout of the same elements is other than for this one: memory that was
            # never written, or an op about memory itself.
            known = "as_strided" in op.name or not difference(run(function, plain, backward, seed), wanted, dtype)
        except Exception:
            known = False
        if not known:
            entry["eager"] += 1
            continue
        torch._dynamo.reset()
        tcc.torch.reset()
        try:
            seen = run(torch.compile(function, backend="tcc", dynamic=False), leaves, backward, seed)
            wrong = "" if UNDEFINED.search(op.name) else difference(seen, wanted, dtype)
        except Exception as problem:
            entry["crash"].append(f"sample {number}: {type(problem).__name__}: {str(problem)[:600]}")
            continue
        found = sorted({fallback.op for fallback in tcc.torch.report().fallbacks})
        for why in tcc.torch.report().refused:
            found.append("whole graph")
            entry["refused"] = why[:600]
        if wrong:
            # What torch itself traces may be another formula than eager's: a gradient of products with a NaN.
            torch._dynamo.reset()
            traced = run(torch.compile(function, backend="aot_eager_decomp_partition", dynamic=False), leaves, backward, seed)
            if difference(seen, traced, dtype):
                entry["wrong"].append(f"sample {number}: {wrong}")
        entry["fallbacks"] = sorted(set(entry["fallbacks"]) | set(found))
        entry["fallback" if found else "native"] += 1
    return entry


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="f32,bf16,i64")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--ops", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="K/N: every N-th op from the K-th")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {}
    if given.out and pathlib.Path(given.out).exists():
        for line in open(given.out):
            entry = json.loads(line)
            known[entry["key"]] = entry
    part, parts = map(int, given.part.split("/"))
    for op in op_db[part::parts]:
        if given.ops and not re.search(given.ops, op.name):
            continue
        for name in given.types.split(","):
            key = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''} {name}"
            if key in known or TYPES[name] not in op.supported_dtypes("cpu"):
                continue
            start = time.monotonic()
            entry = {"key": key, **judge(op, TYPES[name], given.samples, given.seed)}
            entry["seconds"] = round(time.monotonic() - start, 2)
            known[key] = entry
            for kind in ("wrong", "crash"):
                for text in entry[kind]:
                    print(f"{kind}: {key}: {text}", flush=True)
            if given.out:
                with open(given.out, "a") as file:
                    file.write(json.dumps(entry) + "\n")
    entries = [entry for entry in known.values() if entry["native"] or entry["fallback"] or entry["wrong"] or entry["crash"]]
    count = {"entries": len(entries), "wrong": sum(bool(e["wrong"]) for e in entries),
             "crash": sum(bool(e["crash"]) for e in entries),
             "native": sum(not e["fallback"] and not e["wrong"] and not e["crash"] for e in entries),
             "with fallback": sum(bool(e["fallback"]) for e in entries)}
    print(", ".join(f"{value} {key}" for key, value in count.items()))
    return 1 if count["wrong"] or count["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
