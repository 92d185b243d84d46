"""Unary, binary and ternary functions, operators, promotion, numbers, in-place forms, casts."""
import math
import torch
import torch.nn.functional as F
from sample import DTYPES, FLOATS, HALVES, INTS, R, Sample, T, G, lua_value, shape, values

INF, NAN = float("inf"), float("nan")

UNARY = {   # name: (torch, low, high)
    "neg": (torch.neg, -3, 3), "abs": (torch.abs, -3, 3), "sign": (torch.sign, -3, 3),
    "sqrt": (torch.sqrt, .1, 9), "rsqrt": (torch.rsqrt, .1, 9), "square": (torch.square, -3, 3),
    "cbrt": (lambda x: x.sign() * x.abs() ** (1 / 3), .1, 9), "exp": (torch.exp, -5, 5), "exp2": (torch.exp2, -5, 5),
    "expm1": (torch.expm1, -2, 2), "log": (torch.log, .1, 9), "log2": (torch.log2, .1, 9),
    "log10": (torch.log10, .1, 9), "log1p": (torch.log1p, -.5, 4), "sin": (torch.sin, -6, 6),
    "cos": (torch.cos, -6, 6), "tan": (torch.tan, -1.3, 1.3), "asin": (torch.asin, -.95, .95),
    "acos": (torch.acos, -.95, .95), "atan": (torch.atan, -4, 4), "sinh": (torch.sinh, -3, 3),
    "cosh": (torch.cosh, -3, 3), "tanh": (torch.tanh, -3, 3), "asinh": (torch.asinh, -4, 4),
    "acosh": (torch.acosh, 1.1, 5), "atanh": (torch.atanh, -.95, .95), "erf": (torch.erf, -3, 3),
    "erfc": (torch.erfc, -3, 3), "erfinv": (torch.erfinv, -.95, .95), "lgamma": (lambda x: torch.lgamma(x), .1, 8),
    "digamma": (torch.digamma, .1, 8), "floor": (torch.floor, -4, 4), "ceil": (torch.ceil, -4, 4),
    "round": (torch.round, -4, 4), "trunc": (torch.trunc, -4, 4), "frac": (torch.frac, -4, 4),
    "reciprocal": (torch.reciprocal, .2, 4), "relu": (torch.relu, -3, 3), "relu6": (F.relu6, -3, 9),
    "leaky_relu": (F.leaky_relu, -3, 3), "elu": (F.elu, -3, 3), "selu": (F.selu, -3, 3), "celu": (F.celu, -3, 3),
    "gelu": (F.gelu, -3, 3), "silu": (F.silu, -4, 4), "mish": (F.mish, -4, 4), "sigmoid": (torch.sigmoid, -6, 6),
    "logsigmoid": (F.logsigmoid, -6, 6), "softplus": (F.softplus, -6, 6), "softsign": (F.softsign, -4, 4),
    "hardtanh": (F.hardtanh, -2, 2), "hardsigmoid": (lambda x: F.relu6(x + 3) / 6, -5, 5), "hardswish": (F.hardswish, -5, 5),
    "isnan": (torch.isnan, -3, 3), "isinf": (torch.isinf, -3, 3), "isfinite": (torch.isfinite, -3, 3),
    "logical_not": (torch.logical_not, -2, 2), "nan_to_num": (torch.nan_to_num, -3, 3),
}
ON_INTEGERS = ("neg abs sign square sqrt rsqrt exp expm1 log1p sin cos atan tanh erf floor ceil round trunc reciprocal "
               "relu sigmoid isnan isinf isfinite logical_not exp2 log asinh sinh").split()
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 1.5, -1.5, 2.5, 20.0, -20.0, 90.0, -90.0,
           1e-3, -1e-3, 1e4, -1e4, 1e20, -1e20, 1e-20, 1e-38]
POSITIVE_ONLY = {"lgamma", "digamma", "tan", "sin", "cos"}


def number(dtype):
    """A Lua number that goes with the dtype, as text and for torch."""
    if dtype == "bool" or dtype in INTS:
        return R.choice([1, 2, 3]) if dtype == "u8" else R.choice([-2, 1, 2, 3])
    return R.choice([2, -1.5, 0.3, 3, -0.7])


