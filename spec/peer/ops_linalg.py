"""Samples of linear algebra. Where signs of vectors are free, squares and products are compared."""
import torch
from sample import R, Sample, T, braces, shape

L = torch.linalg


def batch():
    return [0 if R.random() < .05 else R.randint(1, 3) for _ in range(R.choice([0, 0, 1, 2]))]


def dtype():
    return R.choice(["f32", "f64", "f64"])


def near_one(s, d):
    """A matrix that an identity is added to; and what to add, as Lua and torch."""
    n = s[-1]
    return T(s, d, -1, 1), "(x + flame.eye(%d) * %d)" % (n, n + 1), lambda x, n=n: x + torch.eye(n, dtype=x.dtype) * (n + 1)


def equations(scale):
    for _ in range(int(30 * scale)):
        b, n, k, d = batch(), R.choice([0, 1, 2, 3, 4, 5, 30]), R.randint(0, 3), dtype()
        x, lua, fix = near_one(b + [n, n], d)
        Sample("inverse", R.choice(["%s:inverse()", "flame.linalg.inv(%s)"]) % lua, lambda x, f=fix: L.inv(f(x)), x)
        if n < 30:
            Sample("det", lua + ":det()", lambda x, f=fix: L.det(f(x)), x, tol=4)
        if n:
            Sample("slogdet", "flame.slogdet(%s)" % lua, lambda x, f=fix: tuple(L.slogdet(f(x))), x)
            Sample("logdet", "flame.logdet(%s)" % lua, lambda x, f=fix: torch.logdet(f(x)), x)
            Sample("matrix_power", "%s:matrix_power(-2)" % lua, lambda x, f=fix: L.matrix_power(f(x), -2), x, tol=4)
            Sample("matrix_power", "x:matrix_power(3)", lambda x: L.matrix_power(x, 3), T(b + [n, n], d, expand=False), tol=4)
            Sample("matrix_exp", "x:matrix_exp()", torch.matrix_exp, T(b + [n, n], d, -1, 1), tol=4)
        Sample("inv_ex", "flame.linalg.inv_ex(%s)" % lua, lambda x, f=fix: tuple(L.inv_ex(f(x))), x)
        Sample("cholesky_ex", "flame.linalg.cholesky_ex(%s:matmul(%s:transpose(-2, -1)))" % (lua, lua),
               lambda x, f=fix: tuple(L.cholesky_ex(f(x) @ f(x).mT)), x, tol=2)
        Sample("solve_ex", "flame.linalg.solve_ex(%s, y)" % lua, lambda x, y, f=fix: tuple(L.solve_ex(f(x), y)), x,
               T(b + [n, k], d), tol=2)
        other = [1 if R.random() < .3 else s for s in b]
        Sample("solve", "flame.solve(%s, y)" % lua, lambda x, y, f=fix: L.solve(f(x), y), x, T(other + [n, k], d))
        Sample("solve vector", "flame.solve(%s, y)" % lua, lambda x, y, f=fix: L.solve(f(x), y), x, T(b + [n], d), grad=n != 1)
        Sample("solve left", "flame.solve(%s, y, {left = false})" % lua, lambda x, y, f=fix: L.solve(f(x), y, left=False),
               x, T(other + [k, n], d))
        for up in (False, True):
            o = "upper = %s" % str(up).lower()
            Sample("cholesky", "flame.cholesky(%s:matmul(%s:transpose(-2, -1)), {%s})" % (lua, lua, o),
                   lambda x, f=fix, u=up: L.cholesky(f(x) @ f(x).mT, upper=u), x, tol=2)
            for unit in (False, True):
                Sample("solve_triangular", "flame.linalg.solve_triangular(%s, y, {%s, unitriangular = %s})" % (
                    lua, o, str(unit).lower()),
                    lambda x, y, f=fix, u=up, w=unit: L.solve_triangular(f(x), y, upper=u, unitriangular=w),
                    x, T(b + [n, k], d, -1, 1), tol=8)
            Sample("solve_triangular", "flame.linalg.solve_triangular(%s, y, {%s, left = false})" % (lua, o),
                   lambda x, y, f=fix, u=up: L.solve_triangular(f(x), y, upper=u, left=False), x, T(b + [k, n], d))
            if n and k:
                Sample("cholesky_solve", "flame.cholesky_solve(y, %s, {%s})" % (lua, o),
                       lambda x, y, f=fix, u=up: torch.cholesky_solve(y, f(x).triu() if u else f(x).tril(), upper=u),
                       x, T(b + [n, k], d), tol=4)


