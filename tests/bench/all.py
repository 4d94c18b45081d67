#!/usr/bin/env python3
"""What one machine's CPU can do: training steps beside PyTorch's, matmuls beside other libraries', attention and kernels
beside their limits. all.sh builds what this needs and names PyTorch.

    tests/bench/all.py [--bin=build/bin] [--torch=PYTHON] [--rounds=3] [--steps=char,gpt2,gpt2-long] [--types=f32,bf16]
                       [--library=NAME=FILE.so] [--json=F.json] [--plot=F.svg] [--markdown=F.md]

Steps run in turn, ours first in every other round; figures are medians, ratios those of one round. A share is that of a
bare loop of multiply-adds, which `tcc --calibrate` measures. Memory is the most that a process had in memory at a time.
"""

import argparse
import html
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile

import sweep

STEPS = {  # train_gpt's preset, batch, sequence, steps of a run, optimizer
    "baby": ("baby", 32, 64, 8, "adamw"),
    "char": ("char", 16, 256, 9, "adamw"),
    "gpt2": ("gpt2", 4, 256, 7, "adamw"),
    "gpt2-long": ("gpt2", 1, 1024, 7, "adamw"),
    "gpt2-medium": ("gpt2-medium", 1, 1024, 4, "adamw"),
    "llama": ("llama-160m", 2, 512, 5, "adamw"),
    "modern": ("modern-124m", 1, 1024, 4, "muon"),
}
HERE = os.path.dirname(os.path.abspath(__file__))


def run(command, what):
    """Its output, and the most bytes that it had in memory."""
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            errors.seek(0)
            sys.exit(f"{what} ended with status {child.returncode}: {shlex.join(command)}\n{errors.read()}")
    return out, usage.ru_maxrss * 1024


def processor():
    with open("/proc/cpuinfo") as lines:
        text = lines.read()
    flags = set(re.search(r"^flags\s*:(.*)$", text, re.M).group(1).split())
    known = ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]
    family, model = (re.search(rf"^{key}\s*:\s*(\d+)$", text, re.M).group(1) for key in ("cpu family", "model"))
    return {"name": re.search(r"^model name\s*:\s*(.*)$", text, re.M).group(1), "family": int(family), "model": int(model),
            "instructions": [flag for flag in known if flag in flags], "processors": os.cpu_count(), "load": os.getloadavg()[0]}


def calibrated(tcc):
    """{"f32", "bf16": GFLOP/s of matmuls, "bare": of a bare loop in f32, "memory": GB/s, "has_bf16", "is_sure"}"""
    text, _ = run([tcc, "--calibrate"], "the calibration")
    wide = re.search(r"f32 products ([\d.]+) GFLOP/s \([\d.]+ of a bare loop's ([\d.]+)", text)
    narrow = re.search(r"bf16 products ([\d.]+) GFLOP/s(?: \([\d.]+ of a bare loop's ([\d.]+))?", text)
    if not wide or not narrow:
        sys.exit(f"tcc --calibrate says something unknown:\n{text}")
    return {"f32": float(wide.group(1)), "bf16": float(narrow.group(1)), "bare": {"f32": float(wide.group(2)), "bf16": float(
        narrow.group(2) or wide.group(2))}, "memory": float(re.search(r"memory ([\d.]+) GB/s", text).group(1)),
            "has_bf16": "no faster than f32" not in text, "is_sure": "is busy" not in text}


class Ours:
    name = "tcc"

    def __init__(self, arguments, folder):
        self.program = os.path.join(arguments.bin, "train_gpt")
        self.log, self.data = os.path.join(folder, "log.jsonl"), os.path.join(folder, "text.txt")
        words = random.Random(1).choices(["step", "kernel", "fused", "a", "the", "of", "memory", "tile"], k=60000)
        with open(self.data, "w") as file:
            file.write(" ".join(words))

    def step(self, step, dtype):
        preset, batch, sequence, count, optimizer = STEPS[step]
        _, resident = run([self.program, "--model", preset, "--batch", str(batch), "--seq", str(sequence), "--steps", str(count),
                           "--data", self.data, f"--dtype={dtype}", "--lr", "3e-4", "--schedule=constant", f"--optimizer={optimizer}", "--quiet",
                           f"--json={self.log}"], f"train_gpt's {step}")
        with open(self.log) as lines:
            end = json.loads(lines.readlines()[-1])
        return {"tokens_per_second": end["tokens_per_second"], "resident": resident, "planned": end["planned_bytes"],
                "of_products": end["mfu"], "first_step_s": end["first_step_s"]}


