"""PyTorch's side of bench/compare.py: eager operators, torch.compile, a CUDA graph made by hand, and
flash-clifford's layer. A process has some of these kinds. Requests as in bench/peers/worker.lua:
    hello
    make KIND NAME FILE KEY=VALUE…   builds the case of bench/cases or bench/models from FILE.in, and
                                     compares its results with FILE.out
    time KIND REPS
    rate, drop
usage: torch_peer.py DEVICE THREADS [FLASH_CLIFFORD]
"""
import importlib
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from peers import answer, store                    # noqa: E402

try:
    import torch
except ImportError as e:
    answer.absent(e)

DEVICE, THREADS = sys.argv[1], int(sys.argv[2])
FLASH = sys.argv[3] if len(sys.argv) > 3 else None
CPU_TIME = DEVICE == "cpu" and THREADS == 1
DTYPES = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "F16": torch.float16, "I64": torch.int64,
          "I32": torch.int32}
if DEVICE == "cpu":
    torch.set_num_threads(THREADS)
torch.backends.cudnn.allow_tf32 = False


def synchronize():
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def tensors(path):
    """The file's tensors; positions, which are integers, count from 0 here."""
    out = {}
    for name, (dtype, shape, data) in store.read(path).items():
        x = torch.frombuffer(data, dtype=DTYPES[dtype]) if len(data) else torch.empty(0, dtype=DTYPES[dtype])
        x = x.reshape(shape).to(DEVICE, copy=True)
        out[name] = x - 1 if not x.is_floating_point() else x
    return out


class Case:
    """body() computes and returns a tensor or a list of them; feed() puts what comes from the host into
    place before it, read(result) takes what the host wants after it. nets, optimisers: of training; quiet:
    without dropout while results are compared. check(body): the results, where body() does not return them."""

    def __init__(self, body, feed=None, read=None, nets=None, optimisers=(), quiet=False, check=None):
        self.body, self.feed, self.read, self.check = body, feed, read, check
        self.nets, self.optimisers, self.quiet = nets or {}, optimisers, quiet

    def step(self):
        if self.feed:
            self.feed()
        result = self.body()
        return self.read(result) if self.read else result


class Peer:
    """What a case gets besides its sizes; bench/peers/peer.lua has the same names."""

    def __init__(self, kind, given, drawn):
        self.kind, self.given, self.drawn, self.checking = kind, given, drawn, True
        self.device, self.graph, self.clock = DEVICE, kind == "graph", clock

    def wrap(self, f, small=False):
        """f, compiled if this is torch.compile's side. small: with CUDA graphs, for what is bound by launches."""
        if self.kind != "compile":
            return f
        if small and DEVICE != "cpu":
            return torch.compile(f, mode="reduce-overhead", dynamic=False)
        return torch.compile(f, dynamic=False)

    def net(self, net, name="net"):
        own = {key[len(name) + 1:]: x for key, x in self.given.items() if key.startswith(name + ".")}
        own = {key: x.reshape(()) if key.endswith("num_batches_tracked") else x for key, x in own.items()}
        net = net.to(DEVICE)
        missing, unknown = net.load_state_dict(own, strict=False)
        missing = [m for m in missing if not m.endswith("num_batches_tracked")]
        if missing or unknown:
            raise ValueError(f"parameters differ: {missing[:3]} are missing, {unknown[:3]} are not known")
        return net

    def last(self, x):
        """A net or images with channels last in memory, where convolutions of PyTorch are fastest."""
        return x if DEVICE == "cpu" else x.to(memory_format=torch.channels_last)

    def draw(self, make):
        return self.drawn.pop(0) if self.checking and self.drawn else make()

    def adam(self, parameters, kind=torch.optim.Adam, **options):
        if DEVICE != "cpu":
            options["fused"] = True
            if self.graph:
                options["capturable"] = True
        if kind is torch.optim.AdamW:
            options.setdefault("weight_decay", 0.01)
        return kind(parameters, **options)

    def sgd(self, parameters, **options):
        if DEVICE != "cpu":
            options["fused"] = True
        return torch.optim.SGD(parameters, **options)

    def autocast(self, on):
        return torch.autocast(DEVICE.split(":")[0], torch.bfloat16, enabled=bool(on))

    case = Case

    def call(self, f, small=False, feed=None, read=None):
        return Case(self.wrap(f, small), feed, read)

    def backward(self, forward, xs, g=None, small=False):
        """A case of forward() and its gradients with respect to xs, for the cotangent g."""
        for x in xs:
            x.requires_grad_(True)
        forward = self.wrap(forward, small)

        def run():
            y = forward()
            return [y.detach(), *torch.autograd.grad(y, xs, g)]
        return Case(run)

    def train(self, net, opt, loss_of, bf16=False, clip=None, quiet=False, read=False, small=False, objective=None):
        """loss_of() in terms of compiled parts is 'objective' if it is given, else all of it is compiled."""
        compiled = objective or self.wrap(loss_of, small)
        parameters = list(net.parameters())

        def body():
            with self.autocast(bf16):
                loss = compiled()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(parameters, clip)
            opt.step()
            return loss
        return Case(body, nets={"net": net}, optimisers=[opt], quiet=quiet, read=(lambda x: x.item()) if read else None)


