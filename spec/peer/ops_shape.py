"""Constructors, views, joining and moving of axes."""
import torch
import torch.nn.functional as F
from sample import DTYPES, R, Sample, T, braces, shape


def args(numbers):
    return ", ".join(str(n) for n in numbers)


def split_sizes(n):
    """Random factors whose product is n, one of them perhaps -1."""
    out = []
    for p in (2, 3, 5):
        while n % p == 0 and n > 1 and len(out) < 4:
            out.append(p)
            n //= p
    out.append(n)
    R.shuffle(out)
    return out


def constructors(scale):
    for d in ("f32", "f64", "i32", "i64", "u8", "bool", "f16"):
        o = '{dtype = "%s"}' % d
        t = DTYPES[d]
        Sample("constructors", "flame.zeros(2, 3, %s)" % o, lambda t=t: torch.zeros(2, 3, dtype=t))
        Sample("constructors", "flame.ones({2, 0}, %s)" % o, lambda t=t: torch.ones(2, 0, dtype=t))
        Sample("constructors", "flame.full({2, 2}, %s, %s)" % ("true" if d == "bool" else "7", o), lambda t=t: torch.full((2, 2), 7).to(t))
        Sample("constructors", "flame.eye(3, 4, %s)" % o, lambda t=t: torch.eye(3, 4).to(t))
        Sample("constructors", "flame.eye(2, %s)" % o, lambda t=t: torch.eye(2).to(t))
        if d != "bool":
            Sample("constructors", "flame.arange(4, %s)" % o, lambda t=t: torch.arange(1, 5).to(t))
            Sample("constructors", "flame.arange(9, 2, -3, %s)" % o, lambda t=t: torch.tensor([9, 6, 3]).to(t))
            Sample("constructors", "flame.arange(5, 2, %s)" % o, lambda t=t: torch.zeros(0, dtype=t))
        Sample("constructors", "flame.zeros_like(x)", lambda x: torch.zeros_like(x), T([2, 3], d))
        Sample("constructors", "flame.ones_like(x)", lambda x: torch.ones_like(x), T([2, 3], d))
        Sample("constructors", "flame.full_like(x, %s)" % ("true" if d == "bool" else "3"), lambda x: torch.full_like(x, 3), T([2, 3], d))
        Sample("constructors", 'flame.zeros_like(x, {dtype = "f64"})', lambda x: torch.zeros_like(x, dtype=torch.float64), T([2, 3], d))
    for a, b, n in ((0, 1, 5), (-3, 3, 7), (2, 2, 3), (1, 9, 1), (1, 9, 0), (0, 10, 101), (5, -5, 11)):
        for d in ("f32", "f64"):
            Sample("linspace", 'flame.linspace(%d, %d, %d, {dtype = "%s"})' % (a, b, n, d), lambda a=a, b=b, n=n, d=d: torch.linspace(a, b, n, dtype=DTYPES[d]), tol=0.2)
    Sample("constructors", "flame.arange(0, 1, 0.1)", lambda: torch.tensor([0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1.0]), native=True)
    # integers give i64, a float among them f32: torch's rule
    for args, sizes in (("4", (1, 5)), ("2, 7, 2", (2, 8, 2)), ("3, -3, -2", (3, -4, -2)), ("0", (1, 1)), ("1 << 53, (1 << 53) + 3", (1 << 53, (1 << 53) + 4))):
        Sample("constructors", "flame.arange(%s)" % args, lambda sizes=sizes: torch.arange(*sizes), native=True)
    for args, sizes in (("4.0", (1., 5.)), ("8 / 2", (1., 5.)), ("2, 7, 2.0", (2, 8, 2.)), ("3, 1.0, -0.5", (3, .75, -.5))):
        Sample("constructors", "flame.arange(%s)" % args, lambda sizes=sizes: torch.arange(*sizes), native=True)
    Sample("constructors", "flame.tensor({{1, 2}, {3, 4}})", lambda: torch.tensor([[1., 2.], [3., 4.]]))
    Sample("constructors", "flame.tensor({true, false})", lambda: torch.tensor([True, False]))
    Sample("constructors", "flame.tensor(3.5)", lambda: torch.tensor(3.5))
    Sample("constructors", "flame.tensor({})", lambda: torch.zeros(0))
    Sample("constructors", 'flame.tensor({{1, 2}}, {dtype = "i8"})', lambda: torch.tensor([[1, 2]], dtype=torch.int8))


