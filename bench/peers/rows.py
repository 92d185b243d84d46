"""The rows of bench/compare.py: classes of work, their sizes on each device, what is wanted, and why a
row that misses it does.

A row has 'sizes': device -> what its case gets, "quick" for both devices in a few seconds. 'budget': the
time over the best peer's that is wanted at most, by device. 'moves', 'computes': bytes and (operations,
dtype) of a repetition, of which the limit follows. 'weight': its share of --budget-seconds. WHY has the
reasons for rows that miss their budget.
"""

KINDS = ["eager", "compile", "graph", "jax", "flash", "hand", "llm.c"]
GENERAL = ("eager", "compile", "graph", "jax")
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8}
# Relative error that is allowed, by dtype: of results, of losses and gradients of training.
TOLERANCE = {"f32": (1e-5, 2e-4), "bf16": (1e-2, 5e-2)}


class Row:
    def __init__(self, group, name, case, cuda=None, cpu=None, quick=None, budget=1.0, cpu_budget=None, moves=None,
                 computes=None, weight=5, tolerance=None, training=False, peers=GENERAL,
                 goal=None):
        self.group, self.name, self.case = group, name, case
        self.sizes = {"cuda": cuda, "cpu": cpu, "quick": quick}
        self.budgets = {"cuda": budget, "cpu": cpu_budget or budget}
        self.moves, self.computes, self.weight = moves, computes, weight
        self.goals = {"cuda": goal}
        self.own_tolerance, self.training, self.peers = tolerance, training, peers

    def shape(self, sizes):
        """Sizes as text; what the name says already is left out."""
        said = [f"{k} {v}" for k, v in sizes.items() if k not in ("backward", "over", "small", "tf32", "dtype")]
        return ", ".join(said + [sizes[k] for k in ("dtype",) if k in sizes])

    def tolerance(self, sizes):
        return self.own_tolerance or TOLERANCE[sizes.get("dtype", "f32")][self.training]


def matrix(o):
    return o["rows"] * o["columns"] * BYTES[o["dtype"]]


def attention_work(o):
    products = 7 if o.get("backward") == 1 else 2   # forward 2, backward 5, of half the scores
    return products * o["batch"] * o["heads"] * o["length"] ** 2 * o["size"], o["dtype"]


def gpt_work(o):
    """Operations of a training step: 6 per parameter and token, and the scores."""
    w, n = o["width"], o["batch"] * o["length"]
    parameters = o["layers"] * 12 * w * w + o["vocabulary"] * w
    return 6 * parameters * n + 6 * o["layers"] * n * o["length"] * w, o["dtype"]


def gpt(vocabulary, width, heads, layers, length, batch, dtype):
    return dict(vocabulary=vocabulary, width=width, heads=heads, layers=layers, length=length, batch=batch, dtype=dtype)


TINY = gpt(61, 32, 2, 2, 16, 2, "f32")
ROWS = [
    Row("gpt", "GPT-2 124M, training step", "gpt", gpt(50304, 768, 12, 12, 1024, 16, "bf16"), None, TINY, 1.0,
        computes=gpt_work, weight=70, training=True,
        peers=GENERAL + ("llm.c",)),
    Row("gpt", "small GPT, training step", "gpt", gpt(65, 384, 6, 6, 256, 64, "bf16"), gpt(65, 128, 4, 4, 64, 8, "f32"), None,
        1.0, 0.67, computes=gpt_work, weight=30, training=True),
    Row("mlp", "MLP 784-256-128-10, training step", "mlp", dict(batch=64), dict(batch=64), dict(batch=4), 1.0, 0.67, weight=12,
        training=True),
]


def attention(batch, heads, length, size, quick=False):
    for backward, budget in ((0, 1.05), (1, 1.25)):
        o = dict(batch=batch, heads=heads, length=length, size=size, backward=backward, dtype="bf16")
        small = dict(batch=1, heads=2, length=9, size=8, backward=backward, dtype="f32") if quick else None
        cpu = dict(batch=4, heads=4, length=128, size=64, backward=backward, dtype="f32") if quick else None
        yield Row("attention", "attention, " + ("with gradients" if backward else "forward"), "attention", o, cpu, small, budget, 1.0,
                  computes=attention_work, weight=6)


ROWS += [*attention(16, 12, 1024, 64, True), *attention(8, 16, 4096, 64), *attention(4, 16, 2048, 128)]

