"""Compares flame-lua with PyTorch: values, gradients, dtypes and errors of thousands of
random calls over random shapes, dtypes and views.

  python3 spec/peer/run.py [--flame build/flame-lua] [--seed n] [--scale f] [--only op,…] [--show n] [--part k/n]

Prints, op by op, the number of samples and the largest errors in units of the dtype's
epsilon; exits 1 when something differs. Where torch is not installed it says so and exits
0. The reference of an f32 call is torch in f64, of a half call torch in f32, both rounded;
torch in the call's own dtype is taken where an op jumps, and always for the dtype.
"""
import argparse
import importlib
import os
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("peer: skipped, this python3 has no torch")
    sys.exit(0)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sample  # noqa: E402
from sample import DTYPES, NAMES  # noqa: E402

EPS = {torch.float64: 2.0 ** -52, torch.float32: 2.0 ** -23, torch.float16: 2.0 ** -10, torch.bfloat16: 2.0 ** -7}
LIMIT = {torch.float64: 400.0, torch.float32: 60.0, torch.float16: 6.0, torch.bfloat16: 6.0}


# ---- torch's side ------------------------------------------------------------------------------

def raised(t, how):
    """t in the dtype the reference computes in."""
    if how == "wide" and t.dtype == torch.float32:
        return t.double()
    if how == "wide" and t.dtype in (torch.float16, torch.bfloat16):
        return t.float()
    return t


def flat(v):
    if isinstance(v, (list, tuple)):
        return [j for i in v for j in flat(i)]
    if isinstance(v, torch.Tensor):
        return [v]
    if isinstance(v, bool):
        return [torch.tensor(v)]
    return [torch.tensor(v, dtype=torch.int64 if isinstance(v, int) else torch.float64)]


def cotangent(t):
    n = t.numel()
    return torch.cos(torch.arange(n, dtype=torch.float64) * 0.7 + 0.3).reshape(t.shape)


def gradients(outs, seeds, bases, second):
    """First and, when asked for, second derivatives by the tracked bases; zeros where none."""
    tracked = [b for b in bases if b.requires_grad]
    terms = [(o * s.to(o.dtype)).sum().double() for o, s in zip(outs, seeds) if s is not None and o.requires_grad]
    zeros = [torch.zeros_like(b) for b in tracked]
    if not tracked:
        return [], []
    if not terms:
        return zeros, zeros if second else []
    g = torch.autograd.grad(sum(terms), tracked, allow_unused=True, create_graph=second)
    first = [z if v is None else v for z, v in zip(zeros, g)]
    if not second:
        return first, []
    terms = [(v * b.detach()).sum() for v, b in zip(first, tracked) if v.requires_grad]
    if not terms:
        return first, zeros
    h = torch.autograd.grad(sum(terms), tracked, allow_unused=True)
    return first, [z if v is None else v for z, v in zip(zeros, h)]


def evaluate(s, how):
    """Results, first and second derivatives in this precision."""
    bases = [raised(i.base, how).detach().clone() for i in s.ins]
    for b, i in zip(bases, s.ins):
        if i.track and s.grad:
            b.requires_grad_(True)
    outs = flat(s.fn(*[i.torch(b) for i, b in zip(s.ins, bases)]))
    if not s.grad:
        return [o.detach() for o in outs], [], []
    seeds = [cotangent(o) if o.is_floating_point() else None for o in outs]
    first, second = gradients(outs, seeds, bases, s.second)
    return [o.detach() for o in outs], [g.detach() for g in first], [g.detach() for g in second]


def reference(s):
    """{native, wide: (results, first, second)} or the message that torch raises."""
    refs, why = {}, None
    for how in ("native", "wide"):
        halves = any(i.base.dtype in (torch.float16, torch.bfloat16) for i in s.ins)
        if how == "wide" and s.native and "native" in refs and not halves:
            continue
        try:
            refs[how] = evaluate(s, how)
        except Exception as e:                               # noqa: BLE001
            why = why or str(e).split("\n")[0]
            if "not implemented for 'Half'" not in str(e) and "BFloat16" not in str(e):
                break
    if why and "not implemented" in why and not refs and not s.raises:
        if not s.second and not s.grad:
            raise RuntimeError("torch can not do %s: %s: %s" % (s.op, s.text(), why))
        s.grad, s.second = s.second, False                   # ask for less of torch
        return reference(s)
    return refs, why


def expected_dtypes(s, refs):
    if "native" in refs:
        return [o.dtype for o in refs["native"][0]]
    halves = {i.base.dtype for i in s.ins if i.base.is_floating_point()}
    half = halves.pop() if len(halves) == 1 else torch.float32
    return [half if o.dtype == torch.float32 else o.dtype for o in refs["wide"][0]]


# ---- the batch -----------------------------------------------------------------------------------

def raw(t):
    t = t.detach().contiguous()
    if t.dtype == torch.bfloat16:
        t = t.view(torch.int16)
    return t.numpy().tobytes()


def text(b):
    return struct.pack("<i", len(b)) + b