def singular(scale):
    for _ in range(int(6 * scale)):
        n = R.randint(2, 4)
        x = T([n, n], "f64", -2, 2, plain=True)
        x.base[-1] = x.base[0] * 2
        Sample("det singular", "x:det() + 1", lambda x: L.det(x) + 1, x, second=False, grad=False)
        zero = T([2, n, n], "f64", plain=True, track=False)
        zero.base[1] = 0
        for lua in ("x:inverse()", "flame.solve(x, x)", "x:cholesky()"):
            Sample("singular raises", lua, lambda x: L.cholesky(x) + L.inv(x), zero, grad=False, raises=True)
        Sample("wrong shape raises", "x:inverse()", L.inv, T([2, 3], "f64"), grad=False, raises=True)
        Sample("wrong dtype raises", "x:inverse()", L.inv, T([3, 3], R.choice(["i32", "bool", "f16"])), grad=False, raises=True)
        Sample("surplus raises", "x:inverse(1)", lambda x: L.inv(x, 1, 2), T([3, 3], "f64"), grad=False, raises=True)


def factors(scale):
    for _ in range(int(24 * scale)):
        b, m, n, d = batch(), R.randint(1, 5), R.randint(1, 5), dtype()
        if R.random() < .08:
            b, m, n = [], R.choice([26, 40]), R.choice([26, 30])
        k, x = min(m, n), lambda: T(b + [m, n], d, expand=False)                # noqa: E731
        far = x()
        Sample("lu", "flame.linalg.lu(x)", lambda x: tuple(L.lu_factor(x)[0:0]) + tuple(torch.lu_unpack(*L.lu_factor(x))), far,
               tol=40, second=False)
        Sample("qr", "local q, r = flame.qr(x) return q:abs(), r:abs(), q:matmul(r)",
               lambda x: (lambda q, r: (q.abs(), r.abs(), q @ r))(*L.qr(x)), x(), tol=200)
        Sample("qr complete", 'local q, r = flame.linalg.qr(x, {mode = "complete"}) return q:matmul(r), r:abs()',
               lambda x: (lambda q, r: (q @ r, r.abs()))(*L.qr(x, "complete")), x(), grad=m <= n, tol=200)
        Sample("qr r", 'local _, r = flame.linalg.qr(x, "r") return r:abs()', lambda x: L.qr(x, "r")[1].abs(), x(), grad=False,
               tol=20)
        Sample("geqrf", "x:geqrf()", lambda x: tuple(torch.geqrf(x)), x(), grad=False, tol=40)
        left, turn, s = R.random() < .5, R.random() < .5, [m, R.randint(1, 3)]
        Sample("ormqr", "x:narrow(-1, 1, %d):ormqr(y, z, {left = %s, transpose = %s})" % (k, str(left).lower(), str(turn).lower()),
               lambda x, y, z, o=(left, turn), k=k: torch.ormqr(x[..., :k].contiguous(), y, z.contiguous(), *o), x(), T(b + [k], d),
               T(b + (s if left else s[::-1]), d), grad=False, tol=100)
        Sample("svd", "local u, s, v = x:svd() return s, u * u, v * v, (u * s:unsqueeze(-2)):matmul(v:transpose(-2, -1))",
               lambda x: (lambda u, s, v: (s, u * u, v * v, (u * s.unsqueeze(-2)) @ v.mT))(*torch.svd(x)), x(), tol=1000)
        Sample("linalg.svd", "local u, s, vh = flame.linalg.svd(x, {full_matrices = false}) return s, u:matmul(vh)",
               lambda x: (lambda u, s, v: (s, u @ v))(*L.svd(x, full_matrices=False)), x(), tol=1000)
        Sample("linalg.svd full", "local u, s, vh = flame.linalg.svd(x) return s, u:matmul(u:transpose(-2, -1)), "
               "vh:matmul(vh:transpose(-2, -1))",
               lambda x: (lambda u, s, v: (s, u @ u.mT, v @ v.mT))(*L.svd(x)), x(), grad=False, tol=20)
        Sample("svdvals", "flame.linalg.svdvals(x)", L.svdvals, x(), tol=200, second=k == 1)
        Sample("pinv", "flame.linalg.pinv(x)", L.pinv, x(), tol=4000, second=False)
        Sample("matrix_rank", "flame.linalg.matrix_rank(x)", L.matrix_rank, x(), grad=False)
        Sample("lstsq", "local x, r, k = flame.lstsq(x, y) return x, r, k", lambda x, y: tuple(L.lstsq(x, y))[:3], x(),
               T(b + [m, R.randint(1, 3)], d), grad=False, tol=4000)
        Sample("lstsq driver", 'local x, r, k, s = flame.lstsq(x, y, {driver = "gelsd"}) return x, r, k, s',
               lambda x, y: tuple(L.lstsq(x, y, driver="gelsd")), x(), T(b + [m, 2], d), grad=False, tol=4000)
        Sample("lstsq gradient", "(flame.lstsq(x, y))", lambda x, y: L.lstsq(x, y)[0], x(), T(b + [m, 2], d), tol=20000, second=False)
        for p in ("fro", "nuc", 1, 2, float("inf"), -1, -2, -float("inf")):
            word = '"%s"' % p if isinstance(p, str) else str(p).replace("inf", "math.huge")
            keep = R.random() < .5
            Sample("matrix_norm", "flame.linalg.matrix_norm(x, %s, {keepdim = %s})" % (word, str(keep).lower()),
                   lambda x, p=p, k=keep: L.matrix_norm(x, p, keepdim=k), x(), tol=1000, second=p in ("fro", 1))
        n = R.randint(1, 5)
        s = lambda: T(b + [n, n], d, expand=False)               # noqa: E731
        Sample("eigh", "local w, v = (x + x:transpose(-2, -1)):eigh() return w, v * v", lambda x: (lambda w, v: (w, v * v))(
            *L.eigh(x + x.mT)), s(), tol=4000, second=False)
        up = R.choice("LU")
        Sample("eigh half", 'local w, v = flame.linalg.eigh(x, {UPLO = "%s"}) return w' % up, lambda x, u=up: L.eigh(x, u)[0], s(),
               tol=1000, second=False)
        Sample("eigvalsh", 'flame.linalg.eigvalsh(x, {UPLO = "%s"})' % up, lambda x, u=up: L.eigvalsh(x, u), s(), tol=1000, second=False)
        for p in (None, "fro", "nuc", 1, 2, float("inf"), -1, -2, -float("inf")):
            word = "nil" if p is None else '"%s"' % p if isinstance(p, str) else str(p).replace("inf", "math.huge")
            y, lua, fix = near_one(b + [n, n], d)
            Sample("cond", "flame.linalg.cond(%s, %s)" % (lua, word), lambda x, p=p, f=fix: L.cond(f(x), p), y, tol=100,
                   second=False, grad=n > 1 and p in (None, 2, -2))


