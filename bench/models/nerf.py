"""bench/models/nerf.lua in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn


def make(o, peer):
    rays, samples, w = o["rays"], o["samples"], o["width"]
    layers = [nn.Linear(63, w), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Linear(w, w), nn.ReLU()]
    net = peer.net(nn.Sequential(*layers, nn.Linear(w, 4)))
    origin, way, want = (peer.given[name] for name in ("origin", "way", "want"))
    places = torch.linspace(2, 6, samples, device=peer.device)
    far, ones = torch.full((rays, 1), 1e10, device=peer.device), torch.ones(rays, 1, device=peer.device)

    def loss_of(noise):
        t = places + noise * (4 / samples)
        p = origin + way * t[..., None]
        code = [p]
        for k in range(10):
            code += [(p * 2**k).sin(), (p * 2**k).cos()]
        out = net(torch.cat(code, -1))
        density, colour = F.relu(out[..., 3]), torch.sigmoid(out[..., :3])
        alpha = 1 - torch.exp(-density * torch.cat((t[:, 1:] - t[:, :-1], far), -1))
        left = torch.cat((ones, (1 - alpha + 1e-10)[:, :-1]), -1).cumprod(-1)
        return F.mse_loss(((alpha * left)[..., None] * colour).sum(1), want)
    loss_of = peer.wrap(loss_of)

    def objective():
        return loss_of(peer.draw(lambda: torch.rand(rays, samples, device=peer.device)))
    return peer.train(net, peer.adam(net.parameters(), lr=5e-4), None, objective=objective)
