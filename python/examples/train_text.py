#!/usr/bin/env python3
"""Trains a small GPT on the bytes of a text file, for about a minute on two cores; prints the loss and writes a sample.

    train_text.py FILE [--seconds 60] [--plain] [--device cpu]

With --plain the model is compiled by torch.compile(backend="tcc") and torch's optimizer runs; without, the whole step is
one executable.
"""

import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import tcc.torch

ROWS, BATCH = 128, 16


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        batch, rows, size = x.shape
        q, k, v = (t.view(batch, rows, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln_1(x)).split(size, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, rows, size)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, size=192, heads=6, layers=4):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, size), nn.Embedding(ROWS, size)
        self.blocks = nn.Sequential(*[Block(size, heads) for _ in range(layers)])
        self.ln_f, self.head = nn.LayerNorm(size), nn.Linear(size, 256, bias=False)
        self.head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        return self.head(self.ln_f(self.blocks(x)))


def loss_of(model, tokens, targets):
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    given = parser.parse_args()
    text = torch.frombuffer(bytearray(open(given.file, "rb").read()), dtype=torch.uint8).long().to(given.device)
    torch.manual_seed(0)
    model = Gpt().to(given.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1)
    if given.plain:
        compiled = torch.compile(model, backend="tcc")

        def step(tokens, targets):
            loss = loss_of(compiled, tokens, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return loss
    else:
        step = tcc.torch.train_step(model, loss_of, optimizer, clip=1.0)

    start, done, shown = time.monotonic(), 0, 0.0
    while time.monotonic() - start < given.seconds:
        at = torch.randint(len(text) - ROWS - 1, (BATCH,))
        tokens, targets = (torch.stack([text[i + n:i + n + ROWS] for i in at]) for n in (0, 1))
        optimizer.param_groups[0]["lr"] = 1e-3 * min(1, (done + 1) / 50)
        loss = step(tokens, targets).item()
        done += 1
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"step {done}: loss {loss:.3f}, {done * BATCH * ROWS / (shown - start):.0f} tokens/s", flush=True)
    print(tcc.torch.report())
    model.eval()
    line = text[:ROWS].clone()
    with torch.no_grad():
        for _ in range(200):
            logits = model(line[None, -ROWS:])[0, -1] / 0.8
            line = torch.cat([line, torch.multinomial(logits.softmax(-1), 1)])
    print(bytes(line[ROWS:].tolist()).decode(errors="replace"))
    assert math.isfinite(loss)


if __name__ == "__main__":
    main()
