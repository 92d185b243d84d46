"""Products, rows, norms, losses, embedding, attention."""
import torch
import torch.nn.functional as F
from sample import R, Sample, T, G, braces, shape, values

F3 = ["f32", "f64", "f64"]


def products(scale):
    for _ in range(int(40 * scale)):
        d = R.choice(F3 + ["f16"])
        batch = shape(0, 2, 3, 0.02)
        n, k, m = R.choice([1, 2, 3, 5, 17]), R.choice([0, 1, 2, 3, 7, 33]), R.choice([1, 2, 4, 9])
        left = [1 if R.random() < 0.3 else b for b in batch]
        left = left[R.randint(0, len(left)):] if R.random() < 0.4 else left
        Sample("matmul", "x:matmul(y)", torch.matmul, T(left + [n, k], d), T(batch + [k, m], d), tol=3)
        Sample("matmul", "flame.matmul(x, y)", torch.matmul, T(batch + [n, k], d), T([k, m], d), tol=3)
        Sample("matmul vector", "x:matmul(y)", torch.matmul, T(batch + [n, k], d), T([k], d), tol=3)
        Sample("matmul vector", "x:matmul(y)", torch.matmul, T([k], d), T(batch + [k, m], d), tol=3)
        Sample("matmul vector", "x:matmul(y)", torch.matmul, T([k], d), T([k], d), tol=3)
        Sample("mm", "x:mm(y)", torch.mm, T([n, k], d), T([k, m], d), tol=3)
        Sample("bmm", "x:bmm(y)", torch.bmm, T([2, n, k], d), T([2, k, m], d), tol=3)
        Sample("mv", "x:mv(y)", torch.mv, T([n, k], d), T([k], d), tol=3)
        Sample("dot", "x:dot(y)", torch.dot, T([k], d), T([k], d), tol=3)
        if d == "f16":
            continue
        Sample("linear", "flame.linear(x, y, z)", F.linear, T(batch + [k], d), T([m, k], d), T([m], d), tol=3)
        Sample("linear", "flame.linear(x, y)", F.linear, T(batch + [k], d), T([m, k], d), tol=3)
        Sample("addmm", "x:addmm(y, z)", torch.addmm, T(R.choice([[n, m], [m]]), d), T([n, k], d), T([k, m], d), tol=3)
        Sample("addmm", "x:addmm(y, z, {beta = 0.5, alpha = 2})", lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2), T([n, m], d), T([n, k], d), T([k, m], d), tol=3)
        Sample("baddbmm", "x:baddbmm(y, z)", torch.baddbmm, T([2, n, m], d), T([2, n, k], d), T([2, k, m], d), tol=3)
        Sample("outer", "x:outer(y)", torch.outer, T([n], d), T([m], d))
        Sample("trace", "x:trace()", lambda x: x.diagonal().sum(), T([n, m], d))
        Sample("kron", "x:kron(y)", lambda x, y: (x[:, None, :, None] * y[None, :, None, :]).reshape(2 * 3, x.shape[1] * y.shape[1]), T([2, n], d), T([3, m], d))
        Sample("cross", "x:cross(y, 2)", lambda x, y: torch.cross(x, y, 1), T([n, 3], d, expand=False), T([n, 3], d, expand=False))
        Sample("cdist", "x:cdist(y)", torch.cdist, T([n, 3], d, expand=False), T([m, 3], d, expand=False), tol=60)
        for spec, p, q in (("ij,jk->ik", [n, k], [k, m]), ("bij,bkj->bik", [2, n, k], [2, m, k]), ("i,j->ij", [n], [m]), ("ij,ij->", [n, k], [n, k]),
                           ("ijk,k->ij", [2, n, k], [k]), ("bhqd,bhkd->bhqk", [2, 2, n, k], [2, 2, m, k]), ("ij,kl->jl", [n, m], [2, 3])):
            Sample("einsum", 'flame.einsum("%s", x, y)' % spec, lambda x, y, s=spec: torch.einsum(s, x, y), T(p, d), T(q, d), tol=3)
        Sample("einsum", 'flame.einsum("ij->ji", x)', lambda x: torch.einsum("ij->ji", x), T([n, m], d))
        Sample("einsum", 'flame.einsum("ii->i", x)', lambda x: torch.einsum("ii->i", x), T([n, n], d))
        Sample("einsum", 'flame.einsum("ij,jk", x, y)', lambda x, y: torch.einsum("ij,jk", x, y), T([n, k], d), T([k, m], d), tol=3)
        Sample("einsum", 'flame.einsum("...ij,jk->...ik", x, y)', lambda x, y: torch.einsum("...ij,jk->...ik", x, y), T([2, n, k], d), T([k, m], d), tol=3)
        Sample("einsum", 'flame.einsum("ab,bc,cd->ad", x, y, z)', lambda x, y, z: torch.einsum("ab,bc,cd->ad", x, y, z), T([n, k], d), T([k, m], d), T([m, 2], d), tol=3)
    for d in ("i32", "i64", "u8"):
        Sample("matmul int", "x:matmul(y)", torch.matmul, T([3, 4], d), T([4, 2], d))


