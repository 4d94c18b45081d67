#!/usr/bin/env python3
"""Every command, graph, output and picture of every README: commands of `tcc` and `train_gpt` are run on small inputs and must end
with status 0; what else stands in a block must be in OTHERS, with the reason why it is not run here, and what it names must
exist; printed text is compared with what its command prints.

    readme_test.py FOLDER-OF-PROGRAMS
"""

import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The start of a line, and why it is not run.
OTHERS = {
    "bash run.sh": "installs and trains for a minute", "bash test.sh": "runs this test",
    "cmake -S": "configures and builds everything", "ctest": "runs this test",
    "build/tests/": "a test of its own", "tests/bench/parity.py": "needs PyTorch and minutes",
    "tests/bench/speed.sh": "takes minutes", "tests/models/transformers_parity.py": "needs transformers", "tests/outside/judge.py": "the test outside_judge",
    "tests/bench/gpu.sh": "packs for a GPU", "FOLDER/gpu.sh": "runs on a GPU",
    "python3 python/tests/judge": "needs PyTorch", "bash python/wheel.sh": "builds everything again",
    "python3 tests/ops/make_torch_data.py": "needs PyTorch", "python3 docs/language/generate.py": "the test language_test",
}
# Blocks that are no commands: a form that kernel_test.cpp expects, and kernel text that emulator_readme_test compiles.
NO_COMMANDS = {"ir/README.md", "codegen/cuda/device/README.md"}
PROGRAMS = {"program", "tcc", "train_gpt", "build/bin/tcc", "build/bin/train_gpt"}


def blocks(text):
    """Lines of fenced blocks without a language and of indented ones."""
    fence, before = None, ""
    for line in text.splitlines():
        if line.startswith("```"):
            fence = None if fence is not None else line[3:]
        elif fence == "":
            yield line
        elif fence is None and line.startswith("    ") and not before.lstrip().startswith(("- ", "* ")):
            yield line[4:]
        before = line


def commands(text):
    yield from re.findall(r"`(build/bin/(?:tcc|train_gpt) [^`]*)`", text)
    for line in blocks(text):
        line = re.split(r"\s{2,}#|\s{5,}", line.strip())[0].split(" # ")[0].strip()
        if line and "─" not in line and not re.match(r"\w+ \+?= ", line) and re.match(r"[\w./=-]+(\s|$)", line):
            yield line.rstrip("\\").strip()


