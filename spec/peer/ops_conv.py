"""Convolutions, pooling, resampling, recurrent layers."""
import torch
import torch.nn.functional as F
from sample import R, Sample, T, G, braces, lua_value, values

KINDS = ["f32", "f64", "f64"]


def numbers(n, lo, hi):
    """A number for all axes, or one an axis: (Lua text, Python value)."""
    if R.random() < 0.5:
        v = R.randint(lo, hi)
        return str(v), v
    v = [R.randint(lo, hi) for _ in range(n)]
    return braces(v), v if n > 1 else v[0]


def wide_convolutions(scale):
    """Of channels enough to fill vectors, on either side or on both; their windows often reach outside."""
    for _ in range(int(40 * scale)):
        n, d = R.choice([1, 2, 2, 2, 3]), R.choice(["f32", "f32", "f64", "bf16", "f16"])
        g = R.choice([1, 1, 1, 2, 4])
        cg, og = R.choice([3, 8, 12, 32, 33, 48]), R.choice([1, 6, 8, 16, 32, 35, 48])
        k = [R.randint(1, 3) for _ in range(n)]
        (st, s), (dt, dil), (pt, p) = numbers(n, 1, 4), numbers(n, 1, 2), numbers(n, 0, 3)
        size = [R.randint(m, m + {1: 60, 2: 9, 3: 3}[n]) for m in [(i - 1) * 2 + 1 for i in k]]
        x, w = [R.choice([1, 2, 3]), cg * g] + size, [og * g, cg] + k
        if d in ("f32", "f64") and R.random() < 0.35:              # torch refuses some of halves
            f = getattr(F, "conv_transpose%dd" % n)
            text = "flame.conv_transpose%dd(x, y, nil, {stride = %s, padding = 0, groups = %d, dilation = %s})" % (n, st, g, dt)
            Sample("conv wide", text, lambda x, y, f=f, a=(s, 0, 0, g, dil): f(x, y, None, *a),
                   T(x, d, -2, 2), T([cg * g, og] + k, d, -2, 2), tol=8, second=d[0] == "f")
            continue
        f = getattr(F, "conv%dd" % n)
        text = "flame.conv%dd(x, y, nil, {stride = %s, padding = %s, dilation = %s, groups = %d})" % (n, st, pt, dt, g)
        Sample("conv wide", text, lambda x, y, f=f, s=s, p=p, dil=dil, g=g: f(x, y, None, s, p, dil, g),
               T(x, d, -2, 2), T(w, d, -2, 2), tol=8, second=d[0] == "f")


