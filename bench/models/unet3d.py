"""bench/models/unet3d.lua in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn


def block(a, b):
    layers = []
    for start in (a, b):
        layers += [nn.Conv3d(start, b, 3, padding=1), nn.InstanceNorm3d(b), nn.LeakyReLU()]
    return nn.Sequential(*layers)


class Net(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.in1, self.in2, self.in3 = block(1, c), block(c, 2 * c), block(2 * c, 4 * c)
        self.up2, self.out2 = nn.ConvTranspose3d(4 * c, 2 * c, 2, 2), block(4 * c, 2 * c)
        self.up1, self.out1, self.last = nn.ConvTranspose3d(2 * c, c, 2, 2), block(2 * c, c), nn.Conv3d(c, 4, 1)

    def forward(self, x):
        a = self.in1(x)
        b = self.in2(F.max_pool3d(a, 2))
        y = self.in3(F.max_pool3d(b, 2))
        y = self.out2(torch.cat((self.up2(y), b), 1))
        return self.last(self.out1(torch.cat((self.up1(y), a), 1)))


def make(o, peer):
    net, x, t = peer.net(Net(o["width"])), peer.given["x"], peer.given["t"]
    forward = peer.wrap(net)
    opt = peer.adam(net.parameters(), torch.optim.AdamW, lr=1e-4)
    return peer.train(net, opt, None, objective=lambda: F.cross_entropy(forward(x), t), bf16=o["dtype"] == "bf16")
