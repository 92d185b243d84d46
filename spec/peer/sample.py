"""A sample: one call written twice, in Lua and with torch, and the random inputs it gets.

An input is a base tensor (what is handed over, bit for bit) and a chain of random views that
both sides build from it; gradients are taken by the base. Positions are 1-based in the Lua
text and 0-based in the torch function: a sample gives both.
"""
import random
import torch

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
          "u8": torch.uint8, "bool": torch.bool}
NAMES = {v: k for k, v in DTYPES.items()}
FLOATS, HALVES = ("f64", "f32", "f16", "bf16"), ("f16", "bf16")
INTS = ("i64", "i32", "i16", "i8", "u8")
R = random.Random(1)
ALL = []                      # every sample made


class In:
    """A base tensor and its views: lua is text with %s for the base, view a function."""

    def __init__(self, base, steps=(), track=True):
        self.base, self.steps = base, list(steps)
        self.track = track and base.is_floating_point()

    def lua(self, name):
        for text, _ in self.steps:
            name = text % name
        return name

    def torch(self, base):
        for _, f in self.steps:
            base = f(base)
        return base


def values(shape, dtype, lo=-3.0, hi=3.0):
    """Uniform floats off the grid of ties; integers between lo and hi."""
    n = 1
    for s in shape:
        n *= s
    if dtype == "bool":
        flat = [R.random() < 0.5 for _ in range(n)]
    elif dtype in INTS:
        low = max(int(lo), 0) if dtype == "u8" else int(lo)
        flat = [R.randint(low, max(low, int(hi))) for _ in range(n)]
    else:
        flat = [R.uniform(lo, hi) for _ in range(n)]
    return torch.tensor(flat, dtype=torch.float64 if dtype in FLOATS else torch.int64).reshape(shape).to(DTYPES[dtype])


def braces(items):
    return "{" + ", ".join(str(i) for i in items) + "}"


def _permuted(shape):
    p = list(range(len(shape)))
    R.shuffle(p)
    prev = [0] * len(shape)
    for i, q in enumerate(p):
        prev[q] = shape[i]
    return prev, ("%%s:permute(%s)" % ", ".join(str(q + 1) for q in p), lambda t: t.permute(p))


def _sliced(shape):
    k = R.randrange(len(shape))
    step, off, extra = R.choice([1, 2, 3, -1, -1, -2]), R.randint(0, 1), R.randint(0, 1)
    n = shape[k]
    span = (n - 1) * abs(step) + 1 if n > 0 else 0
    prev = list(shape)
    prev[k] = off + span + extra
    first, last = off, off + span - 1
    picked = list(range(first, last + 1, abs(step)))[:n]
    if step < 0:
        picked.reverse()
    key = ["{}"] * k
    if n == 0:
        key.append("{%d, %d}" % (off + 1, off))
    else:
        key.append("{%d, %d, %d}" % (picked[0] + 1, picked[-1] + 1, step))
    index = torch.tensor(picked, dtype=torch.int64)
    return prev, ("%%s(%s)" % ", ".join(key), lambda t: t.index_select(k, index))


def _expanded(shape):
    k = R.randrange(len(shape))
    prev, whole = list(shape), list(shape)
    prev[k] = 1
    return prev, ("%%s:expand(%s)" % braces(whole), lambda t: t.expand(whole))


def _selected(shape):
    k, n = R.randint(0, len(shape)), R.randint(1, 3)
    prev, i = list(shape), R.randrange(n)
    prev.insert(k, n)
    return prev, ("%%s:select(%d, %d)" % (k + 1, i + 1), lambda t: t.select(k, i))


def _reshaped(shape):
    n = 1
    for s in shape:
        n *= s
    whole = list(shape)
    return [n], ("%%s:reshape(%s)" % braces(whole), lambda t: t.reshape(whole))


def T(shape, dtype="f32", lo=-3.0, hi=3.0, expand=True, plain=False, track=True):
    """A random input of this shape behind up to two random views."""
    steps, shape = [], list(shape)
    for _ in range(0 if plain else R.choice([0, 0, 1, 1, 2])):
        kinds = [_reshaped]
        if shape:
            kinds += [_permuted, _sliced, _sliced] + ([_expanded] if expand else [])
        if len(shape) < 6:
            kinds.append(_selected)
        shape, step = R.choice(kinds)(shape)
        steps.insert(0, step)
    return In(values(shape, dtype, lo, hi), steps, track)


def G(tensor, track=True):
    """A given tensor, as it is."""
    return In(tensor, (), track)


class Sample:
    """op: its row in the table. lua: an expression over x, y, z, w, u; or statements with
    'return'. fn: the same with torch. grad: compare gradients. native: the reference is torch
    in the sample's own dtype alone (ops that jump). raises: both must (None: as torch does).
    second: compare second derivatives of some; False where torch's are rough."""

    def __init__(self, op, lua, fn, *ins, grad=True, native=False, raises=None, tol=1.0, second=True):
        self.op, self.lua, self.fn, self.ins = op, lua, fn, ins
        self.grad, self.native, self.raises, self.tol = grad, native, raises, tol
        self.second = second and grad and all(i.base.dtype == torch.float64 for i in ins if i.base.is_floating_point()) \
            and R.random() < 0.25
        ALL.append(self)

    def text(self):
        names = ["x", "y", "z", "w", "u", "v"][:len(self.ins)]
        bases = ["b%d" % i for i in range(len(self.ins))]
        head = ""
        if names:
            head = "local %s = %s " % (", ".join(names), ", ".join(i.lua(b) for i, b in zip(self.ins, bases)))
        body = self.lua if "return" in self.lua else "return " + self.lua
        return "function(%s) %s%s end" % (", ".join(bases), head, body)


def shape(lo=0, hi=4, most=5, empty=0.04):
    return [0 if R.random() < empty else R.randint(1, most) for _ in range(R.randint(lo, hi))]


def lua_value(v):
    """A Python value as Lua text."""
    if v is None:
        return "nil"
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(lua_value(i) for i in v) + "}"
    if isinstance(v, dict):
        return "{" + ", ".join("%s = %s" % (k, lua_value(i)) for k, i in v.items() if i is not None) + "}"
    if isinstance(v, str):
        return v if v.startswith("@") is False and v in "xyzwuv" else '"%s"' % v
    if isinstance(v, float):
        if v != v:
            return "(0/0)"
        if v in (float("inf"), float("-inf")):
            return "math.huge" if v > 0 else "-math.huge"
    return repr(v)
