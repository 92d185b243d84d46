#!/usr/bin/env python3
"""Small work: flame-lua against PyTorch, eager and compiled, interleaved in one run.

usage: small.py FLAME_LUA [cpu|cuda] [-m] [-b SECONDS] [-t THREADS] [-r ROUNDS] [names...]
First each case is computed three times on both sides and compared; a case that differs is not timed. Then
alternating rounds, all eager ones before the compiled ones, and the medians. -m: a table for the
documentation. -b: the table is printed after so many seconds, with "-" for what was not reached. On a
CPU with one thread (-t 1, the default) the processor's time is measured, not the wall's, which a machine
that is busy with other work can still tell. Compiled is torch.compile of what a user would compile, the
function of the loss, of one step in time or of ten rounds of a loop, with CUDA graphs on a GPU.
Without PyTorch: flame-lua bench/small.lua.
"""
import os
import statistics
import subprocess
import sys
import threading
import time

START = time.perf_counter()
TABLE, BUDGET, THREADS, ROUNDS, DEVICE, NAMES = False, 0, 1, 9, "cpu", []


def read_arguments():
    global TABLE, BUDGET, THREADS, ROUNDS, DEVICE
    rest = sys.argv[2:]
    while rest:
        a = rest.pop(0)
        if a == "-m":
            TABLE = True
        elif a == "-b":
            BUDGET = float(rest.pop(0))
        elif a == "-t":
            THREADS = int(rest.pop(0))
        elif a == "-r":
            ROUNDS = int(rest.pop(0))
        elif a in ("cpu", "cuda"):
            DEVICE = a
        else:
            NAMES.append(a)


if len(sys.argv) < 2:
    sys.exit(__doc__)
read_arguments()
os.environ["FLAME_THREADS"] = str(THREADS)

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("small.py: this python has no PyTorch; alone: flame-lua bench/small.lua")

torch.set_num_threads(THREADS)
torch.set_default_device(DEVICE)
MODE = "reduce-overhead" if DEVICE == "cuda" else "default"


