"""JAX's side of bench/compare.py; requests as in bench/peers/torch_peer.py. usage: jax_peer.py DEVICE THREADS"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from peers import answer, store                    # noqa: E402

try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError as e:
    answer.absent(e)
jax.config.update("jax_default_matmul_precision", "highest")
from cases import in_jax                           # noqa: E402  (after the settings)

DTYPES = {"F32": numpy.float32, "F64": numpy.float64, "BF16": jnp.bfloat16, "I64": numpy.int64, "I32": numpy.int32}
CPU_TIME = sys.argv[1] == "cpu" and sys.argv[2] == "1"
CURRENT = []


def arrays(path):
    """The file's tensors; positions, which are integers, count from 0 here."""
    out = {}
    for name, (dtype, shape, data) in store.read(path).items():
        x = numpy.frombuffer(data, dtype=DTYPES[dtype]).reshape(shape)
        out[name] = jnp.asarray(x - 1 if x.dtype.kind == "i" else x)
    return out


def largest_error(ours, theirs, floor):
    """As in bench/peers/torch_peer.py."""
    @jax.jit
    def size(x):
        return jnp.sqrt(jnp.sum(jnp.square(x.astype(jnp.float32))))

    @jax.jit
    def apart(a, b):
        return size(a.astype(jnp.float32).reshape(-1) - b.astype(jnp.float32).reshape(-1))
    whole = sum(float(size(x)) ** 2 for n, x in theirs.items() if n.startswith("grad.")) ** 0.5
    worst, where = 0.0, ""
    for name, x in theirs.items():
        if name not in ours or ours[name].size != x.size:
            return float("inf"), name + " (another shape)"
        least = floor * whole if name.startswith("grad.") else 0
        off = float(apart(ours[name], x)) / max(float(size(x)), least, 1e-30)
        if off != off:
            return float("inf"), name + " (NaN)"
        if off > worst:
            worst, where = off, name
    missing = [n for n in ours if n not in theirs and not n.startswith("draw.")]
    return (float("inf"), missing[0] + " (not among theirs)") if missing else (worst, where)


def make(rest):
    _, name, file, o = answer.request(rest)
    build = in_jax.CASES.get(name)
    if not build:
        return {"none": True}
    given, ours = arrays(file + ".in.safetensors"), arrays(file + ".out.safetensors")
    step, check = build(o, given)
    off, where = largest_error(ours, check(), 1e-2 if o.get("dtype") == "bf16" else 1e-3)
    CURRENT[:] = [step]
    return {"where": where, "off": min(off, 1e30)}


def timed(rest):
    now = time.process_time if CPU_TIME else time.perf_counter
    start = now()
    for _ in range(int(rest.split()[1])):
        out = CURRENT[0]()
    jax.block_until_ready(out)
    return {"seconds": (now() - start) / int(rest.split()[1])}


def drop(_):
    CURRENT.clear()
    jax.clear_caches()
    return {}


def hello(_):
    return {"version": jax.__version__, "device": str(jax.devices()[0])}


if __name__ == "__main__":
    answer.serve({"hello": hello, "make": make, "time": timed, "drop": drop, "rate": lambda _: {"rate": 0}})
