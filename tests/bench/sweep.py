"""What attention_sweep.py, optimizer_sweep.py and joined_matmuls.py share: runs of tcc, a table, JSON, and a figure with logarithmic axes."""

import html
import json
import math
import os
import re
import subprocess
import sys
import tempfile

COLOURS = ["#1f5fa8", "#c4501b", "#2f7d4f", "#7a4fa3", "#8a6d1a"]


class Tcc:
    """The program, and where its graphs lie."""

    def __init__(self, program, device, threads, flags):
        self.program = program
        self.flags = ([f"--target={device}"] if device != "cpu" else []) + ([f"--threads={threads}"] if threads else []) + flags
        self.folder = tempfile.TemporaryDirectory(prefix="tcc-sweep-")

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def _run(self, arguments):
        done = subprocess.run([self.program] + arguments + self.flags, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join([self.program] + arguments[:4])} ended with status {done.returncode}:\n{done.stderr}")
        return done.stdout

    def planned_bytes(self, graph, flags=()):
        return json.loads(self._run([graph, "-emit=memory.json", *flags]))["planned_bytes"]

    def bench(self, graph, runs, flags=()):
        """The figures of `tcc --bench` (frontend/driver/bench.cpp)."""
        return json.loads(self._run([graph, f"--bench={runs}", "--json=-", *flags]))


def free_memory():
    """Bytes that a program may still take."""
    with open("/proc/meminfo") as lines:
        return int(re.search(r"MemAvailable:\s+(\d+) kB", lines.read()).group(1)) * 1024


