"""PyTorch's side of bench/cpu_sort.lua: reads names of cases, answers each with the least
milliseconds of several runs, in the file given."""
import sys
import time
import torch

torch.set_num_threads(2)
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"


def integers(*s):
    return torch.randint(-1000000, 1000001, s)


T = torch.randn
CASES = {
    "sort f32 1e6": (lambda: T(1000000), lambda x: x.sort(dim=0, stable=True)),
    "sort f32 1000x1000": (lambda: T(1000, 1000), lambda x: x.sort(dim=1, stable=True)),
    "sort f32 1000x1000 axis 1": (lambda: T(1000, 1000), lambda x: x.sort(dim=0, stable=True)),
    "sort f32 20000x16": (lambda: T(20000, 16), lambda x: x.sort(dim=1, stable=True)),
    "sort f64 1e6": (lambda: T(1000000).double(), lambda x: x.sort(dim=0, stable=True)),
    "sort i64 1e6": (lambda: integers(1000000), lambda x: x.sort(dim=0, stable=True)),
    "argsort f32 1e6": (lambda: T(1000000), lambda x: x.argsort()),
    "topk 10 of 1e6": (lambda: T(1000000), lambda x: x.topk(10)),
    "topk 1000 of 1e6": (lambda: T(1000000), lambda x: x.topk(1000)),
    "topk 10 of 1000x1000": (lambda: T(1000, 1000), lambda x: x.topk(10, 1)),
    "median 1000x1000": (lambda: T(1000, 1000), lambda x: x.median(1)),
    "kthvalue 1e6": (lambda: T(1000000), lambda x: x.kthvalue(300000)),
    "unique i64 1e6": (lambda: integers(1000000), lambda x: x.unique()),
    "cumsum f32 1e7": (lambda: T(10000000), lambda x: x.cumsum(0)),
    "cumsum f32 1000x1000": (lambda: T(1000, 1000), lambda x: x.cumsum(1)),
    "cumsum f32 1000x1000 axis 1": (lambda: T(1000, 1000), lambda x: x.cumsum(0)),
    "cumsum i64 1e6": (lambda: integers(1000000), lambda x: x.cumsum(0)),
    "cumprod f32 1000x1000": (lambda: T(1000, 1000), lambda x: x.cumprod(1)),
    "logcumsumexp f32 1000x1000": (lambda: T(1000, 1000), lambda x: x.logcumsumexp(1)),
    "cummax f32 1000x1000": (lambda: T(1000, 1000), lambda x: x.cummax(1)),
    "searchsorted 1e6 in 1e5": (lambda: T(1000000), lambda x: torch.searchsorted(TABLE, x)),
    "bincount 1e6": (lambda: torch.randint(0, 1000, (1000000,)), lambda x: x.bincount()),
    "histc 1e6": (lambda: T(1000000), lambda x: x.histc(100)),
    "nonzero 1e6": (lambda: torch.rand(1000000) < 0.3, lambda x: x.nonzero()),
    "randperm 1e6": (lambda: None, lambda x: torch.randperm(1000000, device=DEVICE)),
    "sort f32 1e8": (lambda: T(100000000), lambda x: x.sort(dim=0, stable=True)),
    "topk 100 of 1e8": (lambda: T(100000000), lambda x: x.topk(100)),
    "cumsum f32 1e8": (lambda: T(100000000), lambda x: x.cumsum(0)),
    "sort f32 10000x10000": (lambda: T(10000, 10000), lambda x: x.sort(dim=1, stable=True)),
}
TABLE = torch.randn(100000).sort()[0].to(DEVICE)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


for name in sys.stdin:
    name = name.rstrip("\n")
    make, f = CASES[name]
    x, least = make(), float("inf")
    x = x if x is None else x.to(DEVICE)
    for _ in range(7):
        wait()
        start = time.perf_counter()
        f(x)
        wait()
        least = min(least, time.perf_counter() - start)
    with open(sys.argv[1], "w") as out:
        out.write("%s\t%.6f\n" % (name, least * 1000))
