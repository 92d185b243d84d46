#!/usr/bin/env python3
"""flame-lua against PyTorch on the CPU, interleaved in one run.

usage: cpu_peer.py FLAME_LUA [-t THREADS] [-r ROUNDS] [-m] [names or beginnings of names...]
Medians of alternating rounds, random data, THREADS (2) threads on both sides; -m: a table for
the documentation. With -t 1 the time is the processor's, not the wall's: what a machine that is
busy with other work can still tell; threads that wait for each other need a quiet one.
"of limit": the time that the least bytes (each input read once, each result
written once) take at the rate of PyTorch's copy of 40 MB, over our time. Above 100 %: the
operands lie in caches that the copy's do not.
"""
import os
import statistics
import subprocess
import sys
import time


def arguments():
    threads, rounds, table, names, rest = 2, 9, False, [], sys.argv[2:]
    while rest:
        a = rest.pop(0)
        if a == "-t":
            threads = int(rest.pop(0))
        elif a == "-r":
            rounds = int(rest.pop(0))
        elif a == "-m":
            table = True
        else:
            names.append(a)
    return threads, rounds, table, names


THREADS, ROUNDS, TABLE, NAMES = arguments()
os.environ["FLAME_THREADS"] = str(THREADS)

import torch  # noqa: E402  (the environment first)
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(THREADS)
MILLION, TEN = 1000000, 10000000
cases = {}  # name: (make, bytes or None, flops or None)


def case(name, make, f, nbytes=None, flops=None):
    def build():
        args = make()
        return lambda: f(*args)
    cases[name] = (build, nbytes, flops)


def randn(*shape, n=1):
    return lambda: tuple(torch.randn(*shape) for _ in range(n))


def elementwise():
    for name, n in (("1e6", MILLION), ("1e7", TEN)):
        case("map_" + name, randn(n), lambda x: torch.relu(x * 2 + 1), 8 * n)
        case("gelu_" + name, randn(n), F.gelu, 8 * n)
        case("chain8_" + name, randn(n, n=2),
             lambda x, y: torch.tanh((torch.relu(x * y + 1) - y) * 0.5 + x) * y, 12 * n)
    case("add_1e6", randn(MILLION, n=2), lambda x, y: x + y, 12 * MILLION)
    for op in ("exp", "log", "tanh", "sigmoid", "sin", "erf", "sqrt"):
        case(op + "_1e6", lambda: (torch.rand(MILLION) * 8 + 0.01,), getattr(torch, op), 8 * MILLION)
    case("pow_1e6", lambda: (torch.rand(MILLION) * 8 + 0.01, torch.randn(MILLION)), torch.pow, 12 * MILLION)
    for op, f in (("fmod", torch.fmod), ("mod", torch.remainder)):
        case(op + "_1e6", lambda: (torch.randn(MILLION) * 100, torch.rand(MILLION) + 1), f, 12 * MILLION)
    case("normal_1e6", tuple, lambda: torch.randn(MILLION), 4 * MILLION)
    case("uniform_1e6", tuple, lambda: torch.rand(MILLION), 4 * MILLION)
    case("dropout_1e6", randn(MILLION), lambda x: F.dropout(x, 0.1), 8 * MILLION)


def chain(x):
    for _ in range(10):
        x = x * 0.999 + 0.001
    return x


def chain_backward(n):
    x = torch.randn(n, requires_grad=True)

    def run():
        y = x
        for _ in range(10):
            y = torch.tanh(y * 0.999)
        torch.autograd.grad(y.sum(), x)
    return run


def training(batch, sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1])
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    x, t = torch.randn(batch, sizes[0]), torch.randint(0, sizes[-1], (batch,))

    def run():
        loss = F.cross_entropy(net(x), t)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return run


def adamw(n):
    params = [torch.nn.Parameter(torch.randn(n, n)) for _ in range(60)]
    for p in params:
        p.grad = torch.randn(n, n)
    return torch.optim.AdamW(params, lr=1e-3).step


def small():
    for n in (16, 256, 4096):
        case(f"chain20_{n}", randn(n), chain)
        cases[f"chain20_backward_{n}"] = (lambda n=n: chain_backward(n), None, None)
    cases["mlp_small"] = (lambda: training(16, (16, 32, 32, 4)), None, None)
    cases["mlp_digits"] = (lambda: training(64, (784, 256, 128, 10)), None, None)
    for n in (32, 128):
        cases[f"adamw60_{n}"] = (lambda n=n: adamw(n), 28 * 60 * n * n, None)


def matmul():
    for d, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        for n in (64, 128, 256, 512, 1024):
            case(f"matmul_{d}_{n}", lambda n=n, t=dtype: (torch.randn(n, n, dtype=t), torch.randn(n, n, dtype=t)),
                 torch.matmul, None, 2 * n**3)


def norm_backward(m, n):
    x, w, b, g = torch.randn(m, n), torch.randn(n), torch.randn(n), torch.randn(m, n)
    for t in (x, w, b):
        t.requires_grad_(True)
    return lambda: torch.autograd.grad(F.layer_norm(x, (n,), w, b), (x, w, b), g)


def rows():
    for n in (128, 1024, 8192):
        m = (1 << 20) // n
        case(f"softmax_{n}", randn(m, n), lambda x: torch.softmax(x, 1), 8 * m * n)
        case(f"log_softmax_{n}", randn(m, n), lambda x: torch.log_softmax(x, 1), 8 * m * n)
        case(f"layer_norm_{n}", lambda m=m, n=n: (torch.randn(m, n), torch.randn(n), torch.randn(n)),
             lambda x, w, b: F.layer_norm(x, w.shape, w, b), 8 * m * n)
        cases[f"layer_norm_backward_{n}"] = (lambda m=m, n=n: norm_backward(m, n), 16 * m * n, None)


