#!/usr/bin/env python3
"""What a training step's kernels must cost on a GPU, from their machine code and the plan, without a device.

    sass_model.py PLAN.json CUBIN... [--tokens N] [--json OUT] [--rows N] [--nvdisasm PROGRAM]

PLAN.json is `tcc FILE --target=cuda -march=sm_90a -emit=json`, the cubins those of `-emit=cubin`:

    train_gpt --model gpt2 --data FILE --batch 32 --seq 1024 --steps 0 --emit-graph=gpt2.graph
    tcc gpt2.graph --target=cuda -march=sm_90a --dtype=bf16 -emit=json -o gpt2.json
    tcc gpt2.graph --target=cuda -march=sm_90a --dtype=bf16 -emit=cubin
    sass_model.py gpt2.json gpt2.sm_90a.*.cubin --tokens 32768

For each kernel the model walks a few threads through the SASS (sass_walk.py), counts what their warps issue to each
pipe, and takes the largest of four times as the least one:

  issue    instructions over 4 a clock and multiprocessor
  pipe     the busiest pipe by its rate (RATES): FMA, ALU, conversions, XU (MUFU), LSU
  memory   the plan's bytes, each operand and result once, over the bandwidth
  latency  waves of resident blocks, times what one warp takes: its waits for memory, which follow each other, times
           LATENCY (NEAR, where it has read the place before), and DEPENDENT clocks an instruction; occupancy from
           registers, shared memory and threads. Waits for copies into shared memory (cp.async) are not counted

Products take their flops over PRODUCTS, stretched by the last wave of tiles (128 x 256 or 128 x 128, sums split as far
as the workspace holds parts, whose traffic is added). Attention takes ATTENTION's rates, which are estimates. A launch
in a captured graph costs LAUNCH. Nothing here is measured: compare two plans, and trust no figure by itself.
"""
import argparse
import collections
import glob
import json
import math
import os
import shutil
import subprocess
import sys
from struct import unpack_from

import sass_walk

H100 = {"multiprocessors": 132, "clock": 1.7e9, "bandwidth": 3.0e12, "registers": 65536, "threads": 2048, "blocks": 32,
        "shared": 228 << 10}
LATENCY, NEAR = 700, 300  # clocks from a load to its use while memory is busy; of what the thread has read before
LAUNCH = 1.0e-6
PARAMETERS = 0x210  # where sm_90 has a kernel's parameters in the bank of constants
TOKENS = 50000  # different numbers in inputs of i32, which are taken to be tokens
DEPENDENT = 2  # clocks from a warp's instruction to its next, where nothing else is waited for
PRODUCTS = 720e12  # flops a second while every multiprocessor has a tile; 620 in the mean of a step's shapes
PEAK = 989e12
ATTENTION = {"forward": 220e12, "backward": 175e12}
# Threads' operations a clock and multiprocessor (CUDA C++ Programming Guide, arithmetic throughput, 9.0).
RATES = {"fma": 128, "alu": 64, "heavy": 64, "convert": 64, "xu": 16, "lsu": 32, "uniform": 16, "other": 128}
HEAVY = ("IMAD", "HFMA2")
ALU = ("IADD3", "VIADD", "ISETP", "LOP3", "SHF", "SEL", "FSEL", "FSETP", "FMNMX", "PRMT", "LEA", "IMNMX", "VIMNMX",
       "MOV", "PLOP3", "FCHK", "IABS", "POPC", "FLO", "P2R", "R2P", "BMSK", "SGXT")


def pipeOf(opcode):
    family = opcode.split(".")[0]
    if family in ("FFMA", "FADD", "FMUL"):
        return "fma"
    if family.startswith(HEAVY):
        return "heavy"
    if family == "F2FP":
        return "convert"
    if family == "MUFU" or family in ("I2F", "F2I", "F2F", "FRND", "I2FP"):
        return "xu"
    if family in ("LDG", "STG", "LDS", "STS", "LD", "ST", "LDL", "STL", "SHFL", "LDSM", "ATOM", "RED", "LDGSTS"):
        return "lsu"
    if family in ALU:
        return "alu"
    return "uniform" if family.startswith(("U", "R2UR", "S2UR")) else "other"


