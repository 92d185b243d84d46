"""What is named as in PyTorch beyond the list of docs/contract.md; arguments by position; points where a
rule has to choose: kinks, ties, edges of a domain, infinities."""
import torch
import torch.nn.functional as F
from sample import DTYPES, R, Sample, T, G, shape

INF, NAN = float("inf"), float("nan")
KINKS = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 2.0, -2.0, 30.0, -30.0]
WILD = [NAN, INF, -INF]


def points(keep, dtype="f64"):
    return G(torch.tensor(keep, dtype=DTYPES[dtype]))


def kinks():
    one = {
        "x:clamp(-1, 1)": lambda x: x.clamp(-1, 1), "x:clamp({min = 0})": lambda x: x.clamp(min=0), "x:clamp({max = 1})": lambda x: x.clamp(max=1),
        "x:clamp_min(0.5)": lambda x: x.clamp_min(0.5), "x:clamp_max(2)": lambda x: x.clamp_max(2),
        "x:threshold(1, 20)": lambda x: F.threshold(x, 1, 20), "x:hardshrink()": F.hardshrink, "x:hardshrink(2)": lambda x: F.hardshrink(x, 2),
        "x:softshrink()": F.softshrink, "x:softshrink(2)": lambda x: F.softshrink(x, 2), "x:tanhshrink()": F.tanhshrink,
        "x:sinc()": torch.sinc, "x:relu6()": F.relu6, "x:hardtanh(-2, 3)": lambda x: F.hardtanh(x, -2, 3),
        "x:rrelu()": F.rrelu, "x:rrelu(0.1, 0.5)": lambda x: F.rrelu(x, .1, .5), "x:deg2rad()": torch.deg2rad, "x:rad2deg()": torch.rad2deg,
        "x:abs():sqrt()": lambda x: x.abs().sqrt(), "x:square():sqrt()": lambda x: x.square().sqrt(), "(x ^ 2)": lambda x: x ** 2, "(x ^ 0)": lambda x: x ** 0,
        "(x ^ 1)": lambda x: x ** 1, "(x ^ 3)": lambda x: x ** 3, "x:abs() ^ 0.5": lambda x: x.abs() ** 0.5, "2 ^ x": lambda x: 2 ** x, "0 ^ x:abs()": lambda x: 0 ** x.abs(),
        "x:maximum(x:neg())": lambda x: torch.maximum(x, -x), "x:fmod(2)": lambda x: x.fmod(2), "x % 2": lambda x: x.remainder(2), "x:sign()": torch.sign,
        "x:norm()": lambda x: x.norm(), "x:var({correction = 1})": lambda x: x.var(), "x:std()": lambda x: x.std(), "x:prod()": lambda x: x.prod(),
        "x:amax()": lambda x: x.amax(), "x:amin()": lambda x: x.amin(), "x:max()": lambda x: x.max(), "x:min()": lambda x: x.min(), "x:cumprod(1)": lambda x: x.cumprod(0),
        "local v = x:max(1) return v": lambda x: tuple(x.max(0))[:1], "x:logsumexp(1)": lambda x: x.logsumexp(0), "x:xlogy(x:abs() + 1)": lambda x: torch.xlogy(x, x.abs() + 1),
        "x:huber_loss(x * 0)": lambda x: F.huber_loss(x, x * 0), "x:smooth_l1_loss(x * 0)": lambda x: F.smooth_l1_loss(x, x * 0), "x:l1_loss(x * 0)": lambda x: F.l1_loss(x, x * 0),
        "x:softplus()": F.softplus, "x:logsigmoid()": F.logsigmoid, "x:elu(0.5)": lambda x: F.elu(x, .5), "x:celu(2)": lambda x: F.celu(x, 2), "x:selu()": F.selu,
        "x:mish()": F.mish, "x:leaky_relu(0.2)": lambda x: F.leaky_relu(x, .2), "x:atan2(x)": lambda x: torch.atan2(x, x), "x:hypot(x)": lambda x: torch.hypot(x, x),
        "x:copysign(-1)": lambda x: x.copysign(-1), "x:frac()": torch.frac, "x:where(x:gt(0), x * 2)": None, "x:logaddexp(x)": lambda x: torch.logaddexp(x, x),
        "x:nan_to_num()": torch.nan_to_num, "x:normalize(2, 1)": lambda x: F.normalize(x, 2, 0), "x:logit(0.1)": lambda x: torch.logit(x, .1), "x:hardsigmoid()": lambda x: F.relu6(x + 3) / 6,
        "x:masked_fill(x:gt(0), 2)": lambda x: x.masked_fill(x > 0, 2), "x:expm1()": torch.expm1, "x:log1p()": torch.log1p, "x:erf()": torch.erf, "x:erfc()": torch.erfc,
    }
    skip_wild = ("fmod", "% 2", "atan2", "prod", "var", "std", "norm", "logsumexp", "amax", "amin", "x:max", "x:min", "cumprod", "huber", "smooth", "l1_", "xlogy", "hypot",
                 "copysign", "logaddexp", "sinc", "0 ^", "shrink", "logit", "elu(", "(x ^ 0)", "abs():sqrt", "square():sqrt", "sign", "mish", "rrelu", "erf")
    for text, fn in one.items():
        if fn is None:
            continue
        Sample("at kinks", text, fn, points(KINKS), native=True, second=False)
        Sample("at kinks f32", text, fn, points(KINKS, "f32"), native=True, second=False, tol=3)
        if not any(s in text for s in skip_wild):
            Sample("at infinities", text, fn, points(WILD), native=True, second=False)
        for v in WILD:
            if ("softshrink" in text or "sign" in text) and v != v:
                continue                                     # NaN here; 0 in PyTorch, where not later NaN
            Sample("value at infinities", text, fn, points([1.0, v, -2.0]), native=True, grad=False)
    for text, fn in (("x:sqrt()", torch.sqrt), ("x:rsqrt()", torch.rsqrt), ("x:log()", torch.log), ("x:cbrt()", None), ("x ^ 0.5", lambda x: x ** .5), ("x ^ -1", lambda x: x ** -1),
                     ("x:reciprocal()", torch.reciprocal), ("x:xlogy(2)", lambda x: torch.xlogy(x, 2)), ("x ^ 1.5", lambda x: x ** 1.5)):
        if fn is not None:
            Sample("at 0", text, fn, points([0.0, 1.0]), native=True, second=False)
    for text, fn in (("x:asin()", torch.asin), ("x:acos()", torch.acos), ("x:atanh()", torch.atanh), ("x:erfinv()", torch.erfinv), ("x:acosh()", torch.acosh)):
        Sample("at the edge", text, fn, points([1.0]), native=True, second=False)
    for base in ([0.0, 0.0, 2.0, -1.0], [0.0, 3.0, 2.0, -1.0]):
        for e in ([2.0, 0.0, 0.0, 3.0], [0.5, 1.0, -1.0, 2.0]):
            Sample("pow at 0", "x ^ y", lambda x, y: x ** y, points(base), G(torch.tensor(e, dtype=torch.float64), False), native=True, second=False)
    Sample("pow at 0", "y ^ x", lambda x, y: y ** x, points([2.0, 0.0, 1.0, 3.0]), G(torch.tensor([0.0, 0.0, 2.0, 1.5], dtype=torch.float64), False), native=True, second=False)
    tied = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [NAN, 1.0, NAN]], dtype=torch.float64)
    for text, fn in (("x:max(2)", lambda x: tuple(x.max(1))[:1]), ("x:amax(2)", lambda x: x.amax(1)), ("x:maximum(y)", None), ("x:sum(2)", lambda x: x.sum(1))):
        if fn is not None:
            Sample("ties", "local v = %s return v" % text, fn, G(tied[:2]), native=True, second=False)
    for lo, hi in ((2.0, 1.0), (NAN, 1.0), (0.0, NAN), (INF, -INF), (-INF, INF)):
        word = lambda v: "(0/0)" if v != v else "math.huge" if v == INF else "-math.huge" if v == -INF else repr(v)   # noqa: E731
        Sample("clamp odd bounds", "x:clamp(%s, %s)" % (word(lo), word(hi)), lambda x, lo=lo, hi=hi: x.clamp(lo, hi), points(KINKS), grad=False, native=True)


