"""x[…] read and written in every form, gather and scatter and their kin, masks."""
import torch
from sample import R, Sample, T, G, braces, shape, values


def positions(n, most=4):
    return [R.randrange(n) for _ in range(R.randint(1, most))]


class Key:
    """A random key for a shape: text items, and what torch needs: a list of index_select
    positions for ranges, ints, and the tensors."""

    def __init__(self, sizes, tensors=True, unique=False):
        self.items, self.parts, self.extra = [], [], []
        self.sizes = sizes
        axis, shared = 0, [R.randint(1, 3)] if R.random() < 0.7 else [R.randint(1, 2), R.randint(1, 3)]
        count = 0
        while axis < len(sizes) and not (axis > 0 and R.random() < 0.12):
            n = sizes[axis]
            kind = R.choice(["number", "whole", "one", "range", "step", "back", "tensor", "mask"] if tensors else
                            ["number", "whole", "one", "range", "step", "back"])
            if n == 0:
                kind = "whole"
            if kind == "number":
                i = R.randrange(n)
                self.items.append(str(R.choice([i + 1, i - n])))
                self.parts.append(i)
            elif kind == "whole":
                self.items.append("{}")
                self.parts.append(slice(None))
            elif kind == "one":
                i = R.randrange(n)
                self.items.append("{%d}" % R.choice([i + 1, i - n]))
                self.parts.append([i])
            elif kind in ("range", "step", "back"):
                a, b = sorted([R.randrange(n), R.randrange(n)])
                step = {"range": 1, "step": R.randint(1, 3), "back": -R.randint(1, 3)}[kind]
                if step < 0:
                    a, b = b, a
                picked = list(range(a, b + (1 if step > 0 else -1), step))
                if kind == "range" and R.random() < 0.1:
                    picked, a, b = [], a, a - 1
                    self.items.append("{%d, %d}" % (a + 1, a))
                else:
                    words = [R.choice([a + 1, a - n]), R.choice([b + 1, b - n])] + ([] if kind == "range" else [step])
                    self.items.append(braces(words))
                self.parts.append(picked)
            elif kind == "tensor" and count < 3:
                size = [1 if R.random() < 0.2 else s for s in shared]
                size = size[R.randint(0, len(size) - 1):] if R.random() < 0.3 else size
                m = 1
                for s in size:
                    m *= s
                if unique and (count > 0 or n < m):
                    continue
                flat = R.sample(range(n), m) if unique else [R.randrange(n) for _ in range(m)]
                t = torch.tensor(flat, dtype=torch.int64).reshape(size)
                signed = t - n if R.random() < 0.3 else t + 1
                self.items.append("@%d" % len(self.extra))
                self.extra.append(signed.to(R.choice([torch.int64, torch.int32])) if n < 120 else signed)
                self.parts.append(t)
                count += 1
            elif kind == "mask" and count == 0 and "mask" not in [getattr(p, "kind", "") for p in self.parts]:
                m = torch.zeros(n, dtype=torch.bool)
                for i in R.sample(range(n), R.randint(1, n)):
                    m[i] = True
                self.items.append("@%d" % len(self.extra))
                self.extra.append(m)
                self.parts.append(m)
                count = 3
            else:
                continue
            axis += 1

    def text(self, first):
        names = ["x", "y", "z", "w", "u", "v"]
        return [names[first + int(i[1:])] if i.startswith("@") else i for i in self.items]

    def get(self, x):
        parts = list(self.parts)
        for axis, p in enumerate(parts):
            if isinstance(p, list):
                x = x.index_select(axis, torch.tensor(p, dtype=torch.int64))
                parts[axis] = slice(None)
        return x[tuple(parts)] if parts else x

    def put(self, x, v):
        n = x.numel()
        at = self.get(torch.arange(n).reshape(x.shape))
        y = x.clone().reshape(-1)
        v = v.to(x.dtype).expand(at.shape) if isinstance(v, torch.Tensor) else torch.full(at.shape, v, dtype=x.dtype)
        return y.index_put((at.reshape(-1),), v.reshape(-1)).reshape(x.shape)