def norms(scale):
    for _ in range(int(30 * scale)):
        d, s = dtype(), shape(1, 4, 4, 0)
        p = R.choice([0, 1, 2, 3, 0.5, -1, float("inf"), -float("inf")])
        axes = R.choice([None, [R.randrange(len(s))], R.sample(range(len(s)), R.randint(1, len(s)))])
        word = str(p).replace("inf", "math.huge")
        keep = R.random() < .5
        Sample("vector_norm", "flame.linalg.vector_norm(x, %s, %s, {keepdim = %s})" % (
            word, "nil" if axes is None else braces(k + 1 for k in axes), str(keep).lower()),
            lambda x, p=p, a=axes, k=keep: L.vector_norm(x, p, a, k), T(s, d, .2, 3), tol=10)
        Sample("linalg.norm", "flame.linalg.norm(x)", lambda x: L.norm(x), T(s, d), tol=4)
        Sample("norm fro", 'x:norm("fro")', lambda x: torch.norm(x, "fro"), T(s, d), tol=4)
        m = R.randint(1, 4)
        lead = batch()
        p = R.choice([0, 1, 2, 3, 1.5, float("inf")])
        Sample("cdist", "flame.cdist(x, y, %s)" % str(p).replace("inf", "math.huge"), lambda x, y, p=p: torch.cdist(x, y, p),
               T(lead + [R.randint(0, 4), m], d, 0, 1), T(lead + [R.randint(1, 4), m], d, 2, 3), tol=4, second=False,
               grad=p not in (0,) and 0 not in lead)


