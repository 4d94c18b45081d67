"""Small models for tests, with a batch for each: nanoGPT's, and transformers' from their configurations."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, ROWS = 128, 32


class Block(nn.Module):
    def __init__(self, size, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.c_attn, self.c_proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.c_fc, self.c_out = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        batch, rows, size = x.shape
        q, k, v = (t.view(batch, rows, self.heads, size // self.heads).transpose(1, 2)
                   for t in self.c_attn(self.ln_1(x)).split(size, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + F.dropout(self.c_proj(y.transpose(1, 2).reshape(batch, rows, size)), self.dropout, self.training)
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class NanoGpt(nn.Module):
    """With a head that is tied to the embedding."""

    def __init__(self, vocabulary=VOCABULARY, positions=64, layers=2, heads=4, size=64, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, size), nn.Embedding(positions, size)
        self.blocks = nn.ModuleList(Block(size, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(size)
        self.head = nn.Linear(size, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, input_ids, labels):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.size(1), device=input_ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), labels.view(-1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.embedding, self.head = nn.Embedding(VOCABULARY, 64), nn.Linear(64, VOCABULARY)

    def forward(self, input_ids, labels):
        logits = self.head(self.encoder(self.embedding(input_ids)))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, 32), nn.Linear(64, VOCABULARY)
        self.lstm = nn.LSTM(32, 64, batch_first=True)

    def forward(self, input_ids, labels):
        return F.cross_entropy(self.head(self.lstm(self.embedding(input_ids))[0]).flatten(0, 1), labels.flatten())


class ResidualBlock(nn.Module):
    def __init__(self, channels_in, channels, stride, activation):
        super().__init__()
        self.activation = activation
        self.conv1, self.bn1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)
        self.down = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.down = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.activation(self.bn1(self.conv1(x)))
        return self.activation(self.bn2(self.conv2(y)) + self.down(x))


class ResNet(nn.Module):
    """ResNet-18 (He et al. 2016), with `width` channels in its first stage, 64 in theirs.

    Theirs has ReLU as its activation, whose slope jumps: an element that rounding moves across 0 changes gradients by a
    thousandth. SiLU has no such jump, so that gradients can be compared closely.
    """

    def __init__(self, width=8, classes=10, activation=F.silu):
        super().__init__()
        self.activation = activation
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width))
        stages, channels = [], width
        for i in range(4):
            for j in range(2):
                stages.append(ResidualBlock(channels, width << i, 2 if i and not j else 1, activation))
                channels = width << i
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(channels, classes)

    def forward(self, pixel_values, labels):
        y = F.max_pool2d(self.activation(self.stem(pixel_values)), 3, 2, 1)
        y = self.stages(y).mean((2, 3))
        return F.cross_entropy(self.head(y), labels)


class LossOf(nn.Module):
    """A model of transformers that gives its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **batch):
        return self.model(**batch).loss


def tokens(batch=4):
    return {"input_ids": torch.randint(1, VOCABULARY, (batch, ROWS)),
            "labels": torch.randint(1, VOCABULARY, (batch, ROWS))}


def images(batch=4, size=32):
    return {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.randint(0, 10, (batch,))}


def larger_images():
    """Enough places that a batch norm's variance is of more than a few elements."""
    return images(8, 64)


def transformer(name: str) -> nn.Module:
    import transformers as t
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "max_position_embeddings": 64, **ids}
    if name == "gpt2":
        return LossOf(t.GPT2LMHeadModel(t.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=64, n_layer=2,
                                                     n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **ids)))
    if name == "llama":
        return LossOf(t.LlamaForCausalLM(t.LlamaConfig(num_key_value_heads=2, **sizes)))
    if name == "qwen3":
        return LossOf(t.Qwen3ForCausalLM(t.Qwen3Config(num_key_value_heads=2, head_dim=16, **sizes)))
    if name == "modernbert":
        return LossOf(t.ModernBertForMaskedLM(t.ModernBertConfig(cls_token_id=0, sep_token_id=0, **sizes)))
    return LossOf(t.ViTForImageClassification(t.ViTConfig(image_size=32, patch_size=8, hidden_size=64,
                                                          num_hidden_layers=2, num_attention_heads=4,
                                                          intermediate_size=128, num_labels=10)))


#: name → what makes the model, what makes a batch. The first ones train without a fallback.
NATIVE = {"nanogpt": (NanoGpt, tokens), "encoder": (Encoder, tokens), "resnet": (ResNet, larger_images),
          **{name: (lambda name=name: transformer(name), images if name == "vit" else tokens)
             for name in ("gpt2", "llama", "qwen3", "modernbert", "vit")}}
OTHERS = {"lstm": (Lstm, tokens)}
