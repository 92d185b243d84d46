"""Reductions in every form of axes, cumulative functions, sorting, order statistics."""
import torch
from sample import DTYPES, INTS, R, Sample, T, G, braces, shape, values as sample_values

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


def first_best(x, d, least):
    """Running extremes: values and first positions, 1-based; the first NaN stays."""
    if x.dim() == 0:
        return x.clone(), torch.tensor(1)
    y = x.detach().double().movedim(d, -1)
    at = torch.zeros(y.shape, dtype=torch.int64)
    if y.numel():
        best, where = y[..., 0].clone(), torch.zeros(y.shape[:-1], dtype=torch.int64)
        for j in range(y.shape[-1]):
            v = y[..., j]
            better = ~best.isnan() & (v.isnan() | ((v < best) if least else (v > best)))
            best, where = torch.where(better, v, best), torch.where(better, torch.full_like(where, j), where)
            at[..., j] = where
    at = at.movedim(-1, d)
    return x.gather(d, at), at + 1


def odd_values(s, dtype):
    """Few values, so ties, with NaN, infinities and zeros of both signs; integers: few."""
    t = sample_values(s, dtype, -2, 3)
    if not t.is_floating_point():
        return t
    flat = t.double().round().reshape(-1)
    for i in range(flat.numel()):
        if R.random() < 0.3:
            flat[i] = R.choice([NAN, INF, -INF, -0.0, 0.0])
    return flat.reshape(t.shape).to(t.dtype)


def ordered_all(x, d, down):
    """ordered() for every value: NaN above infinity. By integers that order as the values."""
    if x.dim() == 0:
        return x.clone(), torch.tensor(1)
    y = x.detach().double()
    rank = torch.unique(y[~y.isnan()], sorted=True)
    key = torch.where(y.isnan(), torch.tensor(float(len(rank))), torch.searchsorted(rank, torch.nan_to_num(y, 0.0, INF, -INF)).double())
    at = torch.sort(key, dim=d, descending=down, stable=True)[1]
    return x.gather(d, at), at + 1


def sort_family(scale):
    for _ in range(int(20 * scale)):
        kind = R.choice(["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"])
        s = shape(0, 3, R.choice([4, 6, 6, 40]), 0.05)
        d = R.randrange(len(s)) if s else 0
        word, down = R.choice([d + 1, d - max(len(s), 1)]), R.random() < 0.5
        x = G(odd_values(s, kind), track=False)
        lua = str(down).lower()
        Sample("sort odd", R.choice(["x:sort(%d, {descending = %s})", "x:sort(%d, %s)", "flame.sort(x, %d, %s, true)"]) % (word, lua),
               lambda x, d=d, b=down: ordered_all(x, d, b), x, grad=False, native=True)
        Sample("argsort odd", "x:argsort(%d, %s)" % (word, lua), lambda x, d=d, b=down: ordered_all(x, d, b)[1], x, grad=False, native=True)
        if s and s[d]:
            k, keep = R.randint(0, s[d]), R.random() < 0.5
            Sample("topk odd", "x:topk(%d, %d, {largest = %s})" % (k, word, lua),
                   lambda x, d=d, k=k, b=down: tuple(v.narrow(d, 0, k) for v in ordered_all(x, d, b)), x, grad=False, native=True)
            tail = ", {keepdim = true}" if keep else ""
            Sample("kthvalue odd", "(x:kthvalue(%d, %d%s))" % (max(k, 1), word, tail),
                   lambda x, d=d, k=max(k, 1), q=keep: ordered_all(x, d, False)[0].narrow(d, k - 1, 1) if q
                   else ordered_all(x, d, False)[0].select(d, k - 1), x, grad=False, native=True)
            if kind in ("f32", "f64", "i64", "i32"):
                for name in ("median", "nanmedian"):
                    Sample(name + " odd", "(x:%s(%d%s))" % (name, word, tail),
                           lambda x, d=d, q=keep, f=getattr(torch, name): f(x, d, keepdim=q)[0], x, grad=False, native=True)
                    if 0 not in s:
                        Sample(name + " all", "x:%s()" % name, lambda x, f=getattr(torch, name): f(x), x, grad=False, native=True)
        for name, least in (("cummax", False), ("cummin", True)):
            Sample(name + " odd", "x:%s(%d)" % (name, word), lambda x, d=d, q=least: first_best(x, d, q), x, grad=False, native=True)
            Sample(name, "x:%s(%d)" % (name, word), lambda x, d=d, q=least: first_best(x, d, q), T(s, R.choice(["f32", "f64"])))
        if s:
            Sample("msort", "x:msort()", lambda x: x.sort(dim=0, stable=True)[0], T(s, R.choice(["f32", "f64", "i32"])))
        tied = odd_values(s, "f64").nan_to_num(1.0, 2.0, -2.0)
        for name in ("median", "nanmedian"):
            if tied.numel():
                Sample(name + " ties", "x:%s()" % name, lambda x, f=getattr(torch, name): f(x), G(tied))