def elementwise(scale):
    binary = {"xlogy": (torch.xlogy, .1, 3), "xlog1py": (torch.special.xlog1py, .1, 3), "heaviside": (torch.heaviside, -2, 2), "logaddexp2": (torch.logaddexp2, -3, 3),
              "ldexp": (torch.ldexp, -3, 3), "float_power": (torch.float_power, .1, 3)}
    for name, (fn, lo, hi) in binary.items():
        for _ in range(int(12 * scale)):
            d = R.choice(["f32", "f64"])
            s = shape()
            Sample(name, "x:%s(y)" % name, fn, T(s, d, lo, hi), T(s, d, lo, hi), grad=name != "heaviside")
    unary = {"entr": (torch.special.entr, .1, 3), "sinc": (torch.sinc, -3, 3), "logit": (torch.logit, .1, .9), "deg2rad": (torch.deg2rad, -3, 3), "rad2deg": (torch.rad2deg, -3, 3),
             "signbit": (torch.signbit, -2, 2), "positive": (torch.positive, -2, 2), "isposinf": (torch.isposinf, -2, 2), "isneginf": (torch.isneginf, -2, 2),
             "tanhshrink": (F.tanhshrink, -3, 3), "hardshrink": (F.hardshrink, -3, 3), "softshrink": (F.softshrink, -3, 3), "arcsin": (torch.arcsin, -.9, .9),
             "absolute": (torch.absolute, -3, 3), "negative": (torch.negative, -3, 3), "fix": (torch.fix, -3, 3)}
    for name, (fn, lo, hi) in unary.items():
        for _ in range(int(10 * scale)):
            Sample(name, "x:%s()" % name, fn, T(shape(), R.choice(["f32", "f64", "f64"]), lo, hi))
    for name in ("deg2rad", "signbit", "sinc", "logit"):
        Sample(name + " int", "x:%s()" % name, unary[name][0], T([4], "i32", -3, 3))
    Sample("signbit", "x:signbit()", torch.signbit, points([0.0, -0.0, INF, -INF]))
    for _ in range(int(10 * scale)):
        d, s = R.choice(["f32", "f64"]), shape(1, 3)
        Sample("rsub", "x:rsub(y, 2)", lambda x, y: torch.rsub(x, y, alpha=2), T(s, d), T(s, d))
        Sample("isclose", "x:isclose(y, 0.3, 0.1)", lambda x, y: torch.isclose(x, y, .3, .1), T(s, d), T(s, d))
        Sample("isin", "x:isin(y)", torch.isin, T(s, "i32"), T([3], "i32"))
        Sample("threshold", "x:threshold(0.5, -1)", lambda x: F.threshold(x, .5, -1), T(s, d))
        c = R.randint(1, 4)
        Sample("prelu", "x:prelu(y)", F.prelu, T([2, c] + shape(0, 2), d), T([R.choice([1, c])], d))
        k = R.randrange(len(s))
        s[k] = 2 * s[k]
        Sample("glu", "x:glu(%d)" % (k + 1), lambda x, k=k: F.glu(x, k), T(s, d))
        if s[k]:
            Sample("normalize", "x:normalize(%d, %d)" % (2, k + 1), lambda x, k=k: F.normalize(x, 2.0, k), T(s, d), tol=3)


