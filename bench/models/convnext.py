"""bench/models/convnext.lua in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depthwise = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.norm, self.up, self.down = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.scale = nn.Parameter(torch.full((c,), 1e-6))

    def forward(self, x):
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.down(F.gelu(self.up(self.norm(y)))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class Net(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, depth = o["width"], (3, 3, o["deep"], 1 if o["deep"] == 1 else 3)
        layers = [nn.Conv2d(3, w, 4, 4)]
        for i in range(4):
            if i:
                layers.append(nn.Conv2d(w << (i - 1), w << i, 2, 2))
            layers += [Block(w << i) for _ in range(depth[i])]
        self.layers = nn.ModuleList(layers)
        self.norm, self.head = nn.LayerNorm(8 * w), nn.Linear(8 * w, 1000)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x.mean((2, 3))))


def make(o, peer):
    net, x, t = peer.last(peer.net(Net(o))), peer.last(peer.given["x"]), peer.given["t"]
    forward = peer.wrap(net)
    opt = peer.adam(net.parameters(), torch.optim.AdamW, lr=1e-4)
    return peer.train(net, opt, None, objective=lambda: F.cross_entropy(forward(x), t), bf16=o["dtype"] == "bf16")
