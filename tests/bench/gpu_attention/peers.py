"""PyTorch's scaled_dot_product_attention beside our kernels: python3 peers.py BENCH.jsonl RESULTS.

Measures each back end on the shapes that BENCH.jsonl holds, when there is a PyTorch with a GPU, and writes everything
to RESULTS/table.json and, as a Markdown table (TFLOP/s forward / backward), to RESULTS/table.txt, after each shape, so
that a run cut short leaves what it has.
"""
import json
import os
import sys


def read_rows(path):
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return lines[0], lines[1:]


def shape_of(row):
    return row["d"], row["T"], row["causal"], row["batch"], row["heads"]


def seconds(torch, work, budget=0.1):
    """Seconds of one run on the device, after warming up."""
    def timed(repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            work()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / 1e3 / repeats

    work()
    repeats = min(200, max(3, int(budget / max(timed(2), 1e-6))))
    return timed(repeats)


def measure(torch, shape, name, backend):
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    d, length, causal, batch, heads = shape
    q, k, v = (torch.randn(batch, heads, length, d, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    flops = 4 * batch * heads * length * length * d * (0.5 if causal else 1)
    with sdpa_kernel(backend):
        forward = lambda: scaled_dot_product_attention(q, k, v, is_causal=causal)
        with torch.no_grad():
            forward_seconds = seconds(torch, forward)
        out = forward()
        gradient = torch.randn_like(out)
        backward = lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
        backward_seconds = seconds(torch, backward)
    return {"who": "torch " + name, "d": d, "T": length, "causal": causal, "batch": batch, "heads": heads,
            "forward_tflops": flops / forward_seconds / 1e12, "backward_tflops": 2.5 * flops / backward_seconds / 1e12}


def measure_all(shapes):
    """Yields the rows of each shape."""
    try:
        import torch
        from torch.nn.attention import SDPBackend
    except ImportError as error:
        print(f"PyTorch's back ends skipped: {error}; `pip install torch`")
        return
    if not torch.cuda.is_available():
        print("PyTorch's back ends skipped: this PyTorch sees no GPU")
        return
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    for shape in shapes:
        rows = []
        for name, backend in backends.items():
            # The unfused one stores every score: beyond 2048 it needs more memory than it is worth.
            if name == "math" and shape[1] > 2048:
                continue
            try:
                rows.append(measure(torch, shape, name, backend))
            except RuntimeError as error:
                print(f"torch {name} {shape}: {str(error).splitlines()[0]}")
            torch.cuda.empty_cache()
        yield rows


def cell(row):
    backward = row.get("backward_tflops")
    return f"{row['forward_tflops']:.0f} / " + ("–" if backward is None else f"{backward:.0f}")


def table(head, rows):
    whos = sorted({row["who"] for row in rows})
    lines = [f"{head['device']}, copy {head['copy_bytes_per_second'] / 1e9:.0f} GB/s; TFLOP/s forward / backward", "",
             "| d | T | mask | " + " | ".join(whos) + " |", "| --- " * (3 + len(whos)) + "|"]
    for shape in dict.fromkeys(shape_of(row) for row in rows):
        cells = []
        for who in whos:
            found = [row for row in rows if row["who"] == who and shape_of(row) == shape]
            cells.append(cell(found[0]) if found else "")
        d, length, causal = shape[:3]
        lines.append(f"| {d} | {length} | {'causal' if causal else 'full'} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(folder, head, rows):
    with open(os.path.join(folder, "table.json"), "w") as file:
        json.dump({**head, "rows": rows}, file, indent=1)
    text = table(head, rows)
    with open(os.path.join(folder, "table.txt"), "w") as file:
        file.write(text)
    return text


def main():
    head, rows = read_rows(sys.argv[1])
    text = write(sys.argv[2], head, rows)
    for more in measure_all(list(dict.fromkeys(shape_of(row) for row in rows))):
        rows += more
        text = write(sys.argv[2], head, rows)
    print(text)


if __name__ == "__main__":
    main()
