"""The models of flame.models against forward passes written out in PyTorch, of random small ones.

  python3 spec/peer/models.py [--flame build/flame-lua] [--rounds n] [--seed n]
      random configurations and weights, saved by Python in Hugging Face's form and read by flame:
      logits within 1e-4, greedy texts of 200 tokens equal. Where transformers is installed, its own
      models are made and saved as well. Exits 1 when something differs, 0 without torch.
  python3 spec/peer/models.py reference >spec/nn/models_reference.lua
      the figures that spec/nn/models_spec.lua compares with on machines without PyTorch; where
      transformers is installed, it has to give the same with these weights

The passes below are f64 and follow the papers and the published descriptions of config.json; a
padded batch is computed row by row without padding. Weights follow from numbers by one formula
(weight_values), which the spec knows as well.
"""
import argparse
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # a file here has the name of the library tokenizers, which transformers imports
try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError:
    print("peer: skipped, this python3 has no torch")
    sys.exit(0)
try:
    import transformers
except ImportError:
    transformers = None

NEW = 200


# ---- weights -----------------------------------------------------------------------------------

def weight_values(seed, n):
    """n numbers from -1 to 1: a mixed counter of 32 bits."""
    mask = np.uint64(0xFFFFFFFF)
    h = (np.arange(1, n + 1, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(seed * 97)) & mask
    for shift, factor in ((15, 2246822519), (13, 3266489917)):
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor)) & mask
    h = h ^ (h >> np.uint64(16))
    return h.astype(np.float64) / 2 ** 31 - 1


def weight(seed, name, shape, gain):
    n = int(np.prod(shape))
    v = weight_values(seed, n).reshape(shape)
    if len(shape) == 1:
        norm = name.endswith("norm.weight") or "LayerNorm.weight" in name or "layernorm" in name or ".ln_" in name
        base = 1.0 if norm and name.endswith("weight") else 0.0
        v = base + 0.2 * v
    elif "embed" in name or "wte" in name or "wpe" in name or name.endswith("cls_token"):
        v = v * 0.8
    else:
        fan = int(np.prod(shape[1:])) if len(shape) == 4 else min(shape)
        v = v * (gain / math.sqrt(fan))
    return torch.from_numpy(v.astype(np.float32))