def packed(t, dtype, track):
    head = text(NAMES[dtype].encode()) + struct.pack("<i", t.dim()) + b"".join(struct.pack("<q", n) for n in t.shape)
    return head + text(raw(t.to(dtype))) + struct.pack("<i", int(track))


def write_batch(folder, samples, refs):
    with open(os.path.join(folder, "functions.lua"), "w") as f:
        f.write("local list = {}\n")
        for k, s in enumerate(samples):
            f.write("list[%d] = %s\n" % (k + 1, s.text()))
        f.write("return list\n")
    with open(os.path.join(folder, "data.bin"), "wb") as f:
        for s, (ref, _) in zip(samples, refs):
            f.write(struct.pack("<ii", int(s.second), len(s.ins)))
            for i in s.ins:
                f.write(packed(i.base, i.base.dtype, i.track and s.grad))
            best = ref.get("native") or ref.get("wide")
            outs = best[0] if best else []
            f.write(struct.pack("<i", len(outs)))
            kinds = expected_dtypes(s, ref) if best else []
            for o, kind in zip(outs, kinds):
                tracked = s.grad and kind.is_floating_point
                f.write(struct.pack("<i", int(tracked)))
                if tracked:
                    f.write(packed(cotangent(o), kind, False))


class Reader:
    def __init__(self, blob):
        self.blob, self.at = blob, 0

    def number(self, form):
        v = struct.unpack_from("<" + form, self.blob, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return v

    def text(self):
        n = self.number("i")
        self.at += n
        return self.blob[self.at - n:self.at]

    def tensor(self):
        dtype, rank = self.text().decode(), self.number("i")
        sizes = [self.number("q") for _ in range(rank)]
        data = self.text()
        if dtype == "nil":
            return None
        kind = DTYPES[dtype]
        if not data:
            return torch.zeros(sizes, dtype=kind)
        stored = torch.int16 if kind == torch.bfloat16 else kind
        t = torch.frombuffer(bytearray(data), dtype=stored)
        return (t.view(kind) if stored != kind else t).reshape(sizes)

    def done(self):
        return self.at >= len(self.blob)


def read_results(path, count):
    with open(path, "rb") as f:
        r = Reader(f.read())
    got = []
    while not r.done() and len(got) < count:
        r.number("i")
        same = r.number("i")
        error, bad = r.text().decode(), r.text().decode()
        lists = [[r.tensor() for _ in range(r.number("i"))] for _ in range(3)]
        got.append((same, error, bad, lists))
    return got


# ---- comparing ----------------------------------------------------------------------------------

def error_of(a, b, kind, floor=0.0):
    """Largest difference in epsilons of the kind, relative to value and a tenth of the scale."""
    if a.numel() == 0:
        return 0.0
    if not kind.is_floating_point:
        return 0.0 if torch.equal(a.to(torch.int64), b.to(torch.int64)) else float("inf")
    a, b = a.double(), b.to(kind).double()
    odd = ~torch.isfinite(b) | ~torch.isfinite(a)
    if not torch.equal(a[odd].nan_to_num(7.0, 8.0, 9.0), b[odd].nan_to_num(7.0, 8.0, 9.0)):
        return float("inf")
    a, b = a[~odd], b[~odd]
    if a.numel() == 0:
        return 0.0
    scale = b.abs() + 0.1 * b.abs().max() + floor + torch.finfo(kind).tiny
    return float(((a - b).abs() / scale).max()) / EPS[kind]


def compare_lists(got, refs, part, kinds, limit):
    """(largest error, complaint) of one of results, first, second."""
    worst, complaint = 0.0, None
    for i, a in enumerate(got):
        best, shape = float("inf"), None
        for ref in refs.values():
            if i >= len(ref[part]):
                return worst, "result %d is not there in torch" % (i + 1)
            b = ref[part][i]
            shape = tuple(b.shape)
            if a is None and part > 0:
                a = torch.zeros(b.shape, dtype=kinds[i])
            if a is None or tuple(a.shape) != shape:
                continue
            best = min(best, error_of(a, b, kinds[i], 0.05 if part else 0.0))
        if a is None or tuple(a.shape) != shape:
            return worst, "shape %s, torch has %s" % (None if a is None else tuple(a.shape), shape)
        if a.dtype != kinds[i]:
            return worst, "dtype %s, torch has %s" % (NAMES[a.dtype], NAMES[kinds[i]])
        worst = max(worst, best)
        if best > limit(kinds[i]):
            b = list(refs.values())[-1][part][i]
            complaint = "error %.3g eps\n      flame %s\n      torch %s" % (
                best, str(a.flatten()[:12].tolist()), str(b.flatten()[:12].tolist()))
    return worst, complaint


def judge(s, ref, why, got):
    """(value error, gradient error, complaint)."""
    same, error, bad, lists = got
    limit = lambda kind: LIMIT.get(kind, 0.0) * s.tol          # noqa: E731
    must_raise = s.raises if s.raises is not None else not ref
    if not same:
        return 0, 0, "an input has changed"
    if must_raise:
        if ref and s.raises is None:
            return 0, 0, None
        return 0, 0, None if error else "no error; torch: %s" % why
    if error:
        return 0, 0, "raised: %s" % error
    kinds = expected_dtypes(s, ref)
    best = ref.get("native") or ref.get("wide")
    if len(lists[0]) != len(best[0]):
        return 0, 0, "%d results, torch has %d" % (len(lists[0]), len(best[0]))
    value, complaint = compare_lists(lists[0], ref, 0, kinds, limit)
    if complaint or not s.grad:
        return value, 0, complaint and "value: " + complaint
    if bad:
        return value, 0, "gradient raised: %s" % bad
    tracked = [i for i, x in enumerate(s.ins) if x.track]
    base_kinds = [s.ins[i].base.dtype for i in tracked]
    worst = 0.0
    for part, name in ((1, "gradient"), (2, "second gradient")):
        if part == 2 and not s.second:
            continue
        g = [lists[part][i] if i < len(lists[part]) else None for i in tracked]
        g = [None if v is None or v.dtype == torch.bool and v.dim() == 0 else v for v in g]
        e, complaint = compare_lists(g, ref, part, base_kinds, lambda kind: 4 * part * limit(kind))
        worst = max(worst, e)
        if complaint:
            return value, worst, "%s: %s" % (name, complaint)
    return value, worst, None


def run_flame(program, folder):
    here = os.path.dirname(os.path.abspath(__file__))
    path = {n: os.path.join(folder, n) for n in ("functions.lua", "data.bin", "out.bin")}
    p = subprocess.run([program, os.path.join(here, "batch.lua")] + list(path.values()),
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    return p.returncode, p.stdout.decode(errors="replace")


class Table:
    def __init__(self):
        self.rows, self.failures = {}, []

    def add(self, s, value, grad, complaint):
        row = self.rows.setdefault(s.op, [0, 0.0, 0.0, 0])
        row[0] += 1
        row[1] = max(row[1], value if value != float("inf") else 0)
        row[2] = max(row[2], grad if grad != float("inf") else 0)
        if complaint:
            row[3] += 1
            self.failures.append((s, complaint))

    def show(self, most):
        seen = {}
        for s, complaint in self.failures:
            seen[s.op] = seen.get(s.op, 0) + 1
            if seen[s.op] > most:
                continue
            print("\n%s: %s\n    %s" % (s.op, s.text(), complaint))
            for i in s.ins:
                print("      input %s %s %s" % (NAMES[i.base.dtype], tuple(i.base.shape), i.base.flatten()[:10].tolist()))
        print("\n%-28s %7s %12s %12s %8s" % ("op", "samples", "value, eps", "grad, eps", "failed"))
        for op in sorted(self.rows):
            n, value, grad, failed = self.rows[op]
            print("%-28s %7d %12.3g %12.3g %8s" % (op, n, value, grad, failed or ""))
        total = sum(r[0] for r in self.rows.values())
        print("peer: %d ops, %d passed, %d failed" % (len(self.rows), total - len(self.failures), len(self.failures)))


def run_batch(program, samples, table):
    """Runs the samples; goes on behind one that ends the program."""
    refs = [reference(s) for s in samples]
    while samples:
        with tempfile.TemporaryDirectory() as folder:
            write_batch(folder, samples, refs)
            code, said = run_flame(program, folder)
            out = os.path.join(folder, "out.bin")
            got = read_results(out, len(samples)) if os.path.exists(out) else []
        for s, (ref, why), g in zip(samples, refs, got):
            table.add(s, *judge(s, ref, why, g))
        if len(got) == len(samples) and code == 0:
            return
        if not got:
            sys.exit("peer: flame-lua ended with %d: %s" % (code, said[-2000:]))
        if len(got) < len(samples):
            table.add(samples[len(got)], 0, 0, "flame-lua ended here with %d: %s" % (code, said[-400:]))
        samples, refs = samples[len(got) + 1:], refs[len(got) + 1:]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument("--flame", default=os.path.join(here, "..", "..", "build", "flame-lua"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--scale", type=float, default=1.0)
    p.add_argument("--only", default="")
    p.add_argument("--show", type=int, default=2)
    p.add_argument("--part", default="1/1", help="every n-th sample from the k-th on, to run n at once")
    a = p.parse_args()
    torch.set_num_threads(1)
    sample.R.seed(a.seed)
    for name in ("elementwise", "reduce", "shape", "index", "neural", "errors", "extra", "conv", "linalg", "fft", "special",
                 "corners", "named", "keys"):
        module = importlib.import_module("ops_" + name)
        module.make(a.scale)
    only = set(filter(None, a.only.split(",")))
    samples = [s for s in sample.ALL if not only or s.op in only]
    part, parts = map(int, a.part.split("/"))
    samples = samples[part - 1::parts]
    table = Table()
    for first in range(0, len(samples), 500):
        run_batch(os.path.abspath(a.flame), samples[first:first + 500], table)
    table.show(a.show)
    return 1 if table.failures else 0


if __name__ == "__main__":
    import warnings
    warnings.filterwarnings("ignore")
    sys.exit(main())