def rows(scale):
    for _ in range(int(40 * scale)):
        d, s = R.choice(F3 + ["f16", "bf16"]), shape(1, 4, 6)
        a = R.randrange(len(s))
        w = R.choice([a + 1, a - len(s)])
        Sample("softmax", "x:softmax(%d)" % w, lambda x, a=a: x.softmax(a), T(s, d, -5, 5), tol=2)
        Sample("log_softmax", "x:log_softmax(%d)" % w, lambda x, a=a: x.log_softmax(a), T(s, d, -5, 5), tol=2)
        Sample("softmin", "x:softmin(%d)" % w, lambda x, a=a: F.softmin(x, a), T(s, d), tol=2)
        k = R.randint(1, len(s))
        tail = s[len(s) - k:]
        if 0 in s or d in ("f16", "bf16"):
            continue
        wide = [n + 3 for n in tail]
        u = s[:len(s) - k] + wide
        # a row of equal values makes the derivative of rsqrt depend on rounding: no expand
        Sample("layer_norm", "x:layer_norm(%s)" % braces(wide), lambda x, t=wide: F.layer_norm(x, t), T(u, d, expand=False), tol=4)
        Sample("layer_norm", "x:layer_norm(%s, y, z)" % braces(wide), lambda x, y, z, t=wide: F.layer_norm(x, t, y, z), T(u, d, expand=False), T(wide, d), T(wide, d), tol=4)
        Sample("layer_norm", "x:layer_norm(%s, y, nil, {eps = 0.1})" % (braces(wide)), lambda x, y, t=wide: F.layer_norm(x, t, y, None, 0.1), T(u, d, expand=False), T(wide, d), tol=4)
        Sample("rms_norm", "x:rms_norm(%s, y, {eps = 0.01})" % braces(wide), lambda x, y, k=k: x * (x.square().mean(list(range(-k, 0)), keepdim=True) + 0.01).rsqrt() * y, T(u, d, expand=False), T(wide, d), tol=4)
        c = R.choice([2, 4, 6])
        g = R.choice([1, 2])
        v = [R.randint(1, 3), c] + [3] * R.randint(1, 2)
        Sample("group_norm", "x:group_norm(%d, y, z)" % g, lambda x, y, z, g=g: F.group_norm(x, g, y, z), T(v, d, expand=False), T([c], d), T([c], d), tol=4)
        Sample("group_norm", "x:group_norm(%d, {eps = 0.1})" % g, lambda x, g=g: F.group_norm(x, g, eps=0.1), T(v, d, expand=False), tol=4)
        Sample("instance_norm", "x:instance_norm()", lambda x: F.instance_norm(x), T(v, d, expand=False), tol=100)
        Sample("batch_norm", "x:batch_norm(y, z, w, u)", lambda x, m, s2, w2, b: F.batch_norm(x, m, s2, w2, b), T(v, d), T([c], d, track=False, plain=True), T([c], d, .2, 2, track=False, plain=True), T([c], d, plain=True), T([c], d, plain=True), tol=4)
        Sample("batch_norm training", "x:batch_norm(nil, nil, y, z, {training = true})", lambda x, y, z: F.batch_norm(x, None, None, y, z, True), T([4] + v[1:], d, expand=False), T([c], d), T([c], d), tol=4)
    big = torch.tensor([[1000.0, 0.0, -1000.0], [float("-inf"), 0.0, 1.0]], dtype=torch.float64)
    Sample("softmax large", "x:softmax(2)", lambda x: x.softmax(1), G(big))
    Sample("log_softmax large", "x:log_softmax(2)", lambda x: x.log_softmax(1), G(big), grad=False)
    Sample("softmax 0-d", "x:softmax(1)", lambda x: x.softmax(0), T([], "f64"))


