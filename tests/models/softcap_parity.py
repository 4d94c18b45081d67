#!/usr/bin/env python3
"""models/softcap.graph, a custom op with a gradient of its own in front of a loss, beside PyTorch's autograd in fp64.

    softcap_parity.py TCC GRAPH

Status 77 where torch or numpy is missing.
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def main():
    tcc, graph = sys.argv[1:3]
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for seed in range(4):
            generator = numpy.random.default_rng(seed)
            logits = generator.normal(0, 30, (16, 100)).astype(numpy.float32)  # far into the bend
            targets = generator.integers(0, 100, 16).astype(numpy.int32)
            numpy.save(folder / "logits.npy", logits)
            numpy.save(folder / "targets.npy", targets)
            command = [tcc, graph, "--run", f"--threads={1 + seed % 2}"]
            for value in ("logits", "targets"):
                command.append(f"--input={value}={folder / value}.npy")
            for value in ("loss", "gradient"):
                command.append(f"--output={value}={folder / value}.npy")
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
            loss = torch.nn.functional.cross_entropy(30 * torch.tanh(x / 30), torch.tensor(targets, dtype=torch.int64))
            loss.backward()
            for seen, wanted in ((numpy.load(folder / "loss.npy"), loss.detach().numpy()),
                                 (numpy.load(folder / "gradient.npy"), x.grad.numpy())):
                worst = max(worst, float(numpy.abs(seen - wanted).max() / numpy.abs(wanted).max()))
    print(f"largest relative difference {worst:.2e}")
    return 0 if worst < 5e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
