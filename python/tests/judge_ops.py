"""PyTorch's own table of ops (op_db) as a judge: each op compiled by tcc, forward and backward, beside eager.

    judge_ops.py [--types f32,bf16,i64] [--samples 3] [--ops REGEX] [--out FILE.jsonl] [--seed 0]
    judge_ops.py --out FILE.jsonl --table docs/TORCH.md      writes the table of what FILE has into the document

An entry of an op and a type is judged by samples that the seed draws: the first contiguous, the second transposed, the
third expanded, and two more of size 0 and 1 made of the first; the first goes through Dynamo. Prints one line an entry
that is wrong or crashes, and counts at the end; status 1 where there is one. With --out, entries that the file has are
not run again, and one that ended the process (FILE.jsonl.now.ID has its name) is a crash.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import pathlib
import random
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch._dynamo
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import tcc.torch
from functorch.compile import aot_function
from tcc.torch import backend
from op_truth import difference, draws_numbers, outputs, run, truths, unlike

# The table's own way to seed what draws; run() does so, and Dynamo would break the graph there.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}
#: Results that are random, memory as it happens to be, or one of many right ones (signs of eigenvectors): only their
#: types and shapes are compared.
UNDEFINED = re.compile(r"empty|rand|bernoulli|multinomial|^normal|dropout|uniform|exponential|geometric|cauchy|poisson|"
                       r"rrelu|resize|fractional|log_normal|svd|eig|qr$|lstsq|pca_lowrank|gumbel")
BEGIN, END = "<!-- op_db -->\n", "<!-- end of op_db -->\n"


#: Entries where eager itself ends the process if there are no elements (its backward reads address 0).
NEVER_EMPTY = ("nn.functional.pdist",)
#: Entries with a wider tolerance, in units of the last place, and why.
WIDER = {"vector_norm": (8, "its gradient has the 5th power of a norm, which is itself rounded"),
         "conv": (8, "a gradient's sum has thousands of products, which eager adds in another order"),
         "bilinear": (8, "a sum of products of three, which eager adds in another order"),
         "multi_dot": (8, "a product of products, whose terms may cancel: for three 2 x 2 matrices a gradient of 14.6 is "
                          "off by 6.6 units where eager, which rounds other products, is off by 2.8"),
         "householder_product": (16, "its gradient multiplies by each reflector and by its inverse, which enlarges "
                                     "roundings: eager's own median is 13 units for 6 x 5 elements within 2 of 0")}
#: Entries that give elements and their places along a dim: of equal elements PyTorch takes some, without saying which.
PLACES = ("topk",)
#: Entries whose results are differences of terms of this size, and may be 0.
DIFFERENCES = {"nn.functional.cosine_embedding_loss": 1.0}


def units(op) -> int:
    return max([wider for name, (wider, _) in WIDER.items() if name in op.name], default=4)


def spread(tensor: torch.Tensor, kind: int) -> torch.Tensor:
    """Elements in another layout: transposed, or one row that is expanded."""
    if tensor.layout != torch.strided:
        return tensor
    if kind == 1 and tensor.dim() >= 2:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == 2 and tensor.dim() >= 1 and tensor.shape[0] > 1 and tensor.dtype.is_floating_point:
        return tensor[:1].expand_as(tensor)
    if kind == 2 and tensor.dim() >= 1:
        return torch.stack([tensor, tensor], -1)[..., 0]
    return tensor


def cut(leaves: list, size: int) -> list | None:
    """The leaves with `size` of their first dim, where all have the same."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors or any(t.layout != torch.strided or t.shape[0] != tensors[0].shape[0] for t in tensors):
        return None
    if tensors[0].shape[0] <= size:
        return None
    return [leaf[:size] if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf for leaf in leaves]


