"""Arguments that torch's own samples of its operators use and random ones rarely meet: broadcasting where
few expect it, options by name, batches of limits, 0-d inputs, several operands of einsum."""
import torch
import torch.nn.functional as F
from sample import DTYPES, R, Sample, T, G, shape

L, INT = torch.linalg, torch.int64


def ints(values):
    return G(torch.tensor(values, dtype=INT))


def by_name(d):
    """{dim =} in place of the axis."""
    for name in "sum mean prod amax amin argmax argmin logsumexp nansum median cumsum cumprod logcumsumexp softmax log_softmax".split():
        s = shape(1, 4, empty=0.0)
        k = R.randrange(len(s))
        f = getattr(F if "softmax" in name else torch, name)

        def fn(x, f=f, k=k, name=name):
            y = f(x, dim=k)
            if name == "median":
                return y[0]
            return y + 1 if name.startswith("arg") else y
        text = "x:%s({dim = %d})" % (name, R.choice([k + 1, k - len(s)]))
        Sample("dim by name", "(%s)" % text, fn, T(s, d), tol=4, native=name in ("median", "argmax", "argmin"))
    s = shape(2, 4, empty=0.0)
    Sample("dim by name", "x:var({dim = {1, 2}, keepdim = true, correction = 0})", lambda x: x.var((0, 1), keepdim=True, unbiased=False), T(s, d), tol=4)
    Sample("dim by name", "flame.cat({x, y}, {dim = -1})", lambda x, y: torch.cat([x, y], -1), T(s, d), T(s, d))
    Sample("dim by name", "x:flatten({end_dim = 2})", lambda x: x.flatten(0, 1), T(s, d))


def broadcasting(d):
    n = R.randint(1, 4)
    Sample("cosine_similarity", "flame.cosine_similarity(x, y, {dim = -2})", lambda x, y: F.cosine_similarity(x, y, -2), T([1, n, 3], d), T([2, 1, 3], d), tol=6)
    mask = G(torch.rand(3, n) < .5)
    Sample("masked_scatter", "x:masked_scatter(y, z)", lambda x, m, s: x.masked_scatter(m, s), T([n], d), mask, T([3, n], d))
    q = G(torch.tensor([.23, .71], dtype=DTYPES[d]))
    for name in ("quantile", "nanquantile"):
        Sample(name, "x:%s(y, 2)" % name, lambda x, q, name=name: getattr(torch, name)(x, q, 1), T([2, 6], d), q, native=True, tol=40)
    Sample("trapezoid", "flame.trapezoid(x, y, {dim = 1})", lambda y, x: torch.trapezoid(y, x, dim=0), T([3, n], d), T([3, n], d), tol=4)
    Sample("logcumsumexp", "(x * 1e4):logcumsumexp(1)", lambda x: (x * 1e4).logcumsumexp(0), T([5], d), tol=1e5, native=True, second=False)
    for dims, s in ((None, [2, 3, 6]), ((0, 2), [2, 6, 3])):
        Sample("tensorsolve", "flame.linalg.tensorsolve(x, y, {dims = %s})" % ("nil" if dims is None else "{1, 3}"), lambda a, b, dims=dims: L.tensorsolve(a, b, dims),
               T(s, d), T([2, 3] if dims is None else [6], d), tol=400, second=False)


def einsums(d):
    for spec in ("ab,bc,cd,de->ae", "ab,ac,ad->abcd", "abc,bcd,cde->ae", "ab,c,bd->adc", "a,b,c->cab", "ab,ab,ab->a", "...a,ab,bc->...c", "aa,ab,b->b", "ab,bc,ca->"):
        size = {c: R.randint(1, 5) for c in "abcde"}
        ins = [T(([2] if "..." in term else []) + [size[c] for c in term.replace("...", "")], d) for term in spec.split("->")[0].split(",")]
        names = ", ".join(["x", "y", "z", "w"][:len(ins)])
        Sample("einsum of several", 'flame.einsum("%s", %s)' % (spec, names), lambda *t, s=spec: torch.einsum(s, *t), *ins, tol=10)