def convolutions(scale):
    for _ in range(int(90 * scale)):
        n, d = R.randint(1, 3), R.choice(KINDS)
        g = R.choice([1, 1, 1, 2, 3])
        cg, og = R.randint(1, 4), R.randint(1, 4)
        if R.random() < 0.2:
            cg = og = 1
        k = [R.randint(1, 3) for _ in range(n)]
        (st, s), (dt, dil) = numbers(n, 1, 3), numbers(n, 1, 2)
        pt, p = numbers(n, 0, 2)
        same = False
        if R.random() < 0.15:
            st, s, pt, p = "1", 1, '"same"', "same"
            same = True
        span = [(i - 1) * 2 + 1 for i in k]
        size = [R.randint(m, m + {1: 12, 2: 7, 3: 3}[n]) for m in span]
        batch = R.choice([1 if same else 0, 1, 2, 3]) if R.random() < 0.9 else None
        x, plain = ([] if batch is None else [batch]) + [cg * g] + size, batch == 0     # torch takes no views of empty batches
        w, f = [og * g, cg] + k, getattr(F, "conv%dd" % n)
        how = R.choice(["options", "options", "order"])
        tail = "{stride = %s, padding = %s, dilation = %s, groups = %d}" % (st, pt, dt, g) if how == "options" else "%s, %s, %s, %d" % (st, pt, dt, g)
        if R.random() < 0.6:
            Sample("conv%dd" % n, "flame.conv%dd(x, y, z, %s)" % (n, tail), lambda x, y, z, f=f, s=s, p=p, dil=dil, g=g: f(x, y, z, s, p, dil, g),
                   T(x, d, -2, 2, plain=plain), T(w, d, -2, 2, plain=plain), T([og * g], d), tol=4)
        else:
            Sample("conv%dd" % n, "x:conv%dd(y, nil, %s)" % (n, tail), lambda x, y, f=f, s=s, p=p, dil=dil, g=g: f(x, y, None, s, p, dil, g),
                   T(x, d, -2, 2, plain=plain), T(w, d, -2, 2, plain=plain), tol=4)
    for _ in range(int(60 * scale)):
        n, d = R.randint(1, 3), R.choice(KINDS)
        g = R.choice([1, 1, 2])
        cg, og = R.randint(1, 4), R.randint(1, 4)
        k = [R.randint(1, 3) for _ in range(n)]
        s, dil = R.randint(1, 3), R.randint(1, 2)
        p, extra = R.randint(0, 1), R.randint(0, max(s, dil) - 1)
        x = [R.choice([1, 2])] + [cg * g] + [R.randint(3, {1: 12, 2: 6, 3: 4}[n]) for _ in range(n)]
        if R.random() < 0.1:
            x = x[1:]
        f = getattr(F, "conv_transpose%dd" % n)
        text = "flame.conv_transpose%dd(x, y, z, {stride = %d, padding = %d, output_padding = %d, groups = %d, dilation = %d})" % (n, s, p, extra, g, dil)
        Sample("conv_transpose%dd" % n, text, lambda x, y, z, a=(s, p, extra, g, dil), f=f: f(x, y, z, *a),
               T(x, d, -2, 2), T([cg * g, og] + k, d, -2, 2), T([og * g], d), tol=4)
    for dtype in ("i64", "i32"):
        Sample("conv2d int", "flame.conv2d(x, y, nil, 2, 1)", lambda x, y: F.conv2d(x, y, None, 2, 1), T([2, 3, 6, 5], dtype), T([4, 3, 3, 2], dtype))
    # wrong sizes: both must raise
    for x, w, a in (([1, 3, 5, 5], [4, 4, 3, 3], ""), ([1, 3, 2, 5], [4, 3, 3, 3], ""), ([1, 4, 5, 5], [3, 2, 3, 3], ", nil, {groups = 2}"),
                    ([1, 3, 5, 5], [4, 3, 3], ""), ([3, 5], [4, 3, 3, 3], ""), ([1, 3, 5, 5], [4, 3, 3, 3], ", nil, {stride = 0}"),
                    ([1, 3, 5, 5], [4, 3, 3, 3], ", nil, {padding = -1}"), ([1, 3, 5, 5], [4, 3, 3, 3], ", nil, {dilation = 0}"),
                    ([1, 3, 5, 5], [4, 3, 3, 3], ', nil, {stride = 2, padding = "same"}'), ([1, 3, 5, 5], [4, 3, 0, 3], "")):
        Sample("conv2d errors", "flame.conv2d(x, y%s)" % a, lambda x, y: None, T(x, plain=True), T(w, plain=True), raises=True, grad=False)


