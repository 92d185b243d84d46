"""What has a default in torch, given in every way that Lua has: by position, by name in a table at the
end, and the first few by position with the rest by name; left out in the middle is nil."""
import torch
import torch.nn.functional as F
from sample import R, Sample, T, G, lua_value

INF = float("inf")


class Axis(int):
    """An axis or a position: one more in Lua."""


def in_lua(v):
    if isinstance(v, Axis):
        return str(int(v) + (v >= 0))
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(in_lua(i) for i in v) + "}"
    return lua_value(v)


def A(*axes):
    return [Axis(a) for a in axes]


def plus(y, places):
    """The positions among the results, from 1."""
    if not isinstance(y, (tuple, list)):
        return y + 1 if places else y
    return [v + 1 if i in places else v for i, v in enumerate(y)]


def chosen_of(choices):
    """Some of the choices; names that end in ! always, keepdim with dim alone."""
    have = {k.rstrip("!"): R.choice(v) for k, v in choices if k.endswith("!") or R.random() < 0.7}
    if "keepdim" in have and any(k == "dim" for k, _ in choices) and have.get("dim") is None:
        del have["keepdim"]
    return have


def call(name, fn, make, choices, places=(), named=(), **how):
    """choices: [(name, values)] in the order of the signature; named: those that are given by name alone."""
    for split in range(len(choices) + 1):
        have, ins = chosen_of(choices), make()
        front = [k.rstrip("!") for k, _ in choices[:split]]
        front = [k for k in front if k not in named]
        while front and front[-1] not in have:
            front.pop()
        names = ["x", "y", "z", "w"][:len(ins)] + [in_lua(have[k]) if k in have else "nil" for k in front]
        rest = ["%s = %s" % (k, in_lua(v)) for k, v in have.items() if k not in front]
        if rest:
            names.append("{" + ", ".join(rest) + "}")

        def run(*t, have=have):
            return plus(fn(*t, **have), places)
        Sample(name, "{flame.%s(%s)}" % (name, ", ".join(names)), run, *ins, **how)


DIM, KEEP = ("dim", A(0, 1, 2, -1)), ("keepdim", [True, False])
MUST, AXES = ("dim!", A(0, 1, 2, -1)), ("dim", A(0, 1, 2, -1) + [A(0, 2), A(-1, 0)])
RED = ("reduction", ["mean", "sum", "none"])


