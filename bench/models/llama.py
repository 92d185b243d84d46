"""bench/models/llama.lua in PyTorch."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.square().mean(-1, True) + 1e-6)).to(x.dtype) * self.weight


def linear(a, b):
    return nn.Linear(a, b, bias=False)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def attend(q, k, v):
    """Causal attention in which heads of keys serve several of queries."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    from cases.ops import attend as plain
    times = q.shape[1] // k.shape[1]
    return plain(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1))


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, size = o["width"], o["width"] // o["heads"]
        self.heads, self.kv, self.size = o["heads"], o["kv"], size
        self.norm1, self.norm2 = Norm(w), Norm(w)
        self.q, self.k, self.v = linear(w, w), linear(w, o["kv"] * size), linear(w, o["kv"] * size)
        self.out = linear(w, w)
        self.gate, self.up, self.down = linear(w, o["ff"]), linear(w, o["ff"]), linear(o["ff"], w)

    def forward(self, x, cos, sin):
        n, length, width = x.shape
        h = self.norm1(x)

        def heads(y, count):
            return y.view(n, length, count, self.size).transpose(1, 2)
        q, k, v = heads(self.q(h), self.heads), heads(self.k(h), self.kv), heads(self.v(h), self.kv)
        y = attend(rotate(q, cos, sin), rotate(k, cos, sin), v.to(q.dtype))
        x = x + self.out(y.transpose(1, 2).reshape(n, length, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.token = nn.Embedding(o["vocabulary"], o["width"])
        self.blocks = nn.ModuleList(Block(o) for _ in range(o["layers"]))
        self.norm, self.head = Norm(o["width"]), linear(o["width"], o["vocabulary"])
        size = o["width"] // o["heads"]
        speeds = torch.exp(torch.arange(0, size, 2).float() * (-math.log(10000) / size))
        angles = torch.arange(o["length"]).float()[:, None] * speeds
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos().bfloat16(), persistent=False)
        self.register_buffer("sin", angles.sin().bfloat16(), persistent=False)

    def forward(self, ids):
        x = self.token(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def make(o, peer):
    net, ids = peer.net(Llama(o)), peer.given["ids"]
    forward = peer.wrap(net)
    opt = peer.adam(net.parameters(), torch.optim.AdamW, lr=1e-4)
    x, t = ids[:, :-1], ids[:, 1:].reshape(-1)
    return peer.train(net, opt, None, objective=lambda: F.cross_entropy(forward(x).reshape(-1, o["vocabulary"]), t),
                      bf16=o["dtype"] == "bf16", clip=1.0)
