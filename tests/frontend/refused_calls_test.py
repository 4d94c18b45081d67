#!/usr/bin/env python3
"""Calls that a compiled function does not take: the compiler says one sentence, and it is ours.

    refused_calls_test.py COMPILER INCLUDE-FOLDER...
"""
import subprocess
import sys

HEAD = """#include <tcc/tcc.h>
using namespace tcc;
std::vector<Array> call(Function &f, const Array &x, const Tensor &t, const State &s) {
  (void)t, (void)s;
"""
TAKEN = "f(x, 3.0, 0.5f), f(), f(t, s);\n  return {};"
REFUSED = {"return f(x, 3);": "a compiled function takes Arrays and floating-point numbers",
           'return f(x, "3");': "a compiled function takes Arrays and floating-point numbers",
           "f(t, 3); return {};": "a compiled function takes Tensors and States"}


def errors(line):
    done = subprocess.run([sys.argv[1], "-std=c++20", "-fsyntax-only", *(f"-I{folder}" for folder in sys.argv[2:]), "-x", "c++", "-"],
                          input=HEAD + "  " + line + "\n}\n", capture_output=True, text=True)
    return [said for said in done.stderr.splitlines() if "error: " in said]


failures = [f"{TAKEN} is refused: {said}"] if (said := errors(TAKEN)) else []
for line, sentence in REFUSED.items():
    said = errors(line)
    if len(said) != 1 or sentence not in said[0]:
        failures.append(f"{line} is not refused by one sentence: {said}")
print("\n".join(failures))
sys.exit(bool(failures))