def odd(d):
    Sample("unfold 0-d", "x:unfold(1, 1, 1)", lambda x: x.unfold(0, 1, 1), T([], d))
    Sample("index_reduce 0-d", 'x:index_reduce(1, y + 1, z, "prod")', lambda x, i, s: x.index_reduce(0, i, s, "prod"), T([], d), ints([0]), T([], d))
    Sample("norm of nothing", "flame.linalg.norm(x, 1)", lambda x: L.norm(x, 1), T([0, 5], d))
    Sample("norm of nothing", "flame.linalg.norm(x, math.huge)", lambda x: L.norm(x, float("inf")), T([5, 0], d))
    Sample("local_response_norm", "x:local_response_norm(2)", lambda x: F.local_response_norm(x, 2), T([0, 3, 2], d))
    Sample("bilinear", "flame.bilinear(x, y, z)", F.bilinear, T([0, 3], d), T([0, 4], d), T([5, 3, 4], d))
    Sample("multi_margin_loss", "flame.multi_margin_loss(x, y + 1)", F.multi_margin_loss, T([4], d), ints(2))
    Sample("pdist", "x:pdist({p = 1})", lambda x: F.pdist(x, 1), T([4, 3], d), tol=3, second=False)
    if d == "f64":
        spd = torch.randn(3, 3, dtype=torch.float64)
        spd = spd @ spd.t() + torch.eye(3, dtype=torch.float64)
        Sample("eigh", "local l, v = flame.linalg.eigh(x) return l, v:abs()", lambda x: [v.abs() if v.dim() == 2 else v for v in L.eigh(x)], G(spd), tol=400, second=False)
        Sample("pinv hermitian", "flame.linalg.pinv(x, {hermitian = true})", lambda x: L.pinv(x, hermitian=True), G(spd), tol=400, second=False)
        for adjoint in (False, True):
            Sample("lu_solve", "local lu, p = flame.linalg.lu_factor(x) return flame.linalg.lu_solve(lu, p, y, {adjoint = %s})" % str(adjoint).lower(),
                   lambda a, b, adjoint=adjoint: L.lu_solve(*L.lu_factor(a), b, adjoint=adjoint), G(spd), T([3, 2], d), tol=400, second=False)
    for name, n in (("hfft2", 2), ("hfftn", 3)):
        f = getattr(torch.fft, name)
        Sample(name, "flame.%s(x)" % name, lambda x, f=f: f(torch.view_as_complex(x.contiguous())), T([2, 3, 4, 2], d, plain=True), tol=10)
        g = getattr(torch.fft, "i" + name)
        Sample("i" + name, "flame.i%s(x)" % name, lambda x, g=g: torch.view_as_real(g(x).resolve_conj()), T([2, 3, 4], d), tol=10)


def whole_numbers():
    for d in ("i64", "i32", "i8"):
        Sample("index_add int", "x:index_add(1, y + 1, z, {alpha = -2})", lambda x, i, s: x.index_add(0, i, s, alpha=-2), T([3], d), ints([0, 2]), T([2], d))
        Sample("addbmm int", "x:addbmm(y, z)", torch.addbmm, T([2, 2], d), T([3, 2, 2], d), T([3, 2, 2], d))
        Sample("sum_to_size int", "x:sum_to_size(1, 3)", lambda x: x.sum_to_size(1, 3), T([2, 3], d))
        Sample("add int", "x:add(2, {alpha = 3})", lambda x: x.add(2, alpha=3), T([3], d))
    b = G(torch.tensor([True, False, True]))
    Sample("sign bool", "x:sign()", torch.sign, b)
    Sample("pad bool", "x:pad({1, 1}, {value = true})", lambda x: F.pad(x, (1, 1), value=True), b)
    Sample("masked_fill bool", "x:masked_fill(x, true)", lambda x: x.masked_fill(x, True), b)


def make(scale):
    for _ in range(max(1, int(4 * scale))):
        for d in ("f64", "f32"):
            by_name(d)
            broadcasting(d)
            einsums(d)
            odd(d)
        whole_numbers()
