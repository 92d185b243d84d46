"""Samples of Fourier transforms; complex tensors are real ones with a last axis of 2."""
import torch
from sample import R, Sample, T, braces, lua_value, shape

F = torch.fft


def as_complex(x):
    return torch.view_as_complex(x.clone(memory_format=torch.contiguous_format))


def one_axis(scale):
    kinds = {"fft": (True, F.fft, True), "ifft": (True, F.ifft, True), "rfft": (False, F.rfft, True), "irfft": (True, F.irfft, False)}
    for _ in range(int(40 * scale)):
        d = R.choice(["f32", "f64", "f64"])
        for name, (from_complex, fn, to_complex) in kinds.items():
            s = shape(1, 3, 7, 0)
            k = R.randrange(len(s))
            if name == "irfft" and s[k] == 1:
                s[k] = 2
            none = R.random() < .06 and len(s) > 1 and name != "irfft"
            if none:
                s[k - 1] = 0
            n = None if none else R.choice([None, None, R.randint(1, 9), R.choice([16, 17, 30, 37])])
            norm = R.choice([None, "backward", "ortho", "forward"])
            word = R.choice([k + 1, k - len(s)])
            lua = R.choice(["x:%s(%s, %s, %s)" % (name, lua_value(n), word, lua_value(norm)),
                            "flame.%s(x, {n = %s, dim = %s, norm = %s})" % (name, lua_value(n), word, lua_value(norm))])

            def run(x, fn=fn, n=n, k=k, norm=norm, a=from_complex, b=to_complex):
                y = fn(as_complex(x) if a else x, n, k, norm)
                return torch.view_as_real(y) if b else y
            Sample(name, lua, run, T(s + [2] if from_complex else s, d), tol=2)
    for n in (64, 100, 127, 243, 1009, 2310, 4096, 6007):
        Sample("rfft long", "x:rfft()", lambda x: torch.view_as_real(F.rfft(x)), T([n], "f64"), tol=4, second=False)
        Sample("fft long", "x:fft()", lambda x: torch.view_as_real(F.fft(as_complex(x))), T([n, 2], R.choice(["f32", "f64"])), tol=4,
               second=False)
        Sample("irfft long", "x:irfft(%d)" % n, lambda x, n=n: F.irfft(as_complex(x), n), T([n // 2 + 1, 2], "f64"), tol=4, second=False)


def several(scale):
    kinds = {"fftn": (True, F.fftn, True), "ifftn": (True, F.ifftn, True), "rfftn": (False, F.rfftn, True), "irfftn": (True, F.irfftn, False),
             "fft2": (True, F.fft2, True), "ifft2": (True, F.ifft2, True), "rfft2": (False, F.rfft2, True), "irfft2": (True, F.irfft2, False)}
    for _ in range(int(12 * scale)):
        d = R.choice(["f32", "f64", "f64"])
        for name, (from_complex, fn, to_complex) in kinds.items():
            s = shape(2, 3, 5, 0)
            s[-1] += 1
            dims = R.sample(range(len(s)), 2 if name.endswith("2") else R.randint(1, len(s)))
            if name.startswith("irfft") and s[dims[-1]] == 1:
                s[dims[-1]] = 3
            sizes = R.choice([None, [R.randint(2, 6) for _ in dims]])
            norm = R.choice([None, "ortho", "forward"])
            given = R.random() < .7
            words = braces(R.choice([k + 1, k - len(s)]) for k in dims) if given else "nil"
            if not given and sizes:
                sizes = sizes[:2] if len(sizes) > 1 or not name.endswith("2") else None

            def run(x, fn=fn, z=sizes, k=dims if given else None, norm=norm, a=from_complex, b=to_complex, two=name.endswith("2")):
                k = (-2, -1) if k is None and two else k
                y = fn(as_complex(x) if a else x, z, k, norm)
                return torch.view_as_real(y) if b else y
            Sample(name, "x:%s(%s, %s, %s)" % (name, lua_value(sizes), words, lua_value(norm)), run,
                   T(s + [2] if from_complex else s, d), tol=4)


def rest(scale):
    for n in range(1, 9):
        Sample("fftfreq", "flame.fftfreq(%d, 0.5)" % n, lambda n=n: F.fftfreq(n, .5), grad=False)
        Sample("rfftfreq", "flame.rfftfreq(%d)" % n, lambda n=n: F.rfftfreq(n), grad=False)
        for name in ("hann", "hamming", "blackman"):
            for periodic in (True, False):
                Sample(name, '%s_window(%d, %s, {dtype = "f64"})' % ("flame." + name, n, lua_value(periodic)),
                       lambda n=n, p=periodic, f=getattr(torch, name + "_window"): f(n, p, dtype=torch.float64), grad=False, tol=2)
        for sym in (True, False):        # torch.signal.windows of torch 2 by their formulas
            i, m = torch.arange(n, dtype=torch.float64), n if sym else n + 1
            if n > 1:
                o = "{sym = %s, dtype = \"f64\"" % lua_value(sym)
                middle = (m - 1) / 2
                for text, w in (("cosine_window(%d, %s})" % (n, o), torch.sin((i + .5) * (torch.pi / m))),
                                ("gaussian_window(%d, %s, std = 1.7})" % (n, o), torch.exp(-((i - middle) / 1.7) ** 2 / 2)),
                                ("exponential_window(%d, %s, tau = 2.5})" % (n, o), torch.exp(-(i - middle).abs() / 2.5))):
                    Sample(text[:text.index("(")], "flame." + text, lambda w=w: w, grad=False, tol=4)
    for _ in range(int(10 * scale)):
        s = [R.randint(1, 5), R.choice([1, 3, 4, 5])]
        x = T(s + [2], "f64")
        Sample("conj", "x:conj()", lambda x: torch.view_as_real(torch.conj_physical(torch.view_as_complex(x.contiguous()))), x)
        Sample("real", "x:real()", lambda x: torch.view_as_complex(x.contiguous()).real, T(s + [2], "f64"))
        Sample("imag", "x:imag()", lambda x: torch.view_as_complex(x.contiguous()).imag, T(s + [2], "f64"))
        Sample("conj", "x:conj()", torch.conj_physical, T(s, "f32"))
        k = R.randrange(2)
        Sample("fftshift", "x:fftshift()", F.fftshift, T(s, "f64"))
        Sample("fftshift", "x:fftshift(%d)" % (k + 1), lambda x, k=k: F.fftshift(x, k), T(s, "f32"))
        Sample("ifftshift", "x:ifftshift({1, -1})", lambda x: F.ifftshift(x, (0, -1)), T(s, "i32"))
        Sample("fft of integers", "x:rfft()", lambda x: torch.view_as_real(F.rfft(x)), T(s, "i32"))
        Sample("wrong calls raise", R.choice(["x:rfft(0)", "x:rfft(nil, 3)", 'x:rfft(nil, 1, "no")', "x:rfft(1, 1, nil, 4, 5)"]),
               lambda x: F.rfft(x, 0), T(s, "f64"), grad=False, raises=True)
        Sample("wrong calls raise", "x:rfft()", lambda x: F.rfft(x), T(s, "f16"), grad=False, raises=True)


def make(scale):
    one_axis(scale)
    several(scale)
    rest(scale)