def pools(scale):
    for _ in range(int(90 * scale)):
        n, d = R.randint(1, 3), R.choice(KINDS)
        k = [R.randint(1, 3) for _ in range(n)]
        kt, kv = (braces(k), k if n > 1 else k[0]) if R.random() < 0.6 else (str(k[0]), k[0])
        if not isinstance(kv, list):
            k = [k[0]] * n
        ceil, dil, pad = R.random() < 0.4, R.choice([1, 1, 2]), R.randint(0, min(k) // 2)
        st, sv = ("nil", None) if R.random() < 0.4 else numbers(n, 1, 3)
        size = [R.randint((i - 1) * 2 + 1, (i - 1) * 2 + {1: 14, 2: 8, 3: 4}[n]) for i in k]
        x = R.choice([[R.choice([0, 1, 2, 2])], []]) + [R.randint(1, 3)] + size
        f = getattr(F, "max_pool%dd" % n)
        o = "{stride = %s, padding = %d, dilation = %d, ceil_mode = %s}" % (st, pad, dil, lua_value(ceil))
        # expand makes ties between different elements of one base: the same gradient on both sides
        Sample("max_pool%dd" % n, "flame.max_pool%dd(x, %s, %s)" % (n, kt, o), lambda x, f=f, a=(kv, sv, pad, dil, ceil): f(x, *a), T(x, d))

        def both(x, f=f, a=(kv, sv, pad, dil, ceil)):
            v, i = f(x, *a, True)
            return v, i + 1
        Sample("max_pool%dd indices" % n, "flame.max_pool%dd(x, %s, %s, %d, %d, %s, true)" % (n, kt, st, pad, dil, lua_value(ceil)), both, T(x, d))
        f = getattr(F, "avg_pool%dd" % n)
        include, divisor = R.random() < 0.5, R.choice([None, None, 3]) if n > 1 else None
        o = "{stride = %s, padding = %d, ceil_mode = %s, count_include_pad = %s%s}" % (st, pad, lua_value(ceil), lua_value(include),
                                                                                    ", divisor_override = %d" % divisor if divisor else "")
        a = (kv, sv, pad, ceil, include) + ((divisor,) if n > 1 else ())
        Sample("avg_pool%dd" % n, "x:avg_pool%dd(%s, %s)" % (n, kt, o), lambda x, f=f, a=a: f(x, *a), T(x, d), tol=2)
        out = [R.randint(1, 5) for _ in range(n)]
        ot, ov = (braces(out), out if n > 1 else out[0]) if R.random() < 0.6 else (str(out[0]), out[0])
        f = getattr(F, "adaptive_avg_pool%dd" % n)
        Sample("adaptive_avg_pool%dd" % n, "x:adaptive_avg_pool%dd(%s)" % (n, ot), lambda x, f=f, a=ov: f(x, a), T(x, d), tol=2)
        f = getattr(F, "adaptive_max_pool%dd" % n)
        if x[0] != 0 or len(x) == n + 1:
            Sample("adaptive_max_pool%dd" % n, "x:adaptive_max_pool%dd(%s)" % (n, ot), lambda x, f=f, a=ov: f(x, a), T(x, d))
    for _ in range(int(8 * scale)):
        d = R.choice(KINDS)
        Sample("lp_pool2d", "x:lp_pool2d(2, 3, 2)", lambda x: F.lp_pool2d(x, 2, 3, 2), T([2, 2, 7, 6], d, 0.5, 3), tol=4)
        Sample("lp_pool1d", "x:lp_pool1d(3, 2, {ceil_mode = true})", lambda x: F.lp_pool1d(x, 3, 2, None, True), T([2, 2, 7], d, 0.5, 3), tol=4)
        for n in (2, 3, 5):
            Sample("local_response_norm", "x:local_response_norm(%d, {alpha = 0.1, k = 2})" % n, lambda x, n=n: F.local_response_norm(x, n, 0.1, 0.75, 2.0),
                   T(R.choice([[2, 5, 4], [2, 4, 3, 3], [1, 3, 2, 2, 3]]), d, plain=True), tol=6)
        Sample("max_unpool2d", "x:max_unpool2d(y, 2)", lambda x, y: F.max_unpool2d(x, y - 1, 2), T([1, 1, 2, 2], d),
               G(torch.tensor([[[[1, 3], [10, 12]]]])))
    nan = torch.tensor([[[1.0, float("nan"), 3.0, 2.0, float("-inf"), float("-inf"), 7.0, 7.0]]], dtype=torch.float64)
    Sample("max_pool1d NaN", "x:max_pool1d(2)", lambda x: F.max_pool1d(x, 2), G(nan), grad=False)
    Sample("max_pool1d NaN", "x:max_pool1d(3, 1)", lambda x: F.max_pool1d(x, 3, 1), G(nan), grad=False)
    Sample("max_pool2d NaN", "return x:max_pool2d({1, 2}, {return_indices = true})", lambda x: (lambda v: (v[0], v[1] + 1))(F.max_pool2d(x, (1, 2), return_indices=True)), G(nan.unsqueeze(0)), grad=False)
    for text in ("x:max_pool2d(3, {padding = 2})", "x:max_pool2d(0)", "x:max_pool2d(9)", "x:avg_pool2d(2, {padding = 2})", "x:max_pool2d(2, {stride = 0})",
                 "x:max_pool3d(2)", "x:adaptive_avg_pool2d({2, 2, 2})", "x:avg_pool2d()", "x:adaptive_avg_pool2d(-1)"):
        if text == "x:max_pool3d(2)":
            Sample("pool errors", text, lambda x: None, T([3, 3], plain=True), raises=True, grad=False)
        else:
            Sample("pool errors", text, lambda x: None, T([1, 1, 5, 5], plain=True), raises=True, grad=False)


def resizing(scale):
    modes = {1: ["nearest", "nearest-exact", "linear", "area"], 2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
             3: ["nearest", "nearest-exact", "trilinear", "area"]}
    for _ in range(int(120 * scale)):
        n, d = R.randint(1, 3), R.choice(KINDS)
        mode = R.choice(modes[n])
        x = [R.randint(1, 2), R.randint(1, 3)] + [R.randint(1, {1: 12, 2: 8, 3: 5}[n]) for _ in range(n)]
        align = R.choice([True, False]) if mode in ("linear", "bilinear", "bicubic", "trilinear") else None
        extra = ", align_corners = %s" % lua_value(align) if align is not None else ""
        if R.random() < 0.5:
            size = [R.randint(1, 12) for _ in range(n)]
            Sample("interpolate " + mode, 'x:interpolate({size = %s, mode = "%s"%s})' % (braces(size), mode, extra),
                   lambda x, s=size, m=mode, a=align: F.interpolate(x, s, None, m, a), T(x, d), tol=8)
        else:
            f = R.choice([2.0, 0.5, 1.5, 0.7, 3.0, 2.3, 1.0])
            if "nearest" in mode and f == 2.3:                  # torch's own gradient takes other elements there
                f = 2.0
            if any(int(i * f) < 1 for i in x[2:]):
                f = 2.0
            again = R.random() < 0.2
            Sample("interpolate " + mode, 'x:interpolate({scale_factor = %s, mode = "%s"%s%s})' % (f, mode, extra, ", recompute_scale_factor = true" if again else ""),
                   lambda x, f=f, m=mode, a=align, r=again: F.interpolate(x, None, f, m, a, r or None), T(x, d), tol=8)
    for _ in range(int(60 * scale)):
        d, mode = R.choice(KINDS), R.choice(["bilinear", "nearest", "bicubic"])
        pad, align = R.choice(["zeros", "border", "reflection"]), R.random() < 0.5
        n = R.randint(1, 2)
        x, g = [n, R.randint(1, 3), R.randint(2, 5), R.randint(2, 5)], [n, R.randint(1, 4), R.randint(1, 4), 2]
        Sample("grid_sample " + mode, 'flame.grid_sample(x, y, {mode = "%s", padding_mode = "%s", align_corners = %s})' % (mode, pad, lua_value(align)),
               lambda x, y, a=(mode, pad, align): F.grid_sample(x, y, *a), T(x, d), T(g, d, -1.6, 1.6, track=mode != "nearest"), tol=200, second=False)
    for _ in range(int(15 * scale)):
        d, align, n = R.choice(KINDS), R.random() < 0.5, R.randint(1, 2)
        size = [n, 1, R.randint(1, 4), R.randint(1, 4)]
        Sample("affine_grid", "flame.affine_grid(x, %s, %s)" % (braces(size), lua_value(align)), lambda x, s=size, a=align: F.affine_grid(x, s, a), T([n, 2, 3], d), tol=4)
        r, c = R.randint(1, 3), R.randint(1, 2)
        Sample("pixel_shuffle", "x:pixel_shuffle(%d)" % r, lambda x, r=r: F.pixel_shuffle(x, r), T([2, c * r * r, 2, 3], d))
        Sample("pixel_unshuffle", "x:pixel_unshuffle(%d)" % r, lambda x, r=r: F.pixel_unshuffle(x, r), T([2, c, 2 * r, 3 * r], d))
        Sample("channel_shuffle", "x:channel_shuffle(2)", lambda x: torch.channel_shuffle(x, 2), T([2, 4, 2, 3], d), grad=False)
        k, dil, p, s = R.randint(1, 3), R.randint(1, 2), R.randint(0, 2), R.randint(1, 2)
        h, w = R.randint(5, 8), R.randint(5, 8)
        o = "{dilation = %d, padding = %d, stride = %d}" % (dil, p, s)
        Sample("im2col", "x:im2col(%d, %s)" % (k, o), lambda x, a=(k, dil, p, s): F.unfold(x, *a), T([2, 2, h, w], d))
        count = [(v + 2 * p - dil * (k - 1) - 1) // s + 1 for v in (h, w)]
        Sample("col2im", "x:col2im({%d, %d}, %d, %s)" % (h, w, k, o), lambda x, z=(h, w), a=(k, dil, p, s): F.fold(x, z, *a), T([2, 2 * k * k, count[0] * count[1]], d))


def recurrent(scale):
    for _ in range(int(12 * scale)):
        for kind, gates in (("RNN", 1), ("LSTM", 4), ("GRU", 3)):
            d, i, h, n, t = R.choice(KINDS), R.randint(1, 4), R.randint(1, 4), R.randint(1, 3), R.randint(1, 6)
            first = R.random() < 0.4
            x = [n, t, i] if first else [t, n, i]
            lua = """local l = require("flame.nn").%s(%d, %d, {batch_first = %s})
                l.weight_ih_l0, l.weight_hh_l0, l.bias_ih_l0, l.bias_hh_l0 = y, z, w, u
                return l(x)""" % (kind, i, h, lua_value(first))

            def fn(x, y, z, w, u, kind=kind, h=h, first=first):
                n = x.shape[0 if first else 1]
                zero = torch.zeros(1, n, h, dtype=x.dtype)
                if kind == "LSTM":
                    return torch._VF.lstm(x, (zero, zero), (y, z, w, u), True, 1, 0.0, False, False, first)
                f = torch._VF.gru if kind == "GRU" else torch._VF.rnn_tanh
                return f(x, zero, (y, z, w, u), True, 1, 0.0, False, False, first)
            Sample(kind, lua, fn, T(x, d), T([gates * h, i], d, -1, 1), T([gates * h, h], d, -1, 1), T([gates * h], d), T([gates * h], d), tol=6)


def make(scale):
    recurrent(scale)
    convolutions(scale)
    wide_convolutions(scale)
    pools(scale)
    resizing(scale)
