"""Some cases of bench/cases in JAX: name -> make(o, given), which returns step(), whose result is on the
device, and check(), name -> array. Everything is under jit; a training step is one compiled function."""
import jax
import jax.numpy as jnp


def call(f, *xs):
    """A function of arrays, compiled."""
    f = jax.jit(f)

    def step():
        return f(*xs)

    def check():
        out = step()
        return {f"out.{i + 1}": x for i, x in enumerate(out if isinstance(out, (tuple, list)) else [out])}
    return step, check


def clipped(g, most):
    norm = jnp.sqrt(sum(jnp.sum(x * x) for x in g.values()))
    return {k: x * jnp.minimum(1.0, most / (norm + 1e-6)) for k, x in g.items()}


def training(objective, parameters, update, state, clip=None):
    """A step of training: update(parameters, gradients, state) gives both after it. Three losses and the
    first gradients are what is compared."""
    def gradients(p):
        loss, g = jax.value_and_grad(objective)(p)
        return loss, clipped(g, clip) if clip else g

    @jax.jit
    def one(p, s):
        loss, g = gradients(p)
        return loss, g, *update(p, g, s)

    @jax.jit
    def silent(p, s):                              # gradients are no results: they need not be stored
        loss, g = gradients(p)
        return loss, *update(p, g, s)
    kept = [parameters, state]

    def check():
        out, p, s = {}, parameters, state
        for i in range(3):
            loss, g, p, s = one(p, s)
            out[f"loss.{i + 1}"] = loss.reshape(1)
            if i == 0:
                out.update({"grad." + name: x for name, x in g.items()})
        return out

    def step():
        loss, kept[0], kept[1] = silent(*kept)
        return loss
    return step, check


def adam(lr, decay=0.0):
    def update(p, g, s):
        m, v, t = s
        t = t + 1
        m = {k: 0.9 * m[k] + 0.1 * x for k, x in g.items()}
        v = {k: 0.999 * v[k] + 0.001 * x * x for k, x in g.items()}
        a, b = 1 - 0.9**t, 1 - 0.999**t
        p = {k: x * (1 - lr * decay) - lr * (m[k] / a) / (jnp.sqrt(v[k] / b) + 1e-8) for k, x in p.items()}
        return p, (m, v, t)
    return update


def adam_state(p):
    zeros = {k: jnp.zeros_like(x) for k, x in p.items()}
    return zeros, dict(zeros), jnp.float32(0)


def own(given):
    """The parameters of the net."""
    return {k: x for k, x in given.items() if k.startswith("net.")}


def dense(p, name, x):
    y = x @ p[name + ".weight"].T.astype(x.dtype)
    return y + p[name + ".bias"].astype(x.dtype) if name + ".bias" in p else y


def perceptron(p, x, between=jnp.tanh, name="net"):
    layers = sorted({int(k.split(".")[-2]) for k in p if k.startswith(name + ".")})
    for i, k in enumerate(layers):
        x = dense(p, f"{name}.{k}", between(x) if i else x)
    return x


def losses(logits, targets):
    logits = logits.astype(jnp.float32)
    return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]).mean()


def norm(x, w, b):
    f = x.astype(jnp.float32)
    f = (f - f.mean(-1, keepdims=True)) * jax.lax.rsqrt(f.var(-1, keepdims=True) + 1e-5)
    return (f * w.astype(jnp.float32) + b.astype(jnp.float32)).astype(x.dtype)


# ---- ops ----

def call_with_gradients(f, o, given, names):
    """f of these tensors and, if o asks for it, their gradients for the cotangent g, compiled."""
    inputs = [given[n] for n in names]
    if o.get("backward") != 1:
        return call(f, *inputs)

    def both(g, *inputs):
        y, back = jax.vjp(f, *inputs)
        return (y, *back(g))
    return call(both, given["g"], *inputs)


def layer_norm(o, given):
    return call_with_gradients(norm, o, given, "xwb")


def cross_entropy(o, given):
    return call(lambda x, t: jax.value_and_grad(losses)(x, t), given["x"], given["t"])


def attention(o, given):
    library = "cudnn" if o["dtype"] == "bf16" else "xla"

    def attend(q, k, v):
        q, k, v = (z.transpose(0, 2, 1, 3) for z in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=library).transpose(0, 2, 1, 3)
    return call_with_gradients(attend, o, given, "qkv")