@dataclass
class Case:
    """A function of a list of leaves, and leaves."""

    name: str
    function: Callable
    leaves: list
    is_defined: bool  # that there is one right result; expected() finds that there is none where numbers are drawn
    dim: int | None = None  # of an entry of PLACES


def cases(op, dtype, count: int, seed: int):
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    random.Random(f"{op.name}.{op.variant_test_name}.{seed}").shuffle(samples)
    for number, sample in enumerate(samples[:count]):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

        def function(values, spec=spec):
            given, args, kwargs = pytree.tree_unflatten(values, spec)
            return op(given, *args, **kwargs)

        dim = sample.args[1] if len(sample.args) > 1 else sample.kwargs.get("dim", -1)
        dim = dim if op.name in PLACES else None
        is_defined = not UNDEFINED.search(op.name) and not sample.kwargs.get("dropout_p")
        yield Case(f"sample {number}", function, [spread(leaf, number % 3) if isinstance(leaf, torch.Tensor) else leaf
                                                  for leaf in leaves], is_defined, dim)
        if number == 0:
            for size in (1,) if op.name in NEVER_EMPTY else (0, 1):
                if smaller := cut(leaves, size):
                    yield Case(f"sample {number} of size {size}", function, smaller, is_defined, dim)


def without_choices(case: Case, results: list[torch.Tensor]) -> list[torch.Tensor]:
    """Results of an entry of PLACES as they are whichever of equal elements were taken: instead of a place the element
    there, and whether a place comes twice; instead of gradients their sums over elements that are equal."""
    if case.dim is None:
        return results
    x = case.leaves[0].detach().reshape(case.leaves[0].shape or (1,)).movedim(case.dim, -1)
    values, places, *gradients = (r.reshape(r.shape or (1,)).movedim(case.dim, -1) for r in results)
    twice = (places.sort(-1).values.diff(dim=-1) == 0).any(-1)
    equal = (x[..., None] == x[..., None, :]).double()
    return [values, x.gather(-1, places), twice, *((equal @ g.double()[..., None])[..., 0] for g in gradients)]


def expected(op, case: Case, backward: bool, seed: int, dtype):
    """Eager's results and those in float64 (None where eager has none); None where eager refuses the case or gives
    other results for the same elements in another layout."""
    function, leaves = case.function, case.leaves
    plain = [leaf.contiguous() if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided else leaf
             for leaf in leaves]
    try:
        eager = run(function, leaves, backward, seed)
        again = run(function, plain, backward, seed)
        case.is_defined = case.is_defined and not draws_numbers(function, leaves, backward, seed)
    except Exception:
        return None
    try:
        truth = truths(function, leaves, backward, seed, dtype) if dtype.is_floating_point else None
        if truth and any(len(t) != len(eager) or any(a.shape != b.shape for a, b in zip(t, eager)) for t in truth):
            truth = None
    except Exception:
        truth = None
    if case.is_defined and "as_strided" not in op.name and difference(again, eager, truth, dtype):
        return None
    return eager, truth


def compiled(function, leaves, through_dynamo: bool):
    """The function by the back end. Dynamo takes most of a case's time, and is PyTorch's: what it would hand over can
    also be traced by AOTAutograd alone, unless a value of a tensor decides what is traced."""
    if through_dynamo:
        return torch.compile(function, backend="tcc", dynamic=False)
    options = backend.Options.of(None, None)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def of_tensors(*tensors):
        values = list(leaves)
        for place, tensor in zip(places, tensors):
            values[place] = tensor
        return outputs(function(values))

    forward, backward, inference = (backend.compiler(kind, options, "op") for kind in ("forward", "backward", "inference"))
    traced = aot_function(of_tensors, forward, backward, inference_compiler=inference,
                          partition_fn=backend.min_cut_rematerialization_partition,
                          decompositions=backend.decompositions(), keep_inference_input_mutations=True)
    return lambda values: traced(*[values[place] for place in places])


