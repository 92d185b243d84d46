#!/usr/bin/env python3
"""Sorting, selecting, scans, convolution, pooling, linear algebra and transforms: flame-lua
against PyTorch, interleaved in one run.

usage: calls.py FLAME_LUA [cpu|cuda] [-t THREADS] [-r ROUNDS] [-s SECONDS] [-m] [-d | -f] [beginnings of cases...]
A case is a line "op key=value ...", which both sides read (ours: bench/calls.lua); its figure is the
median over alternating rounds of PyTorch's time over ours. f32 is without TF32 on both sides.
-m: a table for the documentation. -d: both sides deterministic; -f: neither need be (without them each
as it comes: we are, PyTorch's convolutions are not). -t 1 takes the processor's time instead of the wall's, which a
machine busy with other work does not spoil. -s: after so many seconds the cases left are named
and skipped. A case that fails on either side says so, and the next one is measured.
"""
import os
import select
import statistics
import subprocess
import sys
import time


def arguments():
    o = {"device": "cpu", "threads": 2, "rounds": 7, "seconds": 1e9, "table": False, "order": None, "names": []}
    numbers, rest = {"-t": "threads", "-r": "rounds", "-s": "seconds"}, sys.argv[2:]
    while rest:
        a = rest.pop(0)
        if a in numbers:
            o[numbers[a]] = int(rest.pop(0))
        elif a == "-m":
            o["table"] = True
        elif a in ("-d", "-f"):
            o["order"] = a
        elif a in ("cpu", "cuda"):
            o["device"] = a
        else:
            o["names"].append(a)
    return o


if len(sys.argv) < 2:
    sys.exit(__doc__)
OPTIONS = arguments()
DEVICE, CUDA = OPTIONS["device"], OPTIONS["device"] == "cuda"
PAUSE = 0.016 if OPTIONS["threads"] > 1 and not CUDA else 0   # libgomp's threads wait awake for up to 12 ms
os.environ["FLAME_THREADS"] = str(OPTIONS["threads"])
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")   # of the other side: else awake for 26 ms, on a processor

import torch  # noqa: E402  (the environment first)
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(OPTIONS["threads"])
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.deterministic = OPTIONS["order"] == "-d"
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "i64": torch.int64, "i32": torch.int32}

