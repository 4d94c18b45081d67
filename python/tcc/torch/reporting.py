"""What was compiled, what ATen computes, what was compiled again, and why."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Compiled:
    name: str
    ops: int           # with a translation
    kernels: int
    matmuls: int
    planned_bytes: int
    milliseconds: float
    cache: str
    fallbacks: list
    step: object = field(repr=False, default=None)

    def plan(self) -> dict:
        """What runs, in the order in which it does: instructions with labels and source lines."""
        return json.loads(self.step.plan())


@dataclass
class Report:
    """Of everything since the process began, or since reset()."""

    steps: list[Compiled] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # graphs that ATen runs, and why
    cuts: list[str] = field(default_factory=list)     # steps of training that are several executables, and why

    @property
    def fallbacks(self) -> list:
        return [fallback for step in self.steps for fallback in step.fallbacks]

    @property
    def breaks(self) -> list[str]:
        """Ours, and Dynamo's graph breaks with how often each was seen."""
        from torch._dynamo.utils import counters
        return self.cuts + [f"{reason.splitlines()[0]} (×{count})" for reason, count in counters["graph_break"].items()]

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            lines.append(f"{step.name}: {step.ops} ops -> {step.kernels} kernels, {step.matmuls} matmuls, "
                         f"{step.planned_bytes / 1e6:.1f} MB planned, {step.milliseconds:.0f} ms; cache {step.cache.split(':')[0]}")
        by_op = Counter()
        cost = Counter()
        why = {}
        for fallback in self.fallbacks:
            by_op[fallback.op] += 1
            cost[fallback.op] += fallback.seconds * 1e3
            why.setdefault(fallback.op, (fallback.reason, fallback.place))
        for op, count in by_op.most_common():
            reason, place = why[op]
            lines.append(f"by ATen: {op} ×{count}, {cost[op]:.1f} ms so far: {reason}" + (f" ({place})" if place else ""))
        lines += [f"by ATen as a whole: {text}" for text in self.refused]
        lines += [f"compiled again: {text}" for text in self.recompiles]
        lines += [f"graph break: {text}" for text in self.breaks]
        return "\n".join(lines)


_report = Report()


def add(converted, milliseconds: float) -> None:
    summary = converted.step.summary
    _report.steps.append(Compiled(converted.name, converted.lowered, summary["kernels"], summary["matmuls"],
                                  summary["planned_bytes"], milliseconds, summary["cache"], converted.fallbacks,
                                  converted.step))


def refused(name: str, why: str) -> None:
    _report.refused.append(f"{name}: {why}")


def cut(name: str, why: str) -> None:
    if (text := f"{name}: {why}") not in _report.cuts:
        _report.cuts.append(text)


def recompiled(name: str, before, now) -> None:
    changes = [f"{a} → {b}" for a, b in zip(before, now) if a != b]
    _report.recompiles.append(f"{name}: {', '.join(changes)}")


def report() -> Report:
    return _report


def reset() -> None:
    """Forgets everything, Dynamo's counts of graph breaks too."""
    from torch._dynamo.utils import counters
    global _report
    _report = Report()
    counters["graph_break"].clear()
