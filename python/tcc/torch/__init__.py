"""tcc for PyTorch: `torch.compile(model, backend="tcc")`. See docs/TORCH.md."""

import torch  # noqa: F401 (first: its thread pool is the one that is used)

from tcc import _native

if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    raise ImportError(f"tcc.torch needs PyTorch 2.10 or later, this is {torch.__version__}")
_native.open(torch.Tensor.__dlpack_c_exchange_api__)

from tcc._native import Error  # noqa: E402
from tcc.torch.backend import Options, tcc  # noqa: E402
from tcc.torch.optimizers import Lion  # noqa: E402
from tcc.torch.reporting import Report, report, reset  # noqa: E402
from tcc.torch.train import TrainStep, train_step  # noqa: E402


def empty_cache() -> None:
    """Gives memory back to the system that results of steps have used and no tensor uses now. It is kept otherwise, for
    the next step takes the same."""
    _native.trim_result_memory()


if "tcc" not in torch._dynamo.list_backends(None):
    torch._dynamo.register_backend(tcc, name="tcc")

__all__ = ["Error", "Lion", "Options", "Report", "TrainStep", "empty_cache", "report", "reset", "tcc", "train_step"]