def views(scale):
    for _ in range(int(30 * scale)):
        d, s = R.choice(["f32", "f64", "f64", "i32", "bool", "f16"]), shape()
        n = len(s)
        x = lambda s=s, d=d: T(s, d)                                # noqa: E731
        total = 1
        for k in s:
            total *= k
        to = split_sizes(total) if total else [0, 3]
        hole = list(to)
        if total and R.random() < 0.5:
            hole[R.randrange(len(hole))] = -1
        Sample("reshape", "x:%s(%s)" % (R.choice(["reshape", "view"]), R.choice([args(hole), braces(hole)])), lambda x, to=to: x.reshape(to), x())
        Sample("flatten", "x:flatten()", lambda x: x.flatten(), x())
        Sample("squeeze", "x:squeeze()", lambda x: x.squeeze(), x())
        k = R.randint(0, n)
        Sample("unsqueeze", "x:unsqueeze(%d)" % R.choice([k + 1, k - n - 1]), lambda x, k=k: x.unsqueeze(k), x())
        Sample("clone", "return x:clone(), x:contiguous(), x:detach()", lambda x: (x.clone(), x.clone(), x.detach()), x())
        Sample("expand", "x:expand(%s)" % args([2] + s), lambda x, s=s: x.expand([2] + s), x())
        reps = [R.randint(0 if R.random() < .1 else 1, 3) for _ in range(R.randint(1, 4))]
        Sample("tile", "x:tile(%s)" % R.choice([args(reps), braces(reps)]), lambda x, r=reps: x.tile(r), x())
        if n == 0:
            continue
        a, b = R.randrange(n), R.randrange(n)
        wa, wb = R.choice([a + 1, a - n]), R.choice([b + 1, b - n])
        perm = R.sample(range(n), n)
        Sample("permute", "x:permute(%s)" % args(R.choice([p + 1, p - n]) for p in perm), lambda x, p=perm: x.permute(p), x())
        Sample("transpose", "x:transpose(%d, %d)" % (wa, wb), lambda x, a=a, b=b: x.transpose(a, b), x())
        Sample("movedim", "x:movedim(%d, %d)" % (wa, wb), lambda x, a=a, b=b: x.movedim(a, b), x())
        Sample("flatten", "x:flatten(%d, %d)" % (min(a, b) + 1, max(a, b) - n), lambda x, a=a, b=b: x.flatten(min(a, b), max(a, b)), x())
        Sample("squeeze", "x:squeeze(%d)" % wa, lambda x, a=a: x.squeeze(a), x())
        if n <= 2:
            Sample("t", "x:t()", lambda x: x.t(), x())
        axes = R.sample(range(n), R.randint(1, n))
        words = [R.choice([k + 1, k - n]) for k in axes]
        Sample("flip", "x:flip(%s)" % R.choice([args(words), braces(words)]), lambda x, a=axes: x.flip(a), x())
        k = R.randint(-7, 7)
        Sample("roll", "x:roll(%d, %d)" % (k, wa), lambda x, k=k, a=a: x.roll(k, a), x())
        Sample("roll", "x:roll(%d)" % k, lambda x, k=k: x.roll(k), x())
        two = [R.randint(-3, 3), R.randint(-3, 3)]
        if a != b:
            Sample("roll several", "x:roll(%s, %s)" % (braces(two), braces([wa, wb])), lambda x, t=two, ax=[a, b]: x.roll(t, ax), x())
        r = R.randint(0, 3)
        Sample("repeat_interleave", "x:repeat_interleave(%d, %d)" % (r, wa), lambda x, r=r, a=a: x.repeat_interleave(r, a), x())
        Sample("repeat_interleave", "x:repeat_interleave(%d)" % r, lambda x, r=r: x.repeat_interleave(r), x())
        z = R.randint(1, 4)
        Sample("split", "x:split(%d, %d)" % (z, wa), lambda x, z=z, a=a: x.split(z, a), x())
        cut = R.randint(0, s[a])
        Sample("split sizes", "x:split({%d, %d}, %d)" % (cut, s[a] - cut, wa), lambda x, c=cut, a=a: x.split([c, x.shape[a] - c], a), x())
        Sample("chunk", "x:chunk(%d, %d)" % (z, wa), lambda x, z=z, a=a: x.chunk(z, a), x())
        Sample("unbind", "x:unbind(%d)" % wa, lambda x, a=a: x.unbind(a), x())
        count = R.randint(0, s[a])
        first = R.randint(0, max(s[a] - count, 0))
        if s[a] and first < s[a]:
            Sample("narrow", "x:narrow(%d, %d, %d)" % (wa, R.choice([first + 1, first - s[a]]), count), lambda x, a=a, f=first, c=count: x.narrow(a, f, c), x())
            i = R.randrange(s[a])
            Sample("select", "x:select(%d, %d)" % (wa, R.choice([i + 1, i - s[a]])), lambda x, a=a, i=i: x.select(a, i), x())
            size, step = R.randint(1, s[a]), R.randint(1, 3)
            Sample("unfold", "x:unfold(%d, %d, %d)" % (wa, size, step), lambda x, a=a, z=size, t=step: x.unfold(a, z, t), x())
        if total:
            Sample("unflatten", "x:flatten():unflatten(1, %s)" % braces(hole), lambda x, to=to: x.reshape(to), x())