def entropy(scale):
    for _ in range(int(60 * scale)):
        d, c = R.choice(F3 + ["f16"]), R.randint(1, 7)
        rest = shape(0, 2, 3, 0)
        batch = R.choice([[], [R.randint(1, 4)] + rest])
        s = [c] if not batch else [batch[0], c] + batch[1:]
        how = R.choice(["mean", "sum", "none", None])
        smooth, weighted, ignore = R.choice([0, 0, 0.1, 0.5]), R.random() < 0.4, R.choice([None, None, -100, 2])
        ids = values(batch, "i64", 1, c)
        if ignore is not None and batch:
            ids = torch.where(values(batch, "bool"), torch.full_like(ids, ignore), ids)
            if not bool((ids != ignore).any()):
                ids.view(-1)[0] = 1
        options = [] if how is None else ['reduction = "%s"' % how]
        options += ["label_smoothing = %s" % smooth] if smooth else []
        options += ["ignore_index = %d" % ignore] if ignore is not None else []
        extra = [T([c], d, .2, 2, track=False, expand=False)] if weighted else []
        options += ["weight = z"] if weighted else []
        text = "flame.cross_entropy(x, y%s)" % (", {%s}" % ", ".join(options) if options else "")
        ign = -100 if ignore is None else ignore - 1 if ignore > 0 else ignore

        def fn(x, y, w=None, how=how, smooth=smooth, ign=ign):
            return F.cross_entropy(x, torch.where(y == -100, y, y - 1), w, ignore_index=ign, reduction=how or "mean", label_smoothing=smooth)
        Sample("cross_entropy ids", text, fn, T(s, d, expand=False), G(ids), *extra, tol=2)
        if d == "f16":
            continue
        options = [o for o in options if "ignore" not in o]
        text = "flame.cross_entropy(x, y%s)" % (", {%s}" % ", ".join(options) if options else "")
        Sample("cross_entropy probabilities", text, lambda x, y, w=None, how=how, smooth=smooth: F.cross_entropy(x, y, w, reduction=how or "mean", label_smoothing=smooth),
               T(s, d, expand=False), T(s, d, 0, 1), *extra, tol=2)
        options = ['reduction = "%s"' % (how or "mean")] + (["ignore_index = %d" % ignore] if ignore is not None else []) + (["weight = z"] if weighted else [])
        Sample("nll_loss", "flame.nll_loss(x, y, {%s})" % ", ".join(options),
               lambda x, y, w=None, how=how, ign=ign: F.nll_loss(x.contiguous(), torch.where(y == -100, y, y - 1), w, ignore_index=ign, reduction=how or "mean"), T(s, d), G(ids), *extra, tol=2)
    for how in ("mean", "sum", "none"):
        Sample("cross_entropy all ignored", 'flame.cross_entropy(x, y, {reduction = "%s"})' % how, lambda x, y, h=how: F.cross_entropy(x, y, reduction=h),
               T([3, 4], "f64"), G(torch.full([3], -100)), native=True)


