"""Samples for special functions, integers, losses over paths and lists, signals, LU in LAPACK's
form, and writes of several sources to one place."""
import torch
import torch.nn.functional as F
from sample import DTYPES, G, INTS, R, Sample, T

INF, NAN = float("inf"), float("nan")
L, S = torch.linalg, torch.special


def points(v, d, track=True):
    return G(torch.tensor(v, dtype=DTYPES[d]), track)


def ids(shape, low, high):
    n = 1
    for s in shape:
        n *= s
    return G(torch.tensor([R.randint(low, high) for _ in range(n)], dtype=torch.int64).reshape(shape))


def special(scale):
    spread = [0.0, -0.0, .1, -.1, 1.0, -1.0, 3.5, -7.0, 17.9, 18.1, -25.0, 60.0, 1e-10, .5]
    for d in ("f64", "f32"):
        for name in ("i0", "i0e", "i1", "i1e", "ndtr", "log_ndtr", "sinc"):
            f = getattr(S, name)
            some = [v for v in spread if name != "sinc" or abs(v) != 1e-10]     # torch's gradient has no digits there
            Sample(name, "flame.special.%s(x)" % name, f, points(some, d), tol=40, second=False)
            for shape in ([], [0], [5], [2, 3]):
                Sample(name, "flame.special.%s(x)" % name, f, T(shape, d, -3 if name == "ndtr" else -8, 8), tol=100, second=False)   # torch's tail is rough
        Sample("erfcx", "flame.erfcx(x)", S.erfcx, points([-1.0, 0.0, 1.0, 4.0, 9.0, 11.9, 12.1, 26.0, 1e5], d), tol=40, second=False)
        Sample("ndtri", "flame.ndtri(x)", S.ndtri, points([0.5, 1e-10, 1e-3, .02, .3, .7, .999], d), tol=400, second=False)
        Sample("zeta", "flame.zeta(x, y)", S.zeta, points([2.0, 3.0, 1.5, 1.0, .5, 2.0, 4.0, 2.0], d, False),
               points([1.0, 2.5, .3, 1.0, 1.0, -1.5, -2.0, 0.0], d, False), tol=60)
        for n in (2, 3, 5):
            Sample("polygamma", "flame.polygamma(%d, x)" % n, lambda x, n=n: torch.polygamma(n, x), points([.5, 1.0, 2.5, 10.0, 100.0], d),
                   tol=300, second=False)
        Sample("mvlgamma", "flame.mvlgamma(x, 3)", lambda x: torch.mvlgamma(x, 3), points([1.5, 2.0, 7.0], d), tol=30, second=False)
        a, b = [.5, 1.0, 2.0, 5.0, 200.0, 0.0, 1.0, 1.0, 0.0], [.1, 1.0, 3.0, 2.0, 190.0, 1.0, 0.0, INF, 0.0]
        Sample("igamma", "flame.igamma(x, y)", torch.igamma, points(a, d, False), points(b, d, False), tol=4000)
        Sample("igammac", "flame.igammac(x, y)", torch.igammac, points(a, d, False), points(b, d, False), tol=4000)
        one, two = points([1.0, NAN, 2.0, NAN, 3.0, 3.0], d), points([2.0, 1.0, NAN, NAN, 3.0, -1.0], d)
        Sample("fmax", "flame.fmax(x, y)", torch.fmax, one, two, second=False)
        Sample("fmin", "flame.fmin(x, y)", torch.fmin, one, two, second=False)
        odd = [0.0, -0.0, 1.0, -1.0, .75, 1e-40, -1e38, 3.0, INF, -INF, NAN, .4999999, 2.0 ** -126, 2.0 ** -149]
        Sample("frexp", "local m, e = flame.frexp(x) return m, e", lambda x: list(torch.frexp(x)), points(odd, d, False))
        Sample("nextafter", "flame.nextafter(x, y)", torch.nextafter, points(odd, d, False), points(odd[::-1], d, False), tol=1e-30)
        Sample("xlogy mixed", "x:xlogy(y)", torch.xlogy, T([2, 3], d, .2, 3), T([3], R.choice(["f32", "f64", "i32"]), 1, 4), tol=3, grad=False)
        Sample("logit", "x:logit()", torch.logit, T([4], d, -.5, 1.5), tol=3, second=False)
    for d in INTS:
        low = 0 if d == "u8" else -60
        for _ in range(int(4 * scale)):
            Sample("gcd", "flame.gcd(x, y)", torch.gcd, T([7], d, low, 60), T([7], R.choice(INTS), 0, 60), grad=False)
            Sample("lcm", "flame.lcm(x, y)", torch.lcm, T([7], d, max(low, -11), 11), T([2, 1], d, 0, 11), grad=False)
            Sample("shift", "flame.bitwise_left_shift(x, y)", torch.bitwise_left_shift, T([7], d, low, 60), T([7], d, 0, 6), grad=False)
            Sample("shift", "flame.bitwise_right_shift(x, y)", torch.bitwise_right_shift, T([7], d, low, 60), T([7], d, 0, 6), grad=False)


