#!/usr/bin/env python3
"""GPT-2 in PyTorch, as train_gpt trains it: the peer of speed.sh, all.sh and parity.py; to be timed, Llama and the modern
GPT too. Needs torch and numpy alone.

    torch_gpt.py --size char -B 16 --steps 6 --compile [--bf16]    times steps; the last line is JSON with "tok_s"
    torch_gpt.py --size baby -B 4 --steps 20 --export DIR          writes weights, tokens, losses and first gradients
    torch_gpt.py --size modern-124m -B 1 --steps 6 --compile --optimizer muon
    torch_gpt.py --size gpt2 -B 8 --device cuda --bf16 --compile [--mode max-autotune] [--sdpa cudnn] [--pad 50304]

The step: next-token loss, gradients clipped to norm 1, AdamW (3e-4, 0.9/0.95, 1e-8, decay 0.1 on matrices), f32; with
--bf16 forward products are under autocast. With --optimizer muon, hidden matrices are updated by torch.optim.Muon, whose
iteration multiplies in bf16; without --bf16 it multiplies in f32, as everything else. On CUDA batches come from pinned memory, AdamW is the fused one, and steps that
are timed wait for nothing: the loss is read at the end. An export holds config.json and model.safetensors under Hugging Face's names,
tokens.bin (uint16, batch after batch, in the order of train_gpt's --order=sequential), losses.json, grads.safetensors
(first step, before clipping).
"""
import argparse
import contextlib
import json
import math
import os
import struct
import time

import numpy as np
import torch
from torch.nn import functional as F

SIZES = {  # layers, heads, width, sequence, vocabulary: train_gpt's presets
    "baby": (4, 4, 128, 64, 256),
    "char": (6, 6, 384, 256, 256),
    "gpt2": (12, 12, 768, 1024, 50257),
    "gpt2-medium": (24, 16, 1024, 1024, 50257),
    "llama-160m": (12, 12, 768, 2048, 32000),
    "modern-124m": (12, 6, 768, 1024, 50304),
}