def products(scale):
    for _ in range(int(14 * scale)):
        d, n, m, k, b = R.choice(["f32", "f64"]), R.randint(1, 4), R.randint(1, 4), R.randint(1, 4), R.randint(1, 3)
        Sample("addmv", "x:addmv(y, z, {beta = 0.5, alpha = 2})", lambda x, y, z: torch.addmv(x, y, z, beta=.5, alpha=2), T([n], d), T([n, m], d), T([m], d))
        Sample("addr", "x:addr(y, z)", torch.addr, T([n, m], d), T([n], d), T([m], d))
        Sample("addbmm", "x:addbmm(y, z)", torch.addbmm, T([n, m], d), T([b, n, k], d), T([b, k, m], d))
        Sample("inner", "x:inner(y)", torch.inner, T([n, k], d), T([m, k], d))
        Sample("tensordot", "x:tensordot(y, 1)", lambda x, y: torch.tensordot(x, y, 1), T([n, k], d), T([k, m], d))
        Sample("tensordot", "x:tensordot(y, {{2, 1}, {1, 3}})", lambda x, y: torch.tensordot(x, y, ([1, 0], [0, 2])), T([n, k], d), T([k, m, n], d))
        Sample("tensordot", "x:tensordot(y, 0)", lambda x, y: torch.tensordot(x, y, 0), T([n], d), T([m], d))
        Sample("vdot", "x:vdot(y)", torch.vdot, T([n], d), T([n], d))
        Sample("pairwise_distance", "x:pairwise_distance(y)", F.pairwise_distance, T([n, k], d), T([n, k], d), tol=3)
        Sample("dist", "x:dist(y, 3)", lambda x, y: torch.dist(x, y, 3), T([n, k], d), T([n, k], d), tol=3)
        Sample("pdist", "x:pdist()", torch.pdist, T([n + 1, k], d, expand=False), tol=5, second=False)
        Sample("cov", "x:cov()", torch.cov, T([n, k + 1], d), tol=4)
        Sample("corrcoef", "x:corrcoef()", torch.corrcoef, T([n, k + 2], d, expand=False, plain=True), tol=40)


