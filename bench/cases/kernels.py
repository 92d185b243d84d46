"""The cases of bench/cases/kernels.lua in PyTorch, where there is one that does the same."""
import torch


def escape(o, peer):
    cx, cy = peer.given["cx"], peer.given["cy"]

    def picture():
        x, y, k = torch.zeros_like(cx), torch.zeros_like(cx), torch.zeros_like(cx)
        inside = torch.ones_like(cx, dtype=torch.bool)
        for _ in range(50):
            xx, yy = x * x, y * y
            inside = inside & (xx + yy <= 4)
            y = torch.where(inside, 2 * x * y + cy, y)
            x = torch.where(inside, xx - yy + cx, x)
            k = k + inside
        return k
    return peer.call(picture)


def bodies(o, peer):
    p = peer.given["p"]

    def energy():
        d = p[:, None, :] - p[None, :, :]
        return -torch.rsqrt((d * d).sum(2) + 0.01).sum(1).mean()
    case = peer.backward(energy, [p])
    body = case.body
    case.body = lambda: body()[1]
    return case


def swing(o, peer):
    angle, speed = (peer.given[n].requires_grad_(True) for n in ("angle", "speed"))

    def ten(a, w):
        for _ in range(10):
            w = w - 0.02 * (9.81 * torch.sin(a) + 0.1 * w)
            a = a + 0.02 * w
        return a, w
    ten = peer.wrap(ten)                           # what compiles in seconds

    def run():
        a, w = angle, speed
        for _ in range(20):
            a, w = ten(a, w)
        return torch.autograd.grad(a.sum(), (angle, speed))
    return peer.case(run)


CASES = {"escape": escape, "bodies": bodies, "swing": swing}