def initial_weights(layers, width, sequence, vocabulary):
    """Parameters by Hugging Face's names; matrices are [in, out]."""
    generator = torch.Generator().manual_seed(1)
    weights = {}

    def matrix(name, rows, columns, deviation=0.02):
        weights[name] = torch.randn(rows, columns, generator=generator) * deviation

    def linear(name, rows, columns, deviation=0.02):
        matrix(name + ".weight", rows, columns, deviation)
        weights[name + ".bias"] = torch.zeros(columns)

    def norm(name):
        weights[name + ".weight"], weights[name + ".bias"] = torch.ones(width), torch.zeros(width)

    matrix("wte.weight", vocabulary, width)
    matrix("wpe.weight", sequence, width)
    into_stream = 0.02 / math.sqrt(2 * layers)
    for layer in range(layers):
        block = f"h.{layer}."
        norm(block + "ln_1")
        linear(block + "attn.c_attn", width, 3 * width)
        linear(block + "attn.c_proj", width, width, into_stream)
        norm(block + "ln_2")
        linear(block + "mlp.c_fc", width, 4 * width)
        linear(block + "mlp.c_proj", 4 * width, width, into_stream)
    norm("ln_f")
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def attention(x, heads):
    """Causal self-attention of packed queries, keys and values [B, T, 3·C] to [B, T, C]."""
    batch, length, packed = x.shape
    q, k, v = x.view(batch, length, 3, heads, packed // 3 // heads).permute(2, 0, 3, 1, 4)
    if hasattr(F, "scaled_dot_product_attention"):
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
    return mixed.transpose(1, 2).reshape(batch, length, packed // 3)


def attention_by(backend):
    """PyTorch's choice, or one of its attention back ends."""
    if not backend:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel({"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                        "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}[backend])


def loss_of(weights, tokens, targets, layers, heads):
    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], 1e-5)

    def linear(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    x = weights["wte.weight"][tokens] + weights["wpe.weight"][: tokens.shape[1]]
    for layer in range(layers):
        block = f"h.{layer}."
        x = x + linear(attention(linear(norm(x, block + "ln_1"), block + "attn.c_attn"), heads), block + "attn.c_proj")
        hidden = F.gelu(linear(norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, block + "mlp.c_proj")
    logits = norm(x, "ln_f") @ weights["wte.weight"].t()
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def llama_weights(layers, width, sequence, vocabulary):
    """Parameters of a Llama with an inner width of four times the width, by Hugging Face's names; matrices are [out, in]."""
    generator = torch.Generator().manual_seed(1)
    shapes = {"model.embed_tokens": (vocabulary, width), "model.norm": (width,), "lm_head": (vocabulary, width)}
    for layer in range(layers):
        block = f"model.layers.{layer}."
        shapes.update({f"{block}self_attn.{name}_proj": (width, width) for name in "qkvo"})
        shapes.update({f"{block}mlp.{name}_proj": (4 * width, width) for name in ("gate", "up")})
        shapes.update({f"{block}mlp.down_proj": (width, 4 * width), f"{block}input_layernorm": (width,),
                       f"{block}post_attention_layernorm": (width,)})
    return {f"{name}.weight": (torch.randn(shape, generator=generator) * 0.02 if len(shape) > 1 else torch.ones(shape)).requires_grad_()
            for name, shape in shapes.items()}


def rotary(length, size, device):
    """Turns [..., length, size] by positions."""
    rates = 10000.0 ** (-torch.arange(0, size, 2, device=device) / size)
    angles = torch.outer(torch.arange(length, device=device), rates).repeat(1, 2)
    cosine, sine = angles.cos(), angles.sin()

    def turned(x):
        first, second = x.chunk(2, -1)
        return x * cosine.to(x.dtype) + torch.cat((-second, first), -1) * sine.to(x.dtype)

    return turned


def llama_loss(weights, tokens, targets, layers, heads):
    batch, length = tokens.shape
    x = weights["model.embed_tokens.weight"][tokens]
    size = x.shape[-1] // heads
    turned = rotary(length, size, x.device)

    def norm(x, name):
        return F.rms_norm(x, x.shape[-1:], weights[name + ".weight"], 1e-6)

    def linear(x, name):
        return x @ weights[name + ".weight"].t()

    for layer in range(layers):
        block = f"model.layers.{layer}."
        inner = norm(x, block + "input_layernorm")
        q, k, v = (linear(inner, f"{block}self_attn.{name}_proj").view(batch, length, heads, size).transpose(1, 2) for name in "qkv")
        mixed = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + linear(mixed.transpose(1, 2).reshape(batch, length, -1), block + "self_attn.o_proj")
        inner = norm(x, block + "post_attention_layernorm")
        gated = F.silu(linear(inner, block + "mlp.gate_proj")) * linear(inner, block + "mlp.up_proj")
        x = x + linear(gated, block + "mlp.down_proj")
    logits = linear(norm(x, "model.norm"), "lm_head")
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def modern_weights(layers, width, sequence, vocabulary):
    """Parameters of models/README.md's modern GPT; matrices are [out, in]. None is zero, which would spare work."""
    generator = torch.Generator().manual_seed(1)
    shapes = {"wte": (vocabulary, width), "lm_head": (vocabulary, width)}
    for layer in range(layers):
        shapes.update({f"h.{layer}.attn.{name}": (width, width) for name in ("c_q", "c_k", "c_v", "c_proj")})
        shapes.update({f"h.{layer}.mlp.c_fc": (4 * width, width), f"h.{layer}.mlp.c_proj": (width, 4 * width)})
    return {f"{name}.weight": (torch.randn(shape, generator=generator) * 0.02).requires_grad_() for name, shape in shapes.items()}


def modern_loss(weights, tokens, targets, layers, heads):
    batch, length = tokens.shape

    def norm(x):
        return F.rms_norm(x, x.shape[-1:], eps=1e-6)

    def linear(x, name):
        return x @ weights[name + ".weight"].t()

    x = norm(weights["wte.weight"][tokens])
    size = x.shape[-1] // heads
    turned = rotary(length, size, x.device)
    for layer in range(layers):
        block = f"h.{layer}."
        inner = norm(x)
        q, k, v = (linear(inner, f"{block}attn.c_{name}").view(batch, length, heads, size).transpose(1, 2) for name in "qkv")
        mixed = F.scaled_dot_product_attention(turned(norm(q)), turned(norm(k)), v, is_causal=True)
        x = x + linear(mixed.transpose(1, 2).reshape(batch, length, -1), block + "attn.c_proj")
        x = x + linear(F.relu(linear(norm(x), block + "mlp.c_fc")).square(), block + "mlp.c_proj")
    logits = 30 * torch.tanh(linear(norm(x), "lm_head").float() / 30)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def orthogonal(matrix, coefficients, steps, eps):
    """The iteration of torch.optim.Muon in the matrix's own type."""
    a, b, c = coefficients
    is_tall = matrix.size(0) > matrix.size(1)
    x = matrix.t() if is_tall else matrix
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        square = x @ x.t()
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.t() if is_tall else x


class Muon:
    """torch.optim.Muon for hidden matrices, AdamW for the other parameters."""

    def __init__(self, weights, rest_of, narrow):
        from torch.optim import _muon
        if not narrow:
            _muon._zeropower_via_newtonschulz = orthogonal
        hidden = [name for name in weights if weights[name].dim() == 2 and not any(part in name for part in ("wte", "lm_head", "embed"))]
        self.parts = [torch.optim.Muon([weights[name] for name in hidden], lr=3e-4, weight_decay=0.1, momentum=0.95,
                                       adjust_lr_fn="match_rms_adamw"),
                      rest_of({name: weight for name, weight in weights.items() if name not in hidden})]

    def zero_grad(self, set_to_none):
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def step(self):
        for part in self.parts:
            part.step()


def save_tensors(path, tensors):
    """A safetensors file: length, JSON header, f32 data."""
    header, parts, size = {}, [], 0
    for name, tensor in tensors.items():
        parts.append(tensor.detach().cpu().numpy().astype("<f4").tobytes())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [size, size + len(parts[-1])]}
        size += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)