def results_of(function, leaves, backward: bool, seed: int, number: int):
    """What the compiled function gives: the first case of an entry through Dynamo, others where they need it."""
    try:
        return run(compiled(function, leaves, number == 0), leaves, backward, seed)
    except Exception:
        if number == 0:
            raise
    torch._dynamo.reset()
    tcc.torch.reset()
    return run(compiled(function, leaves, True), leaves, backward, seed)


def traced_by_torch(function, leaves, backward: bool, seed: int):
    """What the graphs that torch traces give by ATen alone; None where it cannot trace them."""
    torch._dynamo.reset()
    try:
        return run(torch.compile(function, backend="aot_eager_decomp_partition", dynamic=False), leaves, backward, seed)
    except Exception:
        return None


def judge(op, dtype, count: int, seed: int) -> dict:
    entry = {"native": 0, "fallback": 0, "wrong": [], "crash": [], "eager": 0, "fallbacks": []}
    backward = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu")
    try:
        given = list(cases(op, dtype, count, seed))
    except Exception:
        return entry
    for number, case in enumerate(given):
        name, function, leaves = case.name, case.function, case.leaves
        right = expected(op, case, backward, seed, dtype)
        if right is None:
            entry["eager"] += 1
            continue
        torch._dynamo.reset()
        tcc.torch.reset()
        try:
            seen = results_of(function, leaves, backward, seed, number)
            wrong = unlike(seen, right[0])
            if case.is_defined:
                # Without float64 (integers whose results are floats) what eager itself is off is not known.
                allowed = units(op) * (1 if right[1] else 4)
                truth = right[1] and [without_choices(case, t) for t in right[1]]
                wrong = unlike(seen, right[0]) or difference(
                    without_choices(case, seen), without_choices(case, right[0]), truth, dtype, allowed,
                    DIFFERENCES.get(op.name, 1e-30))
        except Exception as problem:
            if traced_by_torch(function, leaves, backward, seed) is None:
                entry["eager"] += 1 # torch cannot trace it for any back end
            else:
                entry["crash"].append(f"{name}: {type(problem).__name__}: {str(problem)[:600]}")
            continue
        report = tcc.torch.report()
        found = {fallback.op for fallback in report.fallbacks}
        found |= {"graph break"} if report.breaks else set()
        entry.setdefault("reasons", []).extend(f"{f.op}: {f.reason}" for f in report.fallbacks)
        entry["reasons"] = sorted({*entry["reasons"], *(f"break: {text[:300]}" for text in report.breaks)})
        found |= {"whole graph"} if report.refused else set()
        if report.refused:
            entry["refused"] = report.refused[0][:600]
        if wrong:
            # What torch itself traces may be another formula than eager's: a gradient of products with a NaN.
            traced = traced_by_torch(function, leaves, backward, seed)
            if traced is None or difference(seen, traced, right[1], dtype):
                entry["wrong"].append(f"{name}: {wrong}")
            else:
                entry["torch's own formula"] = f"{name}: {wrong}"
        entry["fallbacks"] = sorted(set(entry["fallbacks"]) | found)
        entry["fallback" if found else "native"] += 1
    return entry


def key_of(op, name: str) -> str:
    return f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''} {name}"


def keys(types: list[str], ops: str = ""):
    """(key, op, type) of every entry, type by type, in an order that does not go by names."""
    order = list(op_db)
    random.Random(0).shuffle(order)
    for name in types:
        for op in order:
            if re.search(ops, op.name) and TYPES[name] in op.supported_dtypes("cpu"):
                yield key_of(op, name), op, TYPES[name]


def verdict(entry: dict) -> str:
    if entry["wrong"] or entry["crash"]:
        return "wrong"
    if entry["fallback"]:
        return "fallback"
    return "native" if entry["native"] else "not judged"


def read(path: str) -> dict:
    if not path or not pathlib.Path(path).exists():
        return {}
    return {entry["key"]: entry for entry in map(json.loads, open(path))}