for dtype in ("f32", "bf16"):
    for backward in (0, 1):
        big = dict(rows=16384, columns=8192, dtype=dtype, backward=backward)
        cpu = dict(rows=1024, columns=1024, dtype=dtype, backward=backward) if dtype == "f32" else None
        tiny = dict(rows=5, columns=33, dtype=dtype, backward=backward) if dtype == "f32" else None
        ROWS.append(Row("norm", "layer norm, " + ("with gradients" if backward else "forward"), "layer_norm", big, cpu, tiny,
                        moves=lambda o: (4 if o["backward"] else 2) * matrix(o)))
for dtype, columns in (("f32", 8192), ("bf16", 8192), ("bf16", 50304)):
    first = columns == 8192 and dtype == "f32"
    ROWS.append(Row("entropy", "cross entropy with its gradient", "cross_entropy", dict(rows=16384, columns=columns, dtype=dtype),
                    dict(rows=1024, columns=1000, dtype=dtype) if first else None,
                    dict(rows=6, columns=11, dtype=dtype) if first else None, moves=lambda o: 2 * matrix(o)))
ROWS.append(Row("adamw", "AdamW alone", "adamw", dict(count=60, n=1024), dict(count=60, n=128), dict(count=3, n=8), 1.0,
                moves=lambda o: 28 * o["count"] * o["n"] ** 2))
for backward, tf32, goal in ((0, 0, None), (1, 0, None), (0, 1, 180e-6), (1, 1, 600e-6)):
    ROWS.append(Row("clifford", "layer of Cl(3,0), " + ("with gradients" if backward else "forward") + (", TF32" if tf32 else ""), "clifford",
                    dict(batch=4096, features=512, backward=backward, tf32=tf32),
                    None if tf32 else dict(batch=32, features=128, backward=backward),
                    None if tf32 else dict(batch=3, features=4, backward=backward), 1.0, weight=30, tolerance=5e-3 if tf32 else 1e-4,
                    peers=GENERAL + ("flash",), goal=goal))
ROWS += [
    Row("lstm", "LSTM of two layers, training step", "lstm", dict(width=256, length=100, batch=32),
        dict(width=64, length=20, batch=8), dict(width=4, length=3, batch=2), 1.0, weight=12, training=True),
    Row("resnet", "ResNet-18, training step", "resnet18", dict(batch=64, size=224, width=64, dtype="bf16"), None,
        dict(batch=4, size=64, width=4, dtype="f32"), 1.0, weight=40, training=True),
    Row("resnet", "ResNet-18, training step", "resnet18", dict(batch=64, size=224, width=64, dtype="f32"),
        dict(batch=2, size=64, width=16, dtype="f32"), None, 1.0, weight=30, training=True),
    Row("pinn", "Burgers' equation, training step", "pinn", dict(points=1000), dict(points=1000), dict(points=7), 1.0, weight=20,
        training=True),
    Row("inference", "policy 4-64-64-2, an observation in, probabilities out", "act", dict(batch=1), dict(batch=1), dict(batch=2),
        1.0, weight=8),
    Row("inference", "policy 4-64-64-2, an observation in, probabilities out", "act", dict(batch=64), dict(batch=64), None, 1.0,
        weight=8),
    Row("small", "PPO, training step", "ppo", dict(batch=256), dict(batch=256), dict(batch=5), 1.0, weight=15, training=True),
    Row("small", "differential equation, solved", "ode_solve", dict(steps=100), dict(steps=100), dict(steps=10), 1.0, weight=12),
    Row("small", "differential equation, training step", "ode_step", dict(steps=20), dict(steps=20), dict(steps=2), 1.0, weight=25,
        training=True),
    Row("small", "many ops on 16 numbers", "launches", dict(ops=1000), dict(ops=1000), dict(ops=10), 1.0, weight=10),
]

for n, dtype in ((4096, "f32"), (8192, "bf16")):
    ROWS.append(Row("matmul", "product of matrices", "matmul", dict(n=n, dtype=dtype), dict(n=512, dtype=dtype) if n == 4096 else None,
                    dict(n=9, dtype=dtype) if n == 4096 else None, 1.05, computes=lambda o: (2 * o["n"] ** 3, o["dtype"]), tolerance=1e-2))
