#!/usr/bin/env python3
"""Tokens per second of flame.generate against a decoder written for speed in PyTorch, in turn.

usage: generate.py FLAME_LUA [SIZE [BATCH [TOKENS [DTYPE [PROMPT]]]]] [-r ROUNDS] [-t THREADS]
From the root of the repository; arguments as bench/generate.lua has them. PyTorch's side has one
product for q, k and v and one for the two halves of the gated layer, keys and values in memory that
is reserved, scaled_dot_product_attention where there is one, and reads each token as flame does.
Medians of the rounds; on the GPU where PyTorch has one, else on the CPU.
"""
import math
import os
import re
import statistics
import subprocess
import sys
import time


def arguments():
    rest, rounds, threads, plain = sys.argv[2:], 5, 2, []
    while rest:
        a = rest.pop(0)
        if a == "-r":
            rounds = int(rest.pop(0))
        elif a == "-t":
            threads = int(rest.pop(0))
        else:
            plain.append(a)
    defaults = ["small", "1", "128", "f32", "128"]
    name, batch, tokens, dtype, prompt = plain + defaults[len(plain):]
    return rounds, threads, name, int(batch), int(tokens), dtype, int(prompt)


ROUNDS, THREADS, NAME, BATCH, TOKENS, DTYPE, PROMPT = arguments()
os.environ["FLAME_THREADS"] = str(THREADS)

import torch  # noqa: E402  (the environment first)
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KIND = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[DTYPE]
WIDTH, LAYERS, HEADS, KV, HIDDEN, VOCABULARY = {
    "spec": (16, 1, 2, 1, 32, 40), "small": (512, 8, 8, 4, 1408, 8192),
    "1b": (2048, 16, 32, 8, 8192, 128256), "8b": (4096, 32, 32, 8, 14336, 128256)}[NAME]
SIZE = WIDTH // HEADS


def randn(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=KIND) / math.sqrt(shape[-1])


EMBED, HEAD = randn(VOCABULARY, WIDTH), randn(VOCABULARY, WIDTH)
NORMS = torch.ones(WIDTH, device=DEVICE, dtype=KIND)
WEIGHTS = [(randn((HEADS + 2 * KV) * SIZE, WIDTH), randn(WIDTH, WIDTH), randn(2 * HIDDEN, WIDTH), randn(WIDTH, HIDDEN)) for _ in range(LAYERS)]
ANGLES = torch.arange(PROMPT + TOKENS + 2, device=DEVICE)[:, None] / 1e4 ** (torch.arange(0, SIZE, 2, device=DEVICE) / SIZE)
COS, SIN = (torch.cat([f(ANGLES)] * 2, -1).to(KIND) for f in (torch.cos, torch.sin))
FUSED = getattr(F, "scaled_dot_product_attention", None)


def rms(x):
    y = x.float()
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)).to(KIND) * NORMS


def rotate(x, seen, t):
    half = SIZE // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * COS[seen:seen + t] + turned * SIN[seen:seen + t]


def attend(q, k, v, causal):
    if HEADS != KV:
        b, _, t, _ = q.shape
        if not causal:                       # queries of a group as rows: nothing is repeated
            q = q.reshape(b, KV, HEADS // KV * t, SIZE)
        else:
            k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
    if FUSED:
        return FUSED(q, k, v, is_causal=causal)
    s = q @ k.transpose(-1, -2) / math.sqrt(SIZE)
    if causal:
        t = q.shape[2]
        s = s.masked_fill(torch.ones(t, t, device=DEVICE, dtype=torch.bool).triu(1), -math.inf)
    return s.softmax(-1) @ v


def step(ids, cache, seen):
    b, t = ids.shape
    x = EMBED[ids]
    for (qkv, out, up, down), (keys, values) in zip(WEIGHTS, cache):
        h = F.linear(rms(x), qkv).reshape(b, t, HEADS + 2 * KV, SIZE).transpose(1, 2)
        q, k, v = h.split([HEADS, KV, KV], 1)
        keys[:, :, seen:seen + t], values[:, :, seen:seen + t] = rotate(k, seen, t), v
        y = attend(rotate(q, seen, t), keys[:, :, :seen + t], values[:, :, :seen + t], t > 1)
        y = y.reshape(b, HEADS, t, SIZE)
        x = x + F.linear(y.transpose(1, 2).reshape(b, t, WIDTH), out)
        gate, inner = F.linear(rms(x), up).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * inner, down)
    return F.linear(rms(x[:, -1]), HEAD).argmax(-1, keepdim=True)


def seconds(n):
    cache = [tuple(torch.zeros(BATCH, KV, PROMPT + n, SIZE, device=DEVICE, dtype=KIND) for _ in range(2)) for _ in range(LAYERS)]
    ids = torch.tensor([[(i * 31 + k * 7) % VOCABULARY for k in range(1, PROMPT + 1)] for i in range(1, BATCH + 1)], device=DEVICE)
    start, seen = time.perf_counter(), 0
    for _ in range(n):
        new = step(ids, cache, seen)
        seen += ids.shape[1]
        new.tolist()
        ids = new
    return time.perf_counter() - start


def torch_round():
    first = seconds(1)
    return first * 1e3, BATCH * TOKENS / (seconds(TOKENS + 1) - first)


def flame_round():
    program = [sys.argv[1], "bench/generate.lua"] + [str(a) for a in (NAME, BATCH, TOKENS, DTYPE, PROMPT)]
    text = subprocess.run(program, stdout=subprocess.PIPE, check=True, env=dict(os.environ, FLAME_DEVICE=DEVICE)).stdout.decode()
    found = re.search(r"in ([\d.]+) ms, then ([\d.]+) tokens/s", text)
    return float(found.group(1)), float(found.group(2))


def main():
    seconds(4)
    rounds = [(flame_round(), torch_round()) for _ in range(ROUNDS)]
    print("%s, batch %d, %s, %d + %d tokens, %s, PyTorch %s" % (NAME, BATCH, DTYPE, PROMPT, TOKENS, DEVICE, torch.__version__))
    for i, what in ((0, "prompt, ms"), (1, "tokens/s")):
        ours, theirs = (statistics.median(r[side][i] for r in rounds) for side in (0, 1))
        print("  %-11s flame %8.1f   PyTorch %8.1f   ratio %.2f" % (what, ours, theirs, theirs / ours if i == 0 else ours / theirs))


main()
