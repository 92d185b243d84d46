"""PyTorch's side of bench/cpu_conv.lua: reads names of cases, answers each with the least
milliseconds of several runs, in the file given."""
import os
import sys
import time
import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("FLAME_THREADS", 2)))
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"
SCALE = 16 if DEVICE == "cuda" else 1
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False

CONVOLUTIONS = {
    "conv 3x3 64->64 32x32": (16, 64, 64, 1, 32, 3, 1, 1),
    "conv 1x1 64->64 32x32": (16, 64, 64, 1, 32, 1, 1, 0),
    "conv depthwise 3x3 32x32": (16, 64, 64, 64, 32, 3, 1, 1),
    "conv 3x3 stride 2 64->128": (16, 64, 128, 1, 32, 3, 2, 1),
    "conv 3x3 128->128 14x14": (16, 128, 128, 1, 14, 3, 1, 1),
    "conv 3x3 256->256 7x7": (16, 256, 256, 1, 7, 3, 1, 1),
    "conv 3x3 1->32 28x28": (100, 1, 32, 1, 28, 3, 1, 0),
    "conv 7x7 stride 2 3->64": (4, 3, 64, 1, 112, 7, 2, 3),
}
PLANES = {
    "max_pool 2": lambda x: F.max_pool2d(x, 2),
    "max_pool 3 stride 2": lambda x: F.max_pool2d(x, 3, 2, 1),
    "avg_pool 2": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool 1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "interpolate nearest x2": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate bilinear x2": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
}


def gradients(f):
    def run(*xs):
        y = f(*xs)
        return torch.autograd.grad(y, xs, torch.ones_like(y))
    return run


def case(name):
    base = name[:name.index(" gradient")] if " gradient" in name else name
    track = base != name
    if base in CONVOLUTIONS:
        n, c, o, g, size, k, stride, pad = CONVOLUTIONS[base]
        xs = [torch.randn(n * SCALE, c, size, size), torch.randn(o, c // g, k, k)]

        def f(x, w):
            return F.conv2d(x, w, None, stride, pad, 1, g)
    else:
        xs, f = [torch.randn(16 * SCALE, 64, 32, 32)], PLANES[base]
    xs = [x.to(DEVICE).requires_grad_(track) for x in xs]
    return xs, gradients(f) if track else f


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


for name in sys.stdin:
    name = name.rstrip("\n")
    xs, f = case(name)
    least = float("inf")
    for _ in range(9):
        wait()
        start = time.perf_counter()
        f(*xs)
        wait()
        least = min(least, time.perf_counter() - start)
    with open(sys.argv[1], "w") as out:
        out.write("%s\t%.6f\n" % (name, least * 1000))
