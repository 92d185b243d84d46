"""bench/models/dcgan.lua in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn

NOISE = 100


def maker(c):
    layers, before = [], NOISE
    for i, width in enumerate((8 * c, 4 * c, 2 * c, c)):
        layers += [nn.ConvTranspose2d(before, width, 4, 2 if i else 1, 1 if i else 0, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.ConvTranspose2d(c, 3, 4, 2, 1, bias=False), nn.Tanh())


def judge(c):
    layers, before = [], 3
    for i, width in enumerate((c, 2 * c, 4 * c, 8 * c)):
        layers += [nn.Conv2d(before, width, 4, 2, 1, bias=False)] + [nn.BatchNorm2d(width)] * (i > 0) + [nn.LeakyReLU(0.2)]
        before = width
    return nn.Sequential(*layers, nn.Conv2d(before, 1, 4, bias=False))


def make(o, peer):
    maker_, judge_ = peer.net(maker(o["width"]), "make"), peer.net(judge(o["width"]), "tell")
    forward, tell = peer.wrap(maker_), peer.wrap(judge_)
    makes, tells = (peer.adam(n.parameters(), lr=2e-4, betas=(0.5, 0.999)) for n in (maker_, judge_))
    real = peer.given["real"]

    def loss_of(x, target):
        return F.binary_cross_entropy_with_logits(x, torch.full_like(x, target))

    def body():
        tells.zero_grad()
        fake = forward(peer.draw(lambda: torch.randn(o["batch"], NOISE, 1, 1, device=peer.device)))
        loss = loss_of(tell(real), 1.0) + loss_of(tell(fake.detach()), 0.0)
        loss.backward()
        tells.step()
        makes.zero_grad()
        loss = loss_of(tell(fake), 1.0)
        loss.backward()
        makes.step()
        return loss
    return peer.case(body, nets={"make": maker_, "tell": judge_}, optimisers=[makes, tells])