class Peer:
    """A program whose last line is JSON with "tok_s". In its command {size}, {batch}, {sequence}, {steps},
    {optimizer} and {bf16} are replaced, the last one by --bf16 or by nothing."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def step(self, step, dtype):
        size, batch, sequence, count, optimizer = STEPS[step]
        words = self.command.format(size=size, batch=batch, sequence=sequence, steps=count, optimizer=optimizer, bf16="--bf16" if dtype == "bf16" else "")
        out, resident = run(shlex.split(words), f"{self.name}'s {step}")
        return {"tokens_per_second": json.loads(out.splitlines()[-1])["tok_s"], "resident": resident}


def peers_of(arguments):
    peers = [Peer(*text.split("=", 1)) for text in arguments.peer]
    if arguments.torch:
        script = os.path.join(HERE, "torch_gpt.py")
        peers.append(Peer("torch.compile", f"{shlex.quote(arguments.torch)} {shlex.quote(script)} --size {{size}} -B {{batch}} "
                          "-T {sequence} --steps {steps} --optimizer {optimizer} --compile {bf16}"))
    return peers


def measure_steps(arguments, limits, folder):
    """[{"step", "type", "rounds": [{name: figures}], "tokens_per_second": {name: median}, "ratios": {name: [...]}, "share"}]"""
    ours, peers, rows = Ours(arguments, folder), peers_of(arguments), []
    for step in arguments.steps:
        for dtype in arguments.types:
            sides = [ours] + (peers if dtype == "f32" or limits["has_bf16"] else [])
            rounds = []
            for number in range(arguments.rounds):
                done = {side.name: side.step(step, dtype) for side in (sides if number % 2 == 0 else sides[::-1])}
                rounds.append(done)
                print(f"{step} {dtype}: " + ", ".join(f"{name} {figures['tokens_per_second']:.0f} tokens/s" for name, figures in done.items()),
                      file=sys.stderr)
            rate = {side.name: sweep.median([done[side.name]["tokens_per_second"] for done in rounds]) for side in sides}
            ratios = {side.name: [done["tcc"]["tokens_per_second"] / done[side.name]["tokens_per_second"] for done in rounds] for side in sides[1:]}
            shares = [done["tcc"]["of_products"] for done in rounds if done["tcc"]["of_products"] is not None]
            of_products = sweep.median(shares) if shares else None  # a share above 1 is left out of a run's figures
            rows.append({"step": step, "type": dtype, "batch": STEPS[step][1], "sequence": STEPS[step][2], "rounds": rounds,
                         "tokens_per_second": rate, "ratios": ratios, "of_products": of_products,
                         "share": of_products and of_products * limits[dtype] / limits["bare"][dtype],
                         "resident": {side.name: max(done[side.name]["resident"] for done in rounds) for side in sides},
                         "planned": rounds[0]["tcc"]["planned"]})
    return rows


def measure_products(arguments):
    libraries = [f"--library={library}" for library in arguments.library]
    if arguments.torch:
        found, _ = run([arguments.torch, "-c", "import torch, os; print(os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_cpu.so'))"],
                       "looking for PyTorch's library")
        libraries.append(f"--library=torch={found.strip()}")
    out, _ = run([os.path.join(arguments.bin, "products_bench"), f"--seconds={arguments.seconds}", "--json=-", *libraries, *arguments.groups],
                 "products_bench")
    return json.loads(out)


def measure_attention(arguments):
    """[{"what", "length", "rate", "share"}]: beside the best matmul."""
    rows = []
    for length, heads, batch in arguments.attention:
        out, _ = run([os.path.join(arguments.bin, "attention_bench"), str(length), str(heads), str(batch)], "attention_bench")
        for what, rate, share in re.findall(r"^(\w+ +\w+(?:, dropout)?) +([\d.]+) \( *[\d.]+\) +share ([\d.]+)", out, re.M):
            if "product" not in what:
                rows.append({"what": " ".join(what.split()), "length": length, "rate": float(rate), "share": float(share)})
    return rows


def measure_kernels(arguments):
    out, _ = run([os.path.join(arguments.bin, "kernels_bench")], "kernels_bench")
    rows = re.findall(r"^(\S.*?) +([\d.]+) ms +([\d.]+) GB/s +copy +[\d.]+ GB/s +([\d.]+) of it", out, re.M)
    return [{"what": what, "ms": float(ms), "rate": float(rate), "share": float(share)} for what, ms, rate, share in rows]


def name_of(row):
    return f"{row['step'].removesuffix('-long')} B{row['batch']} T{row['sequence']} {row['type']}"


def tables(figures):
    """[(title, head, rows)]"""
    steps, names = figures["steps"], list(dict.fromkeys(name for row in figures["steps"] for name in row["ratios"]))
    head = ["step", "tcc, tokens/s"] + [text for name in names for text in (name, "ratio", "each round")] + ["of a bare loop", "resident"]
    rows = []
    for row in steps:
        cells = [name_of(row), f"{row['tokens_per_second']['tcc']:.0f}"]
        for name in names:
            ratios = row["ratios"].get(name)
            cells += [f"{row['tokens_per_second'][name]:.0f}", f"{sweep.median(ratios):.2f}", ", ".join(f"{x:.2f}" for x in ratios)] if ratios else ["", "", ""]
        resident = [f"{row['resident'][name] / 1e6:.0f}" for name in row["resident"]]
        rows.append(cells + [f"{row['share']:.2f}" if row["share"] else "", " for ".join(resident) + " MB"])
    found = [("Training steps", head, rows)]
    if "products" in figures:
        products = figures["products"]
        others = list(dict.fromkeys(name for step in products["steps"].values() for name in step["seconds"] if name != "tcc"))
        parts = [(f"all of {group}", step) for group, step in products["steps"].items()]
        parts += [(f"{s['m']} x {s['n']} x {s['k']} {'nt'[s['transpose_a']]}{'nt'[s['transpose_b']]}", s) for s in products["shapes"] if s["count"]]
        rows = [[what, f"{part['bare_seconds'] / part['seconds']['tcc']['f32']:.2f}"] +
                [f"{part['seconds'][name]['f32'] / part['seconds']['tcc']['f32']:.2f}" if name in part["seconds"] else "" for name in others]
                for what, part in parts]
        found.append(("Matmuls, f32, cold: share of a bare loop, and how many times as long the others take",
                      ["matmul", "tcc"] + others, rows))
    if "attention" in figures:
        found.append(("Attention beside the best matmul", ["what", "length", "GFLOP/s", "share"],
                      [[row["what"], str(row["length"]), f"{row['rate']:.0f}", f"{row['share']:.2f}"] for row in figures["attention"]]))
    if "kernels" in figures:
        found.append(("Kernels beside a copy", ["kernel", "GB/s", "share"],
                      [[row["what"], f"{row['rate']:.1f}", f"{row['share']:.2f}"] for row in figures["kernels"]]))
    return found


def headline(figures):
    machine, limits = figures["machine"], figures["limits"]
    return (f"{machine['name']} (family {machine['family']}, model {machine['model']}; {', '.join(machine['instructions'])}), "
            f"{machine['processors']} processors: matmuls {limits['f32']:.0f} GFLOP/s in f32, {limits['bf16']:.0f} in bf16, "
            f"{limits['f32'] / limits['bare']['f32']:.2f} of a bare loop; memory {limits['memory']:.1f} GB/s" +
            ("" if limits["is_sure"] else "; the machine was busy"))


def markdown(figures):
    lines = [headline(figures) + ".", ""]
    for title, head, rows in tables(figures):
        lines += [title + ":", "", "| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
        lines += ["| " + " | ".join(row) + " |" for row in rows] + [""]
    return "\n".join(lines)


def picture(figures):
    """A bar for each ratio, from 0, with a dot for each round and a line where both are equally fast."""
    bars = [(f"{name_of(row)}, beside {name}", ratios) for row in figures["steps"] for name, ratios in row["ratios"].items()]
    left, width, line, top = 260, 420, 30, 46
    most = max([1.0] + [value for _, ratios in bars for value in ratios])
    height = top + line * len(bars) + 16

    def x(value):
        return left + value / most * (width - 60)
    parts = [f'<text x="16" y="26" font-size="15" font-weight="600">tokens/s of tcc over those of the other</text>',
             f'<path d="M{x(1):.1f} {top - 6}V{height - 10}" stroke="#999" stroke-dasharray="4 4"/>']
    for number, (name, ratios) in enumerate(bars):
        y = top + line * number
        middle = sweep.median(ratios)
        parts.append(f'<text x="{left - 10}" y="{y + 15}" text-anchor="end">{html.escape(name)}</text>'
                     f'<rect x="{left}" y="{y + 2}" width="{x(middle) - left:.1f}" height="18" fill="{sweep.COLOURS[0]}" opacity="0.75"/>'
                     f'<text x="{x(max(ratios)) + 8:.1f}" y="{y + 15}">{middle:.2f}</text>')
        parts += [f'<circle cx="{x(value):.1f}" cy="{y + 11}" r="3" fill="#fff" stroke="{sweep.COLOURS[1]}"/>' for value in ratios]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width} {height}" width="{left + width}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="#333"><rect width="{left + width}" height="{height}" fill="#fff"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="the folder of the programs (build/bin)")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help=Peer.__doc__)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE.so", help="another library of matmuls (products_bench)")
    parser.add_argument("--rounds", type=int, default=3, help="of each step (3)")
    parser.add_argument("--steps", default="char,gpt2,gpt2-long", help=f"of {', '.join(STEPS)}")
    parser.add_argument("--types", default="f32,bf16", help="of products")
    parser.add_argument("--parts", default="steps,products,attention,kernels", help="what is measured")
    parser.add_argument("--groups", default="char,gpt2", help="of matmuls")
    parser.add_argument("--seconds", type=float, default=1, help="for each matmul (1)")
    parser.add_argument("--attention", default="256x6x16,1024x12x1", help="lengths, heads and batches")
    parser.add_argument("--json", metavar="F.json", help="write the figures to a file; - is stdout")
    parser.add_argument("--plot", metavar="F.svg", help="write the ratios as a picture")
    parser.add_argument("--markdown", metavar="F.md", help="write the tables for a document")
    arguments = parser.parse_args()
    for key, known in (("steps", STEPS), ("types", ("f32", "bf16")), ("parts", ("steps", "products", "attention", "kernels"))):
        words = [word for word in getattr(arguments, key).split(",") if word]
        for word in words:
            if word not in known:
                parser.error(f"--{key}={word}: one of {', '.join(known)} is expected")
        setattr(arguments, key, words)
    arguments.groups = arguments.groups.split(",")
    shapes = [word.split("x") for word in arguments.attention.split(",")]
    if not all(len(shape) == 3 and all(number.isdigit() and int(number) > 0 for number in shape) for shape in shapes):
        parser.error(f"--attention={arguments.attention}: lengths, heads and batches such as 256x6x16 are expected")
    arguments.attention = [[int(number) for number in shape] for shape in shapes]
    if arguments.rounds < 1:
        parser.error("--rounds: at least one is expected")
    for peer in arguments.peer:
        if "=" not in peer:
            parser.error(f"--peer={peer}: NAME=COMMAND is expected")
    return arguments


def main():
    arguments = parsed()
    figures = {"machine": processor(), "limits": calibrated(os.path.join(arguments.bin, "tcc")), "steps": []}
    folder = tempfile.TemporaryDirectory(prefix="tcc-all-")
    failures = []
    for part, measure in (("steps", lambda: measure_steps(arguments, figures["limits"], folder.name)),
                          ("products", lambda: measure_products(arguments)), ("attention", lambda: measure_attention(arguments)),
                          ("kernels", lambda: measure_kernels(arguments))):
        if part in arguments.parts:
            try:
                figures[part] = measure()
            except SystemExit as failure:  # what the other parts measured is kept
                failures.append(f"{part}: {failure}")
    figures["machine"]["load_after"] = os.getloadavg()[0]
    out = sys.stderr if arguments.json == "-" else sys.stdout
    out.write(headline(figures) + "\n")
    for title, head, rows in tables(figures):
        out.write(f"\n{title}\n{sweep.table(head, rows)}")
    if arguments.json:
        sweep.write(arguments.json, json.dumps(figures, indent=1) + "\n")
    if arguments.plot:
        sweep.write(arguments.plot, picture(figures))
    if arguments.markdown:
        sweep.write(arguments.markdown, markdown(figures))
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