def write_safetensors(path, tensors):
    kinds = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64"}
    head, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, t in tensors.items():
        t = t.contiguous()
        data = t.view(torch.int16).numpy().tobytes() if t.element_size() == 2 else t.numpy().tobytes()
        head[name] = {"dtype": kinds[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


# ---- the passes: W is name -> f64 tensor, ids (time) from 0 --------------------------------------

def dense(W, name, x):
    y = x @ W[name + ".weight"].T
    return y + W[name + ".bias"] if name + ".bias" in W else y


def layer_norm(W, name, x, eps):
    return F.layer_norm(x, x.shape[-1:], W[name + ".weight"], W[name + ".bias"], eps)


def rms(x, w, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * w


def softmax_attention(q, k, v, scale, allowed=None):
    """q (heads, time, size)."""
    s = torch.einsum("hqd,hkd->hqk", q, k) * scale
    if allowed is not None:
        s = s.masked_fill(~allowed, float("-inf"))
    return torch.einsum("hqk,hkd->hqd", s.softmax(-1), v)


def split(x, heads):
    return x.reshape(x.shape[0], heads, -1).permute(1, 0, 2)


def join(x):
    return x.permute(1, 0, 2).reshape(x.shape[1], -1)


def gelu_new(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


ACT = {"gelu_new": gelu_new, "gelu": gelu, "relu": torch.relu, "silu": lambda x: x * torch.sigmoid(x),
       "gelu_pytorch_tanh": gelu_new, "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x)}


def gpt2_shapes(c):
    d, v = c["n_embd"], c["vocab_size"]
    hidden = c.get("n_inner") or 4 * d
    out = {"transformer.wte.weight": (v, d), "transformer.wpe.weight": (c["n_positions"], d)}
    for i in range(c["n_layer"]):
        p = "transformer.h.%d." % i
        for norm in ("ln_1", "ln_2"):
            out[p + norm + ".weight"] = out[p + norm + ".bias"] = (d,)
        for name, a, b in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, hidden), ("mlp.c_proj", hidden, d)):
            out[p + name + ".weight"], out[p + name + ".bias"] = (a, b), (b,)
    out["transformer.ln_f.weight"] = out["transformer.ln_f.bias"] = (d,)
    return out


def gpt2(c, W, ids):
    d, heads, t = c["n_embd"], c["n_head"], len(ids)
    x = W["transformer.wte.weight"][ids] + W["transformer.wpe.weight"][torch.arange(t)]
    causal = torch.ones(t, t).tril().bool()
    eps = c.get("layer_norm_epsilon", 1e-5)
    for i in range(c["n_layer"]):
        p = "transformer.h.%d." % i
        scale = (d / heads) ** -0.5 if c.get("scale_attn_weights", True) else 1.0
        if c.get("scale_attn_by_inverse_layer_idx"):
            scale /= i + 1
        h = layer_norm(W, p + "ln_1", x, eps) @ W[p + "attn.c_attn.weight"] + W[p + "attn.c_attn.bias"]
        q, k, v = h.split(d, -1)
        y = join(softmax_attention(split(q, heads), split(k, heads), split(v, heads), scale, causal))
        x = x + y @ W[p + "attn.c_proj.weight"] + W[p + "attn.c_proj.bias"]
        h = layer_norm(W, p + "ln_2", x, eps) @ W[p + "mlp.c_fc.weight"] + W[p + "mlp.c_fc.bias"]
        h = ACT[c.get("activation_function", "gelu_new")](h)
        x = x + h @ W[p + "mlp.c_proj.weight"] + W[p + "mlp.c_proj.bias"]
    return layer_norm(W, "transformer.ln_f", x, eps) @ W["transformer.wte.weight"].T


def llama_shapes(c):
    d, v, hidden = c["hidden_size"], c["vocab_size"], c["intermediate_size"]
    heads = c["num_attention_heads"]
    kv, size = c.get("num_key_value_heads", heads), c.get("head_dim") or d // heads
    bias = c["model_type"] == "qwen2" or c.get("attention_bias", False)
    out = {"model.embed_tokens.weight": (v, d), "model.norm.weight": (d,)}
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = (d,)
        for name, rows in (("q", heads), ("k", kv), ("v", kv)):
            out[p + "self_attn.%s_proj.weight" % name] = (rows * size, d)
            if bias:
                out[p + "self_attn.%s_proj.bias" % name] = (rows * size,)
        out[p + "self_attn.o_proj.weight"] = (d, heads * size)
        if bias and c["model_type"] != "qwen2":
            out[p + "self_attn.o_proj.bias"] = (d,)
        if c["model_type"] == "qwen3":
            out[p + "self_attn.q_norm.weight"] = out[p + "self_attn.k_norm.weight"] = (size,)
        for name in ("gate", "up"):
            out[p + "mlp.%s_proj.weight" % name] = (hidden, d)
        out[p + "mlp.down_proj.weight"] = (d, hidden)
        if c.get("mlp_bias"):
            out[p + "mlp.gate_proj.bias"] = out[p + "mlp.up_proj.bias"] = (hidden,)
            out[p + "mlp.down_proj.bias"] = (d,)
    if not c.get("tie_word_embeddings", False):
        out["lm_head.weight"] = (v, d)
    return out


def frequencies(c, size):
    inv = 1.0 / c.get("rope_theta", 10000.0) ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    s = c.get("rope_scaling")
    kind = (s or {}).get("rope_type", (s or {}).get("type"))
    if kind == "linear":
        return inv / s["factor"]
    if kind == "llama3":
        old, factor = s["original_max_position_embeddings"], s["factor"]
        low, high = s["low_freq_factor"], s["high_freq_factor"]
        out = []
        for f in inv.tolist():
            wave = 2 * math.pi / f
            if wave < old / high:
                out.append(f)
            elif wave > old / low:
                out.append(f / factor)
            else:
                smooth = (old / wave - low) / (high - low)
                out.append((1 - smooth) * f / factor + smooth * f)
        return torch.tensor(out, dtype=torch.float64)
    return inv


def rotate(x, angle):
    """Pairs (i, i + size / 2) as complex numbers."""
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], -1)


def llama(c, W, ids):
    d, heads, t = c["hidden_size"], c["num_attention_heads"], len(ids)
    kv, size = c.get("num_key_value_heads", heads), c.get("head_dim") or d // heads
    eps = c.get("rms_norm_eps", 1e-6)
    angle = torch.arange(t, dtype=torch.float64)[:, None] * frequencies(c, size)
    at = torch.arange(t)
    causal = at[:, None] >= at[None, :]
    x = W["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        h = rms(x, W[p + "input_layernorm.weight"], eps)
        q = split(dense(W, p + "self_attn.q_proj", h), heads)
        k = split(dense(W, p + "self_attn.k_proj", h), kv)
        v = split(dense(W, p + "self_attn.v_proj", h), kv)
        if c["model_type"] == "qwen3":
            q, k = rms(q, W[p + "self_attn.q_norm.weight"], eps), rms(k, W[p + "self_attn.k_norm.weight"], eps)
        q, k = rotate(q, angle), rotate(k, angle)
        group = [j * kv // heads for j in range(heads)]
        allowed, width = causal, c.get("sliding_window")
        if c["model_type"].startswith("qwen") and not (c.get("use_sliding_window") and i >= c.get("max_window_layers", 28)):
            width = None
        if width and c["model_type"] != "llama":
            allowed = causal & (at[:, None] - at[None, :] < width)
        y = join(softmax_attention(q, k[group], v[group], size ** -0.5, allowed))
        x = x + dense(W, p + "self_attn.o_proj", y)
        h = rms(x, W[p + "post_attention_layernorm.weight"], eps)
        gate = ACT[c.get("hidden_act", "silu")](dense(W, p + "mlp.gate_proj", h))
        x = x + dense(W, p + "mlp.down_proj", gate * dense(W, p + "mlp.up_proj", h))
    x = rms(x, W["model.norm.weight"], eps)
    return x @ W.get("lm_head.weight", W["model.embed_tokens.weight"]).T


def pair(out, name, rows, columns):
    out[name + ".weight"], out[name + ".bias"] = (rows, columns), (rows,)


def norm(out, name, d):
    out[name + ".weight"] = out[name + ".bias"] = (d,)


def bert_shapes(c):
    d, hidden, v = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    base = "" if c["architectures"] == ["BertModel"] else "bert."
    out = {base + "embeddings.word_embeddings.weight": (v, d),
           base + "embeddings.position_embeddings.weight": (c["max_position_embeddings"], d),
           base + "embeddings.token_type_embeddings.weight": (c["type_vocab_size"], d)}
    norm(out, base + "embeddings.LayerNorm", d)
    for i in range(c["num_hidden_layers"]):
        p = base + "encoder.layer.%d." % i
        for name in ("query", "key", "value"):
            pair(out, p + "attention.self." + name, d, d)
        pair(out, p + "attention.output.dense", d, d)
        norm(out, p + "attention.output.LayerNorm", d)
        pair(out, p + "intermediate.dense", hidden, d)
        pair(out, p + "output.dense", d, hidden)
        norm(out, p + "output.LayerNorm", d)
    kind = c["architectures"][0]
    if kind in ("BertModel", "BertForSequenceClassification"):
        pair(out, base + "pooler.dense", d, d)
    if kind == "BertForMaskedLM":
        pair(out, "cls.predictions.transform.dense", d, d)
        norm(out, "cls.predictions.transform.LayerNorm", d)
        out["cls.predictions.bias"] = (v,)
    if kind == "BertForSequenceClassification":
        pair(out, "classifier", len(c["id2label"]), d)
    return out


def bert(c, W, ids, types):
    base = "" if c["architectures"] == ["BertModel"] else "bert."
    heads, eps, act = c["num_attention_heads"], c.get("layer_norm_eps", 1e-12), ACT[c.get("hidden_act", "gelu")]
    e = base + "embeddings."
    x = W[e + "word_embeddings.weight"][ids] + W[e + "position_embeddings.weight"][:len(ids)] + W[e + "token_type_embeddings.weight"][types]
    x = layer_norm(W, e + "LayerNorm", x, eps)
    for i in range(c["num_hidden_layers"]):
        p = base + "encoder.layer.%d." % i
        q, k, v = (split(dense(W, p + "attention.self." + n, x), heads) for n in ("query", "key", "value"))
        y = join(softmax_attention(q, k, v, q.shape[-1] ** -0.5))
        x = layer_norm(W, p + "attention.output.LayerNorm", x + dense(W, p + "attention.output.dense", y), eps)
        y = dense(W, p + "output.dense", act(dense(W, p + "intermediate.dense", x)))
        x = layer_norm(W, p + "output.LayerNorm", x + y, eps)
    kind = c["architectures"][0]
    if kind == "BertForMaskedLM":
        h = layer_norm(W, "cls.predictions.transform.LayerNorm", act(dense(W, "cls.predictions.transform.dense", x)), eps)
        return h @ W[e + "word_embeddings.weight"].T + W["cls.predictions.bias"]
    pooled = torch.tanh(dense(W, base + "pooler.dense", x[0]))
    if kind == "BertForSequenceClassification":
        return dense(W, "classifier", pooled)
    return torch.cat([x, pooled[None]], 0)


def vit_shapes(c):
    d, hidden, patch = c["hidden_size"], c["intermediate_size"], c["patch_size"]
    out = {"vit.embeddings.cls_token": (1, 1, d),
           "vit.embeddings.position_embeddings": (1, (c["image_size"] // patch) ** 2 + 1, d),
           "vit.embeddings.patch_embeddings.projection.weight": (d, c["num_channels"], patch, patch),
           "vit.embeddings.patch_embeddings.projection.bias": (d,)}
    for i in range(c["num_hidden_layers"]):
        p = "vit.encoder.layer.%d." % i
        for name in ("query", "key", "value"):
            pair(out, p + "attention.attention." + name, d, d)
        pair(out, p + "attention.output.dense", d, d)
        pair(out, p + "intermediate.dense", hidden, d)
        pair(out, p + "output.dense", d, hidden)
        norm(out, p + "layernorm_before", d)
        norm(out, p + "layernorm_after", d)
    norm(out, "vit.layernorm", d)
    pair(out, "classifier", len(c["id2label"]), d)
    return out


def vit(c, W, image):
    heads, eps, patch = c["num_attention_heads"], c.get("layer_norm_eps", 1e-12), c["patch_size"]
    n = c["image_size"] // patch
    cut = image.reshape(c["num_channels"], n, patch, n, patch).permute(1, 3, 0, 2, 4).reshape(n * n, -1)
    e = "vit.embeddings."
    w = W[e + "patch_embeddings.projection.weight"]
    x = cut @ w.reshape(w.shape[0], -1).T + W[e + "patch_embeddings.projection.bias"]
    x = torch.cat([W[e + "cls_token"][0], x], 0) + W[e + "position_embeddings"][0]
    for i in range(c["num_hidden_layers"]):
        p = "vit.encoder.layer.%d." % i
        h = layer_norm(W, p + "layernorm_before", x, eps)
        q, k, v = (split(dense(W, p + "attention.attention." + m, h), heads) for m in ("query", "key", "value"))
        x = x + dense(W, p + "attention.output.dense", join(softmax_attention(q, k, v, q.shape[-1] ** -0.5)))
        h = layer_norm(W, p + "layernorm_after", x, eps)
        x = x + dense(W, p + "output.dense", ACT[c.get("hidden_act", "gelu")](dense(W, p + "intermediate.dense", h)))
    return dense(W, "classifier", layer_norm(W, "vit.layernorm", x, eps)[0])


SHAPES = {"gpt2": gpt2_shapes, "bert": bert_shapes, "vit": vit_shapes}
PASS = {"gpt2": gpt2}


def shapes_of(c):
    return SHAPES.get(c["model_type"], llama_shapes)(c)


def is_decoder(c):
    return c["model_type"] not in ("bert", "vit")


def scores(c, W, ids):
    return PASS.get(c["model_type"], llama)(c, W, torch.tensor(ids))


def greedy(c, W, ids, n):
    """The likeliest tokens, and by how much the nearest decision was made."""
    ids, margin = list(ids), float("inf")
    start = len(ids)
    for _ in range(n):
        top = scores(c, W, ids)[-1].topk(2)
        margin = min(margin, (top.values[0] - top.values[1]).item())
        ids.append(top.indices[0].item())
    return ids[start:], margin


# ---- configurations ----------------------------------------------------------------------------

def llama_like(kind, **more):
    return dict({"model_type": kind, "architectures": [{"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[kind] + "ForCausalLM"],
                 "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                 "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False,
                 "max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": None}, **more)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def bert_like(kind, **more):
    return dict({"model_type": "bert", "architectures": [kind], "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                 "intermediate_size": 48, "hidden_act": "gelu", "max_position_embeddings": 32, "type_vocab_size": 2, "layer_norm_eps": 1e-12}, **more)


def gpt2_like(**more):
    return dict({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256,
                 "n_inner": None, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "bos_token_id": None, "eos_token_id": None}, **more)


def vit_like(**more):
    return dict({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                 "intermediate_size": 48, "hidden_act": "gelu", "image_size": 12, "patch_size": 4, "num_channels": 3, "layer_norm_eps": 1e-12,
                 "qkv_bias": True, "id2label": {"0": "a", "1": "b", "2": "c", "3": "d", "4": "e"}, "label2id": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}}, **more)


REFERENCE = [
    ("GPT-2", gpt2_like()),
    ("GPT-2 of odd options", gpt2_like(n_inner=40, activation_function="gelu", scale_attn_by_inverse_layer_idx=True)),
    ("Llama with rotary positions of Llama 3", llama_like("llama", rope_scaling=LLAMA3, rope_theta=500000.0)),
    ("Llama, linear, tied, with biases", llama_like("llama", rope_scaling={"type": "linear", "factor": 2.5}, tie_word_embeddings=True,
                                                    attention_bias=True, mlp_bias=True, num_key_value_heads=4)),
    ("Mistral with a window", llama_like("mistral", sliding_window=9, head_dim=10)),
    ("Qwen2", llama_like("qwen2", num_key_value_heads=1, rope_theta=1000000.0, tie_word_embeddings=True)),
    ("Qwen2 with windows from the second layer on", llama_like("qwen2", use_sliding_window=True, sliding_window=6, max_window_layers=1)),
    ("Qwen3", llama_like("qwen3", head_dim=16, tie_word_embeddings=True)),
    ("BERT", bert_like("BertModel")),
    ("BERT for masked words", bert_like("BertForMaskedLM", hidden_act="gelu_new")),
    ("BERT for classes", bert_like("BertForSequenceClassification", id2label={"0": "a", "1": "b", "2": "c"})),
    ("ViT", vit_like()),
]
PROMPTS = [[3, 14, 15, 9, 26, 5], [53, 58], [9, 7, 9, 32, 38, 4, 6, 2, 60, 0]]


def random_config(r):
    kind = r.choice(["gpt2", "llama", "llama", "mistral", "qwen2", "qwen3", "BertModel", "BertForMaskedLM", "BertForSequenceClassification", "vit"])
    heads, layers = r.choice([1, 2, 4, 6]), r.choice([1, 2, 3])
    size = 2 * r.randint(2, 8)
    d, hidden, vocab = heads * size, r.randint(8, 70), r.randint(11, 99)
    act = r.choice(["gelu", "gelu_new", "relu", "silu", "quick_gelu", "gelu_pytorch_tanh"])
    if kind == "gpt2":
        return gpt2_like(vocab_size=vocab, n_embd=d, n_head=heads, n_layer=layers, n_inner=r.choice([None, hidden]), activation_function=act,
                         scale_attn_weights=r.random() < 0.7, scale_attn_by_inverse_layer_idx=r.random() < 0.3)
    if kind == "vit":
        return vit_like(hidden_size=d, num_attention_heads=heads, num_hidden_layers=layers, intermediate_size=hidden, hidden_act=act, num_channels=r.randint(1, 4))
    if kind.startswith("Bert"):
        more = {"id2label": {str(i): str(i) for i in range(r.randint(1, 7))}} if "Class" in kind else {}
        return bert_like(kind, vocab_size=vocab, hidden_size=d, num_attention_heads=heads, num_hidden_layers=layers, intermediate_size=hidden, hidden_act=act, **more)
    more = {}
    if kind in ("llama", "qwen3"):
        more["attention_bias"] = r.random() < 0.4
    if kind == "llama":
        more["mlp_bias"] = r.random() < 0.3
        more["rope_scaling"] = r.choice([None, LLAMA3, {"type": "linear", "factor": r.uniform(1, 5)}])
    if kind == "mistral":
        more["sliding_window"] = r.choice([None, 1, 5, 40])
    if kind.startswith("qwen"):
        more.update(use_sliding_window=r.random() < 0.5, sliding_window=r.randint(1, 20), max_window_layers=r.randint(0, 3))
    if kind != "qwen2":
        more["head_dim"] = r.choice([size, 2 * r.randint(2, 9)])
    return llama_like(kind, vocab_size=vocab, hidden_size=d, num_attention_heads=heads, num_key_value_heads=r.choice([k for k in (1, 2, 3, 6) if heads % k == 0]),
                      num_hidden_layers=layers, intermediate_size=hidden, hidden_act=act, rope_theta=r.choice([100.0, 1e4, 1e6]),
                      tie_word_embeddings=r.random() < 0.5, rms_norm_eps=r.choice([1e-6, 1e-5]), **more)


# ---- a case: weights, inputs, results ------------------------------------------------------------

def make_weights(c, seed):
    return {name: weight(seed * 1000 + i + 1, name, shape, 2.0) for i, (name, shape) in enumerate(shapes_of(c).items())}


def expected(c, W32, prompts, new):
    """Inputs as flame gets them, and the results."""
    W = {k: v.double() for k, v in W32.items()}
    if c["model_type"] == "vit":
        n = 2 * c["num_channels"] * c["image_size"] ** 2
        pixels = torch.from_numpy(weight_values(5, n).astype(np.float32)).reshape(2, c["num_channels"], c["image_size"], -1)
        return {"pixels": 5}, {"logits": [vit(c, W, p).reshape(-1).tolist() for p in pixels.double()]}
    prompts = [[i % c["vocab_size"] for i in p] for p in prompts]
    if c["model_type"] == "bert":
        types = [[int(k > len(p) // 2) for k in range(len(p))] for p in prompts]
        return ({"prompts": prompts, "types": types},
                {"logits": [bert(c, W, torch.tensor(p), torch.tensor(t)).reshape(-1).tolist() for p, t in zip(prompts, types)]})
    texts = [greedy(c, W, p, new) for p in prompts]
    return ({"prompts": prompts, "new": new},
            {"logits": [scores(c, W, p)[-1].tolist() for p in prompts], "texts": [t for t, _ in texts], "margin": min(m for _, m in texts)})


def lua(v):
    if isinstance(v, str):
        return json.dumps(v)
    if isinstance(v, dict):
        return "{ " + ", ".join("%s = %s" % (k, lua(w)) for k, w in v.items()) + " }"
    if isinstance(v, (list, tuple)):
        return "{ " + ", ".join(lua(w) for w in v) + " }"
    return "%.8g" % v if isinstance(v, float) else str(v)


def fold(text, width=98):
    """Lines of at most so many characters, broken at spaces."""
    out, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            out.append(line)
            line = word
        else:
            line = (line + " " + word) if line else word
    return "\n".join(out + [line])


def check_reference(title, c, W32, given, results):
    """The figures are those of transformers' models in f64 with the same weights."""
    with tempfile.TemporaryDirectory() as folder:
        save_folder(folder, c, W32, 2)
        model = getattr(transformers, c["architectures"][0]).from_pretrained(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        if c["model_type"] == "vit":
            n = 2 * c["num_channels"] * c["image_size"] ** 2
            x = torch.from_numpy(weight_values(5, n).astype(np.float32)).reshape(2, c["num_channels"], c["image_size"], -1)
            logits = list(model(x.double()).logits)
        elif c["model_type"] == "bert":
            outs = [model(torch.tensor([p]), token_type_ids=torch.tensor([t])) for p, t in zip(given["prompts"], given["types"])]
            logits = [o.logits if "logits" in o else torch.cat([o.last_hidden_state[0], o.pooler_output]) for o in outs]
        else:
            logits = [model(torch.tensor([p])).logits[0, -1] for p in given["prompts"]]
            for p, t in zip(given["prompts"], results["texts"]):
                best = model(torch.tensor([p + t])).logits[0, len(p) - 1:-1].argmax(-1)
                assert best.tolist() == t, title + ": greedy texts differ"
    error = max((v.reshape(-1) - torch.tensor(w, dtype=torch.float64)).abs().max().item() for v, w in zip(logits, results["logits"]))
    assert error < 1e-5, "%s: logits differ by %g" % (title, error)
    print("%s: transformers %s differs by %.1e" % (title, transformers.__version__, error), file=sys.stderr)


def reference():
    print("-- Written by spec/peer/models.py: results of models whose weights follow from their numbers.")
    print("return {")
    for k, (title, c) in enumerate(REFERENCE):
        seed = k + 1
        while True:
            W = make_weights(c, seed)
            given, results = expected(c, W, PROMPTS, NEW)
            if results.get("margin", 1) > 2e-3 and len({tuple(t) for t in results.get("texts", [])}) in (0, len(PROMPTS)):
                break
            seed += 100
        results.pop("margin", None)
        if transformers:
            check_reference(title, c, W, given, results)
        tensors = [[name] + list(t.shape) for name, t in W.items()]
        print(fold(lua({"title": title, "seed": seed})[:-2] + ","))
        print("config = [[" + fold(json.dumps(c), 90) + "]],")
        print(fold("tensors = " + lua(tensors) + ","))
        print(fold("given = " + lua(given) + ","))
        print(fold("results = " + lua(results) + " },"))
    print("}")


# ---- comparison ----------------------------------------------------------------------------------

def run_flame(flame, folder, given):
    with open(os.path.join(folder, "input.json"), "w") as f:
        json.dump(given, f)
    done = subprocess.run([flame, "spec/peer/models.lua", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        return None, done.stdout.decode()
    with open(os.path.join(folder, "output.json")) as f:
        return json.load(f), ""


def compare(title, got, want):
    """The largest error of the logits; complains of what differs."""
    if got is None:
        return float("inf")
    worst = 0.0
    for a, b in zip(got["logits"], want["logits"]):
        if len(a) != len(b):
            print("%s: %d logits, expected %d" % (title, len(a), len(b)))
            return float("inf")
        worst = max([worst] + [abs(x - y) / max(1.0, abs(y)) for x, y in zip(a, b)])
    for how in ("texts", "alone", "uncached"):
        if want.get("margin", 1) > 1e-4 and "texts" in want and got[how] != want["texts"]:
            print("%s: texts differ (%s)" % (title, how))
            return float("inf")
    return worst


def save_folder(folder, c, W, shards):
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f, indent=2)
    if shards == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), W)
        return
    names, where = list(W), {}
    for k in range(shards):
        file = "model-%05d-of-%05d.safetensors" % (k + 1, shards)
        part = {n: W[n] for n in names[k::shards]}
        where.update({n: file for n in part})
        write_safetensors(os.path.join(folder, file), part)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 0}, "weight_map": where}, f)


def by_transformers(c, folder, seed):
    """The same configuration made, saved and run by transformers."""
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(**c)
    model = getattr(transformers, c["architectures"][0])(config).eval()
    for p in model.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p, 0, 0.3)
    model.save_pretrained(folder, safe_serialization=True)
    prompts = [[i % c["vocab_size"] for i in p] for p in PROMPTS] if c["model_type"] != "vit" else []
    with torch.no_grad():
        if not prompts:
            n = 2 * c["num_channels"] * c["image_size"] ** 2
            x = torch.from_numpy(weight_values(5, n).astype(np.float32)).reshape(2, c["num_channels"], c["image_size"], -1)
            return {"pixels": 5}, {"logits": model(x).logits.tolist()}
        if c["model_type"] == "bert":
            types = [[int(k > len(p) // 2) for k in range(len(p))] for p in prompts]
            outs = [model(torch.tensor([p]), token_type_ids=torch.tensor([t])) for p, t in zip(prompts, types)]
            flat = [o.logits.reshape(-1) if "logits" in o else torch.cat([o.last_hidden_state[0], o.pooler_output]).reshape(-1) for o in outs]
            return {"prompts": prompts, "types": types}, {"logits": [v.tolist() for v in flat]}
        # transformers' cache keeps everything where the window is 1 and differs from its own pass without one
        how = dict(max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, use_cache=c.get("sliding_window") != 1)
        texts = [model.generate(torch.tensor([p]), **how)[0, len(p):].tolist() for p in prompts]
        logits = [model(torch.tensor([p])).logits[0, -1].tolist() for p in prompts]
        model.double()
        top = [model(torch.tensor([p + t])).logits[0, len(p) - 1:-1].topk(2).values for p, t in zip(prompts, texts)]
        margin = min((v[:, 0] - v[:, 1]).min().item() for v in top)
        return {"prompts": prompts, "new": NEW}, {"logits": logits, "texts": texts, "margin": margin}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("what", nargs="?", default="compare")
    options.add_argument("--flame", default="build/flame-lua")
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    torch.set_num_threads(1)
    if o.what == "reference":
        return reference()
    worst, bad = {}, 0
    for k in range(o.rounds):
        r = random.Random(o.seed * 100003 + k)
        c = random_config(r)
        ways = [("PyTorch", None)] + ([("transformers", True)] if transformers else [])
        for way, ready in ways:
            with tempfile.TemporaryDirectory() as folder:
                if ready:
                    given, want = by_transformers(c, folder, k)
                else:
                    W = make_weights(c, o.seed * 1000 + k)
                    given, want = expected(c, W, [[r.randrange(99) for _ in range(r.randint(1, 9))] for _ in range(3)], NEW)
                    save_folder(folder, c, W, r.choice([1, 1, 2, 5]))
                got, said = run_flame(o.flame, folder, given)
                title = "%s, round %d, seed %d: %s" % (way, k, o.seed, json.dumps(c))
                error = compare(title, got, want)
                if got is None:
                    print(title + "\n" + said)
                if not error <= 1e-4:
                    bad += 1
                    print("%s: error %g" % (title, error))
                key = way + " " + c["architectures"][0]
                worst[key] = (worst.get(key, (0, 0))[0] + 1, max(worst.get(key, (0, 0))[1], error))
    for key in sorted(worst):
        print("%-45s %4d models, largest error %.1e" % (key, *worst[key]))
    print("transformers %s" % (transformers.__version__ if transformers else "is not installed: not compared"))
    sys.exit(1 if bad else 0)


main()
