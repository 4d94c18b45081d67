"""Programs of torch.export through the command line: `tcc model.pt2`."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn as nn

import tcc
from tcc.torch import exported

PROGRAM = pathlib.Path(tcc.__file__).parents[2] / "bin" / "tcc"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return torch.softmax(self.norm(torch.relu(self.linear(x))), -1) * self.calls


def saved(folder, model, *inputs, **options) -> pathlib.Path:
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(model, inputs, **options), path)
    return path


def run(*arguments, python=sys.executable):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "TCC_PYTHON": python})


@pytest.mark.long
@pytest.mark.parametrize("is_open", [False, True])
def test_a_program_runs_as_eager(tmp_path, is_open):
    model, x = Model(), torch.randn(4, 8)
    path = saved(tmp_path, model, x, dynamic_shapes={"x": {0: torch.export.Dim("rows")}} if is_open else None)
    given = []
    for name, tensor in {**model.state_dict(), "x": x}.items():
        np.save(tmp_path / f"{name}.npy", tensor.numpy())
        given += ["--input", f"{name}={tmp_path / name}.npy"]
    done = run(path, "-O3", "--run", "--threads=1", *given, "--output", f"result0={tmp_path / 'y.npy'}",
               "--output", f"norm.running_mean={tmp_path / 'mean.npy'}")
    assert done.returncode == 0, done.stderr
    wanted = model(x)
    assert np.allclose(np.load(tmp_path / "y.npy"), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert np.allclose(np.load(tmp_path / "mean.npy"), model.norm.running_mean.numpy(), rtol=1e-5, atol=1e-6)


class Held(nn.Module):
    """Holds values of many kinds: a transposed and an expanded parameter, tied ones, types, constants."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.turned = nn.Parameter(torch.randn(8, 6).t())
        self.register_buffer("wide", torch.randn(6, 1).expand(6, 8))
        self.register_buffer("narrow", torch.randn(8).bfloat16())
        self.register_buffer("mask", torch.arange(8) % 3 == 0, persistent=False)
        self.register_buffer("shift", torch.tensor(3))

    def forward(self, tokens):
        x = self.embedding(tokens)[:, torch.tensor([2, 0, 2])] + self.narrow.float()
        x = x.masked_fill(self.mask, 0.5) @ (self.turned + self.wide).t()
        return self.head(x @ self.turned) + self.shift + torch.tensor([0.5, 1.5] * 5 + [2.5])


@pytest.mark.long
@pytest.mark.parametrize("how, shift", [("--run", 5), ("--run=reference", None)])
def test_a_program_brings_its_values(tmp_path, how, shift):
    model, tokens = Held(), torch.randint(0, 11, (2, 4))
    path = saved(tmp_path, model, tokens)
    np.save(tmp_path / "tokens.npy", tokens.numpy())
    given = ["--input", f"tokens={tmp_path / 'tokens.npy'}"]
    wanted = model(tokens)
    if shift is not None:  # what is given counts
        np.save(tmp_path / "shift.npy", np.array(shift))
        given += ["--input", f"shift={tmp_path / 'shift.npy'}"]
        wanted = wanted + shift - 3
    done = run(path, how, *given, "--output", f"result0={tmp_path / 'y.npy'}", "--threads=1")
    assert done.returncode == 0, done.stderr
    assert np.allclose(np.load(tmp_path / "y.npy"), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.long
def test_what_cannot_be_a_graph_is_one_error(tmp_path, capsys):
    class Determinant(nn.Module):
        def forward(self, x):
            return torch.linalg.det(x)

    done = run(saved(tmp_path, Determinant(), torch.randn(4, 4)))
    assert done.returncode == 1 and done.stderr.count("error:") == 1
    assert "cannot be a graph: no translation of aten._linalg_det.default" in done.stderr
    (tmp_path / "bad.pt2").write_bytes(b"no archive")
    assert exported.main([str(tmp_path / "bad.pt2")]) == exported.REFUSED and capsys.readouterr().err.strip()


def test_without_the_package_the_error_says_what_is_needed(tmp_path):
    path = saved(tmp_path, nn.Linear(2, 2), torch.randn(1, 2))
    for python in ("/bin/false", "no-such-python"):
        done = run(path, python=python)
        assert done.returncode == 1 and done.stderr.count("error:") == 1
        assert "needs a Python with tcc-graph and torch (pip install tcc-graph torch safetensors)" in done.stderr
    done = run(tmp_path / "missing.pt2")
    assert done.returncode == 1 and "cannot read" in done.stderr


@pytest.mark.long
def test_a_library_begins_with_the_programs_values(tmp_path, capsys):
    """As a caller in C: states come from the file that the package writes, a call hands over its inputs alone."""
    model, tokens = Held(), torch.randint(0, 11, (2, 4))
    path, states, graph, library = (tmp_path / f"model.{kind}" for kind in ("pt2", "safetensors", "graph", "so"))
    saved(tmp_path, model, tokens)
    assert exported.main([str(path), str(states), "--states"]) == 0  # as `python -m tcc.torch.exported` does
    graph.write_text(capsys.readouterr().out)
    done = run(graph, "-O3", "-o", library)
    assert done.returncode == 0, done.stderr
    step = ctypes.CDLL(str(library))
    step.model_last_error.restype = ctypes.c_char_p
    handle = ctypes.c_void_p()
    assert step.model_create(None, ctypes.byref(handle)) == 0, step.model_last_error()
    assert step.model_load_states(handle, str(states).encode()) == 0, step.model_last_error()
    header = (tmp_path / "model.h").read_text()
    given = re.search(r"struct model_inputs {(.*?)};", header, re.S)[1]
    assert re.findall(r"\*(\w+);", given) == ["tokens"]  # the program's own values are no inputs
    held, wanted = np.ascontiguousarray(tokens.numpy()), model(tokens).detach().numpy()
    made = np.empty_like(wanted)

    class Block(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("tensor", ctypes.c_void_p)]

    blocks = [Block(ctypes.sizeof(Block), array.ctypes.data) for array in (held, made)]
    assert step.model_run(handle, *map(ctypes.byref, blocks)) == 0, step.model_last_error()
    step.model_destroy(handle)
    assert np.allclose(made, wanted, rtol=1e-5, atol=1e-5)


def test_states_need_a_file(capsys):
    with pytest.raises(SystemExit) as done:
        exported.main(["model.pt2", "--states"])
    assert done.value.code == 2 and "--states without VALUES.safetensors" in capsys.readouterr().err