def sum_like(scale):
    zeros = [0.0, 0.0, 1.0, -2.0, 3.0, 0.5]
    for _ in range(int(20 * scale)):
        s, kind = shape(0, 3, R.choice([4, 5, 9])), R.choice(["f32", "f64", "f64", "f16", "bf16"])
        d = R.randrange(len(s)) if s else 0
        word = R.choice([d + 1, d - max(len(s), 1)])
        for name, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod), ("logcumsumexp", torch.logcumsumexp)):
            Sample(name + " forms", "x:%s(%d)" % (name, word), lambda x, d=d, fn=fn: fn(x, d), T(s, kind), tol=4,
                   grad=kind in ("f32", "f64"))
        n = 1
        for a in s:
            n *= a
        z = torch.tensor([R.choice(zeros) for _ in range(n)], dtype=torch.float64).reshape(s)
        Sample("cumprod zeros", "x:cumprod(%d)" % word, lambda x, d=d: torch.cumprod(x, d), G(z))
        to, kind = R.choice(["f64", "f32", "i64", "i32", "u8"]), R.choice(INTS + ("bool", "f32"))
        if kind != "f32" or to in ("f32", "f64"):
            for name, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod)):
                Sample(name + " dtype", 'x:%s(%d, {dtype = "%s"})' % (name, word, to),
                       lambda x, d=d, fn=fn, to=to: fn(x, d, dtype=DTYPES[to]), T(s, kind, -2, 3), grad=False, native=True)
        odd = odd_values(s, R.choice(["f32", "f64"]))
        for name, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod), ("logcumsumexp", torch.logcumsumexp)):
            Sample(name + " odd", "x:%s(%d)" % (name, word), lambda x, d=d, fn=fn: fn(x, d), G(odd), grad=False, native=True, tol=4)
    for n in (1000, 5000, 40000):
        for dtype in ("f32", "f64", "i32"):
            for name, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod)):
                lo, hi = (-0.5, 2) if dtype != "i32" else (1, 2)
                for rows in ([n], [3, n], [n, 3]):
                    if n < 40000 or rows == [n]:
                        d = rows.index(n)
                        Sample(name + " long", "x:%s(%d)" % (name, d + 1), lambda x, fn=fn, d=d: fn(x.double() if x.is_floating_point() else x, d).to(x.dtype if x.is_floating_point() else torch.int64),
                               T(rows, dtype, lo, hi, plain=True), grad=False, tol=20)