def losses(scale):
    for _ in range(int(10 * scale)):
        d, how = R.choice(["f32", "f64"]), R.choice(["mean", "sum", "none"])
        n, steps, classes, longest = R.randint(1, 3), R.randint(5, 9), R.randint(2, 5), R.randint(1, 4)
        lengths = torch.tensor([R.randint(0, longest) for _ in range(n)])
        inputs = torch.tensor([R.randint(steps - 2, steps) for _ in range(n)])
        labels, endless = ids([n, longest], 2, classes), R.random() < .5
        text = 'flame.ctc_loss(x:log_softmax(3), y, z, w, {reduction = "%s", zero_infinity = %s})' % (how, str(endless).lower())
        Sample("ctc_loss", text, lambda x, y, z, w, how=how, endless=endless: F.ctc_loss(
            torch.log_softmax(x.double(), 2), y - 1, z, w, reduction=how, zero_infinity=endless).to(x.dtype),
            T([steps, n, classes], d, expand=False, plain=True), labels, G(inputs), G(lengths), tol=60, second=False)
        rows = G(torch.tensor([[3, 0, 1, 2], [1, 2, 3, 4], [0, 1, 1, 1]]))
        Sample("multilabel_margin_loss", 'flame.multilabel_margin_loss(x, y, {reduction = "%s"})' % how,
               lambda x, y, how=how: F.multilabel_margin_loss(x, y - 1, reduction=how), T([3, 4], d, expand=False), rows, tol=5, second=False)
        Sample("bilinear", "flame.bilinear(x, y, z, w)", F.bilinear, T([2, 2, 3], d), T([2, 2, 4], d), T([5, 3, 4], d), T([5], d), tol=5)
        Sample("embedding by frequency", "flame.embedding(y, x, {scale_grad_by_freq = true})",
               lambda x, y: F.embedding(y - 1, x, scale_grad_by_freq=True), T([5, 3], d), ids([2, 3], 1, 5), second=False)
        for mode in ("sum", "mean", "max"):
            Sample("embedding_bag", 'flame.embedding_bag(y, x, {mode = "%s", padding_idx = 2})' % mode,
                   lambda x, y, mode=mode: F.embedding_bag(y - 1, x, mode=mode, padding_idx=1), T([5, 3], d, expand=False, plain=True),
                   ids([3, 3], 1, 3), tol=4, second=False)
            Sample("embedding_bag", 'flame.embedding_bag(y, x, z, {mode = "%s"})' % mode,
                   lambda x, y, z, mode=mode: F.embedding_bag(y - 1, x, z - 1, mode=mode), T([5, 3], d, expand=False, plain=True),
                   ids([6], 1, 5), G(torch.tensor([1, 3, 3, 7])), tol=4, second=False)


