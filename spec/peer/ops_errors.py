"""What must raise, and leave the inputs as they were. Where torch has the same call it is
checked that torch raises too."""
import torch
import torch.nn.functional as F
from sample import Sample, T

X = ([2, 3], "f32")


def refuse(lua, fn, *inputs):
    """fn None: a rule of flame's own."""
    ins = [T(s, d, 1, 3, plain=True) for s, d in inputs]
    if fn is not None:
        try:
            fn(*[i.base for i in ins])
        except Exception:                               # noqa: BLE001
            pass
        else:
            raise AssertionError("torch does not raise: " + lua)
    Sample("errors", lua, fn, *ins, grad=False, raises=True)


def make(_):
    for name in "add sub mul div maximum atan2 eq pow fmod".split():
        refuse("x:%s(y)" % name, getattr(torch, name), X, ([2, 2], "f32"))
    for name in "sum mean prod amax amin any all var std argmax argmin".split():
        refuse("x:%s(3)" % name, lambda x, n=name: getattr(x, n)(2), X)
        refuse("x:%s(-3)" % name, lambda x, n=name: getattr(x, n)(-3), X)
        refuse("x:%s(0)" % name, None, X)
        refuse("x:%s(1.5)" % name, None, X)
        refuse('x:%s(1, {keepdims = true})' % name, None, X)
    for name in "sum mean amax var logsumexp".split():
        refuse("x:%s({1, 1})" % name, lambda x, n=name: getattr(x, n)([0, 0]), X)
    for name in "max min softmax log_softmax cumsum sort argsort logsumexp median cumprod".split():
        refuse("x:%s(3)" % name, lambda x, n=name: getattr(x, n)(2), X)
        refuse("x:%s(0)" % name, None, X)
    for text, fn in (("x:reshape(4, 2)", lambda x: x.reshape(4, 2)), ("x:reshape(-1, -1)", lambda x: x.reshape(-1, -1)), ("x:reshape(-1, 4)", lambda x: x.reshape(-1, 4)),
                     ("x:expand(4, 3)", lambda x: x.expand(4, 3)), ("x:expand(3)", lambda x: x.expand(3)), ("x:permute(1)", lambda x: x.permute(0)), ("x:permute(1, 1)", lambda x: x.permute(0, 0)),
                     ("x:transpose(1, 3)", lambda x: x.transpose(0, 2)), ("x:unsqueeze(4)", lambda x: x.unsqueeze(3)), ("x:squeeze(3)", lambda x: x.squeeze(2)), ("x:flip(3)", lambda x: x.flip(2)),
                     ("x:flip(1, 1)", lambda x: x.flip(0, 0)), ("x:roll(1, 3)", lambda x: x.roll(1, 2)), ("x:narrow(1, 2, 2)", lambda x: x.narrow(0, 1, 2)), ("x:narrow(1, 4, 1)", lambda x: x.narrow(0, 3, 1)),
                     ("x:select(1, 3)", lambda x: x.select(0, 2)), ("x:select(3, 1)", lambda x: x.select(2, 0)), ("x:split({1, 2}, 1)", lambda x: x.split([1, 2], 0)), ("x:split(0, 1)", lambda x: x.split(0, 0)),
                     ("x:chunk(0, 1)", lambda x: x.chunk(0, 0)), ("x:unfold(1, 3, 1)", lambda x: x.unfold(0, 3, 1)), ("x:unfold(1, 1, 0)", lambda x: x.unfold(0, 1, 0)), ("x:unflatten(2, {2, 2})", lambda x: x.unflatten(1, (2, 2))),
                     ("x:diagonal(0, 1, 1)", lambda x: x.diagonal(0, 0, 0)), ("x:select(1, 1):tril()", lambda x: x[0].tril()), ("x:pad({1, 1, 1, 1, 1, 1})", lambda x: F.pad(x, (1, 1, 1, 1, 1, 1))), ("x:pad({1})", None), ("x:tile(-1)", lambda x: x.tile(-1)),
                     ("x:repeat_interleave(-1, 1)", lambda x: x.repeat_interleave(-1, 0)), ("x:movedim(1, 3)", lambda x: x.movedim(0, 2)), ("x:unbind(3)", lambda x: x.unbind(2)), ("x:topk(4, 2)", lambda x: x.topk(4, 1)), ("x:topk(-1, 2)", lambda x: x.topk(-1, 1)),
                     ("x:kthvalue(4, 2)", lambda x: x.kthvalue(4, 1)), ("x:kthvalue(0, 2)", lambda x: x.kthvalue(0, 1)), ("x:layer_norm({2})", lambda x: F.layer_norm(x, [2])), ("x:layer_norm({3}, x)", lambda x: F.layer_norm(x, [3], x)), ("x:dropout(1.5)", lambda x: F.dropout(x, 1.5)),
                     ("x:t():matmul(x:t())", lambda x: x.t() @ x.t()), ("x:matmul(1)", None), ("x:mm(x)", lambda x: x.mm(x)), ("x:dot(x)", lambda x: x.dot(x)), ("x:mv(x)", lambda x: x.mv(x)), ("x:bmm(x)", lambda x: x.bmm(x)),
                     ("flame.linear(x, x:t())", lambda x: F.linear(x, x.t())), ("x:bitwise_and(x)", lambda x: x & x), ("~x", lambda x: ~x), ("x:clamp()", lambda x: x.clamp()), ("x:item()", lambda x: x.item()), ("x:trace():sum(3)", lambda x: x.trace().sum(2)),
                     ("x:rms_norm({2})", None), ("x:group_norm(2)", lambda x: F.group_norm(x, 2)), ("x:einsum(x)", None), ('flame.einsum("ij,jk->ik", x)', lambda x: torch.einsum("ij,jk->ik", x)),
                     ("x[3]", lambda x: x[2]), ("x[0]", None), ("x[-3]", lambda x: x[-3]), ("x[{1, 4}]", lambda x: x[0, 3]), ("x[{1, 1, 1}]", lambda x: x[0, 0, 0]), ("x[{ {1, 3} }]", None), ("x[{ {1, 2, 0} }]", None), ("x[1.5]", None), ("x[x]", lambda x: x[x]),
                     ("x:sum(1, 2, 3)", None), ("x:exp(2)", None), ("x:add()", None), ("x:add(1, 2, 3)", None), ("x:softmax()", None), ('x:to("f8")', None), ("x:foo()", None), ("x.foo", None), ("x < 1", None), ("flame.zeros(-1)", None),
                     ("flame.arange(1, 2, 0)", None), ("flame.tensor({1, {2}})", None), ('flame.tensor({1.5}, {dtype = "i32"})', None), ('flame.tensor({300}, {dtype = "u8"})', None), ("flame.tensor({1, true})", None), ('flame.tensor({"a"})', None)):
        refuse(text, fn, X)
    refuse("x:matmul(y)", torch.matmul, ([4, 3], "f32"), ([5, 2], "f32"))
    refuse("x:matmul(y)", torch.matmul, ([2, 4, 3], "f32"), ([3, 3, 2], "f32"))
    refuse("x:matmul(y)", torch.matmul, ([], "f32"), ([3], "f32"))
    refuse("x:dot(y)", torch.dot, ([3], "f32"), ([4], "f32"))
    refuse("flame.linear(x, y, z)", F.linear, X, ([4, 3], "f32"), ([5], "f32"))
    refuse("flame.cat({x, y}, 1)", lambda x, y: torch.cat([x, y]), X, ([2, 4], "f32"))
    refuse("flame.cat({x, y}, 1)", lambda x, y: torch.cat([x, y]), X, ([2], "f32"))
    refuse("flame.cat({}, 1)", lambda: torch.cat([]))
    refuse("flame.stack({x, y})", lambda x, y: torch.stack([x, y]), X, ([2, 4], "f32"))
    refuse("flame.where(x, y, y)", lambda x, y: torch.where(x, y, y), ([2], "f32"), ([2], "f32"))
    refuse("x:masked_fill(y, 1)", lambda x, y: x.masked_fill(y, 1), X, ([2, 2], "bool"))
    refuse("x:masked_fill(y, 1)", None, X, ([2, 3], "i32"))
    refuse("x:masked_select(y)", torch.masked_select, X, ([2, 2], "bool"))
    refuse("x[y]", lambda x, y: x[y], X, ([3], "bool"))
    refuse("x[y]", None, X, ([3], "f32"))
    for index in ("i64", "i32"):
        bad = "flame.tensor({{1, 4}}, {dtype = '%s'})" % index
        zero = "flame.tensor({{0, 1}}, {dtype = '%s'})" % index
        flat = "flame.tensor({1, 3}, {dtype = '%s'})" % index
        low = "flame.tensor({-1, 1}, {dtype = '%s'})" % index
        for i in (bad, zero):
            refuse("x:gather(2, %s)" % i, None, X)
            refuse("x:scatter(2, %s, x)" % i, None, X)
            refuse("x:scatter_add(2, %s, x)" % i, None, X)
            refuse("flame.one_hot(%s, 3)" % i, None, X)
        for i in (flat, low):
            refuse("x:index_select(1, %s)" % i, None, X)
            refuse("x:index_add(1, %s, x)" % i, None, X)
            refuse("flame.embedding(%s, x)" % i, None, X)
            refuse("flame.cross_entropy(x:t()({1, 2}, {}), %s)" % i, None, X)
            refuse("local t = x:clone(); t:index_add_(1, %s, x); return t" % i, None, X)
        refuse("x[%s]" % flat, None, X)
        refuse("x:take(%s)" % zero, None, X)
        refuse("local t = x:clone(); t[%s] = 1; return t" % flat, None, X)
    refuse("x:index_select(1, y)", None, X, ([2], "f32"))
    refuse("x:gather(1, y)", None, X, ([2, 3], "f32"))
    refuse("x:gather(1, y)", lambda x, y: x.gather(0, y * 0), X, ([2], "i64"))
    refuse("x:gather(1, y)", lambda x, y: x.gather(0, y * 0), X, ([1, 4], "i64"))
    refuse("x:scatter_add(1, y, z)", lambda x, y, z: x.scatter_add(0, y * 0, z), X, ([1, 4], "i64"), ([1, 4], "f32"))
    refuse("x:scatter_add(1, y, z)", lambda x, y, z: x.scatter_add(0, y * 0, z), X, ([2, 3], "i64"), ([1, 3], "f32"))
    refuse("x:index_add(1, y, z)", lambda x, y, z: x.index_add(0, y * 0, z), X, ([2], "i64"), ([3, 3], "f32"))
    refuse("x:index_select(1, y)", lambda x, y: x.index_select(0, y * 0), X, ([2, 2], "i64"))
    refuse("flame.embedding(x, y)", lambda x, y: F.embedding(x, y), ([2], "f32"), X)
    refuse("flame.cross_entropy(x, y)", lambda x, y: F.cross_entropy(x, y * 0), X, ([3], "i64"))
    refuse("flame.cross_entropy(x, y)", lambda x, y: F.cross_entropy(x, y), X, ([2, 2], "f32"))
    refuse("flame.cross_entropy(x, y, {weight = z})", lambda x, y, z: F.cross_entropy(x, y * 0, z), X, ([2], "i64"), ([2], "f32"))
    refuse('flame.cross_entropy(x, y, {reduction = "all"})', None, X, ([2], "i64"))
    refuse('flame.mse_loss(x, y, {reduction = "all"})', None, X, X)
    refuse("flame.nll_loss(x, y)", lambda x, y: F.nll_loss(x, y * 0), X, ([3], "i64"))
    refuse("local t = x:clone(); t[{1, {}}] = y; return t", None, X, ([2], "f32"))
    refuse("local t = x:clone(); t[1] = 'a'; return t", None, X)
    refuse("local t = x:clone(); t[{1, 4}] = 1; return t", None, X)
    refuse("local t = x:int(); t[1][1] = 2; return t", None, X)
    refuse("local t = y:clone(); t[1] = 1.5; return t", None, X, ([2], "i32"))
    refuse("local t = x:clone(); t[1][1] = 2; return t", None, X)
    refuse("local t = x:clone(); t[y] = z; return t", lambda x, y, z: x.index_put((y * 0,), z), X, ([2], "i64"), ([3, 3], "f32"))
    refuse("x + (1 << 40)", None, ([2], "i32"))
    refuse("x + 300", None, ([2], "u8"))
    for d in ("i32", "bool"):
        refuse("x:mean()", lambda x: x.mean(), ([3], d))
        refuse("x:requires_grad_()", None, ([3], d))
        refuse("x:layer_norm({3})", None, ([3], d))
    refuse("-x", lambda x: -x, ([3], "bool"))
    refuse("x - y", lambda x, y: x - y, ([3], "bool"), ([3], "bool"))
    refuse("(x * 2):backward()", None, X)
    refuse("x:sum():backward()", None, X)
