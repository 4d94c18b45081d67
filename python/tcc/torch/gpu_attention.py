"""PyTorch's attention ops for GPUs, by the op that compiled code has a translation of (products.py).

Which of them PyTorch takes depends on types and on the GPU. What else they give (random numbers of dropout, offsets of
sequences of several lengths) is read by their own backward ops alone, which are replaced too. Keys and values may have fewer
heads than queries. Results lie in memory as PyTorch says of its own ops: views that come later were traced with its strides.
"""

from __future__ import annotations

import functools

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

aten = torch.ops.aten

#: op → the function that writes it with the other one; NotImplemented where that has no such translation.
DECOMPOSITIONS: dict = {}


def laid_out(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """x with its dims in the order that those of `like`, which is dense, have in memory."""
    if x.stride() == like.stride():
        return x
    order = sorted(range(x.dim()), key=lambda dim: like.stride(dim), reverse=True)
    return x.permute(order).contiguous().permute([order.index(dim) for dim in range(x.dim())])


def replaces(op, tensors: int):
    """Registers a function that gives what `op` gives, or None; its first `tensors` results get the strides of the op's."""
    def register(function):
        @functools.wraps(function)
        def decomposition(*args, **kwargs):
            made = function(*args, **kwargs)
            if made is None:
                return NotImplemented
            with disable_proxy_modes_tracing():
                theirs = op(*args, **kwargs)  # tensors without elements
            return (*map(laid_out, made[:tensors], theirs), *made[tensors:])

        DECOMPOSITIONS[op] = decomposition
        return decomposition
    return register


def is_translated(q, k, v, dropout: float) -> bool:
    return not dropout and k.shape[1] == v.shape[1] and q.shape[1] % k.shape[1] == 0 and v.shape[-1] == q.shape[-1]


def forward(q, k, v, mask, dropout: float, causal: bool, scale):
    """The result and its log-sum-exps, or None where there is no such translation."""
    if not is_translated(q, k, v, dropout):
        return None
    return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)


def backward(dy, q, k, v, mask, out, lse, dropout: float, causal: bool, scale):
    """The gradients of q, k and v, or None."""
    if not is_translated(q, k, v, dropout):
        return None
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(dy, q, k, v, out, lse, 0.0, causal, attn_mask=mask,
                                                                     scale=scale)


def nothing(like: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=torch.int64, device=like.device)


@replaces(aten._scaled_dot_product_flash_attention.default, 1)
def flash(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    made = None if return_debug_mask else forward(q, k, v, None, dropout_p, is_causal, scale)
    if made is None:
        return None
    none = nothing(q)
    return *made, none, none, q.shape[2], k.shape[2], none, none, none


@replaces(aten._scaled_dot_product_flash_attention_backward.default, 3)
def flash_backward(dy, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale=None):
    return backward(dy, q, k, v, None, out, lse, dropout_p, is_causal, scale)


@replaces(aten._scaled_dot_product_efficient_attention.default, 1)
def efficient(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    made = forward(q, k, v, attn_bias, dropout_p, is_causal, scale)
    return None if made is None else (*made, nothing(q), nothing(q))


@replaces(aten._scaled_dot_product_efficient_attention_backward.default, 3)
def efficient_backward(dy, q, k, v, attn_bias, out, lse, seed, offset, dropout_p, grad_input_mask, is_causal=False, *,
                       scale=None):
    made = None if grad_input_mask[3] else backward(dy, q, k, v, attn_bias, out, lse, dropout_p, is_causal, scale)
    return None if made is None else (*made, None)


@replaces(aten._scaled_dot_product_cudnn_attention.default, 1)
def cudnn(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    made = None if return_debug_mask else forward(q, k, v, attn_bias, dropout_p, is_causal, scale)
    if made is None:
        return None
    none = nothing(q)
    return *made, none, none, q.shape[2], k.shape[2], none, none, none


@replaces(aten._scaled_dot_product_cudnn_attention_backward.default, 3)
def cudnn_backward(dy, q, k, v, out, lse, seed, offset, attn_bias, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, *,
                   scale=None):
    return backward(dy, q, k, v, attn_bias, out, lse, dropout_p, is_causal, scale)
