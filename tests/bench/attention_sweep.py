#!/usr/bin/env python3
"""Naive attention beside flash attention over the sequence length: time and planned bytes, forward and training.

    tests/bench/attention_sweep.py [--tcc=build/bin/tcc] [--device=cuda] [--plot=F.svg] [--json=F.json]

Both compute causal attention of `--heads` heads: `naive` is written with tcc.attention and compiled with
-fno-match-attention, which stores the scores; `flash` is tcc.flash_attention, which the compiler makes of it otherwise.
Both are timed in turn, `--rounds` times, while their plans fit in the memory that is free and a run is expected to take
at most `--seconds`. What does not fit has planned bytes alone. What fits and would take longer is estimated from the
last length that was measured, by the square of the length, and marked by "~".
"""

import argparse
import sys

import sweep

FORMS = {"naive": ["-fno-match-attention"], "flash": []}
MEMORY_SHARE = 0.8  # of what is free


def graph(form, length, heads, size, is_training):
    tensor, turned = f"tensor<1x{heads}x{length}x{size}xf32>", f"tensor<1x{length}x{heads}x{size}xf32>"
    inputs = ["q", "k", "v"] + (["dy"] if is_training else [])
    results = ["y"] + (["dq", "dk", "dv"] if is_training else [])
    lines = [
        "func.func @attention(" + ", ".join(f'%{name}: {tensor} {{tcc.name = "{name}"}}' for name in inputs) + ") -> ("
        + ", ".join(f'{tensor} {{tcc.name = "{name}"}}' for name in results) + ") {"]
    scale = f"scale {size ** -0.5}"
    if form == "naive":
        lines.append(f"  %y = tcc.attention %q, %k, %v causal {scale} : {tensor}, {tensor}, {tensor}")
    else:
        lines += [f"  %t{name} = tcc.transpose %{name} [0, 2, 1, 3] : {tensor} -> {turned}" for name in "qkv"]
        lines += [f"  %f:2 = tcc.flash_attention %tq, %tk, %tv diagonal 0 {scale} : ({turned}, {turned}, {turned}) -> "
                  f"({turned}, tensor<1x{heads}x{length}xf32>)",
                  f"  %y = tcc.transpose %f#0 [0, 2, 1, 3] : {turned} -> {tensor}"]
    if is_training:  # the gradients of sum(y * dy)
        lines += [
            f"  %p = tcc.mul %y, %dy : {tensor}",
            f"  %s = tcc.reduce_sum %p axes [0, 1, 2, 3] : {tensor} -> tensor<1x1x1x1xf32>",
            "  %loss = tcc.reshape %s : tensor<1x1x1x1xf32> -> tensor<f32>",
            f"  %d:3 = tcc.gradient %loss wrt %q, %k, %v : tensor<f32>, {tensor}, {tensor}, {tensor}",
            f"  func.return %y, %d#0, %d#1, %d#2 : {tensor}, {tensor}, {tensor}, {tensor}"]
    else:
        lines.append(f"  func.return %y : {tensor}")
    return "\n".join(lines) + "\n}\n"


def runs_for(seconds):
    """How many runs of a bench take about half a second."""
    return max(1, min(20, int(0.5 / max(seconds, 1e-6))))


def expected_ms(point, last):
    """By the square of the length, from the last one that was measured; None where none was."""
    return last and last["ms"] * (point["length"] / last["length"]) ** 2