for dtype in ("f32", "bf16"):
    wide, f32 = dict(rows=16384, columns=8192, dtype=dtype), dtype == "f32"
    ROWS.append(Row("streams", "softmax", "softmax", wide, dict(rows=1024, columns=1024, dtype=dtype) if f32 else None,
                    dict(rows=4, columns=9, dtype=dtype) if f32 else None, moves=lambda o: 2 * matrix(o)))
    for over in ("rows", "columns", "all"):
        ROWS.append(Row("streams", "sum of " + over, "sum", dict(wide, over=over),
                        dict(rows=1024, columns=1024, dtype=dtype, over=over) if f32 else None,
                        dict(rows=4, columns=9, dtype=dtype, over=over) if f32 else None, 1.05, moves=matrix, tolerance=1e-3))
ROWS += [
    Row("streams", "relu(2 x + 1)", "map", dict(n=1 << 26, dtype="f32"), dict(n=1000000, dtype="f32"), dict(n=10, dtype="f32"),
        moves=lambda o: 8 * o["n"]),
    Row("streams", "six ops on two inputs", "chain", dict(n=1 << 26, dtype="f32"), dict(n=1000000, dtype="f32"),
        dict(n=10, dtype="f32"), moves=lambda o: 12 * o["n"]),
    # Where a product and a sum are contracted, points at the edge take another number of rounds.
    Row("kernels", "points that escape, by a kernel", "escape", dict(n=256), dict(n=256), dict(n=8), 1.0, weight=20, tolerance=1e-3),
    Row("kernels", "pendulums in a kernel, derived gradient", "swing", dict(n=4096), dict(n=4096), dict(n=5), 1.0, weight=20),
    Row("kernels", "forces of bodies, derived gradient", "bodies", dict(n=1024), dict(n=1024), dict(n=5), 1.0, weight=8, tolerance=1e-4),
]
for name in ("attention by tiles", "LU 8 x 8", "greatest four", "LSTM cell", "splats", "bodies", "particles", "relaxation",
             "cycle of two grids", "elementwise chain", "stencil", "sampling of an image", "sum of 64", "series of 32", "Newton",
             "row in place 64", "spring 1,000"):
    ROWS.append(Row("hand", f"{name}, derived gradient", "ported." + name.replace(" ", "_"), dict(small=0), None,
                    dict(small=1) if name in ("LU 8 x 8", "LSTM cell") else None, 1.5, weight=3, tolerance=1e-3,
                    peers=("hand",)))

MODELS = [  # name, title, sizes, sizes of a quick run
    ("llama", "Llama of 125M, written out", dict(vocabulary=32000, width=768, heads=12, kv=4, ff=2048, layers=12, length=1024, batch=16, dtype="bf16"),
     dict(vocabulary=50, width=32, heads=4, kv=2, ff=48, layers=2, length=16, batch=2, dtype="f32")),
    ("vit", "vision transformer, 22M, dropout", dict(batch=128, size=224, width=384, heads=6, layers=12, dtype="bf16"),
     dict(batch=2, size=32, width=32, heads=2, layers=2, dtype="f32")),
    ("unet", "U-Net of a diffusion model", dict(width=128, batch=32, size=64, dtype="bf16"), dict(width=16, batch=2, size=8, dtype="f32")),
    ("dcgan", "DCGAN, both nets", dict(width=64, batch=128), dict(width=4, batch=2)),
    ("gnn", "message passing, three layers", dict(nodes=100000, edges=1000000, features=64), dict(nodes=50, edges=200, features=8)),
    ("nerf", "radiance field", dict(rays=1024, samples=64, width=256), dict(rays=8, samples=8, width=16)),
    ("sac", "soft actor-critic", dict(batch=256), dict(batch=8)),
    ("convnext", "ConvNeXt-T", dict(batch=64, size=224, width=96, deep=9, dtype="bf16"), dict(batch=2, size=32, width=8, deep=1, dtype="f32")),
    ("mobilenet", "MobileNetV2", dict(batch=64, size=224, stages=7), dict(batch=2, size=32, stages=2)),
    ("wavenet", "WaveNet, 20 layers", dict(width=64, layers=20, length=16000, batch=8), dict(width=8, layers=3, length=200, batch=2)),
    ("experts", "mixture of 8 experts", dict(width=512, hidden=1024, tokens=16384, dtype="bf16"), dict(width=16, hidden=32, tokens=64, dtype="bf16")),
    ("gru", "GRU, two layers, both directions", dict(vocabulary=10000, width=256, length=64, batch=64), dict(vocabulary=30, width=8, length=5, batch=2)),
    ("unet3d", "U-Net in three dimensions", dict(width=32, size=64, batch=2, dtype="bf16"), dict(width=4, size=8, batch=2, dtype="f32")),
    ("linear_attention", "linear attention with decay", dict(batch=16, length=1024, heads=8, chunk=64, dtype="bf16"),
     dict(batch=2, length=32, heads=2, chunk=16, dtype="f32")),
]
for name, title, cuda, quick in MODELS:
    ROWS.append(Row("models", title, name, cuda, None, quick, 1.0, weight=30, training=True, tolerance=None))

