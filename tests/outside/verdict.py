"""Whether compiled results are what PyTorch has, within what rounding does to this graph, and equal where bits must be."""

import torch

import exact
from case import place
from graph import FLOATS, Rejected, evaluate, is_float, overflowed

TRIALS = 6  # runs with moved roundings
MORE_TRIALS = 60  # before a result is called wrong: of millions of elements some are moved little by all of the first
SLACK = 16  # how much further off than those a result may be
DENORMALS = 512, 2**14  # of the least numbers, how far off values and gradients may be: those are products of rounded ones


class Truth:
    """What PyTorch says of a case: values, and how far rounding moves them. `unit` is that of f32, where it is another."""

    def __init__(self, case, names, values, seed, unit=None):
        self.case, self.names, self.values = case, names, values
        self.truth, self.generator, self.unit, self.trials = evaluate_runs(case), torch.Generator().manual_seed(seed), unit, []
        self.move_roundings(TRIALS)
        self.lost = overflowed(case.graph)
        self.answers = exact.answers(case.graph) if case.runs == 1 and unit is None else {}

    def move_roundings(self, count):
        kept = FLOATS["f32"]
        FLOATS["f32"] = (self.unit or kept[0], *kept[1:])
        try:
            self.trials += [evaluate_runs(self.case, self.generator) for _ in range(count)]
        finally:
            FLOATS["f32"] = kept

    def findings(self, found):
        """How `found`, tensors in the order of results, is wrong."""
        wrong = self.differences(found)
        if wrong and len(self.trials) == TRIALS:
            self.move_roundings(MORE_TRIALS)
            wrong = self.differences(found)
        return wrong

    def differences(self, found):
        """The same for the roundings that were moved so far."""
        findings, case = [], self.case
        for i, (name, value) in enumerate(zip(self.names, self.values)):
            truth, trials, result = self.truth[i], [trial[i] for trial in self.trials], found[i]
            if i >= len(case.outputs) and self.lost:  # gradients of the same shape are compared elsewhere, others not at all
                if list(self.lost) != [value.shape]:
                    continue
                truth, result, *trials = (x.masked_fill(self.lost[value.shape], 0) for x in [truth, result, *trials])
            wrong = compare(truth, trials, result, value.dtype, DENORMALS[i >= len(case.outputs)])
            if not wrong and i < len(case.outputs) and value.index in self.answers:
                answer = self.answers[value.index]
                off = exact.differs(answer, result)
                wrong = describe(answer, result, off, None) + ", the one right answer" if bool(off.any()) else None
            if wrong:
                kind = "value" if i < len(case.outputs) else "gradient"
                findings.append(f"{name}, the {kind} of %{value.name}: {wrong}")
        return findings + [f"{self.names[place(case, value)]} is not {number} everywhere" for value, number in case.fixed
                           if not bool((found[place(case, value)] == number).all())]

    def unequal(self, arrays):
        """Results of one program whose bits should be equal and are not."""
        places = [(place(self.case, a), place(self.case, b)) for a, b in self.case.equal]
        return [f"{self.names[i]} and {self.names[j]} have different bits" for i, j in places
                if arrays[i].tobytes() != arrays[j].tobytes()]


def compare(truth, trials, found, dtype, denormals):
    """None, or how the compiled result is wrong."""
    if tuple(found.shape) != tuple(truth.shape):
        return f"shape {tuple(found.shape)}, PyTorch has {tuple(truth.shape)}"
    if not is_float(dtype):
        agreed = torch.stack([trial == truth for trial in trials]).all(0)
        wrong = agreed & (found != truth)
        return None if not bool(wrong.any()) else describe(truth, found, wrong, None)
    settled = torch.stack([same_kind(trial, truth) for trial in trials]).all(0)
    unit, _, least = FLOATS[dtype]
    spread = torch.stack([(trial - truth).abs() for trial in trials]).nan_to_num(0, 0, 0).amax(0)
    allowed = SLACK * spread + 4 * unit * truth.abs().nan_to_num(0, 0, 0) + denormals * least
    distance = (found - truth).abs()
    wrong = settled & (~same_kind(found, truth) | (torch.isfinite(truth) & (distance > allowed)))
    return None if not bool(wrong.any()) else describe(truth, found, wrong, allowed)


def same_kind(a, b):
    """Both NaN, both the same infinity, or both finite."""
    return (torch.isnan(a) & torch.isnan(b)) | (a == b) | (torch.isfinite(a) & torch.isfinite(b))


def describe(truth, found, wrong, allowed):
    place = tuple(int(i) for i in wrong.nonzero()[0])
    text = f"{int(wrong.sum())} of {wrong.numel()} elements; at {list(place)} {found[place]!r}, PyTorch {truth[place]!r}"
    return text + (f", allowed {float(allowed[place]):.3g}" if allowed is not None else "")


def evaluate_runs(case, generator=None):
    """What the case's runs give in the end."""
    kept = {}
    for _ in range(case.runs):
        found = evaluate(case.graph, case.outputs, case.gradients, generator, kept)
        kept = {argument.index: found[place(case, output)] for argument, output in case.states}
    return found


def bounded(case):
    """Whether all steps stay among ordinary numbers, also in bodies on the way back."""
    try:
        found = evaluate_runs(case)
    except Rejected:
        return False
    return case.runs == 1 or all(bool((data.abs() < 1e6).all()) for data in found if data.is_floating_point())
