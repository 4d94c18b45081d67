"""What is right: results beside PyTorch's in float64, by the tolerance of docs/TORCH.md.

An element may be off by the largest of: 4 units in the last place of the tensor's largest element, 2 times (16-bit
types: 3 times) the largest error of eager, and what a change of the inputs by one unit in the last place does to it.
"""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree


def outputs(value) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def is_float(leaf) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point


def run(function, leaves, backward: bool, seed: int, narrow: torch.dtype | None = None, draws: int | None = None):
    """The function's results, then the gradients of its floating-point leaves along directions that the seed draws;
    with `narrow`, directions are rounded to this type first. `draws` is the seed of what the function itself draws, if
    it is another."""
    leaves = [leaf.detach().clone(memory_format=torch.preserve_format) if isinstance(leaf, torch.Tensor) else leaf
              for leaf in leaves]
    wanted = [leaf.requires_grad_() for leaf in leaves if backward and is_float(leaf)]
    torch.manual_seed(seed if draws is None else draws)
    made = outputs(function(leaves))
    scored = [m for m in made if m.requires_grad]
    if not wanted or not scored:
        return [m.detach() for m in made]
    generator = torch.Generator().manual_seed(seed)
    directions = [torch.randn(m.shape, generator=generator, dtype=torch.float32).to(narrow or m.dtype).to(m.dtype)
                  for m in scored]
    grads = torch.autograd.grad(scored, wanted, directions, allow_unused=True)
    return [m.detach() for m in made] + [g for g in grads if g is not None]


def draws_numbers(function, leaves, backward: bool, seed: int) -> bool:
    """Whether its results are others after another seed, as with dropout."""
    first, second = (run(function, leaves, backward, seed, draws=draws) for draws in (seed, seed + 1))
    return any(a.shape == b.shape and not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, second))


def moved(leaf, dtype, direction: float):
    """The leaf in float64, each element one unit in its last place of `dtype` away."""
    if not is_float(leaf) or leaf.dtype != dtype:
        return leaf
    wide = leaf.detach().to(torch.float64)
    return wide * (1 + direction * torch.finfo(dtype).eps)


def truths(function, leaves, backward: bool, seed: int, dtype) -> list[list[torch.Tensor]]:
    """The results in float64: of these leaves, and of leaves that are a little larger and smaller."""
    return [run(function, [moved(leaf, dtype, direction) for leaf in leaves], backward, seed, dtype)
            for direction in (0.0, 1.0, -1.0)]


def unlike(seen, wanted) -> str:
    """What number, types and shapes say."""
    if len(seen) != len(wanted):
        return f"{len(seen)} results, not {len(wanted)}"
    for n, (a, b) in enumerate(zip(seen, wanted)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {n}: {a.dtype} {tuple(a.shape)}, not {b.dtype} {tuple(b.shape)}"
    return ""


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


def unit(dtype: torch.dtype) -> float:
    """A unit in the last place of a number near 1."""
    return torch.finfo(dtype).eps


def difference(seen, eager, truth=None, dtype=torch.float32, units: int = 4,
               least: float = 1e-30) -> str:
    """How results differ from eager's, beside those in float64 if they are known; empty where they do not. `units` in
    the last place of a tensor's largest element, or of `least`, are allowed without a truth too."""
    if problem := unlike(seen, eager):
        return problem
    for n, (a, b) in enumerate(zip(seen, eager)):
        if a.layout != torch.strided or a.numel() == 0:
            continue
        if not (a.dtype.is_floating_point or a.dtype.is_complex):
            if not torch.equal(a, b):
                return f"result {n}: {(a != b).sum()} of {a.numel()} elements"
            continue
        coarse = max(unit(a.dtype), unit(dtype) if dtype.is_floating_point else 0.0)
        factor = 3 if coarse > 1e-4 else 2
        a, b = wide(a), wide(b)
        finite = torch.isfinite(b)
        if not torch.equal(torch.isfinite(a), finite) or not torch.equal(torch.nan_to_num(a[~finite], 7.0),
                                                                         torch.nan_to_num(b[~finite], 7.0)):
            return f"result {n}: infinite or NaN in other places"
        if not finite.any():
            continue
        scale = max(b[finite].abs().max().item(), least)
        allowed, right = torch.full(b.shape, units * coarse * scale, dtype=torch.float64), b
        if truth:
            right, up, down = (wide(t[n]).nan_to_num(0.0) for t in truth)
            own = torch.where(finite, (b - right).abs(), 0.0).max().item()
            apart = torch.maximum((up - right).abs(), (down - right).abs())
            allowed = torch.maximum(allowed.clamp(min=factor * own), apart)
        error = torch.where(finite, (a - right).abs(), 0.0)
        if (error > allowed).any():
            at = (error - allowed).argmax()
            return (f"result {n}: off by {error.flatten()[at]:.3g} of {scale:.3g}, "
                    f"where {allowed.flatten()[at]:.3g} is allowed")
    return ""