# In this order, so that what is short is measured when time ends.
GROUPS = ["mlp", "inference", "pinn", "small", "gpt", "attention", "norm", "entropy", "adamw", "lstm", "clifford", "matmul", "streams",
          "hand", "kernels", "resnet", "models"]
ROWS.sort(key=lambda row: GROUPS.index(row.group))

# Why a row misses what is wanted: device -> case -> what was found by measuring.
ATOMICS = "gradients of convolutions have a fixed order of sums; the peers take engines that add with atomics"
MANY = "each op is recorded and planned as the program runs, and the loop's ops are run one by one; the peers compiled the loop before"
LANES = "a kernel runs operation by operation over the lanes of a block; the peers compile the loop"
WHY = {
    "cpu": {
        "gpt": "products by the system's OpenBLAS 0.3.21, PyTorch's by MKL, which is faster here (the row of products)",
        "matmul": "the system's OpenBLAS 0.3.21 against PyTorch's MKL",
        "layer_norm backward": "values that sums and later work both read are written to the cache and read again, and the gradients of "
                               "weight and bias read x and g once more",
        "chain": "tanh is right to 2 ULP; XLA's, which is shorter, is off by up to 4.5",
        "launches": MANY, "ode_solve": MANY, "ode_step": MANY, "lstm": MANY,
        "escape": LANES, "swing": LANES,
    },
    "cuda": {
        "attention backward": "keys and queries compute their scores each for themselves, seven products and not five, so that no sum's "
                              "order is left to chance; cuDNN's kernels add with atomics",
        "cross_entropy": "bound by instructions, an exponential per element that is right to 2 ULP",
        "softmax": "bound by instructions, an exponential per element that is right to 2 ULP",
        "ode_solve": MANY, "ode_step": MANY, "launches": MANY,
        "attention": "cuDNN's kernel alone takes 84 us of the shortest (on an H100); a graph leaves out what the host does around it",
        "lstm": "8,285 ops are recorded in each step, and the host is the limit (7.3 ms on another); a CUDA graph needs none of it",
        "bodies": "each body's place is read by all threads, so the derived gradient adds four million shares in a fixed order; the peers "
                  "write the million differences out, which fit into the second-level cache",
        "resnet18": ATOMICS, "dcgan": ATOMICS, "mobilenet": ATOMICS, "wavenet": ATOMICS,
        "gnn": "sums over the edges of a node have a fixed order; the peers add with atomics",
        "ported.attention_by_tiles": "the derived kernel keeps its 32 sums for each key; by hand the sum of the result times its gradient "
                                     "replaces them",
        "ported.bodies": "110 instructions before a step's sums for 60 by hand; 28 keep a cotangent of 0 from becoming NaN beside an "
                         "infinite factor",
        "ported.greatest_four": "the fixed order clears and reads 64-bit sums of all 8.4 million elements for 32,768 summands",
        "ported.particles": "by hand each pair is computed twice, without atomics; derived, its shares are added in a fixed order",
        "ported.relaxation": "sums where tiles overlap have a fixed order",
        "ported.Newton": "by hand it is the derivative of the root; derived, the steps to it are computed and kept",
        "ported.spring_1,000": "the states of the reverse pass are in local memory, by hand 32 at a time",
    },
}


def why(group, name, device):
    """The reason for a row of this class and name; of rows with and without gradients each has its own."""
    row = next((r for r in ROWS if (r.group, r.name) == (group, name)), None)
    backward = row and row.sizes["cuda"].get("backward") == 1
    return WHY[device].get(row.case + (" backward" if backward else ""), "not known") if row else "not known"