# ---- a CUDA graph by hand -----------------------------------------------------------------------

def state_of(case):
    """The tensors that a step changes, with copies of them before any step."""
    own = [x for net in case.nets.values() for x in net.state_dict().values()]
    own += [p for opt in case.optimisers for group in opt.param_groups for p in group["params"] if not case.nets]
    return [(x, x.detach().clone()) for x in own]


def captured(case, ready=lambda: None):
    """The case whose body is one CUDA graph, made as PyTorch's documentation describes it. ready() is
    called before each time that the body runs."""
    kept = state_of(case)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            ready()
            if case.feed:
                case.feed()
            case.body()
    torch.cuda.current_stream().wait_stream(side)
    for opt in case.optimisers if case.nets else ():
        opt.zero_grad(set_to_none=True)
    ready()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = case.body()
    with torch.no_grad():                          # as before the first step
        for x, before in kept:
            x.copy_(before)
        for opt in case.optimisers:
            for state in opt.state.values():
                for x in state.values():
                    if torch.is_tensor(x):
                        x.zero_()

    def replay():
        graph.replay()
        return result
    replay.reads = case                            # the data whose addresses are in the graph
    return Case(replay, case.feed, case.read, case.nets, case.optimisers, case.quiet, case.check)


def captured_results(case, peer):
    """The results of the case as a graph: of a step with random numbers, or without dropout, the first's."""
    drawn = peer.drawn[:len(peer.drawn) // 3]

    def ready():
        peer.drawn = list(drawn)
    mode(case, not case.quiet)
    out = results_of(captured(case, ready), 1 if drawn or case.quiet else 3)
    mode(case, True)
    return out


# ---- comparing ----------------------------------------------------------------------------------

def listed(x):
    if x is None:
        return []
    return [x] if torch.is_tensor(x) else [y for y in x if y is not None]


def mode(case, training):
    for net in case.nets.values():
        net.train(training)


def results_of(case, steps):
    """What the case computes, by the names that bench/peers/peer.lua gives."""
    if case.check:
        return {f"out.{i + 1}": x for i, x in enumerate(case.check(case.body)) if x is not None}
    if not case.nets:
        if case.feed:
            case.feed()
        return {f"out.{i + 1}": x for i, x in enumerate(listed(case.body()))}
    out = {}
    mode(case, not case.quiet)
    for i in range(steps):
        out[f"loss.{i + 1}"] = case.body().detach().float().reshape(1).clone()
        if i == 0:
            for name, net in case.nets.items():
                for key, p in net.named_parameters():
                    if p.grad is not None:
                        out[f"grad.{name}.{key}"] = p.grad.detach().clone()
    mode(case, True)
    return out


def largest_error(ours, theirs, floor):
    """(largest relative error, its result's name). Of a gradient whose norm is less than 'floor' of all
    gradients' that share is what its difference is divided by: some are 0 but for rounding."""
    grads = [x.double().norm() ** 2 for name, x in theirs.items() if name.startswith("grad.")]
    whole = float(sum(grads)) ** 0.5 if grads else 0
    worst, where = 0.0, ""
    for name, x in theirs.items():
        if name not in ours:
            return float("inf"), name + " (not among our results)"
        a, b = ours[name].double().reshape(-1), x.detach().double().reshape(-1)
        if a.shape != b.shape:
            return float("inf"), f"{name}: {list(ours[name].shape)} and {list(x.shape)}"
        size = float(b.norm()) + 1e-30
        if name.startswith("grad."):
            size = max(size, floor * whole)
        off = float((a - b).norm()) / size
        if off != off:
            return float("inf"), name + " (NaN)"
        if off > worst:
            worst, where = off, name
    missing = [n for n in ours if n not in theirs and not n.startswith("draw.")]
    return (float("inf"), missing[0] + " (not among theirs)") if missing else (worst, where)


# ---- requests -----------------------------------------------------------------------------------

CURRENT = {}


def case_of(name):
    for module in ("ops", "nets", "small", "kernels"):
        found = importlib.import_module("cases." + module).CASES.get(name)
        if found:
            return found
    return importlib.import_module("models." + name).make


def make(rest):
    kind, name, file, o = answer.request(rest)
    if kind == "compile":
        torch._dynamo.reset()
    given, ours = tensors(file + ".in.safetensors"), tensors(file + ".out.safetensors")
    drawn = [ours[f"draw.{i}"] for i in range(1, 1 + sum(n.startswith("draw.") for n in ours))]
    peer = Peer(kind, given, drawn)
    if kind == "flash":
        peer.flash = FLASH
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = o.get("tf32") == 1
    case = case_of(name)(o, peer)
    theirs = captured_results(case, peer) if kind == "graph" else results_of(case, 3)
    if kind == "graph" and (drawn or case.quiet):  # what only the first step tells
        ours = {n: x for n, x in ours.items() if n not in ("loss.2", "loss.3")}
    if kind == "flash":                            # its bias is added to all components, ours to one
        ours = {n: x for n, x in ours.items() if n in theirs}
    off, where = largest_error(ours, theirs, 1e-2 if o.get("dtype") == "bf16" else 1e-3)
    peer.checking = False
    CURRENT[kind] = captured(case) if kind == "graph" else case
    del given, ours, theirs
    return {"where": where, "off": min(off, 1e30)}


def clock(step, reps):
    now = time.process_time if CPU_TIME else time.perf_counter
    synchronize()
    start = now()
    for _ in range(reps):
        step()
    synchronize()
    return (now() - start) / reps


def timed(rest):
    kind, reps = rest.split()
    return {"seconds": clock(CURRENT[kind].step, int(reps))}


def drop(_):
    CURRENT.clear()
    if DEVICE != "cpu":
        import gc
        gc.collect()
        torch.cuda.empty_cache()
    return {}


def rate(_):
    n = 1 << 28 if DEVICE != "cpu" else 1 << 23
    a, b = torch.empty(n, device=DEVICE), torch.rand(n, device=DEVICE)
    best = min(clock(lambda: a.copy_(b), 3) for _ in range(5))
    return {"rate": 8 * n / best}


def hello(_):
    said = {"version": torch.__version__, "compile": hasattr(torch, "compile"), "cuda": torch.version.cuda,
            "device": torch.cuda.get_device_name() if DEVICE != "cpu" else "cpu"}
    if DEVICE != "cpu":
        said["cudnn"] = torch.backends.cudnn.version()
    return said


if __name__ == "__main__":
    answer.serve({"hello": hello, "make": make, "time": timed, "drop": drop, "rate": rate})
