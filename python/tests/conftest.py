"""Which tests run: of each test with several cases a quarter, and of long tests a third, drawn by TCC_TORCH_SEED; with
TCC_FULL=1 all."""

import collections
import os
import random

import pytest
import torch

import tcc.torch


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes some seconds, to compile a model or to start a program")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("TCC_FULL") or len({item.location[0] for item in items}) == 1:
        return  # one file is asked for
    draw = random.Random(os.environ.get("TCC_TORCH_SEED", "26"))
    cases = collections.defaultdict(list)
    for item in items:
        cases[item.location[0], item.originalname].append(item)
    kept = set()
    for group in cases.values():
        kept |= set(draw.sample(group, -(-len(group) // 4)))
    long = [item for item in items if item in kept and item.get_closest_marker("long")]
    kept -= set(draw.sample(long, len(long) - -(-len(long) // 3)))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(autouse=True)
def fresh():
    """Each test has a seed, and a report of its own."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    tcc.torch.reset()
    yield
    torch._dynamo.reset()
