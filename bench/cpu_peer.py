#!/usr/bin/env python3
"""flame-lua against PyTorch on the CPU, interleaved in one run.

usage: cpu_peer.py FLAME_LUA [-t THREADS] [-r ROUNDS] [-m] [-g] [names, beginnings or patterns...]
Alternating rounds, random data, THREADS (2) threads on both sides; -m: a table for the documentation;
-g: the grid instead, operation.layout.dtype.size. With -t 1: medians (the ratio's own) of the
processor's time, not the wall's: what a machine that is busy with other work can still tell. Else the
best of four times as many short samples of the wall's time: threads that wait for each other need a
quiet machine, or both processors for as long as a sample ("chrt -r 1 cpu_peer.py ...").
"of limit": the time that the least bytes (each input read once, each result
written once) take at the rate of PyTorch's copy of 40 MB, over our time. Above 100 %: the
operands lie in caches that the copy's do not.
"""
import fnmatch
import os
import statistics
import subprocess
import sys
import time


def arguments():
    threads, rounds, table, grid, names, rest = 2, 9, False, False, [], sys.argv[2:]
    while rest:
        a = rest.pop(0)
        if a == "-t":
            threads = int(rest.pop(0))
        elif a == "-r":
            rounds = int(rest.pop(0))
        elif a == "-m":
            table = True
        elif a == "-g":
            grid = True
        else:
            names.append(a)
    return threads, rounds, table, grid, names


THREADS, ROUNDS, TABLE, GRID, NAMES = arguments()
os.environ["FLAME_THREADS"] = str(THREADS)
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")   # of the other side: else awake for 26 ms, on a processor

import torch  # noqa: E402  (the environment first)
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(THREADS)
PAUSE = 0.016 if THREADS > 1 else 0   # libgomp's threads wait awake for up to 12 ms after their work
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
    for op in ("exp", "log", "log1p", "tanh", "sin", "asin", "erf", "erfinv"):
        case(op + "_f64_1e6", lambda: (torch.rand(MILLION, dtype=torch.float64) * 0.9 + 0.01,), getattr(torch, op), 16 * MILLION)
    for op in ("lgamma", "digamma"):
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


# Shapes of the cases of -g. Layouts: 'columns' reduces axis 0; 'rows', 'short' and 'long' reduce the last axis, of
# medium length, of 16 elements, and of few long rows; 'middle' reduces the second of three axes; 'all' all of them.
# Sizes: s fits into the first cache, m has about 1e6 elements, l about 16e6.
SHAPES = {
    "rows": {"s": (64, 128), "m": (1024, 1024), "l": (4096, 4096)},
    "columns": {"s": (64, 128), "m": (1024, 1024), "l": (4096, 4096)},
    "short": {"s": (512, 16), "m": (65536, 16), "l": (1 << 20, 16)},
    "long": {"s": (2, 4096), "m": (8, 131072), "l": (8, 2097152)},
    "middle": {"s": (8, 32, 32), "m": (32, 256, 128), "l": (64, 1024, 256)},
    "all": {"s": (64, 128), "m": (1024, 1024), "l": (4096, 4096)},
}
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}