# ---- cases ----------------------------------------------------------------------------------------
# Convolutions like ResNet-50's, by name. c: channels, o: outputs, size: of the images, k: of the window.
LAYERS = {
    "7x7 stride 2 3->64": "c=3 o=64 size=224x224 k=7 stride=2 padding=3",
    "3x3 64->64 56x56": "c=64 o=64 size=56x56 k=3 padding=1",
    "1x1 64->256 56x56": "c=64 o=256 size=56x56 k=1",
    "3x3 128->128 28x28": "c=128 o=128 size=28x28 k=3 padding=1",
    "3x3 stride 2 128->128 56x56": "c=128 o=128 size=56x56 k=3 stride=2 padding=1",
    "1x1 stride 2 256->512 56x56": "c=256 o=512 size=56x56 k=1 stride=2",
    "3x3 256->256 14x14": "c=256 o=256 size=14x14 k=3 padding=1",
    "1x1 1024->256 14x14": "c=1024 o=256 size=14x14 k=1",
    "3x3 512->512 7x7": "c=512 o=512 size=7x7 k=3 padding=1",
}
OTHERS = {
    "depthwise 3x3 56x56": "c=144 o=144 groups=144 size=56x56 k=3 padding=1",
    "depthwise 5x5 stride 2 28x28": "c=240 o=240 groups=240 size=28x28 k=5 stride=2 padding=2",
    "grouped 3x3, 32 groups, 28x28": "c=256 o=256 groups=32 size=28x28 k=3 padding=1",
    "dilated 3x3 28x28": "c=128 o=128 size=28x28 k=3 padding=2 dilation=2",
    "transposed 4x4 stride 2 14x14": "c=256 o=128 size=14x14 k=4 stride=2 padding=1 transposed=1",
    "conv1d 3, 128->128, 1024": "c=128 o=128 size=1024 k=3 padding=1",
    "conv1d 31, 64->64, 1024": "c=64 o=64 size=1024 k=31 padding=15",
    "conv3d 3, 32->32, 16^3": "c=32 o=32 size=16x16x16 k=3 padding=1",
}
SORTS = (
    "sort dtype=f32 shape=1000000 dim=1", "sort dtype=f32 shape=1000x1000 dim=2", "sort dtype=f32 shape=1000x1000 dim=1",
    "sort dtype=f32 shape=20000x16 dim=2", "sort dtype=f64 shape=1000000 dim=1", "sort dtype=i64 shape=1000000 dim=1",
    "argsort dtype=f32 shape=1000000 dim=1", "argsort dtype=f32 shape=1000x1000 dim=2",
    "topk dtype=f32 shape=1000000 k=10 dim=1", "topk dtype=f32 shape=1000000 k=1000 dim=1",
    "topk dtype=f32 shape=1000000 k=100000 dim=1", "topk dtype=f32 shape=1000x1000 k=1 dim=2",
    "topk dtype=f32 shape=1000x1000 k=10 dim=2", "topk dtype=f32 shape=1000x1000 k=100 dim=2",
    "topk dtype=f32 shape=64x32768 k=50 dim=2", "topk dtype=f32 shape=1000x1000 k=10 dim=1",
    "kthvalue dtype=f32 shape=1000000 k=300000 dim=1", "kthvalue dtype=f32 shape=1000x1000 k=300 dim=2",
    "median dtype=f32 shape=1000000 dim=1", "median dtype=f32 shape=1000x1000 dim=2",
    "unique n=1000000 most=1000000", "unique n=1000000 most=1000", "bincount n=1000000 bins=1000",
    "bincount n=1000000 bins=1000000", "histc shape=1000000 bins=100", "searchsorted table=100000 n=1000000",
    "searchsorted table=100 n=1000000", "nonzero shape=1000000 percent=30", "nonzero shape=1000x1000 percent=1",
    "randperm n=1000000", "multinomial shape=1000 n=10000 replacement=1", "multinomial shape=100x10000 n=10 replacement=0",
    "cumsum dtype=f32 shape=10000000 dim=1", "cumsum dtype=f32 shape=1000x1000 dim=2",
    "cumsum dtype=f32 shape=1000x1000 dim=1", "cumsum dtype=i64 shape=1000000 dim=1",
    "cumprod dtype=f32 shape=1000x1000 dim=2", "logcumsumexp dtype=f32 shape=1000x1000 dim=2",
    "cummax dtype=f32 shape=1000x1000 dim=2",
)
SORTS_CUDA = tuple(f"sort dtype={d} shape={n} dim=1" for n in (10**6, 10**7, 10**8) for d in ("f32", "i64", "f16")) + (
    "sort dtype=f32 shape=4096x1024 dim=2", "sort dtype=f32 shape=4096x32768 dim=2", "sort dtype=f32 shape=1000000x16 dim=2",
    "sort dtype=f32 shape=32768x1024 dim=1",
    "argsort dtype=f32 shape=10000000 dim=1", "topk dtype=f32 shape=10000000 k=100 dim=1",
    "topk dtype=f32 shape=100000000 k=100 dim=1", "topk dtype=f32 shape=10000000 k=100000 dim=1",
    "topk dtype=f32 shape=4096x32768 k=50 dim=2", "topk dtype=bf16 shape=4096x32768 k=50 dim=2",
    "topk dtype=f32 shape=65536x1024 k=8 dim=2", "topk dtype=f32 shape=64x128256 k=50 dim=2",
    "kthvalue dtype=f32 shape=10000000 k=3000000 dim=1", "kthvalue dtype=f32 shape=4096x32768 k=10000 dim=2",
    "median dtype=f32 shape=10000000 dim=1", "median dtype=f32 shape=16384x1024 dim=2",
    "unique n=10000000 most=10000000", "unique n=10000000 most=1000", "bincount n=10000000 bins=1000",
    "bincount n=10000000 bins=10000000", "histc shape=10000000 bins=100", "searchsorted table=1000000 n=10000000",
    "nonzero shape=100000000 percent=30", "nonzero shape=10000x1000 percent=1", "randperm n=10000000",
    "multinomial shape=10000 n=1000000 replacement=1", "multinomial shape=1000x10000 n=10 replacement=0",
    "cumsum dtype=f32 shape=100000000 dim=1", "cumsum dtype=f32 shape=16384x4096 dim=2",
    "cumsum dtype=f32 shape=16384x4096 dim=1", "cumsum dtype=i64 shape=100000000 dim=1",
    "cumprod dtype=f32 shape=16384x4096 dim=2", "logcumsumexp dtype=f32 shape=4096x4096 dim=2",
    "cummax dtype=f32 shape=16384x4096 dim=2",
)