def signals(scale):
    real = torch.view_as_real
    for _ in range(int(6 * scale)):
        d, hop, wide = R.choice(["f32", "f64"]), R.choice([4, 5]), R.choice([16, 10])
        centre, half, normal = (R.random() < .5 for _ in range(3))
        Sample("stft", "local y = flame.stft(x, 16, {hop_length = %d, win_length = %d, window = y, center = %s, onesided = %s, "
               "normalized = %s}) return y" % (hop, wide, str(centre).lower(), str(half).lower(), str(normal).lower()),
               lambda x, y, hop=hop, wide=wide, centre=centre, half=half, normal=normal: real(torch.stft(
                   x, 16, hop, wide, y, centre, normalized=normal, onesided=half, return_complex=True)),
               T([2, 40], d, expand=False), T([wide], d, .5, 1.5), tol=40, second=False)
        Sample("istft", "local q = flame.stft(x, 16, {hop_length = 4, window = y}) return flame.istft(q, 16, {hop_length = 4, window = y})",
               lambda x, y: torch.istft(torch.stft(x, 16, 4, window=y, return_complex=True), 16, 4, window=y), T([2, 40], d, expand=False),
               T([16], d, .5, 1.5), tol=400, second=False)
        norm, n = R.choice(["backward", "ortho", "forward"]), R.choice([5, 8])
        Sample("hfft", 'flame.hfft(x, {n = %d, norm = "%s"})' % (n, norm),
               lambda x, n=n, norm=norm: torch.fft.hfft(torch.view_as_complex(x.contiguous()), n, norm=norm), T([3, 5, 2], d), tol=20)
        Sample("ihfft", 'flame.ihfft(x, {n = %d, norm = "%s"})' % (n, norm),
               lambda x, n=n, norm=norm: real(torch.fft.ihfft(x, n, norm=norm).resolve_conj()), T([3, 6], d), tol=20)
        order = R.choice([1, 2])
        Sample("gradient", "flame.gradient(x, {spacing = 0.5, edge_order = %d})" % order,
               lambda x, order=order: list(torch.gradient(x, spacing=.5, edge_order=order)), T([4, 5], d, expand=False), tol=8)
        Sample("gradient at", "flame.gradient(x, {spacing = {y}, dim = 2, edge_order = %d})" % order,
               lambda x, y, order=order: list(torch.gradient(x, spacing=(y,), dim=1, edge_order=order)), T([4, 5], d, expand=False),
               points([0.0, .5, 1.7, 2.0, 4.0], d, False), tol=8)
        Sample("mode", "(x:mode(-1))", lambda x: torch.mode(x, -1)[0], T([3, 6], R.choice(["i64", "f32", "u8"]), 0, 3), grad=False)
        Sample("diff around", "x:diff({n = 2, dim = 1, prepend = y, append = z})",
               lambda x, y, z: torch.diff(x, n=2, dim=0, prepend=y, append=z), T([4, 3], d), T([1, 3], d), T([2, 3], d))
        Sample("cov weights", "x:cov({fweights = y, aweights = z})", lambda x, y, z: torch.cov(x, fweights=y, aweights=z),
               T([3, 4], d, expand=False), G(torch.tensor([1, 2, 3, 1])), points([.5, 1.0, 2.0, 1.0], d, False), tol=8)