def lsuClocks(opcode):
    """Clocks that a warp's access occupies the load and store unit: 128 bytes each."""
    return 4 if ".128" in opcode else 2 if ".64" in opcode else 1


def figuresOf(cubin):
    """{kernel: [registers, bytes of static shared memory]} from the cubin's sections."""
    with open(cubin, "rb") as file:
        data = file.read()
    headers, = unpack_from("<Q", data, 40)
    size, count, names = unpack_from("<HHH", data, 58)
    sections = [unpack_from("<IIQQQQIIQQ", data, headers + i * size) for i in range(count)]

    def text(table, at):
        start = sections[table][4] + at
        return data[start:data.index(b"\0", start)].decode()

    figures = collections.defaultdict(lambda: [0, 0])
    symbols = next(section for section in sections if section[1] == 2)
    for name, _, _, _, offset, length, *_ in sections:
        title = text(names, name)
        if title.startswith(".nv.shared.") and not title.startswith(".nv.shared.reserved"):
            figures[title[11:]][1] = length
        at = offset
        while title == ".nv.info" and at < offset + length:  # a format, an attribute, a size, the content
            form, attribute, content = unpack_from("<BBH", data, at)
            if form == 4 and attribute == 0x2F:  # a symbol's number and its registers
                symbol, registers = unpack_from("<II", data, at + 4)
                named, = unpack_from("<I", data, symbols[4] + 24 * symbol)
                figures[text(symbols[6], named)][0] = registers
            at += 4 + (content if form == 4 else 0)
    return figures