def planes(shape):
    both = [f"max_pool shape={shape} k=2 stride=2", f"max_pool shape={shape} k=3 stride=2 padding=1",
            f"avg_pool shape={shape} k=2 stride=2", f"avg_pool shape={shape} k=3 stride=1 padding=1",
            f"adaptive_avg_pool shape={shape} out=1", f"batch_norm shape={shape}",
            f"interpolate shape={shape} scale=2 mode=nearest", f"interpolate shape={shape} scale=2 mode=bilinear"]
    return [c for one in both for c in (one, one + " pass=backward")]


def convolutions(batches, dtypes, layers):
    return [f"conv dtype={d} n={n} {text}{end}" for n in batches for d in dtypes for text in layers.values()
            for end in ("", " pass=backward")]


def linear(shapes, slow):
    return [f"{op} dtype={d} shape={s}" for op in ("svd", "eigh", "qr", "cholesky", "inverse", "solve")
            for d, s in (slow if op in ("svd", "eigh") else shapes)]


def cases_of_cpu():
    some = {k: LAYERS[k] for k in ("3x3 64->64 56x56", "1x1 64->256 56x56", "3x3 512->512 7x7")}
    matrices = (("f32", "512x512"), ("f64", "512x512"), ("f64", "1000x8x8"), ("f32", "32x64x64"))
    return (*SORTS, *convolutions((2,), ("f32",), {**LAYERS, **OTHERS}), *convolutions((32,), ("f32",), some),
            *planes("16x64x32x32"), *linear(matrices, (("f32", "256x256"), *matrices[1:])),
            "fft dtype=f32 shape=1048576", "fft dtype=f32 shape=1000x1000", "rfft dtype=f32 shape=256x4096")


def cases_of_cuda():
    some = {k: LAYERS[k] for k in list(LAYERS)[1:7:2]}
    matrices = (("f32", "2048x2048"), ("f32", "1000x32x32"))
    return (*SORTS_CUDA, *convolutions((64,), ("f32", "bf16"), LAYERS), *convolutions((64,), ("f16",), some),
            *convolutions((32,), ("f32", "bf16"), OTHERS), *planes("64x64x112x112"),
            *linear(matrices, (("f32", "512x512"), matrices[1])),
            "fft dtype=f32 shape=16777216", "fft dtype=f32 shape=4096x1000", "rfft dtype=f32 shape=4096x4096")


# ---- PyTorch's side ---------------------------------------------------------------------------------
class Case:
    """The options of a case as attributes, numbers as numbers; what is not said is None."""

    def __init__(self, text):
        self.op, *pairs = text.split()
        for pair in pairs:
            key, v = pair.split("=")
            setattr(self, key, int(v) if v.isdigit() and key not in ("shape", "size") else v)

    def __getattr__(self, name):
        return None

    def sizes(self, name="shape"):
        return [int(n) for n in getattr(self, name).split("x")]

    def normal(self, shape=None):
        return torch.randn(shape or self.sizes(), device=DEVICE).to(DTYPES[self.dtype or "f32"])

    def values(self):
        if self.dtype[0] == "i":
            return torch.randint(-1000000, 1000001, self.sizes(), device=DEVICE).to(DTYPES[self.dtype])
        return self.normal()


