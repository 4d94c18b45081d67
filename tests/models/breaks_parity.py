#!/usr/bin/env python3
"""A GPT whose step asks for its loss, prints it, branches on it, loops by it and has a cond, against eager PyTorch.

  breaks_parity.py --program build/tests/breaks_losses

50 losses within 1e-4 relative; the loop takes 3 turns, then 7; the report names every break at its line, and 50 calls
compile no more than the ways that were taken need. Exit status 77 where PyTorch is not installed, 1 where something
differs.
"""
import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
try:
    import numpy as np
    import torch
    from torch_gpt import loss_of
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LAYERS, HEADS, SEQUENCE, VOCABULARY, BATCH = 2, 2, 16, 29, 4
MOST_COMPILED = 12  # the loss, the turns, the branch; a step for 3 and 7 turns, with and without it, as first and with scalars


def load(path):
    """The f32 tensors of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            values = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).copy()
            tensors[name.removeprefix("transformer.")] = torch.from_numpy(values).requires_grad_()
    return tensors


def tokens(shift):
    i = torch.arange(BATCH * SEQUENCE)
    place = (i // SEQUENCE) * 7 + i % SEQUENCE + shift
    return ((place * place + 3 * place) % VOCABULARY).reshape(BATCH, SEQUENCE)


def train(weights):
    """Losses and turns of the step as it stands in breaks_losses.cpp."""
    losses, taken, last = [], [], 3.4
    for number in range(50):
        bound, limit = 1.4 * last / 2 ** (3 if number < 25 else 7), 100.0 if number % 3 else 0.0
        for weight in weights.values():
            weight.grad = None
        loss = loss_of(weights, tokens(0), tokens(1), LAYERS, HEADS)
        turns, left = 0, loss
        while left > bound:
            left, turns = left * 0.5, turns + 1
        trained = loss * (1.0 / (1.0 + loss.item()))
        if loss > limit:
            trained = trained * 0.5
        trained = trained * (1.0 + 0.125 * turns)
        if loss > 3.0:
            trained = trained * (1.0 - 0.1 * torch.tanh(trained))
        else:
            trained = trained + 0.01 * (weights["wte.weight"] ** 2).mean()
        trained.backward()
        with torch.no_grad():
            for weight in weights.values():
                weight -= 0.1 * weight.grad
        last = loss.item()
        losses.append(last)
        taken.append(turns)
    return losses, taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/first.safetensors"
        command = [parser.parse_args().program, path]
        text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
        wanted, turns = train(load(path))
    found = [float(line.split(" = ")[1]) for line in text.splitlines() if line.startswith("loss = ")]
    wrong = []
    if turns != [3] * 25 + [7] * 25:
        wrong.append(f"PyTorch's loop took {turns} turns")
    if len(found) != len(wanted):
        wrong.append(f"{len(found)} losses were printed, {len(wanted)} expected")
    worst = max(abs(a - b) / b for a, b in zip(found, wanted))
    if worst > 1e-4:
        wrong.append(f"losses differ by up to {worst:.2e} relative, 1e-4 allowed")
    if wanted[-1] > 0.8 * wanted[0]:
        wrong.append(f"the loss goes from {wanted[0]} to {wanted[-1]} only")
    if not wanted[-1] < 3.0 < wanted[0]:
        wrong.append(f"the cond takes one body alone: losses from {wanted[0]} to {wanted[-1]}")
    source = (ROOT / "tests/models/breaks_losses.cpp").read_text().splitlines()
    for piece in ("loss.item()", 'print("loss", loss)', "left > bound", "if (loss > limit)"):
        line = next(i for i, text in enumerate(source, 1) if piece in text)
        if f"breaks_losses.cpp:{line}:" not in text:
            wrong.append(f"the report names no break at line {line}, `{piece}`")
    compiled = int(re.search(r"(\d+) compilations", text)[1])
    if compiled > MOST_COMPILED:
        wrong.append(f"{compiled} compilations, at most {MOST_COMPILED} expected")
    print(*wrong, f"50 losses within {worst:.1e} of PyTorch's, {compiled} compilations", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