def unary(scale):
    for name, (fn, lo, hi) in UNARY.items():
        forms = ["x:%s()" % name, "flame.%s(x)" % name]
        for k in range(int(14 * scale)):
            dtype = R.choice(["f32", "f32", "f64", "f64", "f64", "f16", "bf16"])
            if name == "hardswish" and dtype in HALVES:
                continue                                     # the bounds, where PyTorch changed its mind
            rough = name in ("lgamma", "digamma")        # torch's trigamma is good to 1e-10
            Sample(name, forms[k % 2], fn, T(shape(), dtype, lo, hi), second=not rough, tol=2000 if rough and dtype == "f64" else 1)
        if name in ON_INTEGERS:
            for dtype in INTS + ("bool",):
                if dtype == "bool" and name in "neg sign square floor ceil round trunc relu abs".split():
                    continue
                lo_int = 1 if name in ("log", "rsqrt", "sqrt", "reciprocal") else -3
                Sample(name + " int", forms[0], fn, T(shape(), dtype, lo_int, 4))
        for dtype in ("f32", "f64"):
            keep = [v for v in SPECIAL if not (name in POSITIVE_ONLY and abs(v) > 100) and not (name == "sign" and v != v)]
            Sample(name + " special", forms[0], fn, G(torch.tensor(keep, dtype=DTYPES[dtype])), grad=False, native=True,
                   tol=3)
    grads = "neg abs sqrt square exp log relu sigmoid tanh leaky_relu elu selu celu gelu silu softplus hardtanh relu6 logsigmoid softsign hardsigmoid reciprocal sign".split()
    keep = [0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 30.0, -30.0]
    for name in grads:
        fn = UNARY[name][0]
        Sample(name + " at points", "x:%s()" % name, fn, G(torch.tensor(keep, dtype=torch.float64)), native=True, second=False)
    for _ in range(int(8 * scale)):
        d = R.choice(["f32", "f64"])
        Sample("gelu tanh", 'x:gelu({approximate = "tanh"})', lambda x: F.gelu(x, approximate="tanh"), T(shape(), d))
        a = R.choice([0.25, 0.5, 1.5])
        Sample("leaky_relu slope", "x:leaky_relu(%r)" % a, lambda x, a=a: F.leaky_relu(x, a), T(shape(), d))
        Sample("elu alpha", "x:elu(%r)" % a, lambda x, a=a: F.elu(x, a), T(shape(), d))
        Sample("celu alpha", "x:celu(%r)" % a, lambda x, a=a: F.celu(x, a), T(shape(), d))
        Sample("hardtanh bounds", "x:hardtanh(%r, 2)" % -a, lambda x, a=a: F.hardtanh(x, -a, 2), T(shape(), d))
        Sample("softplus beta", "x:softplus({beta = %r, threshold = 3})" % a, lambda x, a=a: F.softplus(x, a, 3), T(shape(), d))
        Sample("nan_to_num options", "x:nan_to_num({nan = 1.5, posinf = 3, neginf = -4})",
               lambda x: torch.nan_to_num(x, 1.5, 3, -4), G(torch.tensor([NAN, INF, -INF, 1.0, 2.0], dtype=DTYPES[d])))
        Sample("round decimals", "x:round({decimals = 2})", lambda x: torch.round(x, decimals=2), T(shape(), "f64"), grad=False)


def hypot(x, y):
    return torch.hypot(x, y)


BINARY = {   # name: (torch, operator, low, high of y, differentiable)
    "add": (torch.add, "+", -3, 3), "sub": (torch.sub, "-", -3, 3), "mul": (torch.mul, "*", -3, 3),
    "div": (torch.div, "/", .3, 3), "pow": (torch.pow, "^", -2, 3), "floordiv": (torch.floor_divide, "//", .3, 3),
    "mod": (torch.remainder, "%", .3, 3), "fmod": (torch.fmod, None, .3, 3), "maximum": (torch.maximum, None, -3, 3),
    "minimum": (torch.minimum, None, -3, 3), "atan2": (torch.atan2, None, -3, 3), "hypot": (hypot, None, -3, 3),
    "logaddexp": (torch.logaddexp, None, -3, 3), "copysign": (torch.copysign, None, -3, 3),
    "eq": (torch.eq, None, -2, 2), "ne": (torch.ne, None, -2, 2), "lt": (torch.lt, None, -2, 2), "le": (torch.le, None, -2, 2),
    "gt": (torch.gt, None, -2, 2), "ge": (torch.ge, None, -2, 2), "logical_and": (torch.logical_and, None, -1, 1),
    "logical_or": (torch.logical_or, None, -1, 1), "logical_xor": (torch.logical_xor, None, -1, 1),
}
JUMPS = ("floordiv", "mod", "fmod", "eq", "ne", "lt", "le", "gt", "ge")
BITS = {"bitwise_and": (torch.bitwise_and, "&"), "bitwise_or": (torch.bitwise_or, "|"), "bitwise_xor": (torch.bitwise_xor, "~")}


