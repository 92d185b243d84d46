#!/usr/bin/env python3
"""flame-lua against PyTorch on one GPU, interleaved in one run.

usage: gpu_peer.py FLAME_LUA [names...]
Medians of several alternating rounds, random data, working sets far above the L2 cache.
Bytes are the least possible (each input read once, each result written once).
"""
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

M, R, C = 1 << 26, 16384, 8192
dev = "cuda"
DT = {"f32": torch.float32, "bf16": torch.bfloat16}


def randn(dtype, *shape):
    return torch.randn(*shape, device=dev).to(DT[dtype])


def norm_backward(dtype):
    x, w, b, g = randn(dtype, R, C), randn(dtype, C), randn(dtype, C), randn(dtype, R, C)
    for t in (x, w, b):
        t.requires_grad_(True)

    def run():
        y = F.layer_norm(x, (C,), w, b)
        torch.autograd.grad(y, (x, w, b), g)
    return run


def classifier(dtype):
    x = randn(dtype, R, C).requires_grad_(True)
    t = torch.randint(0, C, (R,), device=dev)
    return lambda: torch.autograd.grad(F.cross_entropy(x, t), x)


def adamw():
    params = [torch.nn.Parameter(randn("f32", 1024, 1024)) for _ in range(60)]
    for p in params:
        p.grad = torch.randn_like(p)
    opt = torch.optim.AdamW(params, lr=1e-3, fused=True)
    return opt.step


def mlp():
    net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128),
                              torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    x, t = torch.randn(64, 784, device=dev), torch.randint(0, 10, (64,), device=dev)

    def run():
        loss = F.cross_entropy(net(x), t)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return run


class Block(torch.nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.drop = torch.nn.Dropout(dropout)

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(n, t, w)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(torch.nn.Module):
    def __init__(self, vocabulary=65, width=384, heads=6, layers=6, context=256, dropout=0.2):
        super().__init__()
        self.token, self.position = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        at = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.token(x) + self.position(at))))


def gpt(dtype):
    """The model of examples/chargpt.lua --size large: 64 sequences of 256."""
    net = GPT().to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    x, t = torch.randint(0, 65, (64, 256), device=dev), torch.randint(0, 65, (64, 256), device=dev)

    def run():
        with torch.autocast(dev, torch.bfloat16, enabled=dtype == "bf16"):
            loss = F.cross_entropy(net(x).view(-1, 65), t.view(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return run


def chain():
    x = torch.randn(16, device=dev)

    def run():
        y = x
        for _ in range(500):
            y = y * 0.999 + 0.001
    return run


def unary(make, f):
    def build():
        args = make()
        return lambda: f(*args)
    return build


cases = {  # name: (torch, bytes or None, flops or None)
    "map_f32": (unary(lambda: (randn("f32", M),), lambda x: torch.relu(x * 2 + 1)), 8 * M, None),
    "chain8_f32": (unary(lambda: (randn("f32", M), randn("f32", M)),
                         lambda x, y: torch.tanh((torch.relu(x * y + 1) - y) * 0.5 + x) * y), 12 * M, None),
}
for d, s in (("f32", 4), ("bf16", 2)):
    cases["softmax_" + d] = (unary(lambda d=d: (randn(d, R, C),), lambda x: torch.softmax(x, 1)), 2 * s * R * C, None)
    cases["layer_norm_" + d] = (unary(lambda d=d: (randn(d, R, C), randn(d, C), randn(d, C)),
                                      lambda x, w, b: F.layer_norm(x, (C,), w, b)), 2 * s * R * C, None)
    cases["layer_norm_backward_" + d] = (lambda d=d: norm_backward(d), 4 * s * R * C, None)
    cases["sum_rows_" + d] = (unary(lambda d=d: (randn(d, R, C),), lambda x: x.sum(1)), s * R * C, None)
    cases["sum_columns_" + d] = (unary(lambda d=d: (randn(d, R, C),), lambda x: x.sum(0)), s * R * C, None)
    cases["sum_all_" + d] = (unary(lambda d=d: (randn(d, R, C),), lambda x: x.sum()), s * R * C, None)
    cases["cross_entropy_" + d] = (lambda d=d: classifier(d), 2 * s * R * C, None)
cases["matmul_f32"] = (unary(lambda: (randn("f32", 4096, 4096), randn("f32", 4096, 4096)), torch.matmul), None, 2 * 4096**3)
cases["matmul_bf16"] = (unary(lambda: (randn("bf16", 8192, 8192), randn("bf16", 8192, 8192)), torch.matmul), None, 2 * 8192**3)
cases["adamw"] = (adamw, 28 * 60 * 1024 * 1024, None)
cases["mlp_step"] = (mlp, None, None)
cases["gpt_step_f32"] = (lambda: gpt("f32"), None, None)
cases["gpt_step_bf16"] = (lambda: gpt("bf16"), None, None)
cases["chain_small"] = (chain, None, None)


def clock(run, reps):
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(reps):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - t) / reps


def main():
    worker = subprocess.Popen([sys.argv[1], "bench/worker.lua", "cuda"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, bufsize=1)

    def ours(name, reps):
        worker.stdin.write(f"{name} {reps}\n")
        worker.stdin.flush()
        line = worker.stdout.readline().strip()
        return float(line) if line and not line.startswith("error") else float("nan")

    a, b = torch.empty(M, device=dev), torch.randn(M, device=dev)
    a.copy_(b)
    copy = statistics.median(clock(lambda: a.copy_(b), 20) for _ in range(5))
    limit = 8 * M / copy
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; copy {limit / 1e12:.2f} TB/s")
    del a, b
    print(f"{'benchmark':26}{'flame us':>10}{'torch us':>10}{'ratio':>8}{'flame rate':>14}{'of limit':>10}")
    for name in sys.argv[2:] or cases:
        make, nbytes, flops = cases[name]
        run = make()
        for _ in range(3):
            run()
        once = clock(run, 3)
        reps = max(3, min(200, int(0.02 / once)))
        mine, theirs = [], []
        for _ in range(7):
            theirs.append(clock(run, reps))
            mine.append(ours(name, reps))
        m, t = statistics.median(mine), statistics.median(theirs)
        rate = f"{nbytes / m / 1e12:.2f} TB/s" if nbytes else f"{flops / m / 1e12:.1f} TF/s" if flops else ""
        share = f"{nbytes / m / limit:.0%}" if nbytes else ""
        print(f"{name:26}{m * 1e6:10.1f}{t * 1e6:10.1f}{t / m:8.2f}{rate:>14}{share:>10}", flush=True)
        del run, make
        torch.cuda.empty_cache()
    worker.stdin.close()


main()
