#!/usr/bin/env python3
"""A step of AdamW, SGD, Lion, Adafactor and Muon over the number and the size of tensors: time, share of the memory's
bandwidth, kernels, planned bytes.

    tests/bench/optimizer_sweep.py [--tcc=build/bin/tcc] [--device=cuda] [--plot=F.svg] [--json=F.json]

Parameters are square matrices in f32; a step clips the gradients' norm, so gradients are read twice. `bandwidth` is what
the step's instructions read and write, as the plan counts it, over the time of the step, as a share of what memory
allows (tcc --calibrate): above 100 % a cache has the data. Optimizers are timed in turn, `--rounds` times. Sizes whose
parameters together have more than `--elements` elements are left out.
"""

import argparse
import os
import re
import struct
import subprocess
import sys

import sweep

OPTIMIZERS = ["adamw", "sgd", "lion", "adafactor", "muon"]


def zeros(shape):
    """The bytes of a .npy file of f32 zeros."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    count = 1
    for n in shape:
        count *= n
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(4 * count)


def scalar(value):
    return zeros(())[:-4] + struct.pack("<f", value)


def numbers(text):
    values = [int(word) for word in text.split(",") if word]
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers above 0, such as 1,10,100")
    return values


class Step:
    """One optimizer over `count` matrices of `side` x `side`: its graph, with moments of zeros, and its times."""

    def __init__(self, tcc, program, name, count, side):
        self.tcc, self.name, self.count, self.side = tcc, name, count, side
        done = subprocess.run([program, name, str(count), str(side)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{program} {name} {count} {side}: {done.stderr.strip()}")
        self.graph = tcc.file(f"{name}_{count}_{side}.graph", done.stdout)
        self.response = tcc.file(f"{name}_{count}_{side}.inputs", "\n".join(self._inputs(done.stdout)) + "\n")
        self.times, self.figures = [], None

    def _inputs(self, text):
        """Each moment is a file of zeros; random ones would make square roots of negative numbers."""
        yield f"--input lr={self.tcc.file('lr.npy', scalar(1e-3))}"
        yield f"--input step={self.tcc.file('step.npy', scalar(1.0))}"
        for shape, name in re.findall(r'tensor<([\dx]*)xf32> \{[^}]*tcc\.name = "(p\d+\.[^"]+)"', text):
            sizes = [int(n) for n in shape.split("x") if n]
            path = self.tcc.file(f"zeros_{shape}.npy", zeros(sizes))
            yield f"--input {name}={path}"

    def measure(self, runs):
        self.figures = self.tcc.bench(self.graph, runs, [f"@{self.response}"])
        self.times.append(self.figures["ms"])

    def launches(self, is_matmul):
        """Equal kernels of many tensors are one launch."""
        rows = self.figures["profile"]["rows"]
        return round(sum(row["calls"] for row in rows if (row["category"] == "matmul") == is_matmul))

    def point(self):
        ms = sweep.median(self.times)
        bytes_moved = sum(row["bytes"] for row in self.figures["profile"]["rows"])
        limit = self.figures["limits"]["bytes_per_second"]
        bandwidth = bytes_moved / (ms * 1e-3)
        return {"optimizer": self.name, "tensors": self.count, "side": self.side, "elements": self.count * self.side ** 2, "ms": ms,
                "spread": (max(self.times) - min(self.times)) / ms, "bytes": bytes_moved, "bytes_per_second": bandwidth,
                "bandwidth_share": bandwidth / limit if limit else None, "kernels": self.launches(is_matmul=False),
                "matmuls": self.launches(is_matmul=True), "planned_bytes": self.figures["planned_bytes"]}


def measure(tcc, arguments):
    points = []
    for count in arguments.tensors:
        for side in arguments.sides:
            if count * side ** 2 > arguments.elements:
                continue
            steps = [Step(tcc, arguments.graph, name, count, side) for name in arguments.optimizers]
            runs = max(1, min(20, 20_000_000 // (count * side ** 2)))
            for _ in range(arguments.rounds):
                for step in steps:
                    step.measure(runs)
            points += [step.point() for step in steps]
            print(f"{count} x {side}x{side}: measured", file=sys.stderr)
    return points


def rows_of(points):
    def share(point):
        return "-" if point["bandwidth_share"] is None else f"{100 * point['bandwidth_share']:.1f} %"

    return [[f"{p['optimizer']} {p['tensors']} x {p['side']}x{p['side']}", f"{p['ms']:.4f}", f"{100 * p['spread']:.1f} %",
             f"{p['bytes_per_second'] * 1e-9:.2f}", share(p), str(p["kernels"]), str(p["matmuls"]), f"{p['planned_bytes'] / 1e6:.3f}"]
            for p in points]


def panels_of(points, optimizers):
    """Over the number of tensors at one size, and over their size at one number: those of which there is most."""
    def most(key, other):
        return max({p[key] for p in points}, key=lambda value: (len({p[other] for p in points if p[key] == value}), value))

    side, count = most("side", "tensors"), most("tensors", "side")

    def series(fixed, value, x, y):
        return [(name, [(p[x], p[y], True) for p in points if p["optimizer"] == name and p[fixed] == value]) for name in optimizers]

    return [sweep.Panel(f"a step over matrices of {side} x {side}", "tensors", "ms", series("side", side, "tensors", "ms")),
            sweep.Panel(f"share of the memory's bandwidth, {count} tensor{'' if count == 1 else 's'}", "elements of all", "share",
                        series("tensors", count, "elements", "bandwidth_share"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sweep.common_arguments(parser)
    parser.add_argument("--graph", help="the program optimizer_graph (bin/optimizer_graph beside --tcc)")
    parser.add_argument("--optimizers", type=lambda text: text.split(","), default=OPTIMIZERS, help="some of " + ",".join(OPTIMIZERS))
    parser.add_argument("--tensors", type=numbers, default=[1, 10, 100, 1000], help="numbers of tensors (1,10,100,1000)")
    parser.add_argument("--sides", type=numbers, default=[32, 128, 512, 2048], help="sides of the matrices (32,128,512,2048)")
    parser.add_argument("--elements", type=int, default=1 << 24, help="of all parameters, at most (16777216)")
    arguments = parser.parse_args()
    for name in arguments.optimizers:
        if name not in OPTIMIZERS:
            parser.error(f"unknown optimizer '{name}' (one of {' '.join(OPTIMIZERS)})")
    arguments.graph = arguments.graph or os.path.join(os.path.dirname(arguments.tcc), "optimizer_graph")
    if not os.access(arguments.graph, os.X_OK):
        parser.error(f"--graph={arguments.graph} is no program; it is built by `ninja -C build optimizer_graph`")
    points = measure(sweep.tcc_of(arguments), arguments)
    if not points:
        parser.error("--elements leaves no point out of --tensors and --sides")
    head = ["tensors", "ms", "spread", "GB/s", "bandwidth", "kernels", "matmuls", "planned MB"]
    text = f"a step of each optimizer, {arguments.device}; medians of {arguments.rounds} rounds\n" + sweep.table(head, rows_of(points))
    figures = {"version": 1, "device": arguments.device, "rounds": arguments.rounds, "points": points}
    sweep.finish(arguments, text, figures, panels_of(points, arguments.optimizers))


if __name__ == "__main__":
    main()
