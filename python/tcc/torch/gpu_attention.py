"""PyTorch's attention ops for GPUs, by the op that compiled code has a translation of (products.py).

Which of them PyTorch takes depends on types and on the GPU. What else they give (random numbers of dropout, offsets of
sequences of several lengths) is read by their own backward ops alone, which are replaced too.
"""

from __future__ import annotations

import torch

aten = torch.ops.aten


def forward(q, k, v, mask, dropout: float, causal: bool, scale):
    """The result and its log-sum-exps, or None where there is no such translation."""
    if dropout or k.shape[1] != q.shape[1] or v.shape[-1] != q.shape[-1]:
        return None
    return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)


def backward(dy, q, k, v, mask, out, lse, dropout: float, causal: bool, scale):
    if dropout or k.shape[1] != q.shape[1] or v.shape[-1] != q.shape[-1]:
        return None
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(dy, q, k, v, out, lse, 0.0, causal, attn_mask=mask,
                                                                     scale=scale)


def nothing(like: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=torch.int64, device=like.device)


def flash(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    made = None if return_debug_mask else forward(q, k, v, None, dropout_p, is_causal, scale)
    if made is None:
        return NotImplemented
    none = nothing(q)
    return *made, none, none, q.shape[2], k.shape[2], none, none, none


def flash_backward(dy, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale=None):
    made = backward(dy, q, k, v, None, out, lse, dropout_p, is_causal, scale)
    return NotImplemented if made is None else made


def efficient(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    made = forward(q, k, v, attn_bias, dropout_p, is_causal, scale)
    return NotImplemented if made is None else (*made, nothing(q), nothing(q))


def efficient_backward(dy, q, k, v, attn_bias, out, lse, seed, offset, dropout_p, grad_input_mask, is_causal=False, *,
                       scale=None):
    made = None if grad_input_mask[3] else backward(dy, q, k, v, attn_bias, out, lse, dropout_p, is_causal, scale)
    return NotImplemented if made is None else (*made, None)


def cudnn(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    made = None if return_debug_mask else forward(q, k, v, attn_bias, dropout_p, is_causal, scale)
    if made is None:
        return NotImplemented
    none = nothing(q)
    return *made, none, none, q.shape[2], k.shape[2], none, none, none


def cudnn_backward(dy, q, k, v, out, lse, seed, offset, attn_bias, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, *,
                   scale=None):
    made = backward(dy, q, k, v, attn_bias, out, lse, dropout_p, is_causal, scale)
    return NotImplemented if made is None else made


DECOMPOSITIONS = {aten._scaled_dot_product_flash_attention.default: flash,
                  aten._scaled_dot_product_flash_attention_backward.default: flash_backward,
                  aten._scaled_dot_product_efficient_attention.default: efficient,
                  aten._scaled_dot_product_efficient_attention_backward.default: efficient_backward,
                  aten._scaled_dot_product_cudnn_attention.default: cudnn,
                  aten._scaled_dot_product_cudnn_attention_backward.default: cudnn_backward}