def disassembler(asked):
    """nvdisasm: the one asked for, the toolkit's, or that of PyPI's nvidia-cuda-nvdisasm."""
    places = [asked] if asked else [shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm"]
    for folder in [] if asked else sys.path:
        places += glob.glob(os.path.join(folder, "nvidia", "**", "bin", "nvdisasm"), recursive=True)
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def listingOf(cubin, program):
    return subprocess.run([program, "-c", cubin], capture_output=True, text=True, check=True).stdout


class Plan:
    """A plan as JSON, with an address for each buffer that no other has."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.plan = json.load(file)
        self.buffers, self.kernels = self.plan["buffers"], self.plan["kernels"]
        most = max([4] + [buffer["bytes"] for buffer in self.buffers if buffer["space"] == "input"])
        self.numbers = b"".join((1 + i % TOKENS).to_bytes(4, "little") for i in range(most // 4))

    def address(self, buffer):
        return (buffer + 1) << 40

    def parameters(self, call):
        """A launch's parameters, with an address of its own for each buffer, and the tables that they name."""
        content = bytearray.fromhex(call["parameters"])
        memory = {}
        for slot in call["pointers"]:
            content[slot["offset"]:slot["offset"] + 8] = self.address(slot["buffer"]).to_bytes(8, "little")
            buffer = self.buffers[slot["buffer"]]
            if buffer["space"] == "input" and self.plan["inputs"][buffer["index"]]["dtype"] == "i32":
                memory[self.address(slot["buffer"])] = self.numbers[:buffer["bytes"]]
            if buffer["space"] == "table":
                table = self.plan["tables"][buffer["index"]]
                words = bytearray.fromhex(table["bytes"])
                for entry in table["pointers"]:
                    words[entry["offset"]:entry["offset"] + 8] = self.address(entry["buffer"]).to_bytes(8, "little")
                memory[self.address(slot["buffer"])] = bytes(words)
        return bytes(content), memory


def walked(code, call, plan, most):
    """A whole launch's counts (instructions of warps, by opcode), a thread's far and near waits, and unknown loops."""
    parameters, memory = plan.parameters(call)
    threads = math.prod(call["block"])
    warps = (threads + 31) // 32
    grid = call["grid"]
    samples = [(block, warp) for block in sorted({grid[0] // 3, 2 * grid[0] // 3})
               for warp in sorted({0, warps // 2, warps - 1})]
    counts, waits, unresolved = collections.Counter(), (0, 0), set()
    for block, warp in samples:
        walk = sass_walk.Walk(code, 32 * warp, (block, grid[1] // 2), [*call["block"], *grid], parameters, memory,
                              PARAMETERS, most).run()
        counts.update(walk.counts)
        waits = max(waits, (walk.waits, walk.nearWaits))
        unresolved |= walk.unresolved
    scale = warps * math.prod(grid) / len(samples)
    return {opcode: count * scale for opcode, count in counts.items()}, waits, unresolved


def kernelRow(call, symbol, code, figures, plan, gpu, most):
    counts, waits, unresolved = walked(code, call, plan, most)
    registers, shared = figures
    shared += call["shared_bytes"]
    threads, blocks = math.prod(call["block"]), math.prod(call["grid"])
    warps = (threads + 31) // 32
    resident = min(gpu["blocks"], gpu["threads"] // (32 * warps), gpu["shared"] // (shared + 1024),
                   gpu["registers"] // ((registers + 7) // 8 * 8 * 32 * warps))
    per_second = gpu["clock"] * gpu["multiprocessors"]
    pipes = collections.Counter()
    for opcode, count in counts.items():
        pipe = pipeOf(opcode)
        pipes[pipe] += count * (lsuClocks(opcode) if pipe == "lsu" else 32 / RATES[pipe])
    pipes["fma"] = max(pipes["fma"], pipes["fma"] + pipes["heavy"] / 2)  # IMAD runs on one half of the FMA pipe
    issued = sum(counts.values())
    waves = math.ceil(blocks / (resident * gpu["multiprocessors"]))
    alone = waits[0] * LATENCY + waits[1] * NEAR + issued / blocks / warps * DEPENDENT
    times = {"issue": issued / 4 / per_second, "memory": call["bytes"] / gpu["bandwidth"],
             "latency": waves * alone / gpu["clock"]}
    pipe = max(pipes, key=pipes.get)
    times["pipe " + pipe] = pipes[pipe] / per_second
    bound = max(times, key=times.get)
    return {"kernel": symbol, "bound": bound, "seconds": times[bound], "times": times, "bytes": call["bytes"],
            "instructions": issued, "registers": registers, "shared": shared, "warps": resident * warps, "waits": waits,
            "threads": threads, "blocks": blocks, "unresolved": len(unresolved), "pipes": dict(pipes)}


def productSeconds(product, gpu, workspace):
    """Flops over the rate, stretched by what of the last wave is idle; split sums where that is sooner."""
    m, n, k, batch = product["m"], product["n"], product["k"], math.prod(product["batch"])
    best = math.inf
    for width, share in ((256, 1.0), (128, 0.9)):  # narrow tiles read their operands more often
        for parts in range(1, 33):
            traffic = m * n * 4 * parts * batch if parts > 1 else 0
            if traffic > workspace or (parts > 1 and k // parts < 512):
                break
            tiles = math.ceil(m / 128) * math.ceil(n / width) * batch * parts
            waves = math.ceil(tiles / gpu["multiprocessors"])
            done = waves * gpu["multiprocessors"] * 128 * width * (k / parts)
            best = min(best, 2 * done / (PRODUCTS * share) + 2 * traffic / gpu["bandwidth"])
    return best


def modelled(plan, kernels, figures, gpu, most):
    rows, seen = [], {}
    for call in plan.plan["instructions"]:
        row = {"label": call["label"], "calls": 1}
        if call["op"] == "matmul":
            product = call["product"]
            scratch = call["scratch"]
            workspace = plan.buffers[scratch]["bytes"] if scratch >= 0 else 0
            row |= {"kind": "product", "kernel": call["label"], "bound": "product", "bytes": call["bytes"],
                    "seconds": productSeconds(product, gpu, workspace),
                    "flops": 2 * product["m"] * product["n"] * product["k"] * math.prod(product["batch"])}
        elif call["op"] == "launch":
            symbol = plan.kernels[call["kernel"]]["symbol"]
            if "attention" in symbol:
                rate = ATTENTION["forward" if "forward" in symbol else "backward"]
                row |= {"kind": "attention", "kernel": symbol, "bound": "attention", "bytes": call["bytes"],
                        "flops": call["flops"], "seconds": call["flops"] / rate}
            else:
                key = (symbol, tuple(call["grid"]), call["bytes"])
                if key not in seen:
                    seen[key] = kernelRow(call, symbol, kernels[symbol], figures[symbol], plan, gpu, most)
                row |= {"kind": "kernel"} | seen[key]
        else:
            row |= {"kind": "other", "kernel": call["op"], "bound": "memory", "bytes": call.get("bytes", 0),
                    "seconds": call.get("bytes", 0) / gpu["bandwidth"]}
        rows.append(row)
    return rows


def grouped(rows):
    """Rows of one kernel or product together, the dearest first."""
    groups = {}
    for row in rows:
        kernel = row["kernel"].split(": ")[-1] if row["kind"] == "product" else row["kernel"]
        key = row["kind"], kernel, row.get("blocks")
        group = groups.setdefault(key, dict(row, kernel=kernel, calls=0, seconds=0.0))
        group["calls"] += 1
        group["seconds"] += row["seconds"]
    return sorted(groups.values(), key=lambda group: -group["seconds"])


def totals(rows, tokens):
    """The step: milliseconds by kind, tokens a second, share of the peak, and KB a token that kernels move, the loss's
    and the optimizer's too (plan_traffic.py tells them apart)."""
    kinds = collections.Counter()
    for row in rows:
        kinds[row["kind"]] += row["seconds"]
    kinds["launches"] = len(rows) * LAUNCH
    seconds, flops = sum(kinds.values()), sum(row.get("flops", 0) for row in rows)
    summary = {"step_ms": seconds * 1e3, "launches": len(rows), "peak_share": flops / seconds / PEAK,
               "ms": {kind: value * 1e3 for kind, value in kinds.items()}}
    if tokens:
        summary |= {"tokens_per_second": tokens / seconds, "kb_a_token": sum(
            row["bytes"] for row in rows if row["kind"] in ("kernel", "other")) / tokens / 1e3}
    return summary


def table(rows, most):
    lines = [f"{'ms':>8} {'calls':>5} {'us each':>8} {'bound':12} {'issue':>7} {'pipe':>7} {'memory':>7} "
             f"{'latency':>7} {'regs':>4} {'warps':>5} {'waits':>7}  kernel"]
    for row in grouped(rows)[:most]:
        each = row["seconds"] / row["calls"]
        line = f"{row['seconds'] * 1e3:8.3f} {row['calls']:5} {each * 1e6:8.1f} {row['bound']:12}"
        if "times" in row:
            times = row["times"]
            pipe = next(value for name, value in times.items() if name.startswith("pipe"))
            shown = times["issue"], pipe, times["memory"], times["latency"]
            line += "".join(f" {value * 1e6:7.1f}" for value in shown)
            line += f" {row['registers']:4} {row['warps']:5} {row['waits'][0]:3}+{row['waits'][1]:<3}"
        else:
            line += " " * 51
        lines.append(line + "  " + row["kernel"][:70] + (" (loops unknown)" if row.get("unresolved") else ""))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("cubins", nargs="+")
    parser.add_argument("--tokens", type=int, default=0, help="of a step")
    parser.add_argument("--json", help="write all rows there")
    parser.add_argument("--nvdisasm", help="the disassembler; else the toolkit's or PyPI's is looked for")
    parser.add_argument("--rows", type=int, default=40, help="of the table")
    parser.add_argument("--most", type=int, default=400000, help="instructions of a thread that are walked")
    options = parser.parse_args()
    program = disassembler(options.nvdisasm)
    if not program:
        print("skipped: nvdisasm is not found; pip install nvidia-cuda-nvdisasm, or --nvdisasm PROGRAM")
        return 0
    plan, kernels, figures = Plan(options.plan), {}, {}
    for cubin in options.cubins:
        kernels |= sass_walk.parse(listingOf(cubin, program))
        figures |= figuresOf(cubin)
    rows = modelled(plan, kernels, figures, H100, options.most)
    summary = totals(rows, options.tokens)
    print(table(rows, options.rows))
    print(json.dumps(summary, indent=1))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"summary": summary, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