def broadcast_pair():
    """Two shapes that go together."""
    whole = shape(empty=0.02)
    pair = []
    for _ in range(2):
        s = [1 if R.random() < 0.25 else n for n in whole]
        pair.append(s[R.randint(0, len(s)):] if R.random() < 0.4 else s)
    return pair


def text_of(name, op, a, b, k):
    if op and k % 3 == 0:
        return "%s %s %s" % (a, op, b)
    if k % 3 == 1 and a == "x":
        return "x:%s(%s)" % (name, b)
    return "flame.%s(%s, %s)" % (name, a, b)


def safe_zero(fn):
    """Integer // and % where torch raises: by zero gives 0."""
    def f(x, y):
        if isinstance(y, torch.Tensor) and not y.is_floating_point() and not (isinstance(x, torch.Tensor) and x.is_floating_point()):
            zero = y == 0
            return torch.where(zero, torch.zeros((), dtype=torch.promote_types(x.dtype, y.dtype)), fn(x, torch.where(zero, torch.ones_like(y), y)))
        return fn(x, y)
    return f


def binary(scale):
    for name, (fn, op, lo, hi) in BINARY.items():
        jumps = name in JUMPS
        for k in range(int(24 * scale)):
            p, q = broadcast_pair()
            d = R.choice(["f32", "f32", "f64", "f64", "f64", "f16", "bf16"])
            x_lo = .2 if name == "pow" else -3
            Sample(name, text_of(name, op, "x", "y", k), fn, T(p, d, x_lo), T(q, d, lo, hi), native=jumps, grad=name != "floordiv")
        for k in range(int(12 * scale)):
            d = R.choice(["f32", "f64", "f16", "bf16"])
            v = number(d)
            x_lo = .2 if name == "pow" else -3
            Sample(name + " number", text_of(name, op, "x", lua_value(v), k), lambda x, v=v, fn=fn: fn_with(fn, x, v),
                   T(shape(), d, x_lo), native=jumps, grad=name != "floordiv")
            Sample(name + " number", text_of(name, op, lua_value(abs(v)), "x", 0 if op else 2),
                   lambda x, v=abs(v), fn=fn: fn_with(fn, v, x), T(shape(), d, lo, hi), native=jumps,
                   grad=name not in ("floordiv", "mod"))
    kinds = FLOATS + INTS + ("bool",)
    for name in "add mul div sub pow floordiv mod maximum lt eq atan2 logical_and fmod".split():
        fn, op = BINARY[name][:2]
        if name in ("floordiv", "mod", "fmod"):
            fn = safe_zero(fn)
        for p in kinds:
            for q in kinds:
                if name in ("sub", "floordiv", "mod", "fmod", "pow") and "bool" in (p, q):
                    continue
                ints = p not in FLOATS and q not in FLOATS
                lo, hi = (0, 3) if name == "pow" else (-4, 4)
                y_lo = 1 if name in ("floordiv", "mod", "div", "fmod") and not ints else lo
                f = fn
                if name == "maximum":
                    f = lambda x, y: torch.maximum(*both(x, y))        # noqa: E731
                if p in HALVES or q in HALVES:
                    f = promoted(f, p, q)
                f = lambda x, y, f=f: f(x, y.reshape(1) if y.dim() == 0 else y)      # 0-d counts like any other
                Sample(name + " promotion", "flame.%s(x, y)" % name, f, T([2, 3], p, lo, hi), T(R.choice([[3], []]), q, y_lo, hi),
                       native=True, grad=False, tol=2)
    for name, (fn, op) in BITS.items():
        for p in INTS + ("bool",):
            for q in INTS + ("bool",):
                Sample(name, R.choice(["x %s y" % op, "x:%s(y)" % name]), fn, T([2, 3], p, -9, 9), T([3], q, -9, 9))
    for d in INTS + ("bool",):
        Sample("bitwise_not", "~x", torch.bitwise_not, T([5], d, -9, 9))
    for d in INTS:
        for v in (1.5, 2, -3 if d != "u8" else 5):
            for name in "add mul sub div floordiv mod pow maximum lt".split():
                fn, op = BINARY[name][:2]
                if name == "pow" and not isinstance(v, float):
                    v = abs(v)
                Sample("int with number", text_of(name, op, "x", lua_value(v), 2), lambda x, v=v, fn=fn: fn_with(fn, x, v),
                       T([4], d, -5, 5), native=True)
    for v in (2, 1.5):
        for name in "add mul div".split():
            fn, op = BINARY[name][:2]
            Sample("bool with number", "x %s %s" % (op, v), lambda x, v=v, fn=fn: fn(x, v), T([4], "bool"))
    for _ in range(int(10 * scale)):
        p, q = broadcast_pair()
        d = R.choice(["f32", "f64"])
        Sample("add alpha", "x:add(y, {alpha = 0.5})", lambda x, y: torch.add(x, y, alpha=0.5), T(p, d), T(q, d))
        Sample("sub alpha", "x:sub(y, {alpha = 2})", lambda x, y: torch.sub(x, y, alpha=2), T(p, d), T(q, d))
        for mode in ("floor", "trunc"):
            Sample("div " + mode, 'x:div(y, {rounding_mode = "%s"})' % mode,
                   lambda x, y, mode=mode: torch.div(x, y, rounding_mode=mode), T(p, d), T(q, d, .3), native=True)
            Sample("div " + mode, 'x:div(y, {rounding_mode = "%s"})' % mode,
                   lambda x, y, mode=mode: torch.div(x, y, rounding_mode=mode), T(p, "i32", -9, 9), T(q, "i32", 1, 4))