def reductions(scale):
    for _ in range(int(12 * scale)):
        d, s = R.choice(["f32", "f64"]), [n + 1 for n in shape(1, 3, empty=0)]
        k, n = R.randrange(len(s)), R.randint(0, 3)
        Sample("nansum", "x:nansum(%d)" % (k + 1), lambda x, k=k: x.nansum(k), T(s, d))
        Sample("nanmean", "x:nanmean(%d)" % (k + 1), lambda x, k=k: x.nanmean(k), T(s, d))
        Sample("var_mean", "flame.var_mean(x, %d)" % (k + 1), lambda x, k=k: torch.var_mean(x, k), T(s, d, expand=False), tol=3)
        Sample("std_mean", "flame.std_mean(x, %d, {keepdim = true})" % (k + 1), lambda x, k=k: torch.std_mean(x, k, keepdim=True), T(s, d, expand=False), tol=3e4)
        Sample("var unbiased", "x:var(%d, false, true)" % (k + 1), lambda x, k=k: x.var(k, False, True), T(s, d, expand=False), tol=3)
        Sample("var unbiased", "x:var(false)", lambda x: x.var(False), T(s, d, expand=False), tol=3)
        Sample("std unbiased", "x:std({unbiased = false})", lambda x: x.std(unbiased=False), T(s, d, expand=False), tol=3)
        Sample("aminmax", "x:aminmax({dim = %d})" % (k + 1), lambda x, k=k: torch.aminmax(x, dim=k), T(s, d, expand=False))
        Sample("diff", "x:diff(%d, %d)" % (n, k + 1), lambda x, k=k, n=n: torch.diff(x, n, k), T(s, d))
        Sample("trapezoid", "x:trapezoid(0.5, %d)" % (k + 1), lambda x, k=k: torch.trapezoid(x, dx=.5, dim=k), T(s, d))
        Sample("trapezoid x", "x:trapz(y)", lambda x, y: torch.trapezoid(x, y), T(s, d), T([s[-1]], d))
        Sample("cumulative_trapezoid", "x:cumulative_trapezoid(nil, %d)" % (k + 1), lambda x, k=k: torch.cumulative_trapezoid(x, dim=k), T(s, d))
        q = R.choice([0.0, 0.3, 0.5, 0.75, 1.0])
        Sample("quantile", "x:quantile(%r, %d)" % (q, k + 1), lambda x, k=k, q=q: torch.quantile(x, q, k), T(s, d, expand=False), tol=3)
        Sample("quantile", "x:quantile(%r)" % q, lambda x, q=q: torch.quantile(x, q), T(s, d, expand=False), tol=3)
        for how in ("lower", "higher", "midpoint", "nearest"):
            Sample("quantile how", 'x:quantile(%r, %d, {interpolation = "%s", keepdim = true})' % (q, k + 1, how),
                   lambda x, k=k, q=q, how=how: torch.quantile(x, q, k, True, interpolation=how), T(s, "f64", expand=False), second=False)
    Sample("quantile many", "x:quantile(y, 2)", lambda x, y: torch.quantile(x, y, 1), T([3, 5], "f64", expand=False), G(torch.tensor([0.0, .25, .9], dtype=torch.float64), False))
    Sample("nansum nan", "x:nansum()", lambda x: x.nansum(), points([1.0, NAN, 2.0]), second=False)


