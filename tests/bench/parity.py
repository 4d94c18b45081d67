#!/usr/bin/env python3
"""Parity with PyTorch: the same weights and tokens, losses and first gradients beside each other.

  parity.py --train build/bin/train_gpt --peer tests/bench/torch_gpt.py                  baby and char, 20 steps
  parity.py --train build/bin/train_gpt --folder DIR                         an export that is there already
  parity.py --train build/bin/train_gpt --peer tests/bench/torch_gpt.py --size gpt2 -B 1 -T 256 --steps 5

The peer is a PyTorch program that, called with --size S -B B --steps N --export DIR, writes config.json,
model.safetensors, tokens.bin (uint16), losses.json and grads.safetensors (first step, unclipped) under Hugging Face's
names; its step is AdamW (3e-4, 0.9/0.95, 1e-8, decay 0.1 on matrices) with gradients clipped to norm 1.

Agreement: every loss within 1e-4 relative, every parameter's gradient within 1e-4 of its norm. Exit status 1 otherwise.
Needs numpy; the peer needs torch and safetensors.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

LIMIT = 1e-4


def tensors(path):
    """The F32 tensors of a safetensors file by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"]).astype(np.float64)
        for name, entry in header.items()
    }


def export(options, size, folder):
    command = [options.python, options.peer, "--size", size, "-B", str(options.batch), "--steps", str(options.steps)]
    command += ["--export", folder] + (["-T", str(options.sequence)] if options.sequence else [])
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def train(options, folder, flags):
    """Losses of train_gpt from the export's weights and tokens; its gradients go to `folder`."""
    log, gradients = os.path.join(folder, "tcc.jsonl"), os.path.join(folder, "tcc-grads.safetensors")
    sequence = json.load(open(os.path.join(folder, "config.json")))["n_positions"]
    command = [options.train, "--init", folder, "--data", os.path.join(folder, "tokens.bin"), "--order=sequential"]
    command += ["--batch", str(options.batch), "--seq", str(sequence), "--steps", str(options.steps), "--lr", "3e-4"]
    command += ["--schedule=constant", "--quiet", "--json", log, "--dump-grads", gradients] + flags
    subprocess.run(command, check=True)
    steps = [json.loads(line) for line in open(log)][:-1]
    return np.array([step["loss"] for step in steps]), tensors(gradients)


def compare(name, folder, losses, gradients):
    """Prints both figures; whether they are within the limit."""
    expected = np.array(json.load(open(os.path.join(folder, "losses.json"))))
    if losses.shape != expected.shape:
        print(f"{name}: {len(losses)} losses beside {len(expected)} of the peer")
        return False
    loss_error = np.abs(losses / expected - 1)
    peer = tensors(os.path.join(folder, "grads.safetensors"))
    if peer.keys() != gradients.keys():
        print(f"{name}: gradients of other parameters: {sorted(peer.keys() ^ gradients.keys())}")
        return False
    errors = {}
    for key, value in peer.items():
        norm = np.linalg.norm(value)
        errors[key] = np.linalg.norm(gradients[key] - value) / norm if norm > 0 else np.linalg.norm(gradients[key])
    worst = max(errors, key=errors.get)
    good = bool(loss_error.max() <= LIMIT and errors[worst] <= LIMIT)
    print(f"{name}: {len(losses)} losses {losses[0]:.4f} → {losses[-1]:.4f} (peer {expected[0]:.4f} → {expected[-1]:.4f}),"
          f" largest relative difference {loss_error.max():.1e} at step {int(loss_error.argmax())};"
          f" {len(errors)} gradients, largest difference {errors[worst]:.1e} of the norm ({worst})"
          f" [{'agrees' if good else 'DIFFERS'}, limit {LIMIT:.0e}]")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="the program train_gpt")
    parser.add_argument("--peer", help="the PyTorch program")
    parser.add_argument("--folder", help="compare with this export; the peer is not run")
    parser.add_argument("--python", default=sys.executable, help="Python with torch, for the peer")
    parser.add_argument("--size", action="append", help="preset, repeatable (baby and char)")
    parser.add_argument("-B", "--batch", type=int, default=4)
    parser.add_argument("-T", "--sequence", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--flag", action="append", default=[], help="another flag for train_gpt: --flag=-O0")
    options = parser.parse_args()
    if not options.peer and not options.folder:
        parser.error("--peer or --folder is needed")
    good = True
    with tempfile.TemporaryDirectory(prefix="tcc-parity-") as temporary:
        for size in options.size or (["export"] if options.folder else ["baby", "char"]):
            folder = options.folder or os.path.join(temporary, size)
            if not options.folder:
                export(options, size, folder)
            good &= compare(size, folder, *train(options, folder, options.flag))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