def triangles(scale):
    for _ in range(int(24 * scale)):
        d, s = R.choice(["f32", "f64", "f64", "i32", "bool"]), shape(2, 4, 5)
        k = R.randint(-4, 4)
        for name, fn in (("tril", torch.tril), ("triu", torch.triu)):
            Sample(name, "x:%s(%d)" % (name, k), lambda x, k=k, fn=fn: fn(x, k), T(s, d))
        Sample("triu", "x:triu()", lambda x: torch.triu(x), T(s, d))
        n = len(s)
        a, b = R.sample(range(n), 2)
        Sample("diagonal", "x:diagonal(%d, %d, %d)" % (k, a + 1, b - n), lambda x, k=k, a=a, b=b: torch.diagonal(x, k, a, b), T(s, d))
        Sample("diagonal", "x:diagonal()", lambda x: torch.diagonal(x), T(s, d))


def joins(scale):
    for _ in range(int(30 * scale)):
        d, s = R.choice(["f32", "f64", "f64", "i32", "bool"]), shape(1, 4)
        a = R.randrange(len(s))
        others = []
        for _ in range(2):
            t = list(s)
            t[a] = R.randint(0, 3)
            others.append(t)
        Sample("cat", "flame.cat({x, y, z}, %d)" % R.choice([a + 1, a - len(s)]), lambda *v, a=a: torch.cat(v, a), T(s, d), T(others[0], d), T(others[1], d))
        Sample("cat", "flame.cat({x, x})", lambda x: torch.cat([x, x]), T(s, d))
        k = R.randint(0, len(s))
        Sample("stack", "flame.stack({x, y}, %d)" % R.choice([k + 1, k - len(s) - 1]), lambda x, y, k=k: torch.stack([x, y], k), T(s, d), T(s, d))
        p, q = R.choice([("f32", "f64"), ("i32", "f32"), ("bool", "i8"), ("u8", "i8"), ("f16", "f32")])
        Sample("cat promotion", "flame.cat({x, y}, %d)" % (a + 1), lambda x, y, a=a: torch.cat([x, y], a), T(s, p), T(others[0], q), native=True)
        pads = [R.randint(0, 2) for _ in range(2 * R.randint(1, len(s)))]
        if 0 not in s:                                   # torch 1.13 refuses results of size 0
            Sample("pad", "x:pad(%s)" % braces(pads), lambda x, p=pads: F.pad(x, p), T(s, d))
        if d in ("f32", "f64"):
            pads = [R.randint(-1, 2) for _ in range(2 * R.randint(1, len(s)))]
            if all(n >= 3 for n in s):
                Sample("pad value", "x:pad(%s, {value = 1.5})" % braces(pads), lambda x, p=pads: F.pad(x, p, value=1.5), T(s, d))
            r = R.randint(1, 3)
            u = [R.randint(1, 2), R.randint(1, 2)] + [R.randint(3, 5) for _ in range(r)]
            pads = [R.randint(0, 2) for _ in range(2 * r)]
            for mode in ("reflect", "replicate", "circular"):
                Sample("pad " + mode, 'x:pad(%s, {mode = "%s"})' % (braces(pads), mode), lambda x, p=pads, m=mode: F.pad(x, p, mode=m), T(u, d))
        b = R.sample(range(2), 2)
        Sample("meshgrid", "flame.meshgrid(x, y)", lambda x, y: torch.meshgrid(x, y, indexing="ij"), T([3], d), T([R.randint(1, 4)], d))
        Sample("broadcast", "flame.broadcast(x, y)", lambda x, y: torch.broadcast_tensors(x, y), T([3, 1], d), T([R.randint(1, 4)], d))
        Sample("rearrange", 'x:rearrange("b (h d) t -> b h t d", {h = 2})', lambda x: x.reshape(2, 2, 3, 4).permute(0, 1, 3, 2), T([2, 6, 4], d))
        Sample("rearrange", 'x:rearrange("a b c -> (c a) b")', lambda x: x.permute(2, 0, 1).reshape(8, 6), T([2, 6, 4], d))
        n = R.randint(1, 6)
        Sample("one_hot", "x:one_hot(7)", lambda x: F.one_hot(x - 1, 7), T([2, n], "i64", 1, 7))


def make(scale):
    constructors(scale)
    views(scale)
    triangles(scale)
    joins(scale)
