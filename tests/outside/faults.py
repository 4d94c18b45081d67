"""Whether the judge can fail: graphs that are not the ones PyTorch has, and results with a bit turned, must be findings."""

import random
import re

import numpy
import torch

import classes
import settings
from case import text_of
from verdict import Truth


def replaced(pattern, by):
    """The text with its last `pattern` replaced, or None."""
    def change(text):
        found = list(re.finditer(pattern, text))
        return found and text[:found[-1].start()] + found[-1].expand(by) + text[found[-1].end():]

    return change


def louder(text):
    """The last constant of a number is a thousandth larger."""
    found = list(re.finditer(r"dense<(-?[0-9.]+e[-+]\d+)>", text))
    found = [one for one in found if 0.01 < abs(float(one.group(1))) < 1000]
    return found and f"{text[:found[-1].start(1)]}{float(found[-1].group(1)) * 1.001:.9e}{text[found[-1].end(1):]}"


WRONG_TEXT = {  # what the compiler gets is not what PyTorch has: class, change
    "another scale": ("attention", louder),
    "another mask": ("attention", replaced("compare ge ", "compare gt ")),
    "a maximum for a sum": ("sums", replaced("reduce_sum", "reduce_max")),
    "a difference for a sum": ("several", replaced("tcc.add ", "tcc.sub ")),
    "a sine for a tangent": ("control", replaced("tcc.tanh ", "tcc.sin ")),
    "another decay": ("steps", louder),
    "another derivative": ("orders", replaced("tcc.mul (%v\\d+), ", r"tcc.add \1, ")),
    "one rounding for two": ("narrow", replaced("tcc.gelu ", "tcc.silu ")),
    "an operand for the other": ("exact", replaced(r"tcc.sub (%\w+), (%\w+)", r"tcc.sub \2, \1")),
    "no such op": ("plain", replaced(r"tcc\.(\w+) ", "tcc.none ")),
}


def turned(data, place=0):
    """The array with the last bit of one element turned."""
    data = data.copy()
    data.reshape(-1).view(f"u{data.dtype.itemsize}")[place] ^= 1
    return data


class Bent(settings.Folder):
    """Results that are not what the program gave, in its runs from number `first` on."""

    number, first = 0, 0

    def run(self, file, options):
        arrays, self.number = super().run(file, options), self.number + 1
        return arrays if isinstance(arrays, str) or self.number <= self.first else self.bend(arrays)


class BentBit(Bent):
    def bend(self, arrays):
        return [turned(data) if data.dtype == numpy.float32 and data.size else data for data in arrays]


class BentThreads(BentBit):
    first = 1


class BentTwin(Bent):
    def bend(self, arrays):
        return [turned(arrays[0]), *arrays[1:]] if arrays[0].size else arrays


class BentNumber(Bent):
    def bend(self, arrays):
        return [data * numpy.float32(1.001) if data.dtype == numpy.float32 else data for data in arrays]


class NotANumber(Bent):
    def bend(self, arrays):
        return [data * numpy.float32("nan") if data.dtype == numpy.float32 else data for data in arrays]


WRONG_RESULT = {  # class, what is done to results, what a finding says
    "a bit of the one right answer": ("exact", BentBit, "the one right answer"),
    "a bit by the number of threads": ("sums", BentThreads, "other bits"),
    "a bit of one of two equal results": ("twice", BentTwin, "different bits"),
    "a thousandth": ("attention", BentNumber, "PyTorch"),
    "NaN": ("plain", NotANumber, "PyTorch"),
}


def check_all(tcc, folder, graphs=4):
    """The faults that none of `graphs` graphs with it shows."""
    missed = []
    for name, (kind, change) in WRONG_TEXT.items():
        if not any(shown(tcc, folder, seed, kind, settings.Folder, change) for seed in carriers(kind, change, graphs)):
            missed.append(name)
    for name, (kind, bent, words) in WRONG_RESULT.items():
        if not any(words in " ".join(shown(tcc, folder, seed, kind, bent)) for seed in range(graphs)):
            missed.append(name)
    return missed


def graph_of(seed, kind):
    torch.manual_seed(seed)
    case = classes.make(random.Random(seed), kind, seed)[1]
    return case, *text_of(case)


def carriers(kind, change, count):
    """The first seeds whose graphs have what is changed."""
    seeds = (seed for seed in range(100) if change(graph_of(seed, kind)[1]))
    return [seed for seed, _ in zip(seeds, range(count))]


def shown(tcc, folder, seed, kind, place, change=lambda text: text):
    """The findings of a graph."""
    case, text, names, values = graph_of(seed, kind)
    place = place(folder, tcc, change(text), case.graph.arguments, names, [v.dtype for v in values])
    return settings.under_settings(place, Truth(case, names, values, seed), [settings.Compilation(["-O2"], [1, 2])])[0]
