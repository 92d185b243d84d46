"""bench/models/vit.lua in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn

from cases.ops import attend

DROPOUT, PATCH = 0.1, 16


class Block(nn.Module):
    def __init__(self, w, heads):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(w), nn.LayerNorm(w), heads
        self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.up, self.down, self.drop = nn.Linear(w, 4 * w), nn.Linear(4 * w, w), nn.Dropout(DROPOUT)

    def forward(self, x):
        n, length, w = x.shape
        p = self.qkv(self.norm1(x)).reshape(n, length, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = attend(p[0], p[1], p[2], causal=False, dropout=DROPOUT if self.training else 0.0)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(n, length, w)))
        return x + self.drop(self.down(self.drop(F.gelu(self.up(self.norm2(x))))))


class Vision(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, patches = o["width"], (o["size"] // PATCH) ** 2
        self.patch = nn.Conv2d(3, w, PATCH, PATCH)
        self.first = nn.Parameter(torch.zeros(1, 1, w))
        self.position = nn.Parameter(torch.randn(1, patches + 1, w) * 0.02)
        self.blocks = nn.ModuleList(Block(w, o["heads"]) for _ in range(o["layers"]))
        self.norm, self.head = nn.LayerNorm(w), nn.Linear(w, 1000)

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = torch.cat((self.first.expand(x.shape[0], 1, -1).to(y.dtype), y), 1) + self.position
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y)[:, 0])


def make(o, peer):
    net, x, t = peer.net(Vision(o)), peer.given["x"], peer.given["t"]
    forward = peer.wrap(net)
    opt = peer.adam(net.parameters(), torch.optim.AdamW, lr=1e-4)
    return peer.train(net, opt, None, objective=lambda: F.cross_entropy(forward(x), t, label_smoothing=0.1), bf16=o["dtype"] == "bf16",
                      clip=1.0, quiet=True)