def with_gradients(o, inputs, f):
    if o.pass_ != "backward":
        return f
    for x in inputs:
        x.requires_grad_(True)
    seed = torch.ones_like(f()).detach()
    return lambda: torch.autograd.grad(f(), inputs, seed)


def along_axis(o):
    x, d = o.values(), o.dim - 1
    if o.op == "sort":
        return lambda: x.sort(dim=d, stable=True)
    if o.op in ("topk", "kthvalue"):
        return lambda: getattr(x, o.op)(o.k, d)
    f = getattr(x, o.op)
    return lambda: f(d)


def counting(o):
    if o.op == "unique":
        x = torch.randint(1, o.most + 1, (o.n,), device=DEVICE)
        return x.unique
    if o.op == "bincount":
        return torch.randint(0, o.bins, (o.n,), device=DEVICE).bincount
    if o.op == "histc":
        x = o.normal()
        return lambda: x.histc(o.bins)
    if o.op == "searchsorted":
        place, x = torch.randn(o.table, device=DEVICE).sort()[0], torch.randn(o.n, device=DEVICE)
        return lambda: torch.searchsorted(place, x)
    if o.op == "nonzero":
        return (torch.rand(o.sizes(), device=DEVICE) < o.percent / 100).nonzero
    if o.op == "randperm":
        return lambda: torch.randperm(o.n, device=DEVICE)
    p = torch.rand(o.sizes(), device=DEVICE)
    return lambda: torch.multinomial(p, o.n, o.replacement == 1)


def conv(o):
    size, groups = o.sizes("size"), o.groups or 1
    ends = [o.c, o.o // groups] if o.transposed else [o.o, o.c // groups]
    x, w = o.normal([o.n, o.c] + size), o.normal(ends + [o.k] * len(size))
    f = getattr(F, ("conv_transpose%dd" if o.transposed else "conv%dd") % len(size))
    how = {"stride": o.stride or 1, "padding": o.padding or 0, "dilation": o.dilation or 1, "groups": groups}
    return with_gradients(o, (x, w), lambda: f(x, w, **how))


def plane(o):
    x = o.normal()
    if o.op == "batch_norm":
        c = o.sizes()[1]
        mean, var, w, b = (make(c, device=DEVICE) for make in (torch.zeros, torch.ones, torch.rand, torch.rand))
        return with_gradients(o, (x, w, b), lambda: F.batch_norm(x, mean, var, w, b, training=True))
    f = {"max_pool": lambda: F.max_pool2d(x, o.k, o.stride, o.padding or 0),
         "avg_pool": lambda: F.avg_pool2d(x, o.k, o.stride, o.padding or 0),
         "adaptive_avg_pool": lambda: F.adaptive_avg_pool2d(x, o.out),
         "interpolate": lambda: F.interpolate(x, scale_factor=o.scale, mode=o.mode)}[o.op]
    return with_gradients(o, (x,), f)


def matrix(o):
    x = o.normal()
    wide = torch.eye(x.shape[-1], device=DEVICE, dtype=x.dtype) * x.shape[-1]
    if o.op == "svd":
        return lambda: torch.linalg.svd(x, full_matrices=False)
    a = {"eigh": lambda: x + x.mT, "cholesky": lambda: x @ x.mT + wide, "qr": lambda: x}.get(o.op, lambda: x + wide)()
    if o.op == "solve":
        return lambda: torch.linalg.solve(a, x)
    f = {"inverse": torch.linalg.inv}.get(o.op) or getattr(torch.linalg, o.op)
    return lambda: f(a)


def transform(o):
    x = torch.randn(o.sizes(), device=DEVICE, dtype=torch.complex64) if o.op == "fft" else o.normal()
    return lambda: getattr(torch.fft, o.op)(x)


MAKERS = {along_axis: "sort argsort median cumsum cumprod logcumsumexp cummax topk kthvalue",
          counting: "unique bincount histc searchsorted nonzero randperm multinomial", conv: "conv",
          plane: "batch_norm max_pool avg_pool adaptive_avg_pool interpolate",
          matrix: "svd eigh qr cholesky inverse solve", transform: "fft rfft"}


def build(text):
    o = Case(text.replace("pass=", "pass_="))
    return next(make for make, names in MAKERS.items() if o.op in names.split())(o)


# ---- both -------------------------------------------------------------------------------------------
class Failed(Exception):
    pass


class Worker:
    """Our side: a process of bench/calls.lua, started again when it has ended or does not answer."""

    PATIENCE = 60

    def __init__(self, program):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.lua")
        self.command = [program, script, DEVICE] + (["cpu-time"] if OPTIONS["threads"] == 1 and not CUDA else [])
        self.command += ["free"] if OPTIONS["order"] == "-f" else []
        self.process = None

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def seconds(self, text, reps):
        if not self.process or self.process.poll() is not None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            bufsize=1)
        self.process.stdin.write(f"{reps} {text}\n")
        self.process.stdin.flush()
        ready = select.select([self.process.stdout], [], [], self.PATIENCE)[0]
        line = self.process.stdout.readline().strip() if ready else f"no answer in {self.PATIENCE} s"
        try:
            return float(line)
        except ValueError:
            if not line.startswith("error"):
                self.stop()
            raise Failed(line or "our process has ended")