def products(scale):
    for _ in range(int(24 * scale)):
        d = R.choice(["f32", "f64", "f64", "i32"])
        s, t = shape(0, 3, 3, 0), shape(0, 3, 3, 0)
        Sample("kron", "x:kron(y)", lambda x, y: torch.kron(x.contiguous(), y.contiguous()), T(s, d), T(t, d))
        n = R.randint(1, 5)
        Sample("trace", "x:trace()", torch.trace, T([n, n], d))
        Sample("cross", "x:cross(y)", lambda x, y: torch.cross(x, y), T([2, 3, 4], d, expand=False), T([2, 3, 4], d, expand=False))
        Sample("linalg.cross", "flame.linalg.cross(x, y)", L.cross, T([2, 4, 3], d, expand=False),
               T([2, R.choice([1, 4]), 3], d, expand=False))
        if d != "i32":
            Sample("vecdot", "flame.linalg.vecdot(x, y, 2)", lambda x, y: L.vecdot(x, y, dim=1), T([2, 4, 3], d), T([2, 4, 3], d), tol=4)
        Sample("tensordot", "x:tensordot(y, {{3, 1}, {1, -1}})", lambda x, y: torch.tensordot(x, y, ([2, 0], [0, -1])),
               T([2, 3, 4], d), T([4, 5, 2], d), tol=4)
        Sample("tensordot", "x:tensordot(y, 1)", lambda x, y: torch.tensordot(x, y, 1), T([2, 3], d), T([3, 2], d), tol=4)
        k, r = R.randint(-2, 2), R.randint(1, 3)
        s = shape(r, r, 3, 0)
        a, b = R.sample(range(r + 1), 2)
        Sample("diag_embed", "x:diag_embed(%d, %d, %d)" % (k, a + 1, b + 1), lambda x, k=k, a=a, b=b: torch.diag_embed(x, k, a, b), T(s, d))
        Sample("diag_embed", "x:diag_embed()", torch.diag_embed, T(s, d))
        Sample("linalg.vander", "flame.linalg.vander(x)", L.vander, T([2, 3], d))
        Sample("vander", "flame.vander(x, 4)", lambda x: torch.vander(x, 4), T([3], d), grad=False)
        Sample("multi_dot", "flame.linalg.multi_dot{x, y, z}", lambda *v: L.multi_dot(v), T(R.choice([[3], [2, 3]]), d),
               T([3, 4], d), T(R.choice([[4], [4, 2]]), d), tol=8)
        if d != "i32":
            Sample("tensorinv", "flame.linalg.tensorinv(x, 1)", lambda x: L.tensorinv(x, 1), T([6, 2, 3], d, expand=False), tol=4000,
                   second=False)


def make(scale):
    equations(scale)
    singular(scale)
    factors(scale)
    norms(scale)
    products(scale)