def reads(scale):
    for k in range(int(250 * scale)):
        d, s = R.choice(["f32", "f64", "f64", "i32", "bool", "f16"]), shape(1, 4, 5)
        tensors = k % 2 == 0
        key = Key(s, tensors)
        items = key.text(1)
        form = "x(%s)" % ", ".join(items) if k % 3 or len(items) == 0 else "x[{%s}]" % ", ".join(items)
        if len(items) == 1 and not items[0].startswith("{") and k % 5 == 0:
            form = "x[%s]" % items[0]
        name = "x[…] tensors" if key.extra else "x[…]"
        Sample(name, form, lambda x, *rest, key=key: key.get(x), T(s, d), *[G(e) for e in key.extra])
    for _ in range(int(30 * scale)):
        d, s = R.choice(["f32", "f64", "i32"]), shape(2, 4, 4, 0)
        m = R.randint(1, len(s))
        mask = values(s[:m], "bool")
        Sample("x[mask]", "x[y]", lambda x, y: x[y], T(s, d), G(mask))
        Sample("masked_select", "x:masked_select(y)", lambda x, y: torch.masked_select(x.contiguous(), y), T(s, d), T(s[len(s) - m:], "bool"))
        Sample("masked_fill", "x:masked_fill(y, 2)", lambda x, y: x.masked_fill(y, 2), T(s, d), T(s[len(s) - m:], "bool"))
        Sample("masked_fill", "x:masked_fill(y, z)", lambda x, y, z: x.masked_fill(y, z), T(s, d), T(s, "bool"), T([], d))
        Sample("nonzero", "x:nonzero()", lambda x: x.nonzero() + 1, T(s, "i32", -1, 1))
        n = s[0]
        Sample("x[tensor]", "x[y]", lambda x, y: x[y - 1], T(s, d), T(shape(0, 3, 3, 0), "i64", 1, n, expand=False))


def writes(scale):
    for k in range(int(250 * scale)):
        d, s = R.choice(["f32", "f64", "f64", "i32", "bool"]), shape(1, 4, 5)
        key = Key(s, tensors=k % 2 == 0, unique=True)
        items = key.text(2)
        target = "t[{%s}]" % ", ".join(items)
        if len(items) == 1 and k % 3 == 0 and not items[0].startswith("{"):
            target = "t[%s]" % items[0]
        at = key.get(torch.zeros(s))
        v = [1 if R.random() < 0.2 else n for n in at.shape]
        v = v[R.randint(0, len(v)):] if R.random() < 0.4 else v
        kind = d if d == "bool" else R.choice([d, d, "i32"])
        name = "x[…] = v tensors" if key.extra else "x[…] = v"
        Sample(name, "local t = x * 1; %s = y; return t" % target if d != "bool" else "local t = x:clone(); %s = y; return t" % target,
               lambda x, y, *rest, key=key: key.put(x, y), T(s, d), T(v, kind), *[G(e) for e in key.extra])
        if d != "bool":
            items = key.text(1)
            target = "t[{%s}]" % ", ".join(items)
            Sample("x[…] = number", "local t = x:clone(); %s = 7; return t" % target, lambda x, *rest, key=key: key.put(x, 7),
                   T(s, d), *[G(e) for e in key.extra])
    for _ in range(int(30 * scale)):
        d, s = R.choice(["f32", "f64"]), shape(1, 3, 4, 0)
        m = R.randint(1, len(s))
        mask = values(s[:m], "bool")
        count = int(mask.sum())
        Sample("x[mask] = v", "local t = x:clone(); t[y] = 5; return t", lambda x, y: torch.where(y.reshape(list(y.shape) + [1] * (x.dim() - y.dim())), torch.tensor(5, dtype=x.dtype), x), T(s, d), G(mask))
        Sample("x[mask] = v", "local t = x:clone(); t[y] = z; return t", lambda x, y, z: x.clone().index_put((y,), z), T(s, d), G(mask), T([count] + s[m:], d))
        Sample("x[mask] = v", "local t = x:clone(); t[y] = z; return t", lambda x, y, z: x.clone().index_put((y,), z), T(s, d), G(mask), T([], d))
        n = s[0]
        idx = torch.tensor([R.randrange(n) + 1 for _ in range(5)])
        Sample("x[…] = v twice", "local t = x:clone(); t[y] = z; return t", last_wins, T(s, d), G(idx), T([5] + s[1:], d))


