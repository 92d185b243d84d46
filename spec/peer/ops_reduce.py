"""Reductions in every form of axes, cumulative functions, sorting, order statistics."""
import torch
from sample import INTS, R, Sample, T, G, braces, shape

INF, NAN = float("inf"), float("nan")


def axes_form(rank):
    """(text of the arguments after x, axes for torch, keepdim)."""
    keep = R.random() < 0.4
    tail = ", {keepdim = true}" if keep else R.choice(["", "", ", {keepdim = false}"])
    if rank == 0 or R.random() < 0.2:
        return "{keepdim = true}" if keep else "", list(range(rank)), keep
    if R.random() < 0.5:
        d = R.randrange(rank)
        return "%d%s" % (R.choice([d + 1, d - rank]), tail), [d], keep
    axes = R.sample(range(rank), R.randint(1, rank))
    return braces(R.choice([a + 1, a - rank]) for a in axes) + tail, axes, keep


def joined(fn):
    """A reduction by one axis that torch has, over several: those axes flattened to the last."""
    def f(x, axes, keep):
        rest = [a for a in range(x.dim()) if a not in axes]
        y = x.permute(rest + sorted(axes)).reshape([x.shape[a] for a in rest] + [sum_count(x, axes)])
        y = fn(y, -1)
        return y.reshape([1 if a in axes else x.shape[a] for a in range(x.dim())]) if keep else y
    return f


def whole(fn):
    return lambda x, axes, keep: fn(x, tuple(axes), keep) if x.dim() else fn(x.reshape(1), (0,), False)


def norm(p):
    return whole(lambda x, axes, keep: torch.linalg.vector_norm(x, p, axes, keep))


REDUCE = {
    "sum": whole(lambda x, a, k: x.sum(a, keepdim=k)), "mean": whole(lambda x, a, k: x.mean(a, keepdim=k)),
    "amax": whole(lambda x, a, k: x.amax(a, keepdim=k)), "amin": whole(lambda x, a, k: x.amin(a, keepdim=k)),
    "prod": joined(lambda x, d: x.prod(d)), "any": joined(lambda x, d: x.bool().any(d)), "all": joined(lambda x, d: x.bool().all(d)),
    "logsumexp": whole(lambda x, a, k: torch.logsumexp(x, a, keepdim=k)),
    "count_nonzero": joined(lambda x, d: torch.count_nonzero(x, d)),
    "var": whole(lambda x, a, k: torch.var(x, a, correction=1, keepdim=k)),
    "std": whole(lambda x, a, k: torch.std(x, a, correction=1, keepdim=k)),
}