def device_memory(device):
    """Bytes of the device that may be taken: for a GPU what nvidia-smi says is free."""
    if device == "cpu":
        return free_memory()
    done = subprocess.run(["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"--device={device}: nvidia-smi names no GPU here; --device=cpu measures on this processor")
    return int(done.stdout.split()[0]) << 20


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def short(value):
    """1500 as "1.5k"."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def table(head, rows):
    """Lines of equal columns: the first is left-aligned, the others right-aligned."""
    cells = [head] + rows
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for row in cells:
        lines.append("  ".join(text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(row, widths))))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def powers(low, high):
    """Powers of ten around a range; of two where that spans less than two powers of ten."""
    base = 10 if high / low > 100 else 2
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    return [float(base) ** power for power in range(first, max(last, first + 1) + 1)]


class Panel:
    """One chart: series are [(name, [(x, y, is_measured)])]; what was not measured is drawn hollow and dashed."""

    WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 580, 380, 64, 136, 48, 50

    def __init__(self, title, x_name, y_name, series):
        self.title, self.x_name, self.y_name = title, x_name, y_name
        self.series = [(name, [point for point in points if point[1] and point[1] > 0]) for name, points in series]
        self.series = [(name, points) for name, points in self.series if points]
        points = [point for _, points in self.series for point in points]
        if points:
            self.xs = sorted({point[0] for point in points})
            self.ys = powers(min(point[1] for point in points), max(point[1] for point in points))

    def x(self, value):
        first, last = self.xs[0], self.xs[-1]
        share = math.log(value / first) / math.log(last / first) if last > first else 0.5
        return self.LEFT + 12 + share * (self.WIDTH - self.RIGHT - self.LEFT - 24)

    def y(self, value):
        share = math.log(value / self.ys[0]) / math.log(self.ys[-1] / self.ys[0])
        return self.HEIGHT - self.BOTTOM - share * (self.HEIGHT - self.BOTTOM - self.TOP)

    def axes(self):
        right, bottom = self.WIDTH - self.RIGHT, self.HEIGHT - self.BOTTOM
        for value in self.ys:
            yield (f'<path d="M{self.LEFT} {self.y(value):.1f}H{right}" stroke="#e4e4e4"/><text x="{self.LEFT - 8}" '
                   f'y="{self.y(value) + 4:.1f}" text-anchor="end">{short(value)}</text>')
        for value in self.xs[::math.ceil(len(self.xs) / 6)]:
            name = str(value) if value < 1e6 else short(value)
            yield (f'<path d="M{self.x(value):.1f} {self.TOP}V{bottom}" stroke="#f0f0f0"/><text x="{self.x(value):.1f}" '
                   f'y="{bottom + 18}" text-anchor="middle">{name}</text>')
        yield (f'<text x="{(self.LEFT + right) / 2}" y="{self.HEIGHT - 10}" text-anchor="middle">{html.escape(self.x_name)}</text>'
               f'<text transform="translate(14 {(self.TOP + bottom) / 2}) rotate(-90)" '
               f'text-anchor="middle">{html.escape(self.y_name)}</text>')

    def lines(self):
        for (_, line), colour in zip(self.series, COLOURS):
            for before, now in zip(line, line[1:]):
                dashes = "" if now[2] and before[2] else ' stroke-dasharray="4 4"'
                yield (f'<path d="M{self.x(before[0]):.1f} {self.y(before[1]):.1f}L{self.x(now[0]):.1f} {self.y(now[1]):.1f}" '
                       f'stroke="{colour}" stroke-width="2" fill="none"{dashes}/>')
            for point in line:
                yield (f'<circle cx="{self.x(point[0]):.1f}" cy="{self.y(point[1]):.1f}" r="3" '
                       f'fill="{colour if point[2] else "#fff"}" stroke="{colour}"/>')

    def names(self):
        """Beside the lines' ends, from the highest to the lowest, none on another."""
        ends = sorted((self.y(line[-1][1]) + 4, name, colour) for (name, line), colour in zip(self.series, COLOURS))
        last = 0
        for y, name, colour in ends:
            last = max(y, last + 15)
            yield f'<text x="{self.WIDTH - self.RIGHT + 6}" y="{last:.1f}" fill="{colour}" font-weight="600">{html.escape(name)}</text>'

    def svg(self, left):
        parts = [f'<g transform="translate({left} 0)"><text x="{self.LEFT}" y="26" font-size="15" '
                 f'font-weight="600">{html.escape(self.title)}</text>']
        if self.series:
            parts += [*self.axes(), *self.lines(), *self.names()]
        return "\n".join(parts) + "</g>"


def figure(panels):
    width, height = Panel.WIDTH * len(panels), Panel.HEIGHT
    charts = "\n".join(panel.svg(i * Panel.WIDTH) for i, panel in enumerate(panels))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="#333"><rect width="{width}" height="{height}" fill="#fff"/>\n'
            f"{charts}\n</svg>\n")


def write(path, text):
    """Whole or not at all; "-" is stdout."""
    if path == "-":
        sys.stdout.write(text)
        return
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(os.path.abspath(path)), delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def common_arguments(parser):
    parser.add_argument("--tcc", default="build/bin/tcc", help="the program (build/bin/tcc)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda where there is a GPU")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (all)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turn (3)")
    parser.add_argument("--json", metavar="F.json", help="write the figures to a file; - is stdout")
    parser.add_argument("--plot", metavar="F.svg", help="write the figure to a file")
    parser.add_argument("--flag", action="append", default=[], help="another option for tcc, such as --flag=--dtype=bf16")


def tcc_of(arguments):
    if not os.access(arguments.tcc, os.X_OK):
        sys.exit(f"--tcc={arguments.tcc} is no program; it is built by `ninja -C build tcc`")
    return Tcc(arguments.tcc, arguments.device, arguments.threads, arguments.flag)


def finish(arguments, text, figures, panels):
    """The table to stdout, or to stderr where the JSON goes to stdout; the files."""
    (sys.stderr if arguments.json == "-" else sys.stdout).write(text)
    if arguments.json:
        write(arguments.json, json.dumps(figures, indent=1) + "\n")
    if arguments.plot:
        write(arguments.plot, figure(panels))