def over_axes():
    """(name, f(x, axis), layouts); axis None: all elements."""
    some, every = ("rows", "columns", "short", "long", "middle"), ("rows", "columns", "short", "long", "middle", "all")
    for op in ("sum", "mean", "prod", "amax", "argmax", "argmin", "any", "all"):
        f = getattr(torch, op)
        layouts = tuple(a for a in every if a != "all") if op == "all" else every
        yield op, (lambda x, d, f=f: f(x) if d is None else f(x, d)), layouts
    yield "var", lambda x, d: x.var() if d is None else x.var(d), every
    yield "std", lambda x, d: x.std() if d is None else x.std(d), every
    yield "norm", lambda x, d: x.norm() if d is None else x.norm(2, d), every
    for op in ("max", "min", "logsumexp", "softmax", "log_softmax", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        yield op, getattr(torch, op), some


def norms(op, shape, dtype):
    """A normalisation of 'shape' as f() and its differentiated inputs."""
    x = torch.randn(*shape, dtype=dtype)
    m, n = shape
    w, b = torch.randn(n, dtype=dtype), torch.randn(n, dtype=dtype)
    if op == "layer_norm":
        return lambda: F.layer_norm(x, (n,), w, b), (x, w, b)
    if op == "rms_norm":
        return lambda: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w, (x, w)
    if op == "batch_norm":
        return lambda: F.batch_norm(x, None, None, w, b, True), (x, w, b)
    if op == "group_norm":
        z, v, c = x.reshape(m // 8, 32, n // 4), w[:32].clone(), b[:32].clone()
        return lambda: F.group_norm(z, 8, v, c), (z, v, c)
    if op == "softmax":
        return lambda: torch.softmax(x, 1), (x,)
    if op == "log_softmax":
        return lambda: torch.log_softmax(x, 1), (x,)
    t = torch.randint(0, n, (m,))
    return lambda: F.cross_entropy(x, t), (x,)


def forward_backward(op, shape, dtype, backward):
    f, inputs = norms(op, shape, dtype)
    if not backward:
        return f
    for t in inputs:
        t.requires_grad_(True)
    seed = torch.randn_like(f())
    return lambda: torch.autograd.grad(f(), inputs, seed)


def moving(op, shape, dtype):
    """Operations that move elements, as f()."""
    m, n = shape
    x, y = torch.randn(m, n, dtype=dtype), torch.randn(m, n, dtype=dtype)
    i, r, c = torch.randint(0, n, (m, n)), torch.randint(0, m, (m,)), torch.randint(0, n, (n,))
    k = torch.randint(0, m, (m, n))
    return {
        "gather_rows": lambda: x.gather(1, i), "gather_columns": lambda: x.gather(0, k),
        "scatter_add_rows": lambda: y.scatter_add(1, i, x), "scatter_add_columns": lambda: y.scatter_add(0, k, x),
        "select_rows": lambda: x.index_select(0, r), "select_columns": lambda: x.index_select(1, c),
        "index_add": lambda: y.index_add(0, r, x), "embedding": lambda: F.embedding(r, x),
        "cat_rows": lambda: torch.cat((x, y), 0), "cat_columns": lambda: torch.cat((x, y), 1),
        "transpose": lambda: x.t().contiguous(), "clone": lambda: x.clone(),
    }[op]


def grid():
    def add(name, build):
        cases[name] = (build, None, None)
    for dtype, t in DTYPES.items():
        for op, f, layouts in over_axes():
            for layout in layouts:
                for size, shape in SHAPES[layout].items():
                    def build(op=op, f=f, shape=shape, t=t, layout=layout):
                        x = torch.randn(*shape, dtype=t)
                        if "prod" in op:                # else subnormal numbers are what is timed
                            x = x * 0.01 + 1
                        d = {"columns": 0, "middle": 1, "all": None}.get(layout, -1)
                        return lambda: f(x, d)
                    add(f"{op}.{layout}.{dtype}.{size}", build)
        for op in ("layer_norm", "rms_norm", "batch_norm", "group_norm", "softmax", "log_softmax", "cross_entropy"):
            for layout in ("rows",) if op == "group_norm" else ("rows", "short", "long"):
                for size, shape in SHAPES[layout].items():
                    for backward in (False, True):
                        if backward or "softmax" not in op:
                            add(f"{op}{'_backward' if backward else ''}.{layout}.{dtype}.{size}",
                                lambda op=op, shape=shape, t=t, backward=backward: forward_backward(op, shape, t, backward))
        for op in ("gather_rows", "gather_columns", "scatter_add_rows", "scatter_add_columns", "select_rows", "select_columns",
                   "index_add", "embedding", "cat_rows", "cat_columns", "transpose", "clone"):
            for size, shape in SHAPES["rows"].items():
                add(f"{op}.rows.{dtype}.{size}", lambda op=op, shape=shape, t=t: moving(op, shape, t))


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
    try:
        for _ in range(3):
            run()
    except RuntimeError as e:                           # what this PyTorch has no kernel for
        print(f"{name}: torch: {str(e).splitlines()[0][:80]}", flush=True)
        return
    length = 0.003 if THREADS > 1 else 0.004 if GRID else 0.015
    reps = max(1, min(1000, int(length / min(clock(run, 1) for _ in range(3)))))
    mine, theirs = [], []
    for _ in range(ROUNDS * 4 if THREADS > 1 else ROUNDS):
        time.sleep(PAUSE)
        theirs.append(clock(run, reps))
        time.sleep(PAUSE)
        mine.append(worker.seconds(name, reps))
    middle = min if THREADS > 1 else statistics.median
    m, t = middle(mine), middle(theirs)
    ratio = t / m if THREADS > 1 else statistics.median(b / a for a, b in zip(mine, theirs))
    note = f"{nbytes / m / rate:.0%}" if nbytes else f"{flops / m / 1e9:.0f} GFLOP/s" if flops else ""
    form = "| {} | {:.1f} | {:.1f} | {:.2f} | {} |" if TABLE else "{:36}{:11.1f}{:11.1f}{:8.2f}{:>14}"
    print(form.format(name, m * 1e6, t * 1e6, ratio, note), flush=True)


def main():
    for part in (grid,) if GRID else (elementwise, small, matmul, rows, reductions, indexed, copies):
        part()
    names = [n for n in cases if not NAMES or any(n.startswith(a) or fnmatch.fnmatchcase(n, a) for a in NAMES)]
    worker, rate = Worker(sys.argv[1]), copy_rate()
    print(f"torch {torch.__version__}, {THREADS} threads; copy {rate / 1e9:.1f} GB/s")
    form = "| {} | {} | {} | {} | {} |\n|---|---|---|---|---|" if TABLE else "{:36}{:>11}{:>11}{:>8}{:>14}"
    print(form.format("benchmark", "flame us", "torch us", "x torch", "of limit"))
    for name in names:
        measure(worker, name, rate)
    worker.process.stdin.close()


main()
