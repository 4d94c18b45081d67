"""Ops over lists of tensors (`_foreach_add` and its like), which optimizers call, as one op for each tensor."""

from __future__ import annotations

import torch

aten = torch.ops.aten

#: The op of one tensor, where it is not torch's function of the same name.
SINGLE = {
    "copy": lambda x, source: source.to(x.dtype).expand_as(x).clone(),
    "maximum": lambda x, y: torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_min(x, y),
    "clamp_min": torch.clamp_min,
    "minimum": lambda x, y: torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_max(x, y),
    "clamp_max": torch.clamp_max,
    "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
    "addcmul": lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value),
    "addcdiv": lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value),
    "add": lambda x, y, alpha=1: torch.add(x, y, alpha=alpha),
    "sub": lambda x, y, alpha=1: torch.sub(x, y, alpha=alpha),
    "zero": torch.zeros_like,
}
NAMES = ("abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "copy", "cos",
         "cosh", "div", "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2",
         "max", "maximum", "minimum", "mul", "neg", "norm", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
         "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc", "zero")


def decomposition(name: str, overload: str):
    single = SINGLE.get(name) or getattr(torch, name)

    def apply(*args, **kwargs):
        count = next(len(arg) for arg in args if isinstance(arg, (list, tuple)))
        given = list(args)
        if overload == "Tensor" and name in ("addcdiv", "addcmul"): # the factors of all tensors, as one tensor
            given[-1] = [given[-1][i] for i in range(count)]
            return [x + given[-1][i] * (a * b if name == "addcmul" else a / b)
                    for i, (x, a, b) in enumerate(zip(*given[:3]))]
        rows = [[arg[i] if isinstance(arg, (list, tuple)) else arg for arg in given] for i in range(count)]
        return [single(*row, **kwargs) for row in rows]

    return apply


def decompositions() -> dict:
    """For each overload of an op over lists that gives new tensors."""
    table = {}
    for name in NAMES:
        packet = getattr(aten, f"_foreach_{name}", None)
        for overload in packet.overloads() if packet else ():
            if not overload.endswith("out"):
                table[getattr(packet, overload)] = decomposition(name, overload)
    return table