KINDS = {"llama": (llama_weights, llama_loss), "modern": (modern_weights, modern_loss)}  # all others are GPT-2


def make_tokens(count, vocabulary):
    """Text-like numbers: a walk in which the next token often follows from the last one."""
    random = np.random.default_rng(2)
    jumps = random.integers(0, vocabulary, count)
    tokens = np.zeros(count, np.int64)
    for i in range(1, count):
        tokens[i] = (tokens[i - 1] * 5 + 3) % vocabulary if jumps[i] % 4 else jumps[i]
    return tokens


def export(folder, options, weights, tokens, losses, gradients):
    layers, heads, width, sequence, vocabulary = options.sizes
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
              "n_layer": layers, "n_head": heads, "n_embd": width, "n_positions": sequence, "n_ctx": sequence,
              "vocab_size": vocabulary, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    save_tensors(os.path.join(folder, "model.safetensors"), weights)
    tokens.astype("<u2").tofile(os.path.join(folder, "tokens.bin"))
    with open(os.path.join(folder, "losses.json"), "w") as file:
        json.dump(losses, file)
    save_tensors(os.path.join(folder, "grads.safetensors"), gradients)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="char")
    parser.add_argument("-B", "--batch", type=int, default=4)
    parser.add_argument("-T", "--sequence", type=int, help="the preset's, where not given")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", action="store_true", help="torch.compile (PyTorch 2)")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--export", metavar="DIR")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--mode", help="of torch.compile: reduce-overhead, max-autotune")
    parser.add_argument("--sdpa", choices=["flash", "cudnn", "efficient", "math"], help="attention's back end")
    parser.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw")
    parser.add_argument("--pad", type=int, help="vocabulary to pad to")
    options = parser.parse_args()
    layers, heads, width, sequence, vocabulary = SIZES[options.size]
    sequence = options.sequence or sequence
    options.sizes = layers, heads, width, sequence, vocabulary
    on_gpu = options.device.startswith("cuda")
    if on_gpu:
        torch.backends.cuda.matmul.allow_tf32 = not options.export

    made, step_loss = KINDS.get(options.size.split("-")[0], (initial_weights, loss_of))
    if step_loss is not loss_of and options.export:
        parser.error("--export is for GPT-2")
    weights = made(layers, width, sequence, options.pad or vocabulary)
    weights = {name: weight.detach().to(options.device).requires_grad_() for name, weight in weights.items()}
    first = {name: weight.detach().clone() for name, weight in weights.items()}

    def adamw(weights):
        groups = [{"params": [w for w in weights.values() if w.dim() >= 2], "weight_decay": 0.1},
                  {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if on_gpu else {}))

    optimizer = Muon(weights, adamw, options.bf16) if options.optimizer == "muon" else adamw(weights)
    if options.compile:
        step_loss = torch.compile(step_loss, mode=options.mode)
    tokens = make_tokens(options.steps * options.batch * sequence + 1, vocabulary)

    losses, times, gradients = [], [], {}
    for step in range(options.steps):
        start = time.perf_counter()
        settled = step >= options.steps // 3  # after compilation and first touches
        if on_gpu and step == options.steps // 3:
            torch.cuda.synchronize()
            settled_since = time.perf_counter()
        window = torch.from_numpy(tokens[step * options.batch * sequence :][: options.batch * sequence + 1])
        inputs, targets = window[:-1].view(options.batch, sequence), window[1:].view(options.batch, sequence)
        if on_gpu:
            inputs, targets = (x.pin_memory().to(options.device, non_blocking=True) for x in (inputs, targets))
        optimizer.zero_grad(set_to_none=True)
        with attention_by(options.sdpa), torch.autocast(options.device.split(":")[0], dtype=torch.bfloat16, enabled=options.bf16):
            loss = step_loss(weights, inputs, targets, layers, heads)
        loss.backward()
        if step == 0 and options.export:
            gradients = {name: weight.grad.clone() for name, weight in weights.items()}
        torch.nn.utils.clip_grad_norm_(list(weights.values()), 1.0)
        optimizer.step()
        losses.append(loss.detach() if on_gpu and settled and not options.export else loss.item())
        times.append(time.perf_counter() - start)
    if on_gpu:
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - settled_since) / (options.steps - options.steps // 3)
    else:
        steady = sorted(times[len(times) // 3 :])
        seconds = steady[len(steady) // 2]
    losses = [float(loss) for loss in losses]
    if options.export:
        export(options.export, options, first, tokens, losses, gradients)
    result = {"loss": losses[-1], "ms": seconds * 1e3, "tok_s": options.batch * sequence / seconds}
    if on_gpu:
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
