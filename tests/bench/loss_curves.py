#!/usr/bin/env python3
"""Held-out losses of several runs over their steps, as one SVG figure, from logs of `train_gpt --json --eval-every`.

    loss_curves.py FIGURE.svg TITLE NAME=LOG.jsonl NAME=LOG.jsonl ...

Prints for each run its last loss, and the first evaluation at which it is at most the first run's last one.
"""

import html
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 64, 150, 44, 52
COLOURS = ["#1f5fa8", "#c4501b", "#2f7d4f", "#7a4fa3"]


def curve(path):
    """[(steps done, held-out loss)]."""
    points = []
    with open(path) as lines:
        for line in lines:
            record = json.loads(line)
            if "step" in record and "val_loss" in record:
                points.append((record["step"] + 1, record["val_loss"]))
    if not points:
        sys.exit(f"{path}: no held-out losses; --eval-every=N writes them")
    return points


def round_step(span, parts):
    power = 10 ** math.floor(math.log10(span / parts))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= parts)


def figure(title, runs):
    steps = max(step for _, points in runs for step, _ in points)
    losses = [loss for _, points in runs for _, loss in points]
    unit = round_step(max(losses) - min(losses), 6)
    low, high = math.floor(min(losses) / unit) * unit, math.ceil(max(losses) / unit) * unit
    x = lambda step: LEFT + step / steps * (WIDTH - LEFT - RIGHT)
    y = lambda loss: TOP + (high - loss) / (high - low) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" '
           f'fill="#333"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{html.escape(title)}</text>']
    for i in range(round((high - low) / unit) + 1):
        value = low + i * unit
        out.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/><text x="{LEFT - 8}" '
                   f'y="{y(value) + 4:.1f}" text-anchor="end">{value:.1f}</text>')
    for value in range(0, steps + 1, round(round_step(steps, 6))):
        out.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{value}</text>')
    last = runs[0][1][-1][1]
    out.append(f'<path d="M{LEFT} {y(last):.1f}H{WIDTH - RIGHT}" stroke="#888" stroke-dasharray="4 4"/>')
    for (name, points), colour in zip(runs, COLOURS):
        path = "L".join(f"{x(step):.1f} {y(loss):.1f}" for step, loss in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>'
                   f'<text x="{x(points[-1][0]) + 8:.1f}" y="{y(points[-1][1]) + 4:.1f}" fill="{colour}">{html.escape(name)} '
                   f'{points[-1][1]:.3f}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">steps</text><text '
               f'transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">held-out loss</text></svg>')
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    runs = [(name, curve(path)) for name, path in (argument.split("=", 1) for argument in sys.argv[3:])]
    with open(sys.argv[1], "w") as file:
        file.write(figure(sys.argv[2], runs))
    last = runs[0][1][-1][1]
    for name, points in runs:
        reached = next((step for step, loss in points if loss <= last), None)
        print(f"{name}: {points[-1][1]:.4f} after {points[-1][0]} steps; at most {last:.4f} after {reached} steps")


if __name__ == "__main__":
    main()