def reductions(scale):
    for name, fn in REDUCE.items():
        for _ in range(int(40 * scale)):
            d = R.choice(["f32", "f32", "f64", "f64", "f16", "bf16"])
            no_empty = name in ("amax", "amin", "var", "std", "mean")
            s = shape(empty=0.0 if no_empty else 0.05)
            text, axes, keep = axes_form(len(s))
            if name in ("var", "std"):
                n = 1
                for a in axes:
                    n *= s[a]
                if n < 2 and name == "std":
                    continue
            form = "x:%s(%s)" % (name, text) if R.random() < 0.7 else "flame.%s(x%s)" % (name, text and ", " + text)
            Sample(name, form, lambda x, fn=fn, axes=axes, keep=keep: fn(x, axes, keep),
                   T(s, d, expand=name not in ("var", "std")), tol=2)
        if name in ("var", "std", "mean", "logsumexp"):
            if name != "logsumexp":
                for d in INTS + ("bool",):
                    Sample(name + " int", "x:%s()" % name, None, T([3], d), grad=False, raises=True)
            continue
        for d in INTS + ("bool",):
            s = shape(1, 3, empty=0)
            text, axes, keep = axes_form(len(s))
            Sample(name + " int", "x:%s(%s)" % (name, text), lambda x, fn=fn, axes=axes, keep=keep: fn(x, axes, keep), T(s, d, -2, 3))
    for _ in range(int(30 * scale)):
        s = shape(empty=0.0, hi=3)
        text, axes, keep = axes_form(len(s))
        n = 1
        for a in axes:
            n *= s[a]
        c = R.choice([0, 1, 2, 0.5])
        if n - c < 0.9:
            continue
        option = "correction = %s" % c
        text = text.replace("{keepdim", "{%s, keepdim" % option) if "keepdim" in text else text + (", " if text else "") + "{%s}" % option
        for name, t in (("var", torch.var), ("std", torch.std)):
            f = whole(lambda x, a, k, c=c, t=t: t(x, a, correction=c, keepdim=k))
            if c == 0.5:
                f = whole(lambda x, a, k, c=c, name=name: ((x - x.mean(a, keepdim=True)).square().sum(a, keepdim=k)
                                                           / (sum_count(x, a) - c)) ** (0.5 if name == "std" else 1))
            if n == 1 and name == "std":
                continue
            Sample(name + " correction", "x:%s(%s)" % (name, text), lambda x, f=f, a=axes, k=keep: f(x, a, k),
                   T(s, R.choice(["f32", "f64"]), expand=False), tol=2)
    for p in (None, 1, 2, 3, 0.5, INF, -INF, 0, -1, 2.5):
        for _ in range(int(8 * scale)):
            s = shape(empty=0, hi=3)
            text, axes, keep = axes_form(len(s))
            word = "nil" if p is None else "math.huge" if p == INF else "-math.huge" if p == -INF else repr(p)
            if text.startswith("{keepdim"):
                text = "nil, " + text
            Sample("norm", "x:norm(%s%s)" % (word, text and ", " + text), lambda x, f=norm(2 if p is None else p), a=axes, k=keep: f(x, a, k),
                   T(s, R.choice(["f32", "f64"]), .2, 3, expand=False), tol=3)
    zeros = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, -2.0]], dtype=torch.float64)
    for p in (1, 2, 3, INF, 0):
        word = "math.huge" if p == INF else repr(p)
        Sample("norm zeros", "x:norm(%s, 2)" % word, lambda x, p=p: torch.linalg.vector_norm(x, p, 1), G(zeros), second=False)
    for name, fn in REDUCE.items():
        if name in ("logsumexp", "mean", "var", "std"):
            continue
        for d in ("f64", "bool", "i32"):
            Sample(name + " empty", "x:%s(2)" % name, lambda x, fn=fn: fn(x, [1], False), T([2, 0], d, plain=True), raises=True if name in ("amax", "amin") else None)
            if name not in ("amax", "amin"):
                Sample(name + " empty", "x:%s(1)" % name, lambda x, fn=fn: fn(x, [0], False), T([2, 0], d, plain=True))
    for name in ("mean", "sum", "logsumexp", "var"):
        Sample(name + " empty", "x:%s(2)" % name, lambda x, fn=REDUCE[name]: fn(x, [1], False), T([2, 0], "f64", plain=True), grad=False)
        Sample(name + " empty", "x:%s()" % name, lambda x, fn=REDUCE[name]: fn(x, list(range(x.dim())), False), T([0], "f64", plain=True), grad=False)
    bad = torch.tensor([[1.0, NAN, 3.0], [INF, 2.0, INF], [-INF, 0.0, 1.0], [-INF, -INF, -INF], [INF, -INF, 1.0]], dtype=torch.float64)
    for name in ("sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp", "count_nonzero", "var", "std"):
        Sample(name + " nan", "x:%s(2)" % name, lambda x, fn=REDUCE[name]: fn(x, [1], False), G(bad), grad=False)
    Sample("logsumexp nan", "x:logsumexp(2)", lambda x: torch.logsumexp(x, 1), G(bad[2:3]))
    tied = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype=torch.float64)
    for name in ("amax", "amin", "prod"):
        Sample(name + " ties", "x:%s(2)" % name, lambda x, fn=REDUCE[name]: fn(x, [1], False), G(tied))
        Sample(name + " ties", "x:%s()" % name, lambda x, fn=REDUCE[name]: fn(x, [0, 1], False), G(tied))
    for z in ([0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]):
        Sample("prod zeros", "x:prod()", lambda x: x.prod(), G(torch.tensor(z, dtype=torch.float64)))
    for dtype in ("f64", "i32"):
        Sample("sum dtype", 'x:sum({dtype = "%s"})' % dtype, lambda x, dtype=dtype: x.to({"f64": torch.float64, "i32": torch.int32}[dtype]).sum().to({"f64": torch.float64, "i32": torch.int32}[dtype]),
               T([4], "f32"), grad=False)
        Sample("sum dtype", 'x:sum(1, {dtype = "%s"})' % dtype, lambda x, dtype=dtype: x.sum(0, dtype={"f64": torch.float64, "i32": torch.int32}[dtype]), T([4], "i8"), grad=False)


