"""The cases of bench/cases/nets.lua in PyTorch."""
import torch
import torch.nn.functional as F

from cases.ops import attend


def perceptron(sizes, between=torch.nn.Tanh):
    layers = []
    for k in range(1, len(sizes)):
        layers += [between()] * (k > 1) + [torch.nn.Linear(sizes[k - 1], sizes[k])]
    return torch.nn.Sequential(*layers)


def mlp(o, peer):
    net = peer.net(perceptron((784, 256, 128, 10), torch.nn.ReLU))
    x, t = peer.given["x"], peer.given["t"]
    return peer.train(net, peer.adam(net.parameters(), lr=1e-3), lambda: F.cross_entropy(net(x), t), small=True)


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).split(w, 2))
        return self.proj(attend(q, k, v).transpose(1, 2).reshape(n, t, w))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = self.up(self.norm2(x))
        try:
            h = F.gelu(h, approximate="tanh")
        except TypeError:                          # before PyTorch 1.12
            h = 0.5 * h * (1 + torch.tanh(0.7978845608028654 * (h + 0.044715 * h**3)))
        return x + self.down(h)


class GPT(torch.nn.Module):
    def __init__(self, o):
        super().__init__()
        self.token, self.position = torch.nn.Embedding(o["vocabulary"], o["width"]), torch.nn.Embedding(o["length"], o["width"])
        self.blocks = torch.nn.ModuleList(Block(o["width"], o["heads"]) for _ in range(o["layers"]))
        self.norm = torch.nn.LayerNorm(o["width"])

    def forward(self, ids, targets):
        h = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            h = block(h)
        h = F.linear(self.norm(h), self.token.weight)
        return F.cross_entropy(h.reshape(-1, h.shape[-1]), targets.reshape(-1))


def gpt(o, peer):
    net, ids = peer.net(GPT(o)), peer.given["ids"]
    forward = peer.wrap(net)
    opt = peer.adam(net.parameters(), torch.optim.AdamW, lr=1e-4)
    x, t = ids[:, :-1], ids[:, 1:]
    return peer.train(net, opt, None, objective=lambda: forward(x, t), bf16=o["dtype"] == "bf16", clip=1.0, read=True)


def lstm(o, peer):
    net, x = peer.net(torch.nn.LSTM(o["width"], o["width"], 2)), peer.given["x"]
    return peer.train(net, peer.sgd(net.parameters(), lr=1e-3), lambda: net(x)[0].square().mean())


class Residual(torch.nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.conv2 = torch.nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = torch.nn.BatchNorm2d(b), torch.nn.BatchNorm2d(b)
        if stride != 1 or a != b:
            self.skip = torch.nn.Sequential(torch.nn.Conv2d(a, b, 1, stride, bias=False), torch.nn.BatchNorm2d(b))
        else:
            self.skip = torch.nn.Identity()

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.skip(x))


def resnet18(o, peer):
    w = o["width"]
    layers, before = [torch.nn.Conv2d(3, w, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(w), torch.nn.ReLU(),
                      torch.nn.MaxPool2d(3, 2, 1)], w
    for stage in range(4):
        for i in range(2):
            layers.append(Residual(before, w << stage, 2 if stage > 0 and i == 0 else 1))
            before = w << stage
    net = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(before, 1000))
    net, x, t = peer.net(net), peer.given["x"], peer.given["t"]
    net, x = peer.last(net), peer.last(x)
    forward = peer.wrap(net)
    return peer.train(net, peer.sgd(net.parameters(), lr=0.01, momentum=0.9), None,
                      objective=lambda: F.cross_entropy(forward(x), t), bf16=o["dtype"] == "bf16")


def clifford_layer(x, weight, bias, paths, terms):
    """flash-clifford's layer in Cl(3,0), written out: x (8, batch, features)."""
    grades = (0, 1, 1, 1, 2, 2, 2, 3)
    y = [x[k] @ weight[g] for k, g in enumerate(grades)]
    y[0] = y[0] + bias

    def gated(v):
        gate = (torch.erf(v[0] * 0.5**0.5) + 1) * 0.5
        return [part * gate for part in v]
    a, b, r = gated(list(x)), gated(y), [None] * 8
    for i, j, k, p, c in terms:
        v = a[i] * b[j] * paths[p]
        v = v if c > 0 else -v
        r[k] = v if r[k] is None else r[k] + v
    scales = [torch.rsqrt(sum((r[k] * r[k]).mean(-1, keepdim=True) for k in range(8) if grades[k] == g) + 1e-6) for g in range(4)]
    return torch.stack([r[k] * scales[grades[k]] for k in range(8)])


def flash_layer(o, peer, x, weight, paths):
    """The same by flash-clifford itself, whose folder is on the path."""
    import sys
    sys.path.insert(0, peer.flash)
    from modules.layer import Layer
    net = Layer(o["features"], 3).to(peer.device)
    with torch.no_grad():
        net.linear_weight.copy_(weight)
        net.gp_weight.copy_(paths.t())
    if o.get("backward") != 1:
        return peer.call(torch.no_grad()(lambda: net(x)))
    case = peer.backward(lambda: net(x), [x, net.linear_weight, net.linear_bias, net.gp_weight], peer.given["g"])

    def check(body):
        y, dx, dw, _, dp = body()
        return [y, dx, dw, None, dp.t()]           # its bias is added to all components
    case.check = check
    return case


def clifford(o, peer):
    given = peer.given
    terms = [tuple(int(v) for v in given[f"term.{i}"].tolist()) for i in range(1, 1 + sum(n.startswith("term.") for n in given))]
    x, weight, bias, paths = (given[n] for n in ("x", "net.linear.weight", "net.linear.bias", "net.product.weight"))
    if peer.kind == "flash":
        return flash_layer(o, peer, x, weight, paths)

    def forward():
        return clifford_layer(x, weight, bias, paths, terms)
    if o.get("backward") != 1:
        return peer.call(torch.no_grad()(forward))
    return peer.backward(forward, [x, weight, bias, paths], given["g"])


def act(o, peer):
    net = peer.net(perceptron((4, 64, 64, 2)))
    rows = [[((i * 37 + k * 11) % 41) / 20.5 - 1 for k in range(1, 5)] for i in range(1, o["batch"] + 1)]
    x = torch.zeros(o["batch"], 4, device=peer.device)
    return peer.call(torch.no_grad()(lambda: torch.softmax(net(x), 1)), small=True,
                     feed=lambda: x.copy_(torch.tensor(rows)), read=lambda p: p.tolist()[-1])


CASES = {"mlp": mlp, "gpt": gpt, "lstm": lstm, "resnet18": resnet18, "clifford": clifford, "act": act}