def fill(shape, seed):
    """The numbers of fill in bench/small.lua."""
    n = 1
    for k in shape:
        n *= k
    values = [((i * 7919 + seed * 104729 + i * i % 9973 * 31) % 10007) / 5003.5 - 1 for i in range(1, n + 1)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def network(sizes, seed):
    layers = []
    for k in range(2, len(sizes) + 1):
        a, b = sizes[k - 2], sizes[k - 1]
        layer = torch.nn.Linear(a, b)
        with torch.no_grad():
            layer.weight.copy_(fill((b, a), seed + 2 * k) * a**-0.5)
            layer.bias.copy_(fill((b,), seed + 2 * k + 1) * a**-0.5)
        if k > 2:
            layers.append(torch.nn.Tanh())
        layers.append(layer)
    return torch.nn.Sequential(*layers)


def plain(f):
    return f


def compiled(f):
    return torch.compile(f, mode=MODE)


# A case gets 'wrap', which compiles a function or returns it unchanged, and gives the function that
# is timed, which returns a tensor or a list.
def act(n):
    def make(wrap):
        net = network((4, 64, 64, 2), 1)
        rows = [[((i * 37 + k * 11) % 41) / 20.5 - 1 for k in range(1, 5)] for i in range(1, n + 1)]
        probabilities = wrap(lambda x: torch.softmax(net(x), 1))

        def run():
            with torch.no_grad():
                return probabilities(torch.tensor(rows)).tolist()[n - 1]
        return run
    return make


def ppo_step(wrap):
    actor, critic = network((4, 64, 64, 2), 1), network((4, 64, 64, 1), 20)
    parameters = list(actor.parameters()) + list(critic.parameters())
    opt = torch.optim.Adam(parameters, lr=1e-3, fused=True)
    seen, gain = fill((256, 4), 40), fill((256,), 41)
    value, before = fill((256,), 42), fill((256,), 43) * 0.1 - 0.7
    moves = (fill((256, 1), 44) > 0).long()

    def objective():
        logs = torch.log_softmax(actor(seen), 1)
        ratio = (logs.gather(1, moves).squeeze(1) - before).exp()
        kept = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        entropy = (logs.exp() * logs).sum(1).mean()
        return 0.5 * F.mse_loss(critic(seen).squeeze(1), value) - kept + 0.01 * entropy
    objective = wrap(objective)

    def run():
        loss = objective()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        opt.step()
        return loss
    return run


def pinn_step(wrap):
    net = network((2, 20, 20, 20, 20, 1), 1)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    x, t = fill((1000, 1), 50), fill((1000, 1), 51) * 0.5 + 0.5

    def by_gradients():                       # gradients of gradients, as such programs are written
        u = net(torch.cat((x, t), 1))
        ux, ut = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        uxx, = torch.autograd.grad(ux.sum(), x, create_graph=True)
        return (ut + u * ux - 0.01 / torch.pi * uxx).square().mean()

    def by_tangents():                        # torch.compile refuses the former
        jvp, one = torch.func.jvp, torch.ones_like(x)

        def along_x(z):
            return jvp(lambda y: net(torch.cat((y, t), 1)), (z,), (one,))
        (u, ux), (_, uxx) = jvp(along_x, (x,), (one,))
        ut = jvp(lambda s: net(torch.cat((x, s), 1)), (t,), (one,))[1]
        return (ut + u * ux - 0.01 / torch.pi * uxx).square().mean()

    if wrap is plain:
        x.requires_grad_(True)
        t.requires_grad_(True)
    objective = by_gradients if wrap is plain else wrap(by_tangents)

    def run():
        loss = objective()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss
    return run


def runge_kutta(law, dt, wrap):
    def step(x):
        a = law(x)
        b = law(x + a * (dt / 2))
        c = law(x + b * (dt / 2))
        d = law(x + c * dt)
        return x + (a + 2 * b + 2 * c + d) * (dt / 6)
    step = wrap(step)

    def solve(x, count):
        for _ in range(count):
            if wrap is compiled and DEVICE == "cuda":
                torch.compiler.cudagraph_mark_step_begin()
                x = step(x).clone()           # the graph's own memory is written again by the next
            else:
                x = step(x)
        return x
    return solve


def ode_solve(wrap):
    net, x = network((2, 50, 2), 1), fill((64, 2), 60)
    solve = runge_kutta(net, 0.05, wrap)

    def run():
        with torch.no_grad():
            return solve(x, 100)
    return run


def ode_step(wrap):
    net, x, y = network((2, 50, 2), 1), fill((64, 2), 60), fill((64, 2), 61)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    solve = runge_kutta(net, 0.05, plain)
    objective = wrap(lambda: F.mse_loss(solve(x, 20), y))

    def run():
        loss = objective()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss
    return run


def escape(wrap):
    line = torch.arange(256, dtype=torch.float32)
    cx = (line * (3 / 256) - 2.1).reshape(1, 256).expand(256, 256).reshape(-1)
    cy = (line * (2.4 / 256) - 1.2).reshape(256, 1).expand(256, 256).reshape(-1)

    def picture():
        x, y, k = torch.zeros_like(cx), torch.zeros_like(cx), torch.zeros_like(cx)
        inside = torch.ones_like(cx, dtype=torch.bool)
        for _ in range(50):
            xx, yy = x * x, y * y
            inside = inside & (xx + yy <= 4)
            y = torch.where(inside, 2 * x * y + cy, y)
            x = torch.where(inside, xx - yy + cx, x)
            k = k + inside
        return k
    return wrap(picture)


def bodies(wrap):
    p = fill((1024, 2), 70).requires_grad_(True)

    def energy():
        d = p[:, None, :] - p[None, :, :]
        return -torch.rsqrt((d * d).sum(2) + 0.01).sum(1).mean()
    energy = wrap(energy)
    return lambda: torch.autograd.grad(energy(), p)[0]


def swing(wrap):
    angle, speed = fill((4096,), 80).requires_grad_(True), fill((4096,), 81).requires_grad_(True)

    def ten(a, w):
        for _ in range(10):
            w = w - 0.02 * (9.81 * torch.sin(a) + 0.1 * w)
            a = a + 0.02 * w
        return a, w
    ten = wrap(ten)
    copies = wrap is compiled and DEVICE == "cuda"

    def run():
        a, w = angle, speed
        for _ in range(20):
            a, w = ten(a, w)
            if copies:
                a, w = a.clone(), w.clone()
        return torch.autograd.grad(a.mean(), (angle, speed))[0] * 4096
    return run


CASES = {"act_1": act(1), "act_64": act(64), "ppo_step": ppo_step, "pinn_step": pinn_step, "ode_solve": ode_solve,
         "ode_step": ode_step, "escape": escape, "bodies": bodies, "bodies_any_order": bodies,
         "swing": swing}


class Worker:
    """Our side: the process of bench/small.lua."""

    def __init__(self, program):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "small.lua")
        self.process = subprocess.Popen([program, script, DEVICE, "ask"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, name, what):
        self.process.stdin.write(f"{name} {what}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().strip()
        if not line or line.startswith("error"):
            sys.exit(f"{name}: {line or 'bench/small.lua has ended'}")
        return line


def values(run):
    """What bench/small.lua says when it is asked to check."""
    said = []
    for _ in range(3):
        value = run()
        if not isinstance(value, list):
            value = value.detach().reshape(-1).tolist()
        said += value[:4] + [sum(value) / len(value)]
    return said


def differ(ours, theirs):
    """Where the two lists part, or None. f32, and up to 200 steps or three of an optimiser."""
    if len(ours) != len(theirs):
        return f"{len(ours)} values and {len(theirs)}"
    for a, b in zip(ours, theirs):
        if not abs(a - b) <= 1e-4 + 1e-3 * abs(b):
            return f"{a} and {b}"
    return None


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def clock(run, reps):
    now = time.process_time if DEVICE == "cpu" and THREADS == 1 else time.perf_counter
    synchronize()
    t = now()
    for _ in range(reps):
        run()
    synchronize()
    return (now() - t) / reps


def measure(worker, name, run):
    """Medians (ours, theirs) of interleaved rounds."""
    reps = max(1, min(500, int(0.02 / min(clock(run, 1) for _ in range(3)))))
    own = max(1, min(500, int(0.02 / float(worker.ask(name, 3)))))
    mine, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(clock(run, reps))
        mine.append(float(worker.ask(name, own)))
    return statistics.median(mine), statistics.median(theirs)


def attempt(worker, name, wrap, ours):
    """((ours, theirs), None), or (None, why there is no time)."""
    torch._dynamo.reset()
    try:
        wrong = differ(ours, values(CASES[name](wrap)))
        if wrong:
            return None, wrong
        run = CASES[name](wrap)
        for _ in range(5):
            run()
        return measure(worker, name, run), None
    except Exception as e:                    # what this PyTorch cannot compile
        said = str(e).strip().splitlines() or [""]
        return None, f"{type(e).__name__}: {said[0][:100]}"


def show(times, notes):
    form = "| {} | {} | {} | {} | {} | {} |" if TABLE else "{:17}{:>10}{:>12}{:>13}{:>10}{:>12}"
    print(form.format("case", "flame us", "eager us", "compiled us", "x eager", "x compiled"))
    if TABLE:
        print("|---|---|---|---|---|---|")
    for name, pairs in times.items():
        both = [pairs.get(kind) for kind in ("eager", "compiled")]
        mine = min((p[0] for p in both if p), default=None)
        us = ["-" if t is None else f"{t * 1e6:.0f}" for t in [mine] + [p and p[1] for p in both]]
        print(form.format(name, *us, *("-" if p is None else f"{p[1] / p[0]:.1f}" for p in both)))
    print(f"{time.perf_counter() - START:.0f} s in all", *notes, sep="\n  ", flush=True)


def main():
    worker, notes, names = Worker(sys.argv[1]), [], NAMES or list(CASES)
    times = {name: {} for name in names}
    card = torch.cuda.get_device_name() if DEVICE == "cuda" else f"threads: {THREADS}"
    print(f"small work, {DEVICE} ({card}), torch {torch.__version__}; medians of {ROUNDS}", flush=True)

    def out_of_time():
        show(times, notes + ["out of time"])
        os._exit(0)
    if BUDGET:
        timer = threading.Timer(BUDGET, out_of_time)
        timer.daemon = True
        timer.start()
    ours = {name: [float(v) for v in worker.ask(name, "check").split()] for name in names}
    for kind, wrap in (("eager", plain), ("compiled", compiled)):
        for name in names:
            t = time.perf_counter()
            pair, why = attempt(worker, name, wrap, ours[name])
            if pair:
                times[name][kind] = pair
            else:
                notes.append(f"{name}, {kind}: {why}")
            print(f"  {name}, {kind}: {time.perf_counter() - t:.1f} s", file=sys.stderr, flush=True)
    if BUDGET:
        timer.cancel()
    worker.process.stdin.close()
    show(times, notes)


if __name__ == "__main__":
    main()