def last_wins(x, i, v):
    rows = [x[k] for k in range(x.shape[0])]
    for k, at in enumerate((i - 1).tolist()):
        rows[at] = v[k]
    return torch.stack(rows)


def along(scale):
    for _ in range(int(40 * scale)):
        d, s = R.choice(["f32", "f64", "f64", "i32", "f16"]), shape(1, 4, 4, 0)
        a = R.randrange(len(s))
        w, n = R.choice([a + 1, a - len(s)]), s[a]
        t = [R.randint(1, k) for k in s]
        t[a] = R.randint(1, 5)
        ids = lambda u, n=n: T(u, R.choice(["i64", "i32", "u8"]), 1, n, expand=False)           # noqa: E731
        Sample("gather", "x:gather(%d, y)" % w, lambda x, y, a=a: x.gather(a, y.long() - 1), T(s, d), ids(t))
        Sample("scatter_add", "x:scatter_add(%d, y, z)" % w, lambda x, y, z, a=a: x.scatter_add(a, y.long() - 1, z), T(s, d), ids(t), T(t, d), tol=2)
        once = list(t)
        once[a] = R.randint(1, n)
        order = torch.rand(s, generator=torch.Generator().manual_seed(R.randint(0, 10 ** 6))).argsort(a)[tuple(slice(0, k) for k in once)] + 1
        Sample("scatter", "x:scatter(%d, y, z)" % w, lambda x, y, z, a=a: x.scatter(a, y - 1, z), T(s, d), G(order.contiguous()), T(once, d))
        Sample("scatter", "x:scatter(%d, y, 3)" % w, lambda x, y, a=a: x.scatter(a, y.long() - 1, 3), T(s, d), ids(t))
        m = R.randint(1, 5)
        src = list(s)
        src[a] = m
        Sample("index_select", "x:index_select(%d, y)" % w, lambda x, y, a=a: x.index_select(a, y.long() - 1), T(s, d), ids([m]))
        Sample("index_add", "x:index_add(%d, y, z)" % w, lambda x, y, z, a=a: x.index_add(a, y.long() - 1, z), T(s, d), ids([m]), T(src, d), tol=2)
        if d in ("f32", "f64"):
            Sample("index_add alpha", "x:index_add(%d, y, z, {alpha = 0.5})" % w, lambda x, y, z, a=a: x.index_add(a, y.long() - 1, z, alpha=0.5),
                   T(s, d), ids([m]), T(src, d))
        u = torch.tensor(R.sample(range(n), R.randint(1, n))) + 1
        src[a] = len(u)
        Sample("index_copy", "x:index_copy(%d, y, z)" % w, lambda x, y, z, a=a: x.index_copy(a, y - 1, z), T(s, d), G(u), T(src, d))
        Sample("index_fill", "x:index_fill(%d, y, 2)" % w, lambda x, y, a=a: x.index_fill(a, y - 1, 2), T(s, d), G(u))
        total = 1
        for k in s:
            total *= k
        flat = values(shape(0, 3, 4, 0), "i64", 0, total - 1)
        Sample("take", "x:take(y)", lambda x, y: x.take(torch.where(y > 0, y - 1, y)), T(s, d), G(torch.where(values(flat.shape, "bool"), flat + 1, flat - total)))
        for name in ("scatter_add", "index_add"):
            fn = (lambda x, y, z, a=a: x.scatter_add(a, y.long() - 1, z)) if name == "scatter_add" else (lambda x, y, z, a=a: x.index_add(a, y.long() - 1, z))
            size = t if name == "scatter_add" else [m if k == a else v for k, v in enumerate(s)]
            Sample(name + " in place", "local t = x:clone(); t:%s_(%d, y, z); return t" % (name, w), fn, T(s, d), ids(size if name == "scatter_add" else [m]), T(size, d), tol=2)


def make(scale):
    reads(scale)
    writes(scale)
    along(scale)