def counting(scale):
    for _ in range(int(20 * scale)):
        s, kind = shape(0, 3, 6, 0.05), R.choice(["f32", "f64", "i64", "i32", "u8", "bool", "i8"])
        x = T(s, kind, -2, 3, track=False)
        if kind in ("f32", "f64"):
            x = G(odd_values(s, kind).nan_to_num(7.0), track=False)
        Sample("nonzero", "x:nonzero()", lambda x: torch.nonzero(x) + 1, x, grad=False)
        Sample("nonzero tuple", "x:nonzero({as_tuple = true})", lambda x: torch.nonzero(x, as_tuple=True) if x.dim() == 0 else [v + 1 for v in torch.nonzero(x, as_tuple=True)], x,
               grad=False) if s else None
        Sample("unique", "x:unique()", lambda x: torch.unique(x), x, grad=False)
        Sample("unique options", "return x:unique({return_inverse = true, return_counts = true})",
               lambda x: shifted(torch.unique(x, return_inverse=True, return_counts=True)), x, grad=False)
        Sample("unique_consecutive", "return x:unique_consecutive({return_inverse = true, return_counts = true})",
               lambda x: shifted(torch.unique_consecutive(x, return_inverse=True, return_counts=True)), x, grad=False)
        if s and 0 not in s:
            d = R.randrange(len(s))
            y = T(s, kind if kind != "bool" else "u8", 0, 1, track=False)
            y.base = y.base.round() if y.base.is_floating_point() else y.base
            Sample("unique dim", "return x:unique({dim = %d, return_inverse = true, return_counts = true})" % R.choice([d + 1, d - len(s)]),
                   lambda x, d=d: shifted(torch.unique(x, dim=d, return_inverse=True, return_counts=True)), y, grad=False)
            Sample("unique_consecutive dim", "return x:unique_consecutive({dim = %d, return_counts = true})" % (d + 1),
                   lambda x, d=d: torch.unique_consecutive(x, dim=d, return_counts=True), y, grad=False)
        n, m = R.randint(0, 30), R.randint(0, 8)
        ids, minimum = T([n], R.choice(["i64", "i32", "u8"]), 1, 7, track=False), R.choice([0, 0, 3, 12])
        Sample("bincount", "x:bincount({minlength = %d})" % minimum, lambda x, q=minimum: torch.bincount(x - 1, minlength=q), ids, grad=False)
        Sample("bincount weights", "x:bincount(y, %d)" % minimum, lambda x, w, q=minimum: torch.bincount(x - 1, w, q), ids,
               T([n], R.choice(["f32", "f64", "i32"]), track=False), grad=False, native=True)
        bins, form = R.randint(1, 9), R.random()
        args, low, high = ("%d" % bins, 0, 0) if form < 0.4 else ("%d, -1, 2" % bins, -1, 2) if form < 0.8 else ("{bins = %d, min = -2.5}" % bins, -2.5, 0)
        Sample("histc", "x:histc(%s)" % args, lambda x, b=bins, lo=low, hi=high: torch.histc(x, b, lo, hi), T(s, R.choice(["f32", "f64"]), track=False), grad=False, native=True)
        kind = R.choice(["f32", "f64", "i64", "i32", "u8"])
        table, right = sample_values([n], kind, -3, 4).sort()[0], R.random() < 0.5
        v = odd_values(shape(0, 3, 5), kind)
        lua = R.choice(["{right = %s}" % str(right).lower(), '{side = "%s"}' % ("right" if right else "left")])
        Sample("searchsorted", "x:searchsorted(y, %s)" % lua, lambda x, y, r=right: torch.searchsorted(x, y, right=r) + 1, G(table), G(v), grad=False, native=True)
        Sample("bucketize", "x:bucketize(y, {right = %s})" % str(right).lower(), lambda x, y, r=right: torch.bucketize(x, y, right=r) + 1, G(v), G(table), grad=False, native=True)
        lead = shape(1, 2, 3)
        Sample("searchsorted rows", "x:searchsorted(y, %s)" % lua, lambda x, y, r=right: torch.searchsorted(x, y, right=r) + 1,
               G(sample_values(lead + [n], kind, -3, 4).sort()[0]), G(sample_values(lead + [m], kind, -4, 5)), grad=False, native=True)
    for text in ("x:sort(3)", "x:sort(1, {ascending = true})", "x:sort(1, {descending = 1})", "x:sort(1, true, true, 4)", "x:topk(4, 2)", "x:topk(-1)",
                 "x:topk(1.5)", "x:kthvalue(0)", "x:kthvalue(4, 2)", "x:kthvalue(true)", "x:median(3)", "x:cumsum()", "x:cumsum(3)", "x:cumprod(0)",
                 "x:cummax(-3)", "x:logcumsumexp(3)", "x:long():logcumsumexp(1)", "x:bincount()", "x:long():bincount()", "flame.tensor({1, 0}, {dtype = 'i64'}):bincount()",
                 "flame.tensor({1, 2}, {dtype = 'i64'}):bincount(flame.ones(3))", "x:histc(0)", "x:long():histc(3)", "x:histc(3, 2, 1)", "return x:unique({dim = 3})", "x:unique({sorted = 1})",
                 "x:searchsorted(flame.ones(3))", "x:searchsorted(2)", "x:searchsorted(x, {side = 'middle'})", "x:multinomial(0)", "x:multinomial(9)",
                 "flame.tensor({1, -1}):multinomial(1)", "flame.zeros(3):multinomial(1)", "flame.tensor({1, 0 / 0}):multinomial(1)", "flame.randperm(-1)", "flame.randperm(2.5)"):
        Sample("sort errors", text, None, T([2, 3], "f32", .5, 3), grad=False, raises=True)


def shifted(three):
    """Positions of the inverse from 1."""
    return three[0], three[1] + 1, three[2]


def make(scale):
    reductions(scale)
    extremes(scale)
    scans(scale)
    sort_family(scale)
    sum_like(scale)
    counting(scale)
