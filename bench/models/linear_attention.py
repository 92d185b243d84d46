"""bench/models/linear_attention.lua in PyTorch."""
import math

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 64


class Norm(nn.Module):
    """Root-mean-square norm, as nn.RMSNorm where PyTorch has it."""

    def __init__(self, w):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(w))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)
        return x * torch.rsqrt(x.square().mean(-1, True) + 1e-6) * self.weight


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = o["heads"] * SIZE
        self.heads, self.chunk = o["heads"], o["chunk"]
        self.qkv, self.decay, self.out, self.norm = nn.Linear(w, 3 * w), nn.Linear(w, o["heads"]), nn.Linear(w, w), Norm(w)

    @staticmethod
    def from_before(q, kv, g):
        state, states, last = torch.zeros(*kv.shape[:2], SIZE, SIZE, device=q.device), [], g[..., -1:]
        for i in range(kv.shape[2]):
            states.append(state)
            state = state * last[:, :, i].unsqueeze(-1).exp() + kv[:, :, i]
        return (q * g.exp()[..., None].to(q.dtype)) @ torch.stack(states, 2).to(q.dtype)

    def forward(self, x):
        n, length, w = x.shape
        heads, chunk, count, y = self.heads, self.chunk, length // self.chunk, self.norm(x)
        q, k, v = self.qkv(y).reshape(n, count, chunk, 3, heads, SIZE).permute(3, 0, 4, 1, 2, 5)
        g = F.logsigmoid(self.decay(y).float()).reshape(n, count, chunk, heads).permute(0, 3, 1, 2).cumsum(-1)
        later = torch.ones(chunk, chunk, device=x.device).triu(1) != 0
        decay = (g[..., None] - g[..., None, :]).masked_fill(later, -math.inf).exp()
        within = ((q @ k.transpose(-1, -2)) * decay.to(q.dtype)) @ v
        kv = (k * (g[..., -1:] - g).exp()[..., None].to(k.dtype)).transpose(-1, -2) @ v
        r = within + self.from_before(q, kv, g)
        return x + self.out(r.permute(0, 2, 3, 1, 4).reshape(n, length, w))


def make(o, peer):
    net, x, t = peer.net(nn.Sequential(*(Layer(o) for _ in range(4)))), peer.given["x"], peer.given["t"]
    forward = peer.wrap(net)
    opt = peer.adam(net.parameters(), torch.optim.AdamW, lr=1e-4)
    return peer.train(net, opt, None, objective=lambda: F.mse_loss(forward(x).float(), t), bf16=o["dtype"] == "bf16")