def factors(scale):
    for _ in range(int(6 * scale)):
        d, n, lead = R.choice(["f32", "f64"]), R.randint(1, 5), R.choice([[], [3], [2, 1]])
        base = T(lead + [n, n], "f64", -1, 1, plain=True).base + 3 * torch.eye(n, dtype=torch.float64)
        x = G(base.to(DTYPES[d]))
        Sample("lu_factor", "local l, p = flame.linalg.lu_factor(x) return l, p", lambda x: list(L.lu_factor(x)), x, tol=3000, second=False)
        Sample("lu_solve", "local l, p = flame.linalg.lu_factor(x) return flame.linalg.lu_solve(l, p, y)",
               lambda x, y: L.lu_solve(*L.lu_factor(x), y), x, T(lead + [n, 2], d), tol=3000, second=False)
        Sample("householder_product", "flame.linalg.householder_product(x, y)", L.householder_product, T([4, 3], d, expand=False),
               T([2], d), tol=60, second=False)
        for mode in ("bilinear", "bicubic"):
            size = [R.randint(2, 9), R.randint(2, 9)]
            Sample("antialias", 'x:interpolate({size = {%d, %d}, mode = "%s", antialias = true})' % (*size, mode),
                   lambda x, size=size, mode=mode: F.interpolate(x, size, mode=mode, antialias=True), T([1, 2, 7, 6], d), tol=30, second=False)
        for mode in ("bilinear", "nearest"):
            pad, align = R.choice(["zeros", "border", "reflection"]), R.random() < .5
            Sample("grid_sample 3-d", 'flame.grid_sample(x, y, {mode = "%s", padding_mode = "%s", align_corners = %s})'
                   % (mode, pad, str(align).lower()), lambda x, y, mode=mode, pad=pad, align=align: F.grid_sample(x, y, mode, pad, align),
                   T([1, 2, 3, 4, 2], d), T([1, 2, 3, 2, 3], d, -1.5, 1.5), tol=30, second=False)


def by_position(scale):
    for _ in range(int(8 * scale)):
        d, shape = R.choice(["f32", "f64"]), [R.randint(1, 4) for _ in range(3)]
        k = R.randrange(3)
        n, many = shape[k], [s if i != k else R.randint(1, 6) for i, s in enumerate(shape)]
        idx, src = ids(many, 1, n), T(many, d, expand=False)
        for how in ("sum", "prod", "mean", "amax", "amin"):
            own = R.random() < .5
            Sample("scatter_reduce many", 'x:scatter_reduce(%d, y, z, "%s", {include_self = %s})' % (k + 1, how, str(own).lower()),
                   lambda x, y, z, k=k, how=how, own=own: x.scatter_reduce(k, y - 1, z, how, include_self=own), T(shape, d), idx, src,
                   second=False, tol=4)
        row = ids([many[k]], 1, n)
        for how in ("prod", "amax", "amin"):
            Sample("index_reduce", 'x:index_reduce(%d, y, z, "%s")' % (k + 1, how),
                   lambda x, y, z, k=k, how=how: x.index_reduce(k, y - 1, z, how), T(shape, d), row, src, second=False, tol=4)
        total = shape[0] * shape[1] * shape[2]
        Sample("put", "x:put(y, z, {accumulate = true})", lambda x, y, z: x.put(y - 1, z, True), T(shape, d), ids([3], 1, total), T([3], d))
        Sample("index_put", "x:index_put({y, {}, z}, w, true)",
               lambda x, y, z, w: x.clone().index_put((y - 1, torch.arange(x.shape[1])[:, None], z - 1), w.T, True).reshape(x.shape),
               T(shape, d), ids([4], 1, shape[0]), ids([4], 1, shape[2]), T([4, shape[1]], d))
        Sample("renorm", "x:renorm(2, %d, 1.5)" % (k + 1), lambda x, k=k: x.renorm(2, k, 1.5), T([2, 3, 4], d, expand=False), tol=6, second=False)
        zero, at = T([], d), ids([R.randint(1, 3)], 1, 1)
        Sample("gather 0-d", "x:gather(1, y)", lambda x, y: x.gather(0, y - 1), zero, at)
        Sample("index_select 0-d", "x:index_select(1, y)", lambda x, y: x.index_select(0, y - 1), T([2, 3], d), ids([], 1, 2))
        Sample("scatter_add 0-d", "x:scatter_add(1, y, z)", lambda x, y, z: x.scatter_add(0, y - 1, z), zero, ids([1], 1, 1), T([1], d))
        for name in ("scatter", "scatter_add", "index_add", "index_copy"):
            Sample("other dtype", "x:%s(1, y, z)" % name, lambda x, y, z, name=name: getattr(x, name)(0, y - 1, z), T([3], "f32"),
                   ids([2], 1, 3), T([2], "f64"), raises=True, grad=False)


def make(scale):
    special(scale)
    losses(scale)
    signals(scale)
    factors(scale)
    by_position(scale)