def sum_count(x, axes):
    n = 1
    for a in axes:
        n *= x.shape[a] if x.dim() else 1
    return n


def first_of(x, d, largest):
    """Values and first positions of the extreme, NaN above all; d None: of all."""
    y = x.reshape(-1) if d is None else x
    d = 0 if d is None else d
    if y.dim() == 0:
        y = y.reshape(1)
    z = y.double() if y.is_floating_point() else y.long()
    z = torch.where(torch.isnan(z), torch.full_like(z, INF), torch.where(torch.isinf(z), z.clamp(-1e300, 1e300), z)) if y.is_floating_point() else z
    if not largest:
        z = torch.where(torch.isnan(y), torch.full_like(z, -INF), torch.where(y.isinf(), z.clamp(-1e300, 1e300), y.double())) if y.is_floating_point() else z
        z = -z
    best = z.amax(d, keepdim=True)
    n = z.shape[d]
    count = torch.arange(n).reshape([n if k == d else 1 for k in range(z.dim())]).expand(z.shape)
    at = torch.where(z == best, count, torch.full_like(count, n)).amin(d, keepdim=True)
    return y, at, d


def extreme(x, d, keep, largest):
    y, at, k = first_of(x, d, largest)
    v = y.gather(k, at)
    if x.dim() == 0:
        return v.reshape([]), at.reshape([]) + 1
    return (v, at + 1) if keep else (v.squeeze(k), at.squeeze(k) + 1)


def position(x, d, keep, largest):
    y, at, k = first_of(x, d, largest)
    if d is None:
        return at.reshape([1] * x.dim() if keep else []) + 1
    return at.reshape([]) + 1 if x.dim() == 0 else (at if keep else at.squeeze(k)) + 1


def extremes(scale):
    for largest, name in ((True, "max"), (False, "min")):
        for _ in range(int(40 * scale)):
            s, dtype = shape(0, 4, 5, 0), R.choice(["f32", "f64", "f64", "i32", "i64", "u8", "bool", "f16"])
            lo, hi = (-2, 2) if dtype in INTS else (-3, 3)
            d = R.randrange(len(s)) if s else 0
            word, keep = R.choice([d + 1, d - max(len(s), 1)]), R.random() < 0.4
            tail = ", {keepdim = true}" if keep else ""
            Sample(name + " axis", "x:%s(%d%s)" % (name, word, tail), lambda x, d=d, k=keep, l=largest: extreme(x, d, k, l), T(s, dtype, lo, hi))
            Sample("arg" + name, "x:arg%s(%d%s)" % (name, word, tail), lambda x, d=d, k=keep, l=largest: position(x, d, k, l), T(s, dtype, lo, hi))
            Sample("arg" + name, "x:arg%s()" % name, lambda x, l=largest: position(x, None, False, l), T(s, dtype, lo, hi))
            Sample(name + " all", "x:%s()" % name, lambda x, l=largest: x.amax() if l else x.amin(), T(s, dtype, lo, hi))
            fn = torch.maximum if largest else torch.minimum
            Sample(name + " pair", "x:%s(y)" % name, fn, T(s, dtype, lo, hi), T(s, dtype, lo, hi), grad=False)
        odd = torch.tensor([[1.0, NAN, 3.0, NAN], [INF, 2.0, INF, 0.0], [-INF, -INF, -INF, -INF], [2.0, 2.0, 1.0, 1.0]])
        for dtype in (torch.float32, torch.float64, torch.float16):
            Sample(name + " odd", "x:%s(2)" % name, lambda x, l=largest: extreme(x, 1, False, l), G(odd.to(dtype)))
            Sample(name + " odd", "x:arg%s(2)" % name, lambda x, l=largest: position(x, 1, False, l), G(odd.to(dtype)))
            Sample(name + " odd", "x:arg%s()" % name, lambda x, l=largest: position(x, None, False, l), G(odd.to(dtype)))
        for text in ("x:%s(1)", "x:%s()", "x:arg%s(1)", "x:arg%s()"):
            Sample(name + " empty", text % name, None, T([0, 2], "f32", plain=True), grad=False, raises=True)


