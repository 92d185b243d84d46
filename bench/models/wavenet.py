"""bench/models/wavenet.lua in PyTorch."""
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, c, layers):
        super().__init__()
        self.width, self.first = c, nn.Conv1d(1, c, 1)
        self.far = nn.ModuleList(nn.Conv1d(c, 2 * c, 2, dilation=1 << i % 10) for i in range(layers))
        self.near = nn.ModuleList(nn.Conv1d(c, 2 * c, 1) for _ in range(layers))
        self.out1, self.out2 = nn.Conv1d(c, c, 1), nn.Conv1d(c, 256, 1)

    def forward(self, x):
        h, skip, c = self.first(x), 0, self.width
        for i, (far, near) in enumerate(zip(self.far, self.near)):
            y = far(F.pad(h, (1 << i % 10, 0)))
            y = near(y[:, :c].tanh() * y[:, c:].sigmoid())
            h, skip = h + y[:, :c], skip + y[:, c:]
        return self.out2(F.relu(self.out1(F.relu(skip))))


def make(o, peer):
    net, x, t = peer.net(Net(o["width"], o["layers"])), peer.given["x"], peer.given["t"]
    forward = peer.wrap(net)
    return peer.train(net, peer.adam(net.parameters(), lr=1e-3), None, objective=lambda: F.cross_entropy(forward(x), t))
