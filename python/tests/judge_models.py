"""The causal language models of transformers as a judge: each in a tiny configuration, three steps of training by tcc
against eager.

    judge_models.py [--models REGEX] [--out FILE.jsonl] [--steps 3] [--part K/N]

A model that fails is tried with torch's own "aot_eager_decomp_partition" too. Prints a line a model, and a table at the
end; status 1 where a model that torch's own back end trains is wrong or fails. With --out, models that the file has are
not run again.
"""

from __future__ import annotations

import argparse
import copy
import json
import pathlib
import re
import sys
import time
import warnings

import torch
import torch._dynamo
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import tcc.torch

#: Losses of three steps may differ by this share. Gradients differ by 1e-6 of their size by the order of sums; AdamW's
#: first steps divide by the gradient's size, so parameters whose gradient is rounding error move by a whole step.
TOLERANCE = 1e-4
VOCABULARY = 128
#: Fields of configurations by what they count, with what tiny models have.
TINY = [
    (r"(hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim|embedding_size|word_embed_proj_dim|rnn_hidden_size|lru_width|"
     r"attention_hidden_size|classifier_hidden_size|embedding_dim)$", 64),
    (r"(intermediate_size|ffn_dim|n_inner|d_inner|encoder_ffn_dim|decoder_ffn_dim|ffn_hidden_size|feed_forward_size|"
     r"dim_feedforward|d_ff)$", 128),
    (r"(moe_intermediate_size|shared_expert_intermediate_size|moe_ffn_hidden_size)$", 32),
    (r"(num_hidden_layers|n_layer|n_layers|num_layers|encoder_layers|decoder_layers|num_encoder_layers|"
     r"num_decoder_layers)$", 2),
    (r"(num_attention_heads|n_head|n_heads|num_heads|encoder_attention_heads|decoder_attention_heads)$", 4),
    (r"(num_key_value_heads|n_kv_heads|num_kv_heads|multi_query_kv_heads)$", 2),
    (r"(qk_nope_head_dim|qk_rope_head_dim|rotary_dim|index_head_dim)$", 8),
    (r"(head_dim|d_kv|v_head_dim|kv_channels|attention_head_dim|attention_head_size)$", 16),
    (r"(num_experts|num_local_experts|n_routed_experts|moe_num_experts)$", 4),
    (r"(num_experts_per_tok|num_selected_experts|moe_k|moe_topk|top_k_experts)$", 2),
    (r"(max_position_embeddings|n_positions|n_ctx|max_seq_len|max_sequence_length|seq_length)$", 64),
    (r"(q_lora_rank|kv_lora_rank)$", 16), (r"state_size$|mamba_d_state$|ssm_state_size$", 16),
    (r"(chunk_size|conv_chunk_size)$", 16),
    (r"(sliding_window|attention_window_size|local_window_size)$", 16),
    (r"(n_group|topk_group)$", 1),
]
RATES = re.compile(r"dropout|pdrop|drop_rate|droprate|drop_path|layerdrop|router_jitter|input_jitter")


def shrunk(config, depth: int = 0):
    """The configuration with small numbers in its fields; those of its parts too."""
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig) and depth < 3:
            shrunk(value, depth + 1)
        elif isinstance(value, bool) or name.startswith("_"):
            continue
        elif name == "vocab_size" or name.startswith("vocab_size_") or name == "decoder_vocab_size":
            config.__dict__[name] = VOCABULARY
        elif isinstance(value, (int, float)) and RATES.search(name):
            config.__dict__[name] = 0.0
        elif isinstance(value, int) and name.endswith("_token_id") and value >= VOCABULARY:
            config.__dict__[name] = VOCABULARY - 1
        elif isinstance(value, int):
            for pattern, tiny in TINY:
                if re.search(rf"(^|_){pattern}", name) and value > tiny:
                    config.__dict__[name] = tiny
                    break
        elif isinstance(value, (list, tuple)) and name in ("layer_types", "layers_block_type", "mlp_layer_types",
                                                           "block_types", "attn_layers"):
            # One layer of each kind where there are two kinds.
            kinds = list(dict.fromkeys(value))
            config.__dict__[name] = (kinds * 2)[:2]
    return agreed(config)


