#!/usr/bin/env python3
"""Losses and gradients of transformers' GPT-2, Llama, Qwen2 and Qwen3, and of a modern GPT written down here in PyTorch.

  transformers_parity.py --train build/bin/train_gpt    folders in f32, f16, bf16 and three shards, read and trained on
  transformers_parity.py --write models_expected.json   what models_test compares with, for machines without PyTorch

Weights and tokens follow from formulas (see `weights`), so that both sides make the same ones. Agreement: the loss
within 1e-4 relative, every parameter's gradient within 1e-4 of its norm. Exit status 77 where PyTorch or transformers
is not installed, 1 where something differs.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIMIT = 1e-4
BATCH, LENGTH = 3, 7
SHAPES = dict(vocab_size=13, hidden_size=18, intermediate_size=22, num_hidden_layers=2, num_attention_heads=6,
              num_key_value_heads=2, head_dim=4, max_position_embeddings=32, rms_norm_eps=1e-5)
GPT2 = dict(vocab_size=13, n_positions=32, n_embd=12, n_layer=2, n_head=3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=11, eos_token_id=12)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)


class Modern(torch.nn.Module):
    """models/README.md's formulas."""

    config = dict(model_type="tcc_modern_gpt", vocab_size=13, n_positions=32, n_embd=12, n_layer=2, n_head=3,
                  logit_softcap=5.0, rope_theta=100.0)

    def __init__(self):
        super().__init__()
        width, vocab = self.config["n_embd"], self.config["vocab_size"]
        names = {"wte": (vocab, width), "lm_head": (vocab, width)}
        for layer in range(self.config["n_layer"]):
            for part in ("attn.c_q", "attn.c_k", "attn.c_v", "attn.c_proj"):
                names[f"h.{layer}.{part}"] = (width, width)
            names[f"h.{layer}.mlp.c_fc"] = (4 * width, width)
            names[f"h.{layer}.mlp.c_proj"] = (width, 4 * width)
        self.values = {name + ".weight": torch.nn.Parameter(torch.zeros(shape)) for name, shape in names.items()}

    def named_parameters(self):
        return self.values.items()

    def logits(self, tokens):
        w, c = self.values, self.config
        norm = lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)
        heads, size = c["n_head"], c["n_embd"] // c["n_head"]
        batch, length = tokens.shape
        position = torch.arange(length, dtype=torch.float64)[:, None]
        angle = position * c["rope_theta"] ** (-2.0 * torch.arange(size // 2, dtype=torch.float64) / size)
        cosine, sine = angle.cos().float(), angle.sin().float()

        def turn(x):
            a, b = x[..., : size // 2], x[..., size // 2:]
            return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)

        x = norm(w["wte.weight"][tokens])
        for layer in range(c["n_layer"]):
            part = lambda name, y: y @ w[f"h.{layer}.{name}.weight"].T
            split = lambda y: y.reshape(batch, length, heads, size).transpose(1, 2)
            q, k, v = (split(part(f"attn.c_{name}", norm(x))) for name in "qkv")
            scores = turn(norm(q)) @ turn(norm(k)).transpose(2, 3) / math.sqrt(size)
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * size)
            x = x + part("attn.c_proj", mixed)
            x = x + part("mlp.c_proj", torch.relu(part("mlp.c_fc", norm(x))) ** 2)
        return c["logit_softcap"] * torch.tanh(norm(x) @ w["lm_head.weight"].T / c["logit_softcap"])


def models():
    """name -> (model, config as a dict, logits function)."""
    t = transformers
    made = {
        "gpt2": t.GPT2LMHeadModel(t.GPT2Config(**GPT2)),
        "gpt2-untied": t.GPT2LMHeadModel(t.GPT2Config(**GPT2, tie_word_embeddings=False)),
        "llama": t.LlamaForCausalLM(t.LlamaConfig(**SHAPES, tie_word_embeddings=False, rope_parameters=LLAMA3)),
        "llama-tied-biases": t.LlamaForCausalLM(t.LlamaConfig(**SHAPES, tie_word_embeddings=True, attention_bias=True)),
        "llama-mlp-biases": t.LlamaForCausalLM(t.LlamaConfig(**SHAPES, tie_word_embeddings=False, mlp_bias=True)),
        "qwen2": t.Qwen2ForCausalLM(t.Qwen2Config(**{k: v for k, v in (SHAPES | {"hidden_size": 24}).items()
                                                     if k != "head_dim"}, tie_word_embeddings=True, use_sliding_window=False)),
        "qwen3": t.Qwen3ForCausalLM(t.Qwen3Config(**SHAPES, tie_word_embeddings=False, use_sliding_window=False)),
    }
    result = {name: (model.eval(), model.config.to_dict(), lambda x, model=model: model(input_ids=x).logits)
              for name, model in made.items()}
    modern = Modern()
    result["modern"] = (modern, modern.config, modern.logits)
    return result


def weights(model):
    """Value i of a parameter: 0.3 sin(0.7310585 i + s), s a tenth of its name's byte sum; norms' weights add 1."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            shift = sum(name.removeprefix("transformer.").encode()) % 1000 * 0.1
            flat = 0.3 * np.sin(0.7310585 * np.arange(value.numel()) + shift)
            if name.endswith("weight") and ("norm" in name or "ln_" in name):
                flat = flat + 1
            value.copy_(torch.tensor(flat.reshape(value.shape), dtype=torch.float32))


def tokens(vocabulary, count=BATCH * LENGTH + 1):
    return [(7 * i * i + 3 * i + 1) % vocabulary for i in range(count)]


def loss_and_gradients(model, logits, vocabulary):
    flat = tokens(vocabulary)
    inputs = torch.tensor(flat[:-1]).reshape(BATCH, LENGTH)
    targets = torch.tensor(flat[1:]).reshape(BATCH, LENGTH)
    for _, value in model.named_parameters():
        value.grad = None
    loss = torch.nn.functional.cross_entropy(logits(inputs).reshape(-1, vocabulary), targets.reshape(-1))
    loss.backward()
    return loss.item(), {name: value.grad.double().numpy() for name, value in model.named_parameters()}


def write(path):
    """Of each gradient: its norm and its sum with weights cos(i)."""
    cases = []
    for name, (model, config, logits) in models().items():
        weights(model)
        loss, gradients = loss_and_gradients(model, logits, config["vocab_size"])
        config = {key: value for key, value in config.items() if isinstance(value, (int, float, str, bool, dict))}
        figures = {}
        for key, gradient in gradients.items():
            flat = gradient.reshape(-1)
            figures[key.removeprefix("transformer.")] = [float(np.linalg.norm(flat)),
                                                         float(flat @ np.cos(np.arange(flat.size)))]
        cases.append({"name": name, "config": config, "loss": loss, "gradients": figures})
    with open(path, "w") as file:
        json.dump({"batch": BATCH, "length": LENGTH, "cases": cases}, file, indent=1)
        file.write("\n")


def save(model, config, folder, dtype, shards):
    """As save_pretrained writes it: config.json and one file, or shards with their index."""
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, default=str)
    tied = config.get("tie_word_embeddings")
    values = {name: value.detach().to(dtype).contiguous() for name, value in model.named_parameters()
              if not (tied and name == "lm_head.weight")}
    names = sorted(values)
    index = {}
    for shard in range(shards):
        file = "model.safetensors" if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        save_file({name: values[name] for name in part}, os.path.join(folder, file), {"format": "pt"})
        index.update({name: file for name in part})
    if shards > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {}, "weight_map": index}, file)


def check(train, name, model, config, logits, dtype, shards, folder):
    vocabulary = config["vocab_size"]
    weights(model)
    with torch.no_grad():
        for _, value in model.named_parameters():
            value.copy_(value.to(dtype).float())
    save(model, config, folder, dtype, shards)
    np.array(tokens(vocabulary), dtype="<u2").tofile(os.path.join(folder, "tokens.bin"))
    log, grads, saved = (os.path.join(folder, part) for part in ("log.jsonl", "grads.safetensors", "saved"))
    subprocess.run([train, "--init", folder, "--data", os.path.join(folder, "tokens.bin"), "--order=sequential",
                    f"--batch={BATCH}", f"--seq={LENGTH}", "--steps=1", "--lr=0", "--quiet", "--threads=1", "--json",
                    log, "--dump-grads", grads, "--save", saved], check=True)
    loss, gradients = loss_and_gradients(model, logits, vocabulary)
    seen = json.loads(open(log).readline())["loss"]
    worst = abs(seen - loss) / abs(loss)
    dumped = {key.removeprefix("transformer."): value for key, value in load_file(grads).items()}
    if set(dumped) != {key.removeprefix("transformer.") for key in gradients}:
        print(f"{name}: other parameters: {set(dumped) ^ set(gradients)}")
        return False
    for key, gradient in gradients.items():
        difference = dumped[key.removeprefix("transformer.")].double().numpy() - gradient
        worst = max(worst, np.linalg.norm(difference) / np.linalg.norm(gradient))
    written = load_file(os.path.join(saved, "model.safetensors"))
    same = all(torch.equal(written[key], value.detach()) for key, value in model.named_parameters() if key in written)
    kept = json.load(open(os.path.join(saved, "config.json")))
    lost = [key for key, value in json.loads(json.dumps(config, default=str)).items()
            if key not in ("dtype", "torch_dtype") and kept.get(key) != value]
    if name != "modern":
        again = transformers.AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32).eval()
        back = loss_and_gradients(again, lambda x: again(input_ids=x).logits, vocabulary)[0]
        worst = max(worst, abs(back - loss) / abs(loss))
    good = worst <= LIMIT and same and not lost
    print(f"{name} {str(dtype).removeprefix('torch.')} in {shards}: loss {seen:.6f} ({loss:.6f}), largest difference "
          f"{worst:.1e}, weights {'same' if same else 'CHANGED'}, config keys changed: {lost or 'none'}")
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train")
    parser.add_argument("--write")
    options = parser.parse_args()
    if options.write:
        write(options.write)
        return 0
    good = True
    for name, (model, config, logits) in models().items():
        for dtype, shards in ((torch.float32, 1), (torch.float16, 3), (torch.bfloat16, 1)):
            with tempfile.TemporaryDirectory() as folder:
                good &= check(options.train, name, model, config, logits, dtype, shards, folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
