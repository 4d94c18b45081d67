import pytest
import torch

import tcc.torch


@pytest.fixture(autouse=True)
def fresh():
    """Each test has a seed, and a report of its own."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    tcc.torch.reset()
    yield
    torch._dynamo.reset()