def shapes(scale):
    for _ in range(int(12 * scale)):
        d, s = R.choice(["f32", "i64"]), shape(2, 3)
        k = R.randint(-5, 5)
        axes = R.sample(range(len(s)), 2)
        Sample("rot90", "x:rot90(%d, {%d, %d})" % (k, axes[0] + 1, axes[1] + 1), lambda x, k=k, axes=axes: torch.rot90(x, k, axes), T(s, d))
        Sample("fliplr", "x:fliplr()", torch.fliplr, T(s, d))
        Sample("flipud", "x:flipud()", torch.flipud, T(s, d))
        Sample("ravel", "x:ravel()", torch.ravel, T(s, d))
        for name in ("hstack", "vstack", "dstack", "column_stack"):
            one = shape(0, 3) if R.random() < .7 else [R.randint(1, 3)]
            Sample(name, "flame.%s({x, y})" % name, lambda x, y, name=name: getattr(torch, name)([x, y]), T(one, d), T(one, d))
        for n in (1, 2, 3):
            Sample("atleast", "x:atleast_%dd()" % n, getattr(torch, "atleast_%dd" % n), T(shape(), d))
        n, a = R.randint(1, 4), R.randrange(len(s))
        Sample("tensor_split", "x:tensor_split(%d, %d)" % (n, a + 1), lambda x, n=n, a=a: list(torch.tensor_split(x, n, a)), T(s, d))
        Sample("tensor_split cuts", "x:tensor_split({1, 2}, %d)" % (a + 1), lambda x, a=a: list(torch.tensor_split(x, [1, 2], a)), T(s, d))
        Sample("block_diag", "flame.block_diag(x, y)", torch.block_diag, T(shape(2, 2), d), T(shape(2, 2), d))
        Sample("cartesian_prod", "flame.cartesian_prod(x, y)", torch.cartesian_prod, T([n], d), T([R.randint(1, 3)], d))
        Sample("combinations", "x:combinations(%d)" % n, lambda x, n=n: torch.combinations(x, n), T([4], d))
        Sample("combinations", "x:combinations(2, true)", lambda x: torch.combinations(x, 2, True), T([n], d))
        o = R.randint(-2, 2)
        Sample("diag", "x:diag(%d)" % o, lambda x, o=o: torch.diag(x, o), T([n], d))
        Sample("diag", "x:diag(%d)" % o, lambda x, o=o: torch.diag(x, o), T([3, 4], d))
        Sample("diag_embed", "x:diag_embed(%d)" % o, lambda x, o=o: torch.diag_embed(x, o), T(s, d))
        Sample("diag_embed", "x:diag_embed(%d, 1, -2)" % o, lambda x, o=o: torch.diag_embed(x, o, 0, -2), T([2, 3], d))
        Sample("tril_indices", "flame.tril_indices(%d, 3, %d)" % (n, o), lambda n=n, o=o: torch.tril_indices(n, 3, o) + 1, grad=False)
        Sample("triu_indices", "flame.triu_indices(3, %d, %d)" % (n, o), lambda n=n, o=o: torch.triu_indices(3, n, o) + 1, grad=False)
        Sample("pixel_shuffle", "x:pixel_shuffle(2)", lambda x: F.pixel_shuffle(x, 2), T([1, 4, 2, 3], d))
        Sample("pixel_unshuffle", "x:pixel_unshuffle(2)", lambda x: F.pixel_unshuffle(x, 2), T([1, 2, 4, 2], d))
        Sample("view_as", "x:view_as(y)", lambda x, y: x.reshape(y.shape), T([2, 3], d), T([3, 2], d))
        Sample("swapaxes", "x:swapaxes(1, -1)", lambda x: x.swapaxes(0, -1), T(s, d))
    Sample("logspace", "flame.logspace(0, 3, 5, {dtype = 'f64'})", lambda: torch.logspace(0, 3, 5, dtype=torch.float64), grad=False)
    Sample("logspace", "flame.logspace(0, 3, 4, 2)", lambda: torch.logspace(0, 3, 4, 2), grad=False)
    for n in (1, 2, 3, 10, 50):
        Sample("linspace", "flame.linspace(-0.3, 0.7, %d, {dtype = 'f64'})" % n, lambda n=n: torch.linspace(-.3, .7, n, dtype=torch.float64), grad=False)
        Sample("linspace int", "flame.linspace(0, 10, %d, {dtype = 'i64'})" % n, lambda n=n: torch.linspace(0, 10, n, dtype=torch.float64).trunc().long(), grad=False)
    Sample("meshgrid xy", 'flame.meshgrid(x, y, {indexing = "xy"})', lambda x, y: list(torch.meshgrid(x, y, indexing="xy")), T([2], "f32"), T([3], "f32"))


