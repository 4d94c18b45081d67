"""Results of which one answer alone is right, bit for bit, at every -O and on every CPU.

add, sub, mul, div and sqrt are rounded correctly and each op by itself, choices and moves round nothing, and sums of whole
numbers below 2^24 are the same in any order: graphs of these have the numbers that rounding after each op gives.
"""

import re

import torch

from graph import is_float, leaf
from language import TORCH

ROUNDED = {"add", "sub", "mul", "div", "sqrt"}
MOVED = {"neg", "abs", "maximum", "minimum", "relu", "select", "compare", "not", "and", "or", "is_finite", "detach", "broadcast",
         "reshape", "transpose", "slice", "pad", "concat", "constant", "iota", "random_bits", "reduce_max", "gather"}
SUMMED = {"reduce_sum", "matmul", "scatter_add"}
WHOLE = 2.0**24


def stored(data, dtype):
    """fp64 results as the type holds them; 16 bits are rounded from f32."""
    if not is_float(dtype):
        return data
    data = data.to(torch.float32)
    return data.to(TORCH[dtype]).double()


def answers(graph):
    """By index, the values of `graph` with one right answer, and the answers."""
    found = {value.index: value.data for value in graph.arguments}
    for step in graph.steps:
        name = re.search(r"tcc\.(\w+)", step.text).group(1)
        if step.truth is None or any(index not in found for index in step.operands):
            continue
        operands = [found[index] for index in step.operands]
        types = {graph.values[index].dtype for index in step.operands} | {value.dtype for value in step.results}
        if name == "cast" and "i64" not in types or name in ROUNDED | MOVED or name in SUMMED and whole(name, operands, types):
            results = step.truth(*(leaf(x) for x in operands))
            for value, data in zip(step.results, results if isinstance(results, tuple) else (results,)):
                found[value.index] = stored(data.detach(), value.dtype)
    return found


def whole(name, operands, types):
    """Whether all sums are of whole numbers that f32 holds, in any order."""
    numbers = [x for x in operands if x.is_floating_point()]
    if name == "scatter_add" and "f32" not in types:  # 16 bits round after each row
        return False
    if len(numbers) != len(operands) and name != "scatter_add" or not all(bool((x == x.round()).all()) for x in numbers):
        return False
    sizes = [float(x.abs().sum()) for x in numbers]
    if name == "matmul":
        return float(numbers[0].abs().amax()) * sizes[1] < WHOLE
    return sum(sizes) < WHOLE


def differs(answer, found):
    """Where `found` is not the answer; zeros of either sign are one number, and so are NaN."""
    return (answer != found) & ~(torch.isnan(answer) & torch.isnan(found)) if answer.is_floating_point() else answer != found
