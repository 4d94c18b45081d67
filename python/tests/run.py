#!/usr/bin/env python3
"""Runs the package's tests by a Python that has PyTorch: $TCC_TORCH_PYTHON, or this one.

    run.py FOLDER-OF-THE-PACKAGE [ARGUMENT-OF-PYTEST...]

Status 77, which ctest takes for "skipped", where there is no PyTorch 2.10 or no pytest. Of tests with many cases some
are drawn (conftest.py), each day others: by the seed that is printed, or by TCC_TORCH_SEED.
"""

import datetime
import os
import pathlib
import subprocess
import sys

CHECK = """
import sys
try:
    import pytest, torch
except ImportError as why:
    sys.exit(f"skipped: {why}; bash test.sh --torch installs what is missing")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    sys.exit(f"skipped: PyTorch {torch.__version__} is too old; bash test.sh --torch installs a newer one")
"""


def main() -> int:
    python = os.environ.get("TCC_TORCH_PYTHON") or sys.executable
    if not os.path.exists(python) or subprocess.run([python, "-c", CHECK]).returncode:
        return 77
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(sys.argv[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    seed = environment.setdefault("TCC_TORCH_SEED", str(datetime.date.today().toordinal()))
    print("all cases" if environment.get("TCC_FULL") else f"cases drawn by TCC_TORCH_SEED={seed}", flush=True)
    folder = pathlib.Path(__file__).parent
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:logging", str(folder), *sys.argv[2:]],
                          env=environment, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