def launches(o, given):
    def run(y):
        for _ in range(o["ops"] // 2):
            y = y * 0.999 + 0.001
        return y
    return call(run, given["x"])


def sums(o, given):
    axis = {"rows": 1, "columns": 0, "all": None}[o["over"]]
    return call(lambda x: x.sum(axis), given["x"])


def chain(x, y):
    return jnp.tanh((jax.nn.relu(x * y + 1) - y) * 0.5 + x) * y


# ---- nets ----

def mlp(o, given):
    p, x, t = own(given), given["x"], given["t"]
    return training(lambda p: losses(perceptron(p, x, jax.nn.relu), t), p, adam(1e-3), adam_state(p))


def block(p, name, x, heads):
    n, length, w = x.shape
    h = norm(x, p[name + ".norm1.weight"], p[name + ".norm1.bias"])
    q, k, v = (z.reshape(n, length, heads, -1) for z in jnp.split(dense(p, name + ".attention.qkv", h), 3, -1))
    library = "cudnn" if x.dtype == jnp.bfloat16 else "xla"
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=library)
    x = x + dense(p, name + ".attention.proj", y.reshape(n, length, w))
    h = norm(x, p[name + ".norm2.weight"], p[name + ".norm2.bias"])
    return x + dense(p, name + ".down", jax.nn.gelu(dense(p, name + ".up", h), approximate=True))


def gpt(o, given):
    p, ids = own(given), given["ids"]
    dtype = jnp.bfloat16 if o["dtype"] == "bf16" else jnp.float32

    def objective(p):
        x = (p["net.token.weight"][ids[:, :-1]] + p["net.position.weight"]).astype(dtype)
        for i in range(o["layers"]):
            x = block(p, f"net.blocks.{i}", x, o["heads"])
        x = norm(x, p["net.norm.weight"], p["net.norm.bias"])
        return losses(x @ p["net.token.weight"].T.astype(dtype), ids[:, 1:])
    step, check = training(objective, p, adam(1e-4, 0.01), adam_state(p), 1.0)
    return (lambda: float(step())), check


