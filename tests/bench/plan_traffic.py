#!/usr/bin/env python3
"""Memory traffic of a training step's plan, a token, without a device.

    plan_traffic.py SMALL.json SMALL_TOKENS LARGE.json LARGE_TOKENS [--most KB]

Both are plans (tcc FILE --target=cuda -emit=json) of one model at two batch sizes. A call's bytes are the plan's: each
operand as its view reaches and each result, once. What grows with the batch is counted a token: the difference of the
plans over the difference of the tokens; the rest (weights, moments, casts of weights) is counted a step. Products and
attention stand apart; of the rest, "elementwise" is all but kernels over rows as wide as --vocabulary (losses over
logits). With --most the exit status is 1 where elementwise traffic is above it.
"""
import argparse
import collections
import json


def traffic(path, wide):
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    buffers = plan["buffers"]
    kinds = collections.Counter()
    labels = collections.Counter()
    launches = 0
    for call in plan["instructions"]:
        launches += 1
        kind = "elementwise"
        if call["op"] == "matmul":
            kind = "products"
        elif "attention" in call["label"]:
            kind = "attention"
        elif call["op"] == "launch":
            sizes = [buffers[slot["buffer"]]["bytes"] for slot in call["pointers"]]
            if any(size in wide for size in sizes):
                kind = "loss"
        kinds[kind] += call["bytes"]
        labels[kind, call["label"]] += call["bytes"]
    return kinds, labels, launches


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("small")
    parser.add_argument("small_tokens", type=int)
    parser.add_argument("large")
    parser.add_argument("large_tokens", type=int)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--most", type=float, help="KB of elementwise traffic a token")
    options = parser.parse_args()

    def logits(tokens):
        padded = (options.vocabulary + 63) // 64 * 64
        return {tokens * vocabulary * width for vocabulary in (options.vocabulary, padded) for width in (2, 4)}

    small, small_labels, _ = traffic(options.small, logits(options.small_tokens))
    large, large_labels, launches = traffic(options.large, logits(options.large_tokens))
    tokens = options.large_tokens - options.small_tokens

    def share(a, b):
        slope = (b - a) / tokens
        return slope / 1e3, (b - slope * options.large_tokens) / 1e6

    print(f"{launches} launches")
    print(f"{'KB a token':>12} {'MB a step':>10}")
    for kind in ("elementwise", "loss", "attention", "products"):
        a_token, a_step = share(small[kind], large[kind])
        print(f"{a_token:12.1f} {a_step:10.1f}  {kind}")
        rows = [(share(small_labels[key], large_labels[key]), key[1]) for key in large_labels if key[0] == kind]
        for (row_token, row_step), label in sorted(rows, reverse=True):
            if row_token >= 1 or row_step >= 50:
                print(f"{row_token:12.1f} {row_step:10.1f}      {label}")
    elementwise = share(small["elementwise"], large["elementwise"])[0]
    return int(options.most is not None and elementwise > options.most)


if __name__ == "__main__":
    raise SystemExit(main())
