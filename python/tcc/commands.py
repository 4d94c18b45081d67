"""The programs of the wheel, under the names that pip installs."""

import os
import pathlib
import sys

_FOLDER = pathlib.Path(__file__).parent


def _run(name: str) -> None:
    program = str(_FOLDER / "bin" / name)
    os.environ.setdefault("TCC_PYTHON", sys.executable)  # which has the package that reads .pt2 files
    os.execv(program, [name, *sys.argv[1:]])


def tcc() -> None:
    _run("tcc-graph")


def train_gpt() -> None:
    _run("train_gpt")


def include_folder() -> str:
    """Where the C++ headers are."""
    return str(_FOLDER / "include")


def library_folder() -> str:
    """Where the shared libraries are that programs in C++ link."""
    return str(_FOLDER / "lib")