def agreed(config):
    """The configuration with fields that fit each other where `shrunk` has parted them, and with values for those that
    have none by default."""
    fields = config.__dict__
    heads = fields.get("num_attention_heads")
    if isinstance(heads, int):
        for name, value in (("num_key_value_heads", heads), ("num_local_experts", 4), ("num_experts", 4),
                            ("n_routed_experts", 4), ("n_shared_experts", 1), ("num_experts_per_tok", 2)):
            if name in fields and fields[name] is None:
                fields[name] = value
        if fields.get("head_dim", None) is None:
            fields["head_dim"] = max(1, fields.get("hidden_size", 64) // heads)
    if "qk_rope_head_dim" in fields:  # latent attention: rotary positions have a head's part of their own
        fields["head_dim"] = fields["qk_rope_head_dim"]
        fields["num_key_value_heads"] = heads
        if "qk_head_dim" in fields:
            fields["qk_head_dim"] = fields["qk_rope_head_dim"] + fields["qk_nope_head_dim"]
    for prefix, width in (("mamba_n_heads", "mamba_d_head"), ("mamba_num_heads", "mamba_head_dim"),
                          ("n_mamba_heads", "mamba_headdim"), ("num_heads", "head_dim")):
        if prefix in fields and width in fields and ("state_size" in fields or "mamba_d_state" in fields
                                                     or "ssm_state_size" in fields):
            inner = int(fields.get("mamba_expand", fields.get("expand", 2)) * fields.get("hidden_size", 64))
            fields[prefix], fields[width] = 4, inner // 4
            for name in ("n_groups", "mamba_n_groups", "mamba_ngroups"):
                if name in fields:
                    fields[name] = 1
            if "mamba_d_ssm" in fields:
                fields["mamba_d_ssm"] = inner
    if isinstance(fields.get("num_kv_shared_layers"), int):
        fields["num_kv_shared_layers"] = 0
    if "hidden_size_per_layer_input" in fields and fields["hidden_size_per_layer_input"]:
        fields["hidden_size_per_layer_input"] = 16
    if "layer_types" in fields and fields["layer_types"] is None and "conv_L_cache" in fields:
        fields["layer_types"] = ["conv", "full_attention"]
    if "axial_pos_embds_dim" in fields:
        fields["axial_pos_embds_dim"], fields["axial_pos_shape"] = (16, fields["hidden_size"] - 16), (4, 8)
    return config


def make(kind: str):
    """A tiny model of this `model_type`, in training mode without dropout."""
    config = shrunk(transformers.AutoConfig.for_model(kind))
    config.use_cache = False
    for name in ("is_decoder",):
        if hasattr(config, name):
            setattr(config, name, True)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # experts are chosen by scores, and equal scores in no order that anyone promises
        for name, parameter in model.named_parameters():
            if "router" in name or name.endswith("gate.weight"):
                parameter.normal_(std=0.5)
    if sum(p.numel() for p in model.parameters()) > 30e6:
        raise RuntimeError(f"{sum(p.numel() for p in model.parameters())} parameters are not tiny")
    return model.float().train()


def batches(steps: int):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(1, VOCABULARY - 8, (2, 32), generator=generator) for _ in range(steps)]


def train(model, steps: int, backend: str | None) -> list[float]:
    torch._dynamo.reset()
    tcc.torch.reset()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-3)
    run = torch.compile(model, backend=backend, dynamic=False) if backend else model
    torch.manual_seed(7)
    losses = []
    for ids in batches(steps):
        loss = run(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def apart(seen, wanted) -> float:
    return max(abs(a - b) / max(abs(b), 1e-12) if a == a or b == b else 0.0 for a, b in zip(seen, wanted))


def first_line(problem) -> str:
    return f"{type(problem).__name__}: {str(problem)[:400]}"


def judge(kind: str, steps: int) -> dict:
    entry = {"key": kind}
    try:
        model = make(kind)
        entry["parameters"] = sum(p.numel() for p in model.parameters())
        wanted = train(copy.deepcopy(model), steps, None)
    except Exception as problem:
        return {**entry, "is": "not built", "why": first_line(problem)}
    again = train(copy.deepcopy(model), steps, None)
    if apart(again, wanted) > 1e-6 or not all(loss == loss for loss in wanted):
        return {**entry, "is": "not built", "why": f"eager itself gives {wanted} and {again}"}
    try:
        seen = train(copy.deepcopy(model), steps, "tcc")
        report = tcc.torch.report()
        entry["apart"] = apart(seen, wanted)
        entry["fallbacks"] = sorted({fallback.op for fallback in report.fallbacks})
        entry["refused"] = [why[:300] for why in report.refused]
        if not entry["apart"] <= TOLERANCE:
            entry |= {"is": "wrong", "why": f"losses {seen}, eager's {wanted}"}
        else:
            entry["is"] = "fallback" if entry["fallbacks"] or entry["refused"] else "native"
            return entry
    except Exception as problem:
        entry |= {"is": "fails", "why": first_line(problem)}
    try:
        other = train(copy.deepcopy(model), steps, "aot_eager_decomp_partition")
        entry["torch"] = apart(other, wanted)
        if not entry["torch"] <= TOLERANCE:
            entry["is"] += " with torch's own too"
    except Exception as problem:
        entry["torch"] = first_line(problem)
        entry["is"] += " with torch's own too"
    return entry


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--part", default="0/1", help="K/N: every N-th model from the K-th")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    known = {}
    if given.out and pathlib.Path(given.out).exists():
        for line in open(given.out):
            entry = json.loads(line)
            known[entry["key"]] = entry
    part, parts = map(int, given.part.split("/"))
    for kind in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)[part::parts]:
        if kind in known or not re.search(given.models, kind):
            continue
        start = time.monotonic()
        entry = judge(kind, given.steps)
        entry["seconds"] = round(time.monotonic() - start, 1)
        known[kind] = entry
        rest = entry.get("why") or ", ".join(entry.get("fallbacks", []) + entry.get("refused", []))
        print(f"{kind}: {entry['is']} {rest}"[:300], flush=True)
        if given.out:
            with open(given.out, "a") as file:
                file.write(json.dumps(entry) + "\n")
    count = {}
    for entry in known.values():
        count[entry["is"]] = count.get(entry["is"], 0) + 1
    print(", ".join(f"{number} {kind}" for kind, number in sorted(count.items(), key=lambda item: -item[1])))
    return 1 if count.get("wrong") or count.get("fails") else 0


if __name__ == "__main__":
    sys.exit(main())
