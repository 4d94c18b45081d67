#!/usr/bin/env python3
"""The language reference: docs/LANGUAGE.md is what its sources say, every op has an example that uses it, and every
example, run by tcc, gives what stands beside it.

    language_test.py TCC LLVM-TBLGEN LLVM-INCLUDE-FOLDER
"""

import importlib.util
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/language"))
import npy

specification = importlib.util.spec_from_file_location("generate", ROOT / "docs/language/generate.py")
generate = importlib.util.module_from_spec(specification)
specification.loader.exec_module(generate)


def close(found, wanted):
    if math.isinf(wanted) or math.isnan(wanted):
        return str(found) == str(wanted)
    return abs(found - wanted) <= 1e-6 * abs(wanted) + 1e-12


def run_example(tcc, name, text, folder):
    """None, or what is wrong with the example of op `name`."""
    if not any(f"tcc.{name} " in line for line in text["example"]):
        return "the example does not use the op"
    if not text["results"]:
        return "no result stands beside the example"
    graph = folder / f"{name}.graph"
    graph.write_text(generate.example_graph(text))
    outputs = [folder / f"{name}.{i}.npy" for i in range(len(text["results"]))]
    command = [tcc, str(graph), "--run", "--threads=1", *(f"--output=r{i}={path}" for i, path in enumerate(outputs))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return done.stderr
    for (result, numbers), path in zip(text["results"], outputs):
        found, wanted = npy.load(path), [float(number) for number in numbers.split()]
        if len(found) != len(wanted) or not all(map(close, found, wanted)):
            return f"{result} is {found}, the reference says {wanted}"
    return None


def main():
    tcc, tblgen, include = sys.argv[1:4]
    data = generate.records(tblgen, [include])
    failures = []
    if (ROOT / "docs/LANGUAGE.md").read_text() != generate.document(data):
        failures.append("docs/LANGUAGE.md is not up to date: run python3 docs/language/generate.py")
    texts = generate.own_texts(data)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            wrong = run_example(tcc, name, text, pathlib.Path(folder))
            if wrong:
                failures.append(f"[{name}] {wrong}")
    print(*failures, f"{len(texts)} ops, {len(failures)} failures", sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