def graph_failures(programs, folder):
    """Each ```graph block of a Markdown file, checked by tcc as it stands."""
    for path in [ROOT / "README.md", ROOT / "docs/LANGUAGE.md"]:
        blocks_found = re.findall(r"^```graph\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
        for text in blocks_found:
            (folder / "block.graph").write_text(text)
            done = subprocess.run([programs / "tcc", "-fsyntax-only", "block.graph"], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                yield f"{path.name}: {done.stderr}"
        if not blocks_found:
            yield f"{path.name} has no graph"


def same_number(shown, printed):
    """Whole ones are equal; others may differ as they do from CPU to CPU, by 1e-4 of them or one in the last digit that is shown."""
    if "." not in shown:
        return shown == printed
    mantissa, _, exponent = shown.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(float(shown) - float(printed)) <= max(1e-4 * abs(float(shown)), 1.01 * unit)


def same_words(line, printed):
    """Whether a printed line is as the README has it, up to its `…`."""
    number = r"(-?\d+\.?\d*(?:e[-+]?\d+)?)"
    shown, cut = re.split(number, line.rstrip("…").rstrip()), line.endswith("…")
    found = re.split(number, printed)[:len(shown)] if cut else re.split(number, printed)
    if len(shown) != len(found):
        return False
    for place, (a, b) in enumerate(zip(shown, found)):
        if place % 2 and not same_number(a, b):
            return False
        if place % 2 == 0 and a != b and not (cut and place == len(shown) - 1 and b.startswith(a)):
            return False
    return True


def output_failures(programs, folder):
    """The README's printed text beside what the command before it prints, in that order; its picture beside what draws it."""
    text = (ROOT / "README.md").read_text()
    (printed,) = re.findall(r"\n\n([^\n]*\n?[^\n]*`[^\n]*)\n\n```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    command = shlex.split(re.search(r"`tcc ([^`]*)`", printed[0])[1])
    done = subprocess.run([programs / "tcc", *command], cwd=folder, capture_output=True, text=True)
    lines = (done.stderr + done.stdout).splitlines()
    for line in printed[1].splitlines():
        if line == "…": # other lines stand between
            continue
        while lines and not same_words(line, lines[0]):
            lines.pop(0)
        if not lines:
            yield f"README.md: {line}\n  is not what `tcc {' '.join(command)}` prints:\n{done.stderr}{done.stdout}"
            return
    yield from picture_failures(programs, folder, text)


def picture_failures(programs, folder, text):
    """The picture is what its command draws, and the sentence before it has the kernels and ops of the fused graph."""
    command = re.search(r"`tcc ([^`]*-emit=svg -o\s[^`]*)`", text)[1].split()
    drawn = folder / "drawn.svg"
    subprocess.run([programs / "tcc", *command[:-1], drawn], cwd=folder, check=True)
    shown = re.search(r"!\[[^]]*\]\(([^)]*\.svg)\)", text)[1]
    if command[-1] != shown:
        yield f"README.md: {command[-1]} is drawn, and {shown} is shown"
    elif drawn.read_text() != (ROOT / shown).read_text():
        yield f"{shown} is not what `tcc {' '.join(command)}` draws; run it again"
    fused = subprocess.run([programs / "tcc", command[0], "-emit=fused"], cwd=folder, capture_output=True, text=True).stdout
    kernels = re.findall(r"= tcc\.kernel (.*?)\) -> (.*?) \{\n(.*?)^ *tcc\.yield", fused, re.MULTILINE | re.DOTALL)
    ops = kernels[0][2].count(" = tcc.") if kernels else 0
    parts = re.search(r"tensor<(\d+)x1x384xf32>", kernels[0][1] if kernels else "")
    for expected in ("shows the three kernels" if len(kernels) == 3 else f"shows {len(kernels)} kernels",
                     f"The first one has {ops} ops of forward and backward", f"{parts and parts[1]} parts of the rows"):
        if expected not in text.replace("\n", " "):
            yield f"README.md: `{expected}` is not said"


def form_failures():
    """The kernel form of ir/README.md is one that kernel_test.cpp expects, word for word."""
    form = re.search(r"^```\n(.*?)^```$", (ROOT / "ir/README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    if form not in (ROOT / "tests/ir/kernel_test.cpp").read_text():
        yield "ir/README.md: its kernel form is none that tests/ir/kernel_test.cpp expects"


def pass_failures(programs):
    """passes/README.md has the passes of --print-pipeline, in their order, each with its phase."""
    printed = subprocess.run([programs / "tcc", "--print-pipeline"], capture_output=True, text=True).stdout
    passes = re.findall(r"^ *\d+ +([\w-]+) +(\w+)", printed, re.MULTILINE)
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \|", (ROOT / "passes/README.md").read_text(), re.MULTILINE)
    if not passes or rows != passes:
        yield f"passes/README.md: its table has {rows}, --print-pipeline {passes}"


def write_inputs(folder):
    (folder / "book.txt").write_text("In the beginning was the word, and the word was a token. " * 400)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 64), }".ljust(117) + "\n"
    with open(folder / "x.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(2 * 64 * 4))


def run(line, programs, folder):
    """None, or how a command of `tcc` or `train_gpt` failed."""
    environment = dict(word.split("=", 1) for word in shlex.split(re.match(r"(\w+=\S* )*", line)[0]))
    environment = {name: value.replace("build/lib", str(programs.parent / "lib")) for name, value in environment.items()}
    line = re.sub(r"^(\w+=\S* )*\s*", "", line).replace("program …", "tcc models/layer_norm.graph --target=cuda --run")
    line = line.replace("FILE.tcc", "out.tcc").replace(" FILE", " models/train_step.graph")
    line = re.sub(r"-emit=(\w+)(\|\w+)+", r"-emit=\1", line)
    words = [word for word in shlex.split(line) if word != "..."]
    if words[0].endswith("train_gpt") and "--help" not in words:
        words = [word if word != "FILE" else "book.txt" for word in words]
        words = [word if word != "models/train_step.graph" else "book.txt" for word in words]
        if "--steps" not in words:
            words += ["--steps", "1"]
    words[0] = str(programs / pathlib.Path(words[0]).name)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                          env={**os.environ, **environment})
    return None if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()[:500]}"


def main():
    programs, failures, ran = pathlib.Path(sys.argv[1]).resolve(), [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "models").symlink_to(ROOT / "models")
        write_inputs(folder)
        failures += [*graph_failures(programs, folder), *output_failures(programs, folder), *form_failures(),
                     *pass_failures(programs)]
        tracked = subprocess.run(["git", "ls-files", "*README.md"], cwd=ROOT, capture_output=True, text=True)
        readmes = tracked.stdout.split() or [str(p.relative_to(ROOT)) for p in ROOT.glob("*/README.md")]
        for readme in readmes:
            if readme in NO_COMMANDS:
                continue
            for line in commands((ROOT / readme).read_text()):
                start = re.sub(r"^(\w+=\S* )*", "", line)
                words = start.split()
                if words and words[0] in PROGRAMS:
                    ran += 1
                    wrong = run(line, programs, folder)
                    if wrong:
                        failures.append(f"{readme}: {line}\n  {wrong}")
                elif not any(start.startswith(other) for other in OTHERS):
                    failures.append(f"{readme}: {line}\n  neither run here nor in OTHERS with a reason")
                elif words[0].startswith(("tests/", "docs/")) and not (ROOT / words[0]).exists():
                    failures.append(f"{readme}: {line}\n  there is no {words[0]}")
    print(*failures, f"{ran} commands run, {len(failures)} failures", sep="\n")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