def both(x, y):
    d = torch.promote_types(x.dtype, y.dtype)
    return x.to(d), y.to(d)


def fn_with(fn, x, y):
    """fn of a tensor and a number in either place, for functions that take tensors alone."""
    try:
        return fn(x, y)
    except TypeError:
        like = x if isinstance(x, torch.Tensor) else y
        kind = like.dtype if like.is_floating_point() or isinstance(x if like is y else y, int) else torch.float32
        wrap = lambda v: v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=kind)       # noqa: E731
        return fn(wrap(x).to(kind), wrap(y).to(kind))


def promoted(fn, p, q):
    """fn computed in f32, rounded to the dtype that the pair has."""
    kind = torch.promote_types(DTYPES[p], DTYPES[q])

    def f(x, y):
        r = fn(x.to(torch.promote_types(torch.float32, x.dtype)) if x.is_floating_point() else x.to(kind).to(torch.promote_types(torch.float32, kind)),
               y.to(torch.promote_types(torch.float32, y.dtype)) if y.is_floating_point() else y.to(kind).to(torch.promote_types(torch.float32, kind)))
        return r.to(kind) if r.dtype.is_floating_point else r
    return f


def ties(scale):
    x = torch.tensor([1.0, 2.0, NAN, 3.0, 1.0, INF, -INF, 0.0], dtype=torch.float64)
    y = torch.tensor([1.0, 3.0, 1.0, NAN, 0.0, INF, 2.0, 0.0], dtype=torch.float64)
    for name in "maximum minimum".split():
        Sample(name + " ties", "x:%s(y)" % name, BINARY[name][0], G(x), G(y))
    Sample("clamp nan", "x:clamp(-1, 1)", lambda x: torch.clamp(x, -1, 1), G(x))
    Sample("clamp edges", "x:clamp(1, 3)", lambda x: torch.clamp(x, 1, 3), G(x))
    Sample("clamp edges", "x:clamp({min = 1})", lambda x: torch.clamp(x, min=1), G(x))
    Sample("clamp edges", "x:clamp({max = 1})", lambda x: torch.clamp(x, max=1), G(x))
    for z in (x.clone(), y.clone()):
        Sample("clamp edges", "x:clamp(y, z)", lambda x, y, z: torch.clamp(x, y, z), G(x[3:].clone()), G(z[3:].clone().nan_to_num(0.5, 9, -9)), G(z[3:].nan_to_num(0.5, 9, -9) + 1))
    Sample("clamp crossed", "x:clamp(3, 1)", lambda x: torch.clamp(x, 3, 1), G(x), grad=False)
    Sample("pow special", "x:pow(y)", torch.pow, G(torch.tensor([0., 0., 0., -2., -2., 2., 1., -1., INF, NAN, NAN, -8.]).double()),
           G(torch.tensor([0., 2., -1., 2., 3., -1., NAN, INF, 0., 0., 1., 1 / 3]).double()), second=False)
    for e in (0, 1, 2, 3, 0.5, -1, -2, 2.5):
        Sample("pow number special", "x ^ %r" % e, lambda x, e=e: x ** e, G(torch.tensor([0., 1., 2., -1., -2., 4.]).double()))
        Sample("pow number special", "%r ^ x" % abs(e), lambda x, e=abs(e): e ** x, G(torch.tensor([0., 1., 2., -1., -2., 4.]).double()), second=e != 0)
    for n, z in ((-7, 2), (7, -2), (-7, -2), (7, 2)):
        Sample("signs of // and %", "return x // %d, x %% %d, x:fmod(%d)" % (z, z, z),
               lambda x, z=z: (torch.div(x, z, rounding_mode="floor"), torch.remainder(x, z), torch.fmod(x, z)),
               G(torch.tensor([n, n + 1, 0], dtype=torch.int32)))
        Sample("signs of // and %", "return x // %d, x %% %d, x:fmod(%d)" % (z, z, z),
               lambda x, z=z: (torch.div(x, z, rounding_mode="floor"), torch.remainder(x, z), torch.fmod(x, z)),
               G(torch.tensor([n, n + 1, 0.5], dtype=torch.float64)), grad=False)
    special = torch.tensor([0., -0., 1., -1., INF, -INF, NAN, 5.5], dtype=torch.float64)
    p, q = special.repeat_interleave(8), special.repeat(8)
    for name in "div floordiv mod fmod maximum minimum atan2 hypot copysign eq lt ge add mul logaddexp".split():
        for d in ("f32", "f64"):
            Sample(name + " special", "flame.%s(x, y)" % name, BINARY[name][0], G(p.to(DTYPES[d])), G(q.to(DTYPES[d])), grad=False, native=True)