def measure(tcc, arguments):
    """[{"form", "mode", "length", "planned_bytes", "ms", "spread", "is_measured", "fits"}], naive and flash in turn."""
    points, last = [], {}
    memory = arguments.memory * 1e9 if arguments.memory else sweep.device_memory(arguments.device) * MEMORY_SHARE
    for mode in ("forward", "training"):
        length = arguments.first
        while length <= arguments.last:
            pair = []
            for form, flags in FORMS.items():
                path = tcc.file(f"{form}_{length}_{mode}.graph", graph(form, length, arguments.heads, arguments.size, mode == "training"))
                point = {"form": form, "mode": mode, "length": length, "path": path, "planned_bytes": tcc.planned_bytes(path, flags)}
                point["fits"] = point["planned_bytes"] <= memory
                point["expected_ms"] = expected_ms(point, last.get((form, mode)))
                point["times"] = []
                pair.append(point)
            for _ in range(arguments.rounds):
                for point in pair:
                    expected = point["expected_ms"] or 0
                    if point["fits"] and expected <= arguments.seconds * 1e3:
                        done = tcc.bench(point["path"], runs_for(expected / 1e3 if expected else 0.05), FORMS[point["form"]])
                        point["times"].append(done["ms"])
            print(f"{mode} {length}: measured", file=sys.stderr)
            for point in pair:
                times, expected = point.pop("times"), point.pop("expected_ms")
                point.pop("path")
                point["is_measured"] = bool(times)
                point["ms"] = sweep.median(times) if times else expected if point["fits"] else None
                point["spread"] = (max(times) - min(times)) / point["ms"] if times else None
                if times:
                    last[(point["form"], mode)] = point
                points.append(point)
            length *= 2
    return points


def rows_of(points):
    def time(point):
        if point["ms"] is None:
            return "does not fit"
        return f"{point['ms']:.3f}" if point["is_measured"] else f"~{point['ms']:.0f}"

    rows = []
    for naive, flash in zip(points[0::2], points[1::2]):
        known = naive["ms"] and flash["ms"]
        rows.append([f"{naive['mode']} {naive['length']}", time(naive), time(flash),
                     f"{naive['ms'] / flash['ms']:.2f}" if known else "-",
                     f"{naive['planned_bytes'] / 1e6:.3f}", f"{flash['planned_bytes'] / 1e6:.3f}",
                     f"{naive['planned_bytes'] / flash['planned_bytes']:.2f}"])
    return rows


def series(points, value):
    return [(f"{form}, {mode}", [(p["length"], p[value], p["is_measured"] or value != "ms") for p in points
                                 if p["form"] == form and p["mode"] == mode]) for mode in ("forward", "training") for form in FORMS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sweep.common_arguments(parser)
    parser.add_argument("--first", type=int, default=256, help="the shortest sequence (256); the next one is twice as long")
    parser.add_argument("--last", type=int, default=131072, help="the longest (131072)")
    parser.add_argument("--heads", type=int, default=2, help="heads (2)")
    parser.add_argument("--size", type=int, default=64, help="elements of a head (64)")
    parser.add_argument("--memory", type=float, help="gigabytes that a plan may take (four fifths of what is free)")
    parser.add_argument("--seconds", type=float, default=20, help="of a run at most; longer ones are estimated (20)")
    arguments = parser.parse_args()
    if not 1 <= arguments.first <= arguments.last or min(arguments.heads, arguments.size, arguments.rounds) < 1:
        parser.error("--first, --last, --heads, --size and --rounds are at least 1, and --first is at most --last")
    points = measure(sweep.tcc_of(arguments), arguments)
    head = ["T", "naive ms", "flash ms", "naive/flash", "naive MB", "flash MB", "naive/flash"]
    text = (f"causal attention, {arguments.heads} heads of {arguments.size}, {arguments.device}; medians of {arguments.rounds} rounds, "
            "planned MB; ~ is an estimate\n" + sweep.table(head, rows_of(points)))
    figures = {"version": 1, "device": arguments.device, "heads": arguments.heads, "size": arguments.size,
               "rounds": arguments.rounds, "points": points}
    panels = [sweep.Panel("time of attention (hollow: estimated)", "sequence length", "ms", series(points, "ms")),
              sweep.Panel("planned memory", "sequence length", "bytes", series(points, "planned_bytes"))]
    sweep.finish(arguments, text, figures, panels)


if __name__ == "__main__":
    main()
