"""docs/TORCH.md against the code: the list of ops, and each line that can be run."""

import pathlib
import re

import torch
import torch.nn.functional as F  # noqa: F401 (blocks of the document use it)

import tcc.torch
from tcc.torch import supported

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "TORCH.md"


def test_the_list_of_ops_is_the_codes():
    text = DOCUMENT.read_text()
    assert supported.written(text) == text, "python -m tcc.torch.supported docs/TORCH.md writes it"


def test_the_documents_programs_run():
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    own = {"torch": torch, "tcc": tcc, "F": F, "model": model}
    exec(blocks[0], own)
    assert own["model"](torch.randn(5, 4)).shape == (5, 3)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    x, y = torch.randn(64, 4), torch.randint(0, 3, (64,))
    own |= {"model": model, "optimizer": optimizer, "batches": [(x, y)] * 40,
            "scheduler": torch.optim.lr_scheduler.ConstantLR(optimizer)}
    exec(blocks[1], own)
    assert own["loss"] < F.cross_entropy(models_untrained(x), y)


def models_untrained(x):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))(x)