def ternary(scale):
    for k in range(int(30 * scale)):
        d = R.choice(["f32", "f64", "f64", "f16", "bf16"])
        p, q = broadcast_pair()
        whole = list(torch.broadcast_shapes(p, q))
        Sample("where", "flame.where(x, y, z)", torch.where, T(p, "bool"), T(q, d), T(whole, d))
        Sample("where", "y:where(x, z)", lambda x, y, z: torch.where(x, y, z), T(p, "bool"), T(q, d), T(whole, d))
        v = number(d)
        Sample("where number", "flame.where(x, y, %s)" % v, lambda x, y, v=v: torch.where(x, y, torch.tensor(v, dtype=y.dtype)),
               T(p, "bool"), T(q, d))
        Sample("where number", "flame.where(x, %s, y)" % v, lambda x, y, v=v: torch.where(x, torch.tensor(v, dtype=y.dtype), y),
               T(p, "bool"), T(q, d))
        a, b = sorted([round(R.uniform(-2, 2), 2), round(R.uniform(-2, 2), 2)])
        Sample("clamp", "x:clamp(%r, %r)" % (a, b), lambda x, a=a, b=b: torch.clamp(x, a, b), T(p, d))
        Sample("clamp min", R.choice(["x:clamp({min = %r})", "x:clamp(%r)", "x:clamp(%r, nil)"]) % a, lambda x, a=a: torch.clamp(x, min=a), T(p, d))
        Sample("clamp max", R.choice(["x:clamp({max = %r})", "x:clamp(nil, %r)"]) % a, lambda x, a=a: torch.clamp(x, max=a), T(p, d))
        Sample("clamp tensors", "x:clamp(y, z)", lambda x, y, z: torch.clamp(x, y, z), T(whole, d), T(p, d, -2, -.5), T(q, d, -.4, 2))
        Sample("clamp int", "x:clamp(-2, 2)", lambda x: torch.clamp(x, -2, 2), T(p, R.choice(["i32", "i64", "i8"]), -9, 9))
        if d in HALVES:
            continue
        Sample("lerp", "x:lerp(y, 0.3)", lambda x, y: torch.lerp(x, y, 0.3), T(whole, d), T(q, d))
        Sample("lerp", "x:lerp(y, z)", torch.lerp, T(whole, d), T(q, d), T(whole, d))
        Sample("addcmul", "x:addcmul(y, z, {value = 0.7})", lambda x, y, z: torch.addcmul(x, y, z, value=0.7), T(whole, d), T(p, d), T(q, d), tol=10)
        Sample("addcdiv", "x:addcdiv(y, z, {value = -2})", lambda x, y, z: torch.addcdiv(x, y, z, value=-2), T(whole, d), T(p, d), T(q, d, .3))
        Sample("addcmul", "flame.addcmul(x, y, z)", torch.addcmul, T(whole, d), T(p, d), T(q, d), tol=10)


