"""bench/models/unet.lua in PyTorch."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from cases.ops import attend


def window(a, b, stride=1):
    return nn.Conv2d(a, b, 3, stride, 1)


class Residual(nn.Module):
    def __init__(self, a, b, times):
        super().__init__()
        self.norm1, self.conv1, self.time = nn.GroupNorm(8, a), window(a, b), nn.Linear(times, b)
        self.norm2, self.conv2 = nn.GroupNorm(8, b), window(b, b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        p = self.qkv(self.norm(x)).reshape(n, 3, 4, c // 4, h * w).transpose(-1, -2)
        y = attend(p[:, 0], p[:, 1], p[:, 2], causal=False)
        return x + self.out(y.transpose(-1, -2).reshape(n, c, h, w))


class Net(nn.Module):
    def __init__(self, c):
        super().__init__()
        e = 4 * c
        self.width, self.time1, self.time2 = c, nn.Linear(c, e), nn.Linear(e, e)
        self.first, self.less1, self.less2 = window(3, c), window(c, c, 2), window(2 * c, 2 * c, 2)
        self.down1, self.down2 = Residual(c, c, e), Residual(c, 2 * c, e)
        self.down3, self.middle = Residual(2 * c, 2 * c, e), Residual(2 * c, 2 * c, e)
        self.attention = Attention(2 * c)
        self.up3, self.up2 = Residual(4 * c, 2 * c, e), Residual(4 * c, c, e)
        self.up1, self.norm, self.last = Residual(2 * c, c, e), nn.GroupNorm(8, c), window(c, 3)

    def forward(self, x, t):
        half = self.width // 2
        angles = t[:, None] * torch.exp(torch.arange(half, device=x.device).float() * (-math.log(10000) / half))
        e = self.time2(F.silu(self.time1(torch.cat((angles.sin(), angles.cos()), -1))))
        x1 = self.down1(self.first(x), e)
        x2 = self.down2(self.less1(x1), e)
        x3 = self.down3(self.less2(x2), e)
        y = self.up3(torch.cat((self.middle(self.attention(x3), e), x3), 1), e)
        y = self.up2(torch.cat((F.interpolate(y, scale_factor=2), x2), 1), e)
        y = self.up1(torch.cat((F.interpolate(y, scale_factor=2), x1), 1), e)
        return self.last(F.silu(self.norm(y)))


def make(o, peer):
    net, x, t = peer.net(Net(o["width"])), peer.given["x"], peer.given["t"]
    net, x = peer.last(net), peer.last(x)
    forward = peer.wrap(net)
    opt = peer.adam(net.parameters(), torch.optim.AdamW, lr=1e-4)

    def objective():
        noise = peer.draw(lambda: torch.randn_like(x))
        return F.mse_loss(forward(x * 0.7 + noise * 0.7, t).float(), noise)
    return peer.train(net, opt, None, objective=objective, bf16=o["dtype"] == "bf16")
