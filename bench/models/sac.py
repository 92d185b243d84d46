"""bench/models/sac.lua in PyTorch."""
import math

import torch
import torch.nn.functional as F

from cases.nets import perceptron

SEEN, MOVES = 17, 6


def make(o, peer):
    n, sizes = o["batch"], {"actor": (SEEN, 2 * MOVES), **{name: (SEEN + MOVES, 1) for name in ("q1", "q2", "slow1", "slow2")}}
    nets = {name: peer.net(perceptron((a, 256, 256, b), torch.nn.ReLU), name) for name, (a, b) in sizes.items()}
    actor, q1, q2, slow1, slow2 = (nets[name] for name in sizes)
    acts = peer.adam(actor.parameters(), lr=3e-4)
    judges = peer.adam([*q1.parameters(), *q2.parameters()], lr=3e-4)
    seen, move, gain, after = (peer.given[name] for name in ("seen", "move", "gain", "after"))

    def noise():
        return peer.draw(lambda: torch.randn(n, MOVES, device=peer.device))

    def act(x, e):
        mean, log_std = actor(x).split(MOVES, 1)
        log_std = log_std.clamp(-5, 2)
        y = (mean + e * log_std.exp()).tanh()
        logs = -0.5 * e.square() - log_std - 0.5 * math.log(2 * math.pi)
        return y, (logs - torch.log(1 - y.square() + 1e-6)).sum(1, True)

    @peer.wrap
    def loss_of_critics(e):
        with torch.no_grad():
            y, log_p = act(after, e)
            x = torch.cat((after, y), 1)
            target = gain + 0.99 * (torch.minimum(slow1(x), slow2(x)) - 0.2 * log_p)
        x = torch.cat((seen, move), 1)
        return F.mse_loss(q1(x), target) + F.mse_loss(q2(x), target)

    @peer.wrap
    def loss_of_actor(e):
        y, log_p = act(seen, e)
        z = torch.cat((seen, y), 1)
        return (0.2 * log_p - torch.minimum(q1(z), q2(z))).mean()
    slow, fast = [*slow1.parameters(), *slow2.parameters()], [*q1.parameters(), *q2.parameters()]

    def body():
        loss = loss_of_critics(noise())
        judges.zero_grad()
        loss.backward()
        judges.step()
        loss = loss_of_actor(noise())
        acts.zero_grad()
        loss.backward()
        acts.step()
        with torch.no_grad():
            torch._foreach_lerp_(slow, fast, 0.005) if hasattr(torch, "_foreach_lerp_") else [p.lerp_(q, 0.005) for p, q in zip(slow, fast)]
        return loss
    return peer.case(body, nets=nets, optimisers=[acts, judges])
