#!/usr/bin/env python3
"""LoRA against PEFT: an adapter that PEFT wrote is trained on here, and one that was written here is read by PEFT.

  peft_parity.py --train build/bin/train_gpt

GPT-2, Llama and Qwen3 of transformers_parity.py. Agreement: the loss within 1e-4 relative, every gradient of A and B
within 1e-4 of its norm, three steps of SGD to 1e-4 of each value's change. Exit status 77 where PyTorch, transformers or
peft is not installed, 1 where something differs.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from transformers_parity import BATCH, LENGTH, LIMIT, models, save, tokens, weights

try:
    import numpy as np
    import peft
    import torch
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RANK, ALPHA, RATE, STEPS = 3, 7.0, 0.05, 3


def plain(name):
    """PEFT's name of a trained value as train_gpt has it."""
    return name.removeprefix("base_model.model.").removeprefix("transformer.").replace(".default.", ".")


def batches(vocabulary):
    flat = torch.tensor(tokens(vocabulary, STEPS * BATCH * LENGTH + 1))
    count = BATCH * LENGTH
    for step in range(STEPS):
        part = flat[step * count : (step + 1) * count + 1]
        yield part[:-1].reshape(BATCH, LENGTH), part[1:].reshape(BATCH, LENGTH)


def loss_of(model, inputs, targets, vocabulary):
    logits = model(input_ids=inputs).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, vocabulary), targets.reshape(-1))


def train(model, vocabulary):
    """Losses of some steps of plain SGD, and the first step's gradients."""
    trained = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    losses, first = [], {}
    for inputs, targets in batches(vocabulary):
        for _, value in trained:
            value.grad = None
        loss = loss_of(model, inputs, targets, vocabulary)
        loss.backward()
        losses.append(loss.item())
        if not first:
            first = {plain(name): value.grad.double().numpy().copy() for name, value in trained}
        with torch.no_grad():
            for _, value in trained:
                value -= RATE * value.grad
    return losses, first, {plain(name): value.detach().double().numpy() for name, value in trained}


def far(a, b):
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30)


def check(program, name, model, config, targets, folder):
    vocabulary = config["vocab_size"]
    weights(model)
    base, adapter = os.path.join(folder, "base"), os.path.join(folder, "adapter")
    os.mkdir(base)
    save(model, config, base, torch.float32, 1)
    data = os.path.join(folder, "tokens.bin")
    np.array(tokens(vocabulary, STEPS * BATCH * LENGTH + 1), dtype="<u2").tofile(data)
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, lora_dropout=0.0,
                                                         fan_in_fan_out=name == "gpt2", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for key, value in wrapped.named_parameters():
            if value.requires_grad:
                shift = sum(plain(key).encode()) % 1000 * 0.1
                flat = 0.2 * np.sin(0.9 * np.arange(value.numel()) + shift)
                value.copy_(torch.tensor(flat.reshape(value.shape), dtype=torch.float32))
    wrapped.save_pretrained(adapter)
    log, grads, saved = (os.path.join(folder, part) for part in ("log.jsonl", "grads.safetensors", "saved"))
    subprocess.run([program, "--init", base, "--adapter", adapter, "--data", data, "--order=sequential",
                    f"--batch={BATCH}", f"--seq={LENGTH}", f"--steps={STEPS}", f"--lr={RATE}", "--schedule=constant",
                    "--optimizer=sgd", "--beta1=0", "--weight-decay=0", "--clip=0", "--quiet", "--threads=1", "--json", log,
                    "--dump-grads", grads, "--save", saved], check=True)
    losses, gradients, values = train(wrapped, vocabulary)
    seen = [json.loads(line)["loss"] for line in open(log).read().splitlines()[:STEPS]]
    worst = max(abs(a - b) / abs(b) for a, b in zip(seen, losses))
    dumped = {plain(key): value.double().numpy() for key, value in load_file(grads).items()}
    written = {plain(key): value.double().numpy() for key, value in load_file(os.path.join(saved, "adapter_model.safetensors")).items()}
    if set(dumped) != set(gradients) or set(written) != set(values):
        print(f"{name}: other values are trained: {set(dumped) ^ set(gradients)} {set(written) ^ set(values)}")
        return False
    worst = max(worst, *(far(dumped[key], gradients[key]) for key in gradients))
    worst = max(worst, *(far(written[key], values[key]) for key in values))
    inputs, wanted = next(batches(vocabulary))
    with torch.no_grad():
        after = loss_of(wrapped, inputs, wanted, vocabulary).item()
    bare = wrapped.unload()
    weights(bare)  # unload keeps the base; the same values again, to be sure
    again = peft.PeftModel.from_pretrained(bare, saved)
    with torch.no_grad():
        back = loss_of(again, inputs, wanted, vocabulary).item()
    worst = max(worst, abs(back - after) / after)
    print(f"{name} {targets}: losses {seen[0]:.6f} {seen[-1]:.6f} ({losses[0]:.6f} {losses[-1]:.6f}), read again "
          f"{back:.6f} ({after:.6f}), largest difference {worst:.1e}")
    return worst <= LIMIT


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    options = parser.parse_args()
    good = True
    wanted = {"gpt2": ["c_attn", "c_proj", "c_fc"], "llama": ["q_proj", "v_proj"],
              "qwen3": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
    for name, (model, config, _) in models().items():
        if name in wanted:
            with tempfile.TemporaryDirectory() as folder:
                good &= check(options.train, name, model, config, wanted[name], folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