def losses(scale):
    for _ in range(int(24 * scale)):
        d, s = R.choice(F3), shape(1, 3, 5)
        how = R.choice(["mean", "sum", "none"])
        o = 'reduction = "%s"' % how
        x, y = lambda: T(s, d), lambda: T(s, d)                        # noqa: E731
        if 0 in s:
            continue
        Sample("mse_loss", "flame.mse_loss(x, y, {%s})" % o, lambda x, y, h=how: F.mse_loss(x, y, reduction=h), x(), y())
        Sample("l1_loss", "flame.l1_loss(x, y, {%s})" % o, lambda x, y, h=how: F.l1_loss(x, y, reduction=h), x(), y())
        b = R.choice([0.5, 1, 2])
        Sample("huber_loss", "flame.huber_loss(x, y, {%s, delta = %s})" % (o, b), lambda x, y, h=how, b=b: F.huber_loss(x, y, reduction=h, delta=b), x(), y())
        Sample("smooth_l1_loss", "flame.smooth_l1_loss(x, y, {%s, beta = %s})" % (o, b), lambda x, y, h=how, b=b: F.smooth_l1_loss(x, y, reduction=h, beta=b), x(), y())
        Sample("binary_cross_entropy", "flame.binary_cross_entropy(x, y, {%s})" % o, lambda x, y, h=how: F.binary_cross_entropy(x, y, reduction=h),
               T(s, d, .05, .95), T(s, d, 0, 1, track=False), second=False)
        Sample("binary_cross_entropy", "flame.binary_cross_entropy(x, y, {%s, weight = z})" % o, lambda x, y, z, h=how: F.binary_cross_entropy(x, y, z, reduction=h),
               T(s, d, .05, .95), T(s, d, 0, 1, track=False), T(s, d, .1, 2, track=False), second=False)
        Sample("bce_with_logits", "flame.binary_cross_entropy_with_logits(x, y, {%s})" % o, lambda x, y, h=how: F.binary_cross_entropy_with_logits(x, y, reduction=h), x(), T(s, d, 0, 1, track=False))
        Sample("bce_with_logits", "flame.binary_cross_entropy_with_logits(x, y, {%s, pos_weight = z, weight = w})" % o,
               lambda x, y, z, w, h=how: F.binary_cross_entropy_with_logits(x, y, w, reduction=h, pos_weight=z), x(), T(s, d, 0, 1, track=False), T([s[-1]], d, .2, 2, track=False), T(s, d, .1, 2, track=False))
        for log in (False, True):
            for h in (how, "batchmean"):
                Sample("kl_div", 'flame.kl_div(x, y, {reduction = "%s", log_target = %s})' % (h, str(log).lower()),
                       lambda x, y, h=h, log=log: F.kl_div(x, y, reduction=h, log_target=log), x(), T(s, d, -2 if log else .1, 1), tol=10)
        Sample("cosine_similarity", "flame.cosine_similarity(x, y, 1)", lambda x, y: F.cosine_similarity(x, y, 0), x(), y(), tol=3)
        if len(s) > 1:
            Sample("cosine_similarity", "x:cosine_similarity(y)", lambda x, y: F.cosine_similarity(x, y), x(), y(), tol=3)
        Sample("triplet_margin_loss", "flame.triplet_margin_loss(x, y, z, {%s, margin = 0.7})" % o, lambda x, y, z, h=how: F.triplet_margin_loss(x, y, z, 0.7, reduction=h), T([3, 4], d), T([3, 4], d), T([3, 4], d), tol=3)
        Sample("hinge_loss", "flame.hinge_loss(x, y, {%s})" % o, lambda x, y, h=how: {"mean": torch.mean, "sum": torch.sum, "none": lambda v: v}[h]((1 - x * y).relu()), x(), y())
    zero = torch.zeros(2, 3, dtype=torch.float64)
    Sample("cosine_similarity zero", "flame.cosine_similarity(x, y, 2)", lambda x, y: F.cosine_similarity(x, y, 1), G(zero), T([2, 3], "f64"), second=False)
    Sample("binary_cross_entropy ends", "flame.binary_cross_entropy(x, y)", lambda x, y: F.binary_cross_entropy(x, y), G(torch.tensor([0.0, 1.0, 0.5, 1.0]).double()), G(torch.tensor([0.0, 1.0, 1.0, 0.0]).double(), track=False), grad=False)
    Sample("bce_with_logits zero", "flame.binary_cross_entropy_with_logits(x, y)", lambda x, y: F.binary_cross_entropy_with_logits(x, y), G(torch.tensor([0.0, 800.0, -800.0]).double()), G(torch.tensor([1.0, 1.0, 0.0]).double(), track=False))
    Sample("kl_div zero", 'flame.kl_div(x, y, {reduction = "sum"})', lambda x, y: F.kl_div(x, y, reduction="sum"), T([3], "f64"), G(torch.tensor([0.0, 0.5, 0.5]).double(), track=False))
    Sample("kl_div zero", 'flame.kl_div(x, y, {reduction = "sum"})', lambda x, y: F.kl_div(x, y, reduction="sum"), T([3], "f64"), G(torch.tensor([0.0, 0.5, 0.5]).double(), track=False))