def reductions(d):
    def x():
        return [T([3, 2, 4], d)]
    for name in "sum mean nansum nanmean".split():
        call(name, getattr(torch, name), x, [AXES, KEEP], tol=4)
    for name in "logsumexp amax amin".split():
        call(name, getattr(torch, name), x, [("dim!", AXES[1]), KEEP], tol=4)
    for name in "prod argmax argmin all any".split():
        call(name, getattr(torch, name), x, [DIM, KEEP], (0,) if name.startswith("arg") else (), tol=4, native=name.startswith("arg"))
    for name in "var std".split():
        call(name, lambda t, name=name, dim=None, correction=1, **o: getattr(torch, name)(t, dim, correction=correction, **o), x,
             [AXES, ("correction", [0, 1]), KEEP], named=("correction", "keepdim"), tol=8)
    call("norm", lambda t, p="fro", **o: torch.norm(t, p, **o), x, [("p", [2, 1, 3, INF, "fro"]), AXES, KEEP], tol=8)
    call("linalg.norm", torch.linalg.norm, x, [("ord!", [2, 1, INF]), MUST, KEEP], tol=8)
    call("linalg.vector_norm", torch.linalg.vector_norm, x, [("ord", [2, 1, 3.5, INF]), AXES, KEEP], tol=8)
    call("linalg.matrix_norm", torch.linalg.matrix_norm, x,
         [("ord", ["fro", 1, INF, "nuc"]), ("dim", [A(0, 2), A(-1, 0), A(-2, -1)]), KEEP], tol=40, second=False)
    for name in "median nanmedian max min".split():
        call(name, getattr(torch, name), lambda: [T([3, 2, 4], d, plain=True)], [MUST, KEEP], (1,), native=True, grad=False)
    for name in "mode kthvalue topk".split():
        k = [] if name == "mode" else [("k!", [2, 1])]
        call(name, getattr(torch, name), lambda: [T([3, 2, 4], d, plain=True)], k + [DIM] + ([KEEP] if name != "topk" else [("largest", [False]), ("sorted", [True])]), (1,), native=True)
    for name in "quantile nanquantile".split():
        call(name, getattr(torch, name), x, [("q!", [.25, .7]), DIM, KEEP, ("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])],
             named=("interpolation",), native=True, tol=40)
    call("sort", torch.sort, x, [DIM, ("descending", [True, False])], (1,), native=True)
    call("argsort", torch.argsort, x, [DIM, ("descending", [True, False])], (0,), native=True)
    call("count_nonzero", torch.count_nonzero, x, [("dim", A(0, 1, -1))], grad=False)
    call("aminmax", torch.aminmax, x, [MUST, KEEP], named=("dim", "keepdim"))
    for name in "cumsum cumprod logcumsumexp".split():
        call(name, getattr(torch, name), x, [MUST], tol=10)
    call("diff", torch.diff, x, [("n", [1, 2]), DIM], tol=4)
    call("renorm", torch.renorm, x, [("p!", [1., 2.]), MUST, ("maxnorm!", [.5])], tol=20)


def shapes(d):
    def x():
        return [T([2, 3, 4], d)]
    call("flatten", torch.flatten, x, [("start_dim", A(0, 1)), ("end_dim", A(1, 2, -1))])
    call("diagonal", torch.diagonal, x, [("offset", [0, 1, -1]), ("dim1", A(0, -3)), ("dim2", A(1))])
    call("diag_embed", torch.diag_embed, x, [("offset", [0, 1, -1]), ("dim1!", A(0, -4)), ("dim2!", A(1, 2, -1))])
    for name in ("tril", "triu"):
        call(name, getattr(torch, name), x, [("diagonal", [0, 1, -1])])
    call("squeeze", torch.squeeze, lambda: [T([2, 1, 3], d)], [("dim", A(1, 0))])
    call("rot90", torch.rot90, x, [("k", [1, 2, -1]), ("dims", [A(0, 1), A(2, 0)])])
    call("unbind", torch.unbind, x, [DIM])
    call("clamp", torch.clamp, x, [("min!", [-1., .2]), ("max", [.5])])
    call("roll", torch.roll, x, [("shifts!", [1, -2]), ("dims", A(0, 1))])
    call("nan_to_num", torch.nan_to_num, lambda: [G(torch.tensor([1., INF, -INF, float("nan")]))], [("nan", [2.]), ("posinf", [3.]), ("neginf", [-3.])])
    call("tensordot", torch.tensordot, lambda: [T([2, 3, 4], d), T([3, 4, 5], d)], [("dims", [2])], tol=10)
    call("unsqueeze", torch.unsqueeze, x, [("dim!", A(0, 1, -1))])
    call("narrow", torch.narrow, x, [MUST, ("start!", A(0, 1)), ("length!", [1])])
    call("select", torch.select, x, [MUST, ("index!", A(0, 1))])
    call("unfold", lambda t, dimension, size, step: t.unfold(dimension, size, step), x, [("dimension!", A(0, 1, -1)), ("size!", [2]), ("step!", [1])])
    call("movedim", torch.movedim, x, [("source!", A(0, 1)), ("destination!", A(2, -1))])
    call("transpose", torch.transpose, x, [("dim0!", A(0, 1)), ("dim1!", A(2, -1))])


def networks(d):
    def x():
        return [T([2, 4, 6], d)]

    def pair():
        return [T([3, 4], d), T([3, 4], d)]

    def prob():
        return [T([3, 4], d, .05, .95), T([3, 4], d, .05, .95)]
    for name, o in (("leaky_relu", [("negative_slope", [.1, .3])]), ("elu", [("alpha", [.5, 2.])]), ("celu", [("alpha", [.5, 2.])]),
                    ("hardtanh", [("min_val", [-.5]), ("max_val", [.7])]), ("softplus", [("beta", [2.]), ("threshold", [1.])]),
                    ("hardshrink", [("lambd", [.7])]), ("softshrink", [("lambd", [.7])]), ("glu", [("dim", A(1, 2, -1))]),
                    ("threshold", [("threshold!", [.1]), ("value!", [3.])]), ("softmax", [MUST]), ("log_softmax", [MUST]), ("softmin", [MUST]),
                    ("normalize", [("p", [1., 2., 3.]), DIM, ("eps", [1e-6])])):
        call(name, getattr(F, name), x, o, tol=10)
    call("gelu", F.gelu, x, [("approximate", ["tanh", "none"])], named=("approximate",), tol=6)
    call("logit", torch.logit, lambda: [T([3, 4], d, .1, .9)], [("eps", [1e-3])], tol=10)
    call("local_response_norm", F.local_response_norm, x, [("size!", [2]), ("alpha", [1e-2]), ("beta", [.5]), ("k", [2.])], tol=10)
    call("cosine_similarity", F.cosine_similarity, pair, [("dim", A(0, 1, -1)), ("eps", [1e-6])], tol=10)
    call("pairwise_distance", F.pairwise_distance, pair, [("p", [1., 2., 3.]), ("eps", [1e-3]), KEEP], tol=10)
    call("cdist", torch.cdist, pair, [("p", [1., 2., 3.])], tol=20)
    for name, make, o in (("mse_loss", pair, []), ("l1_loss", pair, []), ("soft_margin_loss", pair, []), ("binary_cross_entropy", prob, []),
                          ("huber_loss", pair, [("delta", [.5, 2.])]), ("smooth_l1_loss", pair, [("beta", [.5, 2.])]),
                          ("kl_div", prob, [("log_target", [True])]), ("hinge_embedding_loss", prob, [("margin", [.4])])):
        call(name, getattr(F, name), make, [RED] + o, named=("reduction", "delta", "beta", "log_target", "margin"), tol=10,
             second=False, grad=name != "soft_margin_loss")
    call("poisson_nll_loss", F.poisson_nll_loss, prob, [("log_input", [True, False]), ("full", [True, False]), ("eps", [1e-4]), RED],
         named=("eps", "reduction"), tol=10)
    call("triplet_margin_loss", F.triplet_margin_loss, lambda: pair() + pair()[:1],
         [("margin", [.5, 1.]), ("p", [2.]), ("eps", [1e-5]), ("swap", [True, False]), RED], named=("reduction",), tol=20)
    call("gaussian_nll_loss", F.gaussian_nll_loss, lambda: pair() + prob()[:1], [("full", [True, False]), ("eps", [1e-4]), RED],
         named=("reduction",), tol=10)
    for name, o in (("cross_entropy", [("label_smoothing", [.1])]), ("nll_loss", [("ignore_index", [-100])]),
                    ("multi_margin_loss", [("p", [1, 2]), ("margin", [.5])])):
        y = G(torch.tensor([R.randrange(4) + 1 for _ in range(3)]))
        call(name, lambda t, i, name=name, **k: getattr(F, name)(t, i - 1, **k), lambda y=y: [T([3, 4], d), y], o + [RED],
             named=("reduction", "label_smoothing", "ignore_index"), tol=10)
    p2 = ("stride", [1, 2])
    for name, o in (("max_pool1d", [("dilation", [1, 2])]), ("avg_pool1d", [])):
        call(name, getattr(F, name), x, [("kernel_size!", [3]), p2, ("padding", [0, 1])] + o, native=name[0] == "m", tol=6)
    for name in ("conv1d", "conv_transpose1d"):
        call(name, getattr(F, name), lambda: [T([2, 4, 6], d), T([4, 4, 3], d), T([4], d)],
             [p2, ("padding", [0, 1])] + ([("output_padding", [0]), ("groups", [1])] if name != "conv1d" else [("dilation", [1, 2]), ("groups", [1])]), tol=20)
    call("interpolate", F.interpolate, x, [("size!", [9, 4]), ("mode", ["nearest", "linear"])], named=("mode",), tol=10)
    call("group_norm", F.group_norm, x, [("num_groups!", [2])], tol=20)


def algebra(d):
    def spd():
        a = torch.randn(4, 4, dtype=torch.float64)
        return [G((a @ a.T + 4 * torch.eye(4)).to(torch.float64 if d == "f64" else torch.float32))]

    def three(*s):
        return lambda: [T(list(i), d) for i in s]
    tol = dict(tol=200, second=False)
    for name in ("cholesky", "linalg.cholesky"):
        call(name, getattr(torch, "cholesky"), spd, [("upper", [True, False])], **tol)
    call("linalg.eigvalsh", torch.linalg.eigvalsh, spd, [("UPLO", ["L", "U"])], **tol)
    call("linalg.matrix_rank", torch.linalg.matrix_rank, spd, [("tol", [.5]), ("hermitian", [True])], named=("hermitian",), grad=False)
    call("linalg.pinv", torch.linalg.pinv, spd, [("rtol", [1e-6]), ("hermitian", [True])], named=("rtol", "hermitian"), **tol)
    call("pinverse", torch.pinverse, spd, [("rcond", [1e-6])], **tol)
    call("linalg.cond", torch.linalg.cond, spd, [("p", [2, 1, "fro", INF])], tol=2000, grad=False)
    call("matrix_power", torch.matrix_power, spd, [("n!", [2, 0, 3])], **tol)
    scalars = [("beta", [.5, 0.]), ("alpha", [2.])]
    for name, shapes_of in (("addmm", ([2, 3], [2, 4], [4, 3])), ("baddbmm", ([5, 2, 3], [5, 2, 4], [5, 4, 3])), ("addmv", ([2], [2, 3], [3])),
                            ("addr", ([2, 3], [2], [3])), ("addbmm", ([2, 3], [5, 2, 4], [5, 4, 3]))):
        call(name, getattr(torch, name), three(*shapes_of), scalars, named=("beta", "alpha"), tol=10)
    for name in ("addcmul", "addcdiv"):
        call(name, getattr(torch, name), three([3], [3], [3]), [("value", [2.])], named=("value",), tol=10)
    for name in ("add", "sub"):
        call(name, getattr(torch, name), three([3], [3]), [("alpha", [2.])], named=("alpha",), tol=10)
    call("div", torch.div, three([3], [3]), [("rounding_mode", ["floor", "trunc"])], named=("rounding_mode",), native=True)
    call("vander", torch.vander, lambda: [T([3], d)], [("N", [4]), ("increasing", [True])], tol=10, grad=False)
    call("cov", torch.cov, lambda: [T([3, 5], d, expand=False)], [("correction", [0, 1])], named=("correction",), tol=20)
    call("isclose", torch.isclose, three([5], [5]), [("rtol", [.5]), ("atol", [.1]), ("equal_nan", [True])], grad=False)


def make(scale):
    for d in ("f64", "f32"):
        for _ in range(max(1, round(4 * scale))):
            for family in (reductions, shapes, networks, algebra):
                family(d)
