#!/usr/bin/env python3
"""One training step of GPT-2 in PyTorch: eager, torch.compile (inductor), backend "tcc", tcc.torch.train_step, by turns.

    PYTHONPATH=build/python torch_step.py [--size char] [-B 16] [-T 256] [--bf16] [--rounds 5] [--ways eager,inductor,tcc,step]
                                          [--device cuda] [--cudnn]

Each round runs one step of each way; printed are the medians, their ratio to inductor's, the time of the first step, and
the loss after the same number of steps. The model is nanoGPT's: tied head, fused q, k, v, GELU by tanh.
"""

import argparse
import contextlib
import copy
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SIZES = {"baby": (256, 64, 4, 4, 128), "char": (256, 256, 6, 6, 384), "gpt2": (50257, 1024, 12, 12, 768)}


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.c_attn, self.c_proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.c_fc, self.c_out = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        batch, rows, size = x.shape
        q, k, v = (t.view(batch, rows, self.heads, size // self.heads).transpose(1, 2)
                   for t in self.c_attn(self.ln_1(x)).split(size, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, rows, size))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, positions, layers, heads, size):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, size), nn.Embedding(positions, size)
        self.blocks = nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(size)
        self.head = nn.Linear(size, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))


def optimizer_of(model, fused):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                             lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=fused)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="char", choices=SIZES)
    parser.add_argument("-B", type=int, default=16)
    parser.add_argument("-T", type=int, default=0)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cudnn", action="store_true", help="eager's and inductor's attention on a GPU by cuDNN")
    parser.add_argument("--ways", default="eager,inductor,tcc,step")
    parser.add_argument("--flags", default="", help="of tcc, separated by commas")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    import tcc.torch

    vocabulary, positions, layers, heads, size = SIZES[given.size]
    rows = given.T or positions
    torch.manual_seed(0)
    model = Gpt(vocabulary, positions, layers, heads, size).to(given.device)
    torch.backends.cuda.matmul.allow_tf32 = True
    options = {"flags": [flag for flag in given.flags.split(",") if flag]}
    steps = {}

    def attention(way):
        return sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if given.cudnn and way != "tcc" else contextlib.nullcontext()

    for way in given.ways.split(","):
        own = copy.deepcopy(model)
        optimizer = optimizer_of(own, fused=way != "step")
        autocast = lambda: torch.autocast(given.device, torch.bfloat16, enabled=given.bf16)
        if way == "step":
            def loss(model, x, y):
                with autocast():
                    return model(x, y)
            steps[way] = tcc.torch.train_step(own, loss, optimizer, clip=1.0, options=options)
            continue
        if way == "eager":
            forward = own
        elif way == "inductor":
            forward = torch.compile(own)
        else:
            forward = torch.compile(own, backend="tcc", options=options)

        def step(x, y, own=own, forward=forward, optimizer=optimizer, way=way):
            with autocast(), attention(way):
                loss = forward(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(own.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss

        steps[way] = step
    times = {way: [] for way in steps}
    losses, first = {}, {}
    for turn in range(given.rounds + 2):
        tokens = torch.randint(0, vocabulary, (given.B * rows + 1,)).to(given.device)
        x, y = tokens[:-1].view(given.B, rows).clone(), tokens[1:].view(given.B, rows).clone()
        for way, step in steps.items():
            start = time.perf_counter()
            losses[way] = step(x, y).item()
            took = time.perf_counter() - start
            if turn == 0:
                first[way] = took
            if turn >= 2:
                times[way].append(took)
    medians = {way: statistics.median(values) for way, values in times.items()}
    base = medians.get("inductor", next(iter(medians.values())))
    for way in steps:
        print(json.dumps({"way": way, "step_ms": round(medians[way] * 1e3, 1), "fastest_ms": round(min(times[way]) * 1e3, 1),
                          "times_inductor": round(base / medians[way], 3), "first_step_s": round(first[way], 2),
                          "loss": losses[way]}), flush=True)
    if given.report:
        print(tcc.torch.report())


if __name__ == "__main__":
    main()
