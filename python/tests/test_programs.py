"""Random programs, some of which depend on values: see judge_programs.py."""

import judge_programs as judge
import pytest
import torch

KINDS = list(judge.STATEMENTS)


@pytest.mark.parametrize("seed", [1003, 1005, 1012, 1014])
def test_random_programs(seed):
    entry = judge.judge(seed, KINDS, ["step", "compile"])
    assert entry["is"] == "right", entry


@pytest.mark.parametrize("changed", [
    {"loss 0": torch.tensor(1.001)}, {"weight": torch.tensor([1.0, float("nan")])}, {"weight": torch.ones(1)},
    {"weight": torch.ones(2, dtype=torch.float64)}, {"bias": torch.ones(1)}])
def test_the_judge_tells_other_results(changed):
    eager = {"loss 0": torch.tensor(1.0), "weight": torch.ones(2)}
    truth = {name: value.double() for name, value in eager.items()}
    assert judge.compared(eager, eager, truth) == ""
    assert judge.compared({**eager, **changed}, eager, truth)