def ordered(x, d, descending):
    """Stable sort with NaN above all; positions 1-based."""
    if x.dim() == 0:
        return x.clone(), torch.tensor(1)
    key = torch.where(torch.isnan(x), torch.full_like(x, INF), x.clamp(-1e30, 1e30)) if x.is_floating_point() else x.long()
    at = torch.sort(key, dim=d, descending=descending, stable=True)[1]
    return x.gather(d, at), at + 1


def scans(scale):
    for _ in range(int(16 * scale)):
        s, dtype = shape(1, 3, 6), R.choice(["f32", "f64", "f64"])
        d = R.randrange(len(s))
        for name, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod), ("logcumsumexp", torch.logcumsumexp)):
            Sample(name, "x:%s(%d)" % (name, d + 1), lambda x, d=d, fn=fn: fn(x, d), T(s, dtype), tol=2)
            if name != "logcumsumexp":
                Sample(name + " int", "x:%s(%d)" % (name, d - len(s)), lambda x, d=d, fn=fn: fn(x, d), T(s, R.choice(INTS + ("bool",)), -2, 3))
        down = R.random() < 0.5
        kind = R.choice([dtype, dtype, "i32", "bool", "u8"])
        for name, part in (("sort", slice(0, 2)), ("argsort", slice(1, 2))):
            Sample(name, "x:%s(%d, {descending = %s})" % (name, d + 1, str(down).lower()), lambda x, d=d, b=down, p=part: ordered(x, d, b)[p],
                   T(s, kind, -2, 2))
        Sample("sort", "x:sort()", lambda x: ordered(x, -1, False), T(s, dtype))
        if s[d]:
            k = R.randint(1, s[d])
            Sample("topk", "x:topk(%d, %d)" % (k, d + 1), lambda x, d=d, k=k: tuple(v.narrow(d, 0, k) for v in ordered(x, d, True)), T(s, dtype, expand=False))
            Sample("topk smallest", "x:topk(%d, %d, {largest = false})" % (k, d + 1), lambda x, d=d, k=k: tuple(v.narrow(d, 0, k) for v in ordered(x, d, False)),
                   T(s, dtype, expand=False))
            Sample("kthvalue", "x:kthvalue(%d, %d)" % (k, d + 1), lambda x, d=d, k=k: tuple(v.select(d, k - 1) for v in ordered(x, d, False)), T(s, dtype, expand=False))
            Sample("median", "x:median(%d)" % (d + 1), lambda x, d=d: tuple(v.select(d, (x.shape[d] - 1) // 2) for v in ordered(x, d, False)), T(s, dtype, expand=False))
            if 0 not in s:
                Sample("median all", "x:median()", lambda x: torch.median(x), T(s, dtype, expand=False))
    odd = torch.tensor([3.0, NAN, -INF, 1.0, INF, 3.0, NAN])
    for down in (False, True):
        Sample("sort nan", "x:sort(1, {descending = %s})" % str(down).lower(), lambda x, b=down: ordered_nan(x, b), G(odd), grad=False)


def ordered_nan(x, down):
    v, i = torch.sort(x, dim=0, descending=down, stable=True)
    return v, i + 1


def make(scale):
    reductions(scale)
    extremes(scale)
    scans(scale)