def in_place(scale):
    names = "add sub mul div pow maximum floordiv mod atan2 lt logical_and".split()
    for k in range(int(6 * scale)):
        for name in names:
            fn, _, lo, hi = BINARY[name]
            d = R.choice(["f32", "f64", "f64"])
            x, y = T(shape(2, 3, 3, 0), d, .2), T([1] if k % 2 else [], d, max(lo, .3), hi)
            keep = lambda x, y, fn=fn: fn(x, y).to(x.dtype)
            Sample("in place", "local t = x * 1; local r = t:%s_(y); assert(r == t); return t" % name, keep, x, y, native=True,
                   grad=name != "floordiv")
        for name in "exp sqrt sigmoid relu tanh abs neg leaky_relu gelu silu clamp".split():
            d = R.choice(["f32", "f64"])
            arg = "-1, 1" if name == "clamp" else ""
            fn = (lambda x: x.clamp(-1, 1)) if name == "clamp" else UNARY[name][0]
            Sample("in place", "local t = x:clone(); t:%s_(%s); return t" % (name, arg), fn, T(shape(1, 3, 3, 0), d, .3))
        d = R.choice(["f32", "f64", "i32"])
        Sample("in place", "local t = x:clone(); t:fill_(3); return t", lambda x: torch.full_like(x, 3), T(shape(), d))
        Sample("in place", "local t = x:clone(); t:zero_(); return t", lambda x: torch.zeros_like(x), T(shape(), d))
        Sample("in place", "local t = x:clone(); t:copy_(y); return t", lambda x, y: y.expand_as(x).to(x.dtype), T([2, 3], "f64"), T([3], R.choice(["f64", "i32"])))
    for text in ("x:add_(1.5)", "x:div_(2)", "x:add_(y)", "x:exp_()", "x:fill_(0.5)", "x:mul_(0.5)"):
        Sample("in place refused", "local t = x:clone(); t%s; return t" % text[1:], None, T([3], "i32"), T([3], "f32"), grad=False, raises=True)
    for text in ("x:add_(y)", "x:copy_(y)", "x:mul_(y)"):
        Sample("in place refused", "local t = x:clone(); t%s; return t" % text[1:], None, T([3], "f32"), T([2, 3], "f32"), grad=False, raises=True)


def saturate(x, kind):
    a = x.double().numpy()
    info = torch.iinfo(DTYPES[kind])
    out = [0 if math.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in a.flatten()]
    return torch.tensor(out, dtype=torch.int64).to(DTYPES[kind]).reshape(x.shape)


def casts(scale):
    floats = torch.tensor([0.0, 1.7, -1.7, 200.5, -200.5, 70000.0, -70000.0, 3e9, -3e9, 1e19, -1e19, INF, -INF, NAN, 255.0, 256.0, 0.3])
    whole = torch.tensor([0, 1, -1, 127, 128, 255, 256, -129, 32768, 2 ** 31, -2 ** 31 - 1, 2 ** 53 + 1, 2 ** 63 - 1, -2 ** 63, 65504, 65520])
    kinds = FLOATS + INTS + ("bool",)
    for p in kinds:
        for q in kinds:
            base = (floats if p in FLOATS else whole).to(DTYPES[p])
            if p in FLOATS and q in INTS:
                fn = lambda x, q=q: saturate(x, q)
            else:
                fn = lambda x, q=q: x.to(DTYPES[q])
            Sample("cast", 'x:to("%s")' % q, fn, G(base), grad=False, native=True)
    named = {"float": "f32", "half": "f16", "bfloat16": "bf16", "double": "f64", "long": "i64", "int": "i32", "byte": "u8", "bool": "bool"}
    for name, q in named.items():
        for p in ("f32", "f64", "i32", "bool", "f16"):
            Sample("cast named", "x:%s()" % name, lambda x, q=q: x.to(DTYPES[q]), T(shape(), p, 0, 5), native=True, grad=q in FLOATS)
    for _ in range(int(12 * scale)):
        p, q = R.choice(FLOATS), R.choice(FLOATS)
        Sample("cast gradient", '(x:to("%s") * 2):to("%s")' % (q, p), lambda x, p=p, q=q: (x.to(DTYPES[q]) * 2).to(x.dtype), T(shape(), p), tol=2)


def make(scale):
    unary(scale)
    binary(scale)
    ties(scale)
    ternary(scale)
    in_place(scale)
    casts(scale)