def reductions():
    for op in ("sum", "mean", "amax", "argmax", "var"):
        f = getattr(torch, op)
        case(op + "_rows", randn(1024, 1024), lambda x, f=f: f(x, 1), 4 << 20)
        case(op + "_columns", randn(1024, 1024), lambda x, f=f: f(x, 0), 4 << 20)
        case(op + "_all", randn(1024, 1024), lambda x, f=f: f(x), 4 << 20)
    for op in ("cumsum", "cumprod", "cummax"):
        f, size = getattr(torch, op), 16 if op == "cummax" else 8
        case(op + "_rows", randn(1000, 1000), lambda x, f=f: f(x, 1), size * MILLION)
        case(op + "_columns", randn(1000, 1000), lambda x, f=f: f(x, 0), size * MILLION)
        case(op + "_1e6", randn(MILLION), lambda x, f=f: f(x, 0), size * MILLION)
    case("sort_1e6", randn(MILLION), lambda x: x.sort(dim=0, stable=True))
    case("sort_rows", randn(1000, 1000), lambda x: x.sort(dim=1, stable=True))
    case("topk_10_of_1e6", randn(MILLION), lambda x: x.topk(10), 4 * MILLION)
    case("topk_10_rows", randn(1000, 1000), lambda x: x.topk(10, 1), 4 * MILLION)


def classifier():
    x, t = torch.randn(1024, 1000, requires_grad=True), torch.randint(0, 1000, (1024,))
    return lambda: torch.autograd.grad(F.cross_entropy(x, t), x)


def lookup_backward():
    i, w, g = torch.randint(0, 10000, (8192,)), torch.randn(10000, 64, requires_grad=True), torch.randn(8192, 64)
    return lambda: torch.autograd.grad(F.embedding(i, w), w, g)


def indexed():
    case("cross_entropy", lambda: (torch.randn(1024, 1000), torch.randint(0, 1000, (1024,))), F.cross_entropy, 4096000)
    cases["cross_entropy_backward"] = (classifier, 8192000, None)
    case("embedding", lambda: (torch.randint(0, 10000, (8192,)), torch.randn(10000, 64)), F.embedding, 8192 * 520)
    cases["embedding_backward"] = (lookup_backward, 8192 * 264 + 10000 * 256, None)

    def ids():
        return torch.randn(1000, 1000), torch.randint(0, 1000, (1000, 1000))
    case("gather", ids, lambda x, i: x.gather(1, i), 16 * MILLION)
    case("scatter_add", lambda: (torch.zeros(1000, 1000),) + ids(), lambda z, x, i: z.scatter_add(1, i, x), 20 * MILLION)
    case("index_add", lambda: (torch.zeros(10000, 64), torch.randint(0, 10000, (8192,)), torch.randn(8192, 64)),
         lambda z, i, x: z.index_add(0, i, x), 8192 * 264 + 10000 * 512)


def copies():
    case("transpose_f32", randn(2048, 2048), lambda x: x.t().contiguous(), 8 << 22)
    case("transpose_f64", lambda: (torch.randn(1024, 1024, dtype=torch.float64),), lambda x: x.t().contiguous(), 16 << 20)
    case("permute", randn(32, 64, 32, 32), lambda x: x.permute(0, 2, 3, 1).contiguous(), 8 << 21)
    case("copy_1e7", randn(TEN), lambda x: x.clone(), 8 * TEN)


def clock(run, reps):
    now = time.process_time if THREADS == 1 else time.perf_counter
    t = now()
    for _ in range(reps):
        run()
    return (now() - t) / reps


class Worker:
    """Our side: the process of bench/cpu_worker.lua."""

    def __init__(self, program):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cpu_worker.lua")
        self.process = subprocess.Popen([program, script, str(THREADS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def seconds(self, name, reps):
        self.process.stdin.write(f"{name} {reps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().strip()
        if not line or line.startswith("error"):
            sys.exit(f"{name}: {line or 'the worker has ended'}")
        return float(line)


def copy_rate():
    a, b = torch.empty(TEN), torch.randn(TEN)
    a.copy_(b)
    return 8 * TEN / statistics.median(clock(lambda: a.copy_(b), 3) for _ in range(9))


def measure(worker, name, rate):
    make, nbytes, flops = cases[name]
    run = make()
    for _ in range(3):
        run()
    reps = max(1, min(1000, int(0.015 / min(clock(run, 1) for _ in range(3)))))
    mine, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(clock(run, reps))
        mine.append(worker.seconds(name, reps))
    m, t = statistics.median(mine), statistics.median(theirs)
    note = f"{nbytes / m / rate:.0%}" if nbytes else f"{flops / m / 1e9:.0f} GFLOP/s" if flops else ""
    form = "| {} | {:.1f} | {:.1f} | {:.2f} | {} |" if TABLE else "{:26}{:11.1f}{:11.1f}{:8.2f}{:>14}"
    print(form.format(name, m * 1e6, t * 1e6, t / m, note), flush=True)


def main():
    for part in (elementwise, small, matmul, rows, reductions, indexed, copies):
        part()
    names = [n for n in cases if not NAMES or any(n.startswith(a) for a in NAMES)]
    worker, rate = Worker(sys.argv[1]), copy_rate()
    print(f"torch {torch.__version__}, {THREADS} threads; copy {rate / 1e9:.1f} GB/s")
    form = "| {} | {} | {} | {} | {} |\n|---|---|---|---|---|" if TABLE else "{:26}{:>11}{:>11}{:>8}{:>14}"
    print(form.format("benchmark", "flame us", "torch us", "x torch", "of limit"))
    for name in names:
        measure(worker, name, rate)
    worker.process.stdin.close()


main()
