"""bench/models/mobilenet.lua in PyTorch."""
import torch.nn.functional as F
from torch import nn

STAGES = ((16, 1, 1, 1), (24, 2, 2, 6), (32, 3, 2, 6), (64, 4, 2, 6), (96, 3, 1, 6), (160, 3, 2, 6), (320, 1, 1, 6))


def window(a, b, k, stride, groups):
    return nn.Sequential(nn.Conv2d(a, b, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(b), nn.ReLU6())


class Block(nn.Module):
    def __init__(self, a, b, stride, expansion):
        super().__init__()
        h = a * expansion
        self.expand, self.depthwise = window(a, h, 1, 1, 1), window(h, h, 3, stride, h)
        self.project, self.norm = nn.Conv2d(h, b, 1, bias=False), nn.BatchNorm2d(b)
        self.skip = stride == 1 and a == b

    def forward(self, x):
        y = self.norm(self.project(self.depthwise(self.expand(x))))
        return x + y if self.skip else y


def make(o, peer):
    layers, c = [window(3, 32, 3, 2, 1)], 32
    for width, count, stride, expansion in STAGES[:o["stages"]]:
        for k in range(count):
            layers.append(Block(c, width, stride if k == 0 else 1, expansion))
            c = width
    net = nn.Sequential(*layers, window(c, 1280, 1, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))
    net, x, t = peer.last(peer.net(net)), peer.last(peer.given["x"]), peer.given["t"]
    forward = peer.wrap(net)
    return peer.train(net, peer.sgd(net.parameters(), lr=0.01, momentum=0.9), None, objective=lambda: F.cross_entropy(forward(x), t))