def tables(scale):
    for _ in range(int(20 * scale)):
        d, n, m = R.choice(F3 + ["f16"]), R.randint(1, 6), R.randint(1, 4)
        Sample("embedding", "flame.embedding(x, y)", lambda x, y: F.embedding(x.long() - 1, y), T(shape(0, 3, 4), R.choice(["i64", "i32", "u8"]), 1, n, expand=False), T([n, m], d), tol=2)
        if d == "f16":
            continue
        q, k = R.randint(1, 5), R.randint(1, 5)
        for option, torch_option in (("", {}), (", {is_causal = true}", {"causal": True}), (", {scale = 0.3}", {"scale": 0.3})):
            kk = q if "causal" in torch_option else k
            Sample("attention", "flame.scaled_dot_product_attention(x, y, z%s)" % option, lambda x, y, z, o=torch_option: attention(x, y, z, **o),
                   T([2, 2, q, 4], d), T([2, 2, kk, 4], d), T([2, 2, kk, 3], d), tol=4)
        Sample("attention", "flame.scaled_dot_product_attention(x, y, z, {attn_mask = w})", lambda x, y, z, w: attention(x, y, z, mask=w), T([2, q, 4], d), T([2, k, 4], d), T([2, k, 3], d), T([q, k], d), tol=4)
        mask = values([q, k], "bool")
        mask[:, 0] = True
        Sample("attention", "flame.scaled_dot_product_attention(x, y, z, {attn_mask = w})", lambda x, y, z, w: attention(x, y, z, mask=w), T([2, q, 4], d), T([2, k, 4], d), T([2, k, 3], d), G(mask), tol=4)
        Sample("dropout off", "x:dropout(0.4, {training = false})", lambda x: x * 1, T([n, m], d))
        Sample("dropout off", "x:dropout(0)", lambda x: x * 1, T([n, m], d))
        Sample("dropout 1", "x:dropout(1)", lambda x: x * 0, T([n, m], d))
    ones = G(torch.ones(100, 100))
    check = "local y = x:dropout(0.3); local kept = y:ne(0):float():mean():item(); local v = y:max():item() return math.abs(kept - 0.7) < 0.02, math.abs(v - 1 / 0.7) < 1e-6"
    Sample("dropout rate", check, lambda x: (True, True), ones, grad=False)
    for text in ("local y = flame.rand(10000) return y:min():item() >= 0, y:max():item() < 1, math.abs(y:mean():item() - 0.5) < 0.02",
                 "local y = flame.randn(10000) return math.abs(y:std():item() - 1) < 0.05, math.abs(y:mean():item()) < 0.05, true",
                 "local y = flame.randint({10000}, 3, 5) return y:min():item() == 3, y:max():item() == 5, math.abs(y:double():mean():item() - 4) < 0.05",
                 "local y = flame.uniform({1000}, -2, 3) return y:min():item() >= -2, y:max():item() < 3, true",
                 "local y = flame.normal({10000}, 5, 2) return math.abs(y:mean():item() - 5) < 0.1, math.abs(y:std():item() - 2) < 0.1, true",
                 "local y = flame.randperm(50):sort() return flame.equal(y, flame.arange(50, {dtype = 'i64'})), y.dtype == 'i64', true",
                 "local y = flame.bernoulli(flame.full({10000}, 0.3)) return math.abs(y:mean():item() - 0.3) < 0.03, y.dtype == 'f32', true",
                 "local y = flame.multinomial(flame.tensor({0, 1, 3}), 10000, {replacement = true}) return y:min():item() == 2, math.abs(y:eq(3):double():mean():item() - 0.75) < 0.03, true",
                 "local y = flame.multinomial(flame.tensor({{1, 1, 3}, {2, 0, 1}}), 2) return y.shape[1] == 2 and y.shape[2] == 2, y:max():item() <= 3, true"):
        Sample("random", text, lambda: (True, True, True), grad=False)


def attention(q, k, v, causal=False, mask=None, scale=None):
    s = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else s + mask
    return s.softmax(-1) @ v


def make(scale):
    products(scale)
    rows(scale)
    entropy(scale)
    losses(scale)
    tables(scale)
