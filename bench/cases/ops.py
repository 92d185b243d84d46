"""The cases of bench/cases/ops.lua in PyTorch."""
import math

import torch
import torch.nn.functional as F


def map_(o, peer):
    x = peer.given["x"]
    return peer.call(lambda: torch.relu(x * 2 + 1))


def chain(o, peer):
    x, y = peer.given["x"], peer.given["y"]
    return peer.call(lambda: torch.tanh((torch.relu(x * y + 1) - y) * 0.5 + x) * y)


def launches(o, peer):
    x = peer.given["x"]

    def run():
        y = x
        for _ in range(o["ops"] // 2):
            y = y * 0.999 + 0.001
        return y
    return peer.call(run, small=True)


def softmax(o, peer):
    x = peer.given["x"]
    return peer.call(lambda: torch.softmax(x, 1))


def sum_(o, peer):
    x = peer.given["x"]
    if o["over"] == "all":
        return peer.call(lambda: x.sum())
    axis = 1 if o["over"] == "rows" else 0
    return peer.call(lambda: x.sum(axis))


def matmul(o, peer):
    a, b = peer.given["a"], peer.given["b"]
    return peer.call(lambda: a @ b)


def layer_norm(o, peer):
    x, w, b = (peer.given[n] for n in "xwb")

    def forward():
        return F.layer_norm(x, w.shape, w, b)
    if o.get("backward") != 1:
        return peer.call(forward)
    return peer.backward(forward, (x, w, b), peer.given["g"])


def cross_entropy(o, peer):
    x, t = peer.given["x"], peer.given["t"]
    return peer.backward(lambda: F.cross_entropy(x, t), (x,))


def attend(q, k, v, causal=True, dropout=0.0):
    """Causal attention, by the library where it has it."""
    known = getattr(F, "scaled_dot_product_attention", None)
    if known:
        return known(q, k, v, is_causal=causal, dropout_p=dropout)
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
    return F.dropout(s.softmax(-1), dropout) @ v


def fastest_attention(clock, q, k, v, g):
    """The name of the back end that is fastest for this size, forward and (g) backward, or None."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return None
    times = {}
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"):
        kind = getattr(SDPBackend, name, None)

        def run():
            with sdpa_kernel(kind):
                y = attend(q, k, v)
            if g is not None:
                torch.autograd.grad(y, (q, k, v), g)
        try:
            clock(run, 3)
            times[name] = clock(run, 10)
        except RuntimeError:
            continue
    return sdpa_kernel, getattr(SDPBackend, min(times, key=times.get)) if times else None


def attention(o, peer):
    q, k, v = (peer.given[n] for n in "qkv")
    g = peer.given["g"] if o.get("backward") == 1 else None
    for x in (q, k, v):
        x.requires_grad_(g is not None)
    best = fastest_attention(peer.clock, q, k, v, g) if peer.device != "cpu" else None

    def forward():
        if not best:
            return attend(q, k, v)
        with best[0](best[1]):
            return attend(q, k, v)
    return peer.backward(forward, (q, k, v), g) if g is not None else peer.call(forward)


def adamw(o, peer):
    parameters = [torch.nn.Parameter(peer.given[f"p.{i}"]) for i in range(1, o["count"] + 1)]
    for i, p in enumerate(parameters):
        p.grad = peer.given[f"g.{i + 1}"]
    opt = peer.adam(parameters, torch.optim.AdamW, lr=1e-3)
    case = peer.call(opt.step)
    case.optimisers = [opt]

    def check(body):
        for _ in range(3):
            body()
        return parameters
    case.check = check
    return case


CASES = {"map": map_, "chain": chain, "launches": launches, "softmax": softmax, "sum": sum_, "matmul": matmul,
         "layer_norm": layer_norm, "cross_entropy": cross_entropy, "attention": attention, "adamw": adamw}
