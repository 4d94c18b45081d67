#!/usr/bin/env python3
"""Writes optimizers_expected.json: what PyTorch's optimizers, and Lion and Muon written down here, make of four parameters
in 20 steps, in double precision. optimizers_test.cpp does the same in compiled f32 steps. Needs numpy and torch.
"""
import json
import sys

import numpy as np
import torch

SHAPES = {"h.0.attn.weight": (5, 3), "h.0.mlp.weight": (3, 7), "h.0.mlp.bias": (4,), "wte.weight": (6, 3)}
STEPS = 20


def start():
    return {name: 0.3 * np.sin(0.7310585 * np.arange(np.prod(shape)) + k).reshape(shape).astype(np.float32)
            .astype(np.float64) for k, (name, shape) in enumerate(SHAPES.items())}


def gradients(step):
    return {name: ((1 + 0.1 * k) * np.sin(0.9 * np.arange(np.prod(shape)) + 0.37 * step + k)).reshape(shape)
            .astype(np.float32).astype(np.float64) for k, (name, shape) in enumerate(SHAPES.items())}


def rate(step):
    return float(np.float32(0.02 / (1 + 0.1 * step)))


def clipped(values, limit):
    norm = np.sqrt(sum((value ** 2).sum() for value in values.values()))
    scale = min(1, limit / (norm + 1e-6)) if limit else 1
    return {name: value * scale for name, value in values.items()}


def with_torch(make, limit=0):
    parameters = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start().items()}
    groups = [{"params": [p for p in parameters.values() if p.dim() >= 2]},
              {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = make(groups)
    for step in range(1, STEPS + 1):
        for name, value in clipped(gradients(step), limit).items():
            parameters[name].grad = torch.tensor(value)
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
    return {name: value.detach().numpy() for name, value in parameters.items()}


def lion(beta1=0.9, beta2=0.99, decay=0.1):
    x, m = start(), {name: np.zeros(shape) for name, shape in SHAPES.items()}
    for step in range(1, STEPS + 1):
        for name, g in gradients(step).items():
            direction = np.sign(beta1 * m[name] + (1 - beta1) * g)
            x[name] = x[name] - rate(step) * (direction + (decay if g.ndim > 1 else 0) * x[name])
            m[name] = beta2 * m[name] + (1 - beta2) * g
    return x


def muon(momentum=0.95, decay=0.1):
    rest = with_torch(lambda groups: torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, weight_decay=decay))
    x, m = start(), {name: np.zeros(shape) for name, shape in SHAPES.items()}
    for step in range(1, STEPS + 1):
        for name, g in gradients(step).items():
            if g.ndim != 2 or name.startswith("wte"):
                continue
            m[name] += (1 - momentum) * (g - m[name])
            y = g + momentum * (m[name] - g)
            y = y / (np.linalg.norm(y) + 1e-7)
            for _ in range(5):
                # The quintic 3.4445 s - 4.775 s^3 + 2.0315 s^5 of every singular value.
                left, s, right = np.linalg.svd(y, full_matrices=False)
                y = left @ np.diag(3.4445 * s - 4.7750 * s ** 3 + 2.0315 * s ** 5) @ right
            x[name] = x[name] * (1 - rate(step) * decay) - rate(step) * 0.2 * np.sqrt(max(g.shape)) * y
    return {name: x[name] if name in ("h.0.attn.weight", "h.0.mlp.weight") else rest[name] for name in SHAPES}


def main():
    optim = torch.optim
    eps = float(np.finfo(np.float32).eps)
    results = {
        "adamw": with_torch(lambda g: optim.AdamW(g, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)),
        "adamw-clipped": with_torch(lambda g: optim.AdamW(g, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1), 0.5),
        "sgd": with_torch(lambda g: optim.SGD(g, lr=1, momentum=0.9, weight_decay=0.1)),
        "adafactor": with_torch(lambda g: optim.Adafactor(g, eps=(eps, 1e-3), weight_decay=0.1)),
        "lion": lion(),
        "muon": muon(),
    }
    with open(sys.argv[1], "w") as file:
        json.dump({case: {name: value.reshape(-1).tolist() for name, value in values.items()}
                   for case, values in results.items()}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