def lstm(o, given):
    p, x = own(given), given["x"]

    def layer(p, k, x):
        zero = jnp.zeros((x.shape[1], o["width"]))
        inputs = x @ p[f"net.weight_ih_l{k}"].T + p[f"net.bias_ih_l{k}"] + p[f"net.bias_hh_l{k}"]
        w = p[f"net.weight_hh_l{k}"].T

        def cell(state, z):
            h, c = state
            i, f, g, out = jnp.split(z + h @ w, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(out) * jnp.tanh(c)
            return (h, c), h
        return jax.lax.scan(cell, (zero, zero), inputs)[1]

    def descent(p, g, s):
        return {k: v - 1e-3 * g[k] for k, v in p.items()}, s
    return training(lambda p: jnp.square(layer(p, 1, layer(p, 0, x))).mean(), p, descent, ())


def pinn(o, given):
    p, x, t = own(given), given["x"], given["t"]

    def objective(p):
        def u(x, t):
            return perceptron(p, jnp.stack((x, t)))[0]

        def residual(x, t):
            ux, ut = jax.grad(u, (0, 1))(x, t)
            uxx = jax.grad(jax.grad(u))(x, t)
            return ut + u(x, t) * ux - 0.01 / jnp.pi * uxx
        return jnp.square(jax.vmap(residual)(x[:, 0], t[:, 0])).mean()
    return training(objective, p, adam(1e-3), adam_state(p))


def ppo(o, given):
    p, names = own(given), ("seen", "gain", "value", "before", "moves")
    seen, gain, value, before, moves = (given[n] for n in names)

    def objective(p):
        logs = jax.nn.log_softmax(perceptron(p, seen, name="net.0"), 1)
        ratio = jnp.exp(jnp.take_along_axis(logs, moves, 1)[:, 0] - before)
        kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
        wrong = jnp.square(perceptron(p, seen, name="net.1")[:, 0] - value).mean()
        return 0.5 * wrong - kept + 0.01 * (jnp.exp(logs) * logs).sum(1).mean()
    return training(objective, p, adam(1e-3), adam_state(p), 0.5)


def runge_kutta(law, x, count, dt):
    def one(x, _):
        a = law(x)
        b = law(x + a * (dt / 2))
        c = law(x + b * (dt / 2))
        d = law(x + c * dt)
        return x + (a + 2 * b + 2 * c + d) * (dt / 6), None
    return jax.lax.scan(one, x, None, length=count)[0]


def ode_solve(o, given):
    p = own(given)
    return call(lambda p, x: runge_kutta(lambda y: perceptron(p, y), x, o["steps"], 0.05), p, given["x"])


def ode_step(o, given):
    p, x, y = own(given), given["x"], given["y"]
    return training(lambda p: jnp.square(runge_kutta(lambda z: perceptron(p, z), x, o["steps"], 0.05) - y).mean(), p,
                    adam(1e-3), adam_state(p))


def clifford_layer(x, weight, bias, paths, terms):
    """As in bench/cases/nets.py."""
    grades = (0, 1, 1, 1, 2, 2, 2, 3)
    y = [x[k] @ weight[g] for k, g in enumerate(grades)]
    y[0] = y[0] + bias

    def gated(v):
        gate = (jax.scipy.special.erf(v[0] * 0.5**0.5) + 1) * 0.5
        return [part * gate for part in v]
    a, b, r = gated(list(x)), gated(y), [0] * 8
    for i, j, k, p, c in terms:
        r[k] = r[k] + a[i] * b[j] * paths[p] * c
    scales = [jax.lax.rsqrt(sum((r[k] * r[k]).mean(-1, keepdims=True) for k in range(8) if grades[k] == g) + 1e-6) for g in range(4)]
    return jnp.stack([r[k] * scales[grades[k]] for k in range(8)])


def clifford(o, given):
    terms = [tuple(int(v) for v in given[n]) for n in given if n.startswith("term.")]
    xs = [given[n] for n in ("x", "net.linear.weight", "net.linear.bias", "net.product.weight")]

    def layer(*xs):
        with jax.default_matmul_precision("tensorfloat32" if o.get("tf32") == 1 else "highest"):
            return clifford_layer(*xs, terms)
    if o.get("backward") != 1:
        return call(layer, *xs)

    def both(g, *xs):
        y, back = jax.vjp(layer, *xs)
        return (y, *back(g))
    return call(both, given["g"], *xs)


def act(o, given):
    p = own(given)
    rows = [[((i * 37 + k * 11) % 41) / 20.5 - 1 for k in range(1, 5)] for i in range(1, o["batch"] + 1)]
    f = jax.jit(lambda p, x: jax.nn.softmax(perceptron(p, x), 1))

    def probabilities():
        return f(p, jnp.array(rows, dtype=jnp.float32))
    return (lambda: probabilities().tolist()[-1]), (lambda: {"out.1": probabilities()})


# ---- kernels ----

def escape(o, given):
    def picture(cx, cy):
        def one(state, _):
            x, y, k, inside = state
            xx, yy = x * x, y * y
            inside = inside & (xx + yy <= 4)
            y = jnp.where(inside, 2 * x * y + cy, y)
            x = jnp.where(inside, xx - yy + cx, x)
            return (x, y, k + inside, inside), None
        zero = jnp.zeros_like(cx)
        return jax.lax.scan(one, (zero, zero, zero, jnp.ones(cx.shape, bool)), None, length=50)[0][2]
    return call(picture, given["cx"], given["cy"])


def swing(o, given):
    def last(a, w):
        def one(state, _):
            a, w = state
            w = w - 0.02 * (9.81 * jnp.sin(a) + 0.1 * w)
            return (a + 0.02 * w, w), None
        return jax.lax.scan(one, (a, w), None, length=200)[0][0].sum()
    return call(jax.grad(last, (0, 1)), given["angle"], given["speed"])


def bodies(o, given):
    def energy(p):
        d = p[:, None, :] - p[None, :, :]
        return -jax.lax.rsqrt((d * d).sum(2) + 0.01).sum(1).mean()
    return call(jax.grad(energy), given["p"])


CASES = {
    "map": lambda o, given: call(lambda x: jax.nn.relu(x * 2 + 1), given["x"]),
    "chain": lambda o, given: call(chain, given["x"], given["y"]),
    "softmax": lambda o, given: call(lambda x: jax.nn.softmax(x, 1), given["x"]),
    "matmul": lambda o, given: call(lambda a, b: a @ b, given["a"], given["b"]),
    "launches": launches, "sum": sums, "layer_norm": layer_norm, "cross_entropy": cross_entropy, "attention": attention,
    "mlp": mlp, "gpt": gpt, "lstm": lstm, "pinn": pinn, "ppo": ppo, "ode_solve": ode_solve, "ode_step": ode_step, "act": act, "clifford": clifford,
    "escape": escape, "swing": swing, "bodies": bodies}