def clock(run, reps):
    now = time.process_time if OPTIONS["threads"] == 1 and not CUDA else time.perf_counter
    if CUDA:
        torch.cuda.synchronize()
    t = now()
    for _ in range(reps):
        run()
    if CUDA:
        torch.cuda.synchronize()
    return (now() - t) / reps


def measure(worker, text):
    """Median seconds of both, and the median ratio."""
    run = build(text)
    for _ in range(2):
        run()
    once = [min(clock(run, 1) for _ in range(2)), min(worker.seconds(text, 1) for _ in range(2))]
    reps = [max(1, min(200, int(0.015 / max(t, 1e-6)))) for t in once]
    rounds = []
    for _ in range(OPTIONS["rounds"] if max(once) < 0.3 else 3):
        time.sleep(PAUSE)
        theirs = clock(run, reps[0])
        time.sleep(PAUSE)
        rounds.append((worker.seconds(text, reps[1]), theirs))
    mine, theirs = (statistics.median(r[i] for r in rounds) for i in (0, 1))
    return mine, theirs, statistics.median(t / m for m, t in rounds)


def main():
    cases = cases_of_cuda() if CUDA else cases_of_cpu()
    cases = [c for c in cases if not OPTIONS["names"] or any(c.startswith(n) for n in OPTIONS["names"])]
    worker, start, skipped, low = Worker(sys.argv[1]), time.monotonic(), [], []
    where = torch.cuda.get_device_name() if CUDA else f"{OPTIONS['threads']} threads"
    print(f"torch {torch.__version__}, {where}")
    form = "| {} | {} | {} | {} |" if OPTIONS["table"] else "{:72}{:>12}{:>12}{:>8}"
    print(form.format("case", "flame us", "torch us", "x torch") + ("\n|---|---|---|---|" if OPTIONS["table"] else ""))
    for text in cases:
        if time.monotonic() - start > OPTIONS["seconds"]:
            skipped.append(text)
            continue
        try:
            mine, theirs, ratio = measure(worker, text)
            print(form.format(text, f"{mine * 1e6:.1f}", f"{theirs * 1e6:.1f}", f"{ratio:.2f}"), flush=True)
            if ratio < 0.7:
                low.append(f"{text} ({ratio:.2f})")
        except (Failed, RuntimeError, NotImplementedError, TypeError) as e:
            print(f"failed: {text}: {str(e).splitlines()[0][:150]}", flush=True)
        if CUDA:
            torch.cuda.empty_cache()
    worker.stop()
    print(f"below 0.7: {', '.join(low) or 'none'}" + (f"; skipped: {', '.join(skipped)}" if skipped else ""))


main()