class Results:
    """Entries by key, also in a file where one is named. Several processes may share the file: `FILE.now.ID` has the
    key that the process ID works on."""

    def __init__(self, path: str):
        self.path = pathlib.Path(path) if path else None
        self.entries: dict = {}
        for left in glob.glob(f"{path}.now.*") if path else ():
            if not pathlib.Path(f"/proc/{left.rsplit('.', 1)[1]}").exists():
                self.add({"key": pathlib.Path(left).read_text(), "native": 0, "fallback": 0, "wrong": [], "eager": 0,
                          "fallbacks": [], "crash": ["it ended the process"]})
                os.unlink(left)

    @property
    def now(self) -> pathlib.Path:
        return pathlib.Path(f"{self.path}.now.{os.getpid()}")

    @staticmethod
    def text_of(path: str) -> str:
        try:
            return pathlib.Path(path).read_text()
        except FileNotFoundError:  # its process has come to an end with it meanwhile
            return ""

    def begin(self, key: str) -> bool:
        """Whether the entry is this process's to judge: no other has begun it."""
        if self.path:
            self.entries |= read(self.path)
            busy = {self.text_of(other) for other in glob.glob(f"{self.path}.now.*")}
            if key in self.entries or key in busy:
                return False
            self.now.write_text(key)
        return True

    def add(self, entry: dict) -> None:
        self.entries[entry["key"]] = entry
        if self.path:
            with open(self.path, "a") as file:
                file.write(json.dumps(entry) + "\n")
            self.now.unlink(missing_ok=True)


def table(entries: dict) -> str:
    """The document's lines: counts for each type, and the names of what is not native."""
    lines = ["| type | entries | judged | native | with ATen | wrong |", "| --- | --- | --- | --- | --- | --- |"]
    for kind in TYPES:
        own = [verdict(e) for key, e in entries.items() if key.endswith(f" {kind}")]
        judged = [v for v in own if v != "not judged"]
        counts = len(list(keys([kind]))), len(judged), *(judged.count(v) for v in ("native", "fallback", "wrong"))
        lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    for kind in TYPES:
        names = sorted(key.split()[0] for key, e in entries.items()
                       if key.endswith(f" {kind}") and verdict(e) in ("fallback", "wrong"))
        lines += ["", f"With ATen, {kind}:", ""] + wrapped(names)
    return "\n" + "\n".join(lines) + "\n\n"


def wrapped(names: list[str]) -> list[str]:
    import textwrap
    return textwrap.wrap(", ".join(f"`{name}`" for name in names) or "none", 120, break_long_words=False,
                         break_on_hyphens=False)


def write_table(document: str, entries: dict) -> None:
    path = pathlib.Path(document)
    before, rest = path.read_text().split(BEGIN, 1)
    path.write_text(before + BEGIN + table(entries) + END + rest.split(END, 1)[1])


def summary(known: dict) -> str:
    verdicts = [verdict(e) for e in known.values()]
    return ", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("native", "fallback", "wrong", "not judged"))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="f32,bf16,i64")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--ops", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reverse", action="store_true", help="from the last entry to the first")
    parser.add_argument("--table", default="", help="the document whose table is written")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results = Results(given.out)
    if given.table:
        write_table(given.table, read(given.out))
        return 0
    order = list(keys(given.types.split(","), given.ops))
    for key, op, dtype in reversed(order) if given.reverse else order:
        if not results.begin(key):
            continue
        start = time.monotonic()
        entry = {"key": key, **judge(op, dtype, given.samples, given.seed)}
        entry["seconds"] = round(time.monotonic() - start, 2)
        results.add(entry)
        for kind in ("wrong", "crash"):
            for text in entry[kind]:
                print(f"{kind}: {key}: {text}", flush=True)
    print(summary(results.entries))
    return 1 if any(verdict(entry) == "wrong" for entry in results.entries.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
