"""bench/models/gnn.lua in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn


def make(o, peer):
    start, end, x, t = (peer.given[name] for name in ("from", "to", "x", "t"))
    n, f = o["nodes"], o["features"]
    net = peer.net(nn.ModuleList(nn.Linear(2 * f, 10 if i == 2 else f) for i in range(3)))
    degree = torch.zeros(n, device=peer.device).index_add(0, end, torch.ones(o["edges"], device=peer.device)).clamp(min=1)[:, None]

    def objective():
        h = x
        for i, layer in enumerate(net):
            total = torch.zeros(n, h.shape[1], device=h.device).index_add(0, end, h.index_select(0, start))
            h = layer(torch.cat((h, total / degree), -1))
            if i < 2:
                h = F.relu(h)
        return F.cross_entropy(h, t)
    return peer.train(net, peer.adam(net.parameters(), lr=1e-3), objective)
