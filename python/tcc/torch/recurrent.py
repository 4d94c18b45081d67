"""LSTM, GRU and RNN while train_step traces, which writes each of their steps into the graph.

On a GPU cuDNN takes all weights of such a layer as one memory, which PyTorch makes while the layer runs: a graph cannot hold
that; on the CPU oneDNN has an op of its own. PyTorch's own decompositions of these functions do without, and give the same
but for rounding.
"""

from __future__ import annotations

import torch
from torch._decomp import decomposition_table
from torch.overrides import TorchFunctionMode

from tcc.torch.apart import Apart

aten = torch.ops.aten

#: PyTorch's function → what writes it with smaller ops, for sequences of one length.
WRITTEN = {function: decomposition_table[op] for function, op in (
    (torch.lstm, aten.lstm.input), (torch.gru, aten.gru.input), (torch.rnn_tanh, aten.rnn_tanh.input),
    (torch.rnn_relu, aten.rnn_relu.input))}
#: Steps of all layers together. Each is some 60 ops of an LSTM with its gradient, all of which are traced and compiled.
MOST_STEPS = 128


class Unrolled(TorchFunctionMode):
    """While it lasts, recurrent layers are smaller ops. Throws Apart where there would be too many."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        written = WRITTEN.get(function)
        if written is None or kwargs or not isinstance(args[3], bool):  # a packed sequence has its weights there
            return function(*args, **(kwargs or {}))
        x, _, _, _, layers, _, _, is_bidirectional, batch_first = args
        steps = x.shape[batch_first and x.dim() == 3] * layers * (1 + is_bidirectional)
        if steps > MOST_STEPS:
            raise Apart(f"{function.__name__} has {steps} steps, and a graph would hold each of them; at most {MOST_STEPS}")
        if not x.requires_grad:
            x = x.detach().requires_grad_()  # or the decomposition would take oneDNN's op
        return written(x, *args[1:])
