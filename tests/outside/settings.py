"""The settings that a graph is run under, and the runs: one compilation for each -O and -march, then numbers of threads.

`all` is the whole grid; `drawn` takes three of it, two of which differ by threads alone, so that bits can be compared.
"""

import dataclasses
import pathlib
import subprocess

import numpy
import torch

import graph as graphs
from graph import is_float

LEVELS = ["0", "1", "2", "3"]
MARCHES = ["x86-64", "x86-64-v3", "native"]
THREADS = [1, 2, 3, 7]
PATIENCE = 900  # seconds for one graph; a busy machine takes minutes for what takes a tenth of a second


@dataclasses.dataclass
class Compilation:
    """What is compiled once, and the numbers of threads it is run with."""

    options: list
    threads: list


def grid():
    return [Compilation([f"-O{level}", f"-march={march}"], THREADS) for level in LEVELS for march in MARCHES]


def drawn(rng):
    one, two = (Compilation([f"-O{rng.choice(LEVELS)}", f"-march={rng.choice(MARCHES)}"], []) for _ in range(2))
    one.threads, two.threads = rng.sample(THREADS, 2), [rng.choice(THREADS)]
    return [one, two]


class Folder:
    """A folder with one graph, its inputs, and the results of its runs."""

    def __init__(self, path, tcc, text, arguments, names, dtypes):
        self.path, self.tcc, self.names, self.dtypes = pathlib.Path(path), tcc, names, dtypes
        self.commands = []
        self.file = self.path / "judged.graph"
        self.file.write_text(text)
        self.inputs = []
        for value in arguments:
            path = self.path / f"{value.name}.npy"
            numpy.save(path, value.data.numpy().astype(graphs.NUMPY[value.dtype]))
            self.inputs.append(f"--input={value.name}={path}")

    def captured(self):
        """Puts what the program prints of the graph in its place; a message where it does not."""
        printed = self.path / "captured.graph"
        failure = self.call([self.tcc, self.file, "-emit=captured", "-o", printed])
        self.file = printed
        return f"-emit=captured: {failure}" if failure else None

    def compiled(self, options):
        """The artefact of these options, or a message."""
        artefact = self.path / ("judged" + "".join(options) + ".tcc")
        return self.call([self.tcc, self.file, *options, "-o", artefact]) or artefact

    def run(self, file, options):
        """The results of one run as arrays, or a message."""
        outputs = [self.path / f"{name}.out.npy" for name in self.names]
        wanted = [f"--output={name}={path}" for name, path in zip(self.names, outputs)]
        return self.call([self.tcc, file, *options, *self.inputs, *wanted]) or [numpy.load(path) for path in outputs]

    def call(self, command):
        """None, or how the command failed."""
        command = [str(part) for part in command]
        self.commands.append(" ".join(command))
        (self.path / "commands").write_text("\n".join(self.commands) + "\n")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return f"no end after {PATIENCE} s"
        return f"status {done.returncode}: {done.stderr.strip()[:800]}" if done.returncode else None


def tensor_of(data, dtype):
    """An array that tcc wrote, as fp64, int64 or bool."""
    if dtype == "bf16" and data.dtype.itemsize == 2:
        data = (data.view("<u2").astype("uint32") << 16).view("float32")
    return torch.tensor(data.astype("float64" if is_float(dtype) else "bool" if dtype == "i1" else "int64"))


def compared(place, truth, arrays, bits=True):
    found = [tensor_of(data, dtype) for data, dtype in zip(arrays, place.dtypes)]
    return truth.findings(found) + (truth.unequal(arrays) if bits else [])


def under_settings(place, truth, compilations):
    """Findings of each setting once, and the number of runs. The number of threads must not change a bit."""
    seen, findings, runs = {}, [], 0
    for compilation in compilations:
        artefact = place.compiled(compilation.options)
        if isinstance(artefact, str):
            findings.append(f"{' '.join(compilation.options)}: {artefact}")
            continue
        bits = {}
        for threads in compilation.threads:
            label = f"{' '.join(compilation.options)} --threads={threads}: "
            arrays = place.run(artefact, [f"--run={truth.case.runs}", f"--threads={threads}"])
            runs += 1
            if isinstance(arrays, str):
                findings.append(label + arrays)
                continue
            key = tuple(data.tobytes() for data in arrays)
            bits.setdefault(key, threads)
            if key not in seen:
                seen[key] = compared(place, truth, arrays)
                findings += [label + finding for finding in seen[key]]
        if len(bits) > 1:
            keys = list(bits)
            names = [name for i, name in enumerate(place.names) if len({key[i] for key in keys}) > 1]
            findings.append(f"{' '.join(compilation.options)}: other bits of {', '.join(names)} with "
                            + " and ".join(f"--threads={number}" for number in bits.values()))
    return findings, runs
