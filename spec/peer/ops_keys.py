"""Keys of x[…] by chance, read and written: positions, ranges, index tensors that broadcast (or not), masks, in any
order over the axes. A write with positions that come twice takes a number, since the last one wins here."""
import torch
from sample import In, R, Sample, T

NAMES = "zwuvq"


def position(n):
    i = R.randrange(-n, n)
    return str(i + 1 if i >= 0 else i), i


def part(n):
    if n == 0 or R.random() < 0.4:
        return "{}", slice(None)
    first = R.randint(1, n)
    last, step = R.randint(first, n), R.randint(1, 3)
    return "{%d, %d, %d}" % (first, last, step), slice(first - 1, last, step)


def drawn_key(shape):
    """(Lua's items, torch's, the tensors among them): a tensor stands as its number in the list."""
    lua, py, tensors = [], [], []
    common = R.choice([[2], [3], [2, 2], [1], [], [0]])
    for n in shape[:R.randint(1, len(shape))]:
        c = R.random()
        if c < 0.2 and n > 0:
            text, item = position(n)
        elif c < 0.6 or n == 0:
            text, item = part(n)
        else:
            size = R.choice([common, common, [1] * len(common), common[-1:], [3]])
            t = torch.randint(-n, n, size) if c < 0.9 else torch.rand(n) < 0.5
            text, item = len(tensors), len(tensors)
            tensors.append(t)
            item = ("tensor", item)
        lua.append(text)
        py.append(item)
    return lua, py, tensors


def lua_index(t):
    return t if t.dtype == torch.bool else torch.where(t >= 0, t + 1, t)


def key_of(py, tensors):
    def back(t):
        return t if t.dtype == torch.bool else torch.where(t > 0, t - 1, t)
    return tuple(back(tensors[p[1]]) if isinstance(p, tuple) else p for p in py)


def written(x, key, v):
    y = x * 1
    y[key] = v
    return y


def one(d):
    shape = [R.randint(1, 4) for _ in range(R.randint(1, 4))]
    lua, py, tensors = drawn_key(shape)
    if len(tensors) > 4:
        return
    ins = [In(lua_index(t)) for t in tensors]
    key = "{" + ", ".join(NAMES[i] if isinstance(i, int) else i for i in lua) + "}"
    names = "local %s = %s " % (", ".join(NAMES[:len(ins)]), ", ".join("b%d" % (k + 2) for k in range(len(ins)))) if ins else ""
    try:
        y = torch.arange(torch.Size(shape).numel()).reshape(shape)[key_of(py, [i.base for i in ins])]
    except (IndexError, RuntimeError):
        y = None
    number = y is None or y.unique().numel() != y.numel() or R.random() < 0.3
    v = T([] if number else [1 if R.random() < 0.3 else n for n in y.shape], d)
    if R.random() < 0.5:
        Sample("x[key]", "do %sreturn {x[%s]} end" % (names, key), lambda x, v, *t: x[key_of(py, t)], T(shape, d), v, *ins)
    elif number:
        Sample("x[key] = number", "do %slocal k = x * 1 k[%s] = 2.5 return {k} end" % (names, key), lambda x, v, *t: written(x, key_of(py, t), 2.5),
               T(shape, d), v, *ins)
    else:
        Sample("x[key] = tensor", "do %slocal k = x * 1 k[%s] = y return {k} end" % (names, key), lambda x, v, *t: written(x, key_of(py, t), v),
               T(shape, d), v, *ins)


def make(scale):
    for _ in range(max(1, round(400 * scale))):
        one(R.choice(["f64", "f32"]))