def by_position(scale):
    for _ in range(int(14 * scale)):
        d, s = R.choice(["f32", "f64"]), shape(2, 3, empty=0)
        k = R.randrange(len(s))
        idx = torch.randint(0, s[k], s, generator=torch.Generator().manual_seed(R.randint(0, 9999)))
        one = G(idx + 1)
        for how in ("sum", "prod", "mean", "amax", "amin"):
            for own in (True, False):
                Sample("scatter_reduce", 'x:scatter_reduce(%d, y, z, "%s", {include_self = %s})' % (k + 1, how, "true" if own else "false"),
                       lambda x, y, z, k=k, how=how, own=own: x.scatter_reduce(k, y - 1, z, how, include_self=own), T(s, d, .3, 3, expand=False), one, T(s, d, .3, 3, expand=False),
                       grad=how in ("sum", "mean"), second=False)
        Sample("take_along_dim", "x:take_along_dim(y, %d)" % (k + 1), lambda x, y, k=k: torch.take_along_dim(x, y - 1, k), T(s, d), one)
        n = R.randint(1, s[k])
        rows = torch.randperm(s[k], generator=torch.Generator().manual_seed(R.randint(0, 999)))[:n]
        part = list(s)
        part[k] = n
        Sample("index_copy", "x:index_copy(%d, y, z)" % (k + 1), lambda x, y, z, k=k: x.index_copy(k, y - 1, z), T(s, d), G(rows + 1), T(part, d))
        Sample("select_scatter", "x:select_scatter(y, %d, 1)" % (k + 1), lambda x, y, k=k: torch.select_scatter(x, y, k, 0), T(s, d), T(s[:k] + s[k + 1:], d))
        Sample("slice_scatter", "x:slice_scatter(y, %d, 1, %d)" % (k + 1, n), lambda x, y, k=k, n=n: torch.slice_scatter(x, y, dim=k, start=0, end=n, step=1), T(s, d), T(part, d))
        mask = torch.rand(s, generator=torch.Generator().manual_seed(R.randint(0, 999))) < .5
        Sample("masked_scatter", "x:masked_scatter(y, z)", lambda x, y, z: x.masked_scatter(y, z), T(s, d), G(mask), T([max(1, mask.numel())], d), second=False)
        Sample("bucketize", "x:bucketize(y)", lambda x, y: torch.bucketize(x, y) + 1, T(s, d), G(torch.tensor([-1.0, 0.5, 2.0], dtype=DTYPES[d])), grad=False)
        Sample("bucketize", "x:bucketize(y, {right = true})", lambda x, y: torch.bucketize(x, y, right=True) + 1, T(s, d), G(torch.tensor([-1.0, 0.5, 2.0], dtype=DTYPES[d])), grad=False)
    for _ in range(int(8 * scale)):
        d, n, c = R.choice(["f32", "f64"]), R.randint(1, 4), R.randint(2, 5)
        ids = torch.randint(0, c, [n], generator=torch.Generator().manual_seed(R.randint(0, 999)))
        x, y = T([n, c], d, expand=False), T([n, c], d, .1, .9, track=False)
        sign = G(torch.tensor([R.choice([-1.0, 1.0]) for _ in range(n)], dtype=DTYPES[d]), False)
        many = G(torch.tensor([[R.choice([-1.0, 1.0]) for _ in range(c)] for _ in range(n)], dtype=DTYPES[d]), False)
        Sample("cross_entropy weight", "flame.cross_entropy(x, y, z)", lambda x, y, z: F.cross_entropy(x, y - 1, z), x, G(ids + 1), T([c], d, .3, 2, track=False), tol=3)
        Sample("nll_loss weight", "flame.nll_loss(x, y, z, {reduction = 'sum'})", lambda x, y, z: F.nll_loss(x, y - 1, z, reduction="sum"), x, G(ids + 1), T([c], d, .3, 2, track=False), tol=3)
        Sample("bce weight", "flame.binary_cross_entropy(x, y, z)", F.binary_cross_entropy, T([n, c], d, .1, .9), y, T([c], d, .3, 2, track=False), tol=3, second=False)
        Sample("bce logits weight", "flame.binary_cross_entropy_with_logits(x, y, z, {reduction = 'none'})", lambda x, y, z: F.binary_cross_entropy_with_logits(x, y, z, reduction="none"),
               x, y, T([c], d, .3, 2, track=False), tol=3)
        Sample("cosine_similarity eps", "flame.cosine_similarity(x, y, 2, 1e-6)", lambda x, y: F.cosine_similarity(x, y, 1, 1e-6), x, T([n, c], d), tol=4)
        Sample("triplet position", "flame.triplet_margin_loss(x, y, z, 0.5, 2, 1e-6, true)", lambda x, y, z: F.triplet_margin_loss(x, y, z, .5, 2, 1e-6, True), x, T([n, c], d), T([n, c], d), tol=5)
        Sample("poisson_nll_loss", "flame.poisson_nll_loss(x, y, {full = true})", lambda x, y: F.poisson_nll_loss(x, y, full=True), x, T([n, c], d, 0, 4, track=False), tol=3)
        Sample("poisson_nll_loss", "flame.poisson_nll_loss(x, y, {log_input = false})", lambda x, y: F.poisson_nll_loss(x, y, log_input=False), T([n, c], d, .2, 3), y, tol=3)
        Sample("gaussian_nll_loss", "flame.gaussian_nll_loss(x, y, z)", F.gaussian_nll_loss, x, y, T([n, c], d, .2, 2), tol=3)
        Sample("soft_margin_loss", "flame.soft_margin_loss(x, y)", F.soft_margin_loss, x, many, tol=3)
        Sample("hinge_embedding_loss", "flame.hinge_embedding_loss(x, y)", F.hinge_embedding_loss, x, many, tol=3)
        Sample("multilabel_soft_margin_loss", "flame.multilabel_soft_margin_loss(x, y)", F.multilabel_soft_margin_loss, x, y, tol=3)
        Sample("multi_margin_loss", "flame.multi_margin_loss(x, y)", lambda x, y: F.multi_margin_loss(x, y - 1), x, G(ids + 1), tol=3, second=False)
        Sample("margin_ranking_loss", "flame.margin_ranking_loss(x, y, z, {margin = 0.3})", lambda x, y, z: F.margin_ranking_loss(x, y, z, .3), T([n], d), T([n], d), sign, tol=3)
        Sample("cosine_embedding_loss", "flame.cosine_embedding_loss(x, y, z)", F.cosine_embedding_loss, x, T([n, c], d), sign, tol=5)
        Sample("embedding padding", "flame.embedding(y, x, 2)", lambda x, y: F.embedding(y - 1, x, 1), T([c, 3], d), G(ids + 1))
        Sample("layer_norm eps", "x:layer_norm({%d}, nil, nil, 0.1)" % c, lambda x, c=c: F.layer_norm(x, [c], None, None, .1), x, tol=4)
        Sample("group_norm eps", "x:group_norm(1, nil, nil, 0.1)", lambda x: F.group_norm(x, 1, None, None, .1), x, tol=4)
        Sample("dropout position", "x:dropout(0.5, false)", lambda x: F.dropout(x, .5, False), x)
        Sample("pad position", 'x:pad({1, 2}, "constant", 3)', lambda x: F.pad(x, (1, 2), "constant", 3), x)
        Sample("batch_norm position", "x:batch_norm(y, z, nil, nil, false, 0.1, 0.5)", lambda x, y, z: F.batch_norm(x, y, z, None, None, False, .1, .5), x,
               T([c], d, track=False, plain=True), T([c], d, .2, 2, track=False, plain=True), tol=4)       # torch mistakes strides here


def make(scale):
    kinks()
    elementwise(scale)
    products(scale)
    reductions(scale)
    shapes(scale)
    by_position(scale)
