"""The processes that bench/compare.py asks: ours and the peers' on one device."""
import datetime
import json
import os
import platform
import queue
import subprocess
import sys
import threading

from peers.rows import KINDS

HERE = os.path.dirname(os.path.abspath(__file__))


class Process:
    """A process that answers each line with a line of JSON. One that does not answer in time is ended, and
    started again for the next request."""

    def __init__(self, command, env, errors):
        self.command, self.env, self.errors, self.process = command, env, errors, None

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, universal_newlines=True, bufsize=1)
        self.lines = queue.Queue()
        threading.Thread(target=self.listen, args=(self.process.stdout, self.lines), daemon=True).start()

    @staticmethod
    def listen(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put("")

    def send(self, line):
        try:
            if self.process is None or self.process.poll() is not None:
                self.start()
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError as e:                       # it has ended, or there is no such program
            self.failure = str(e)

    def answer(self, seconds):
        if self.process is None:
            return {"error": getattr(self, "failure", "its process was ended")}
        try:
            line = self.lines.get(timeout=max(0.1, seconds))
        except queue.Empty:
            self.end()
            return {"error": f"no answer in {max(0, seconds):.0f} s"}
        if not line:
            self.end()
            return {"error": "its process has ended"}
        said = json.loads(line)
        if "CUDA error" in said.get("error", ""):      # which loses the device for this process
            self.end()
        return said

    def ask(self, line, seconds):
        self.send(line)
        return self.answer(seconds)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
        self.process = None


class Side:
    """One device's processes; peers: label -> process, of those that are there; absent: label -> why not."""

    def __init__(self, o, device, errors):
        self.device, self.absent, self.peers = device, {}, {}
        own = ["cpu-time"] if device == "cpu" and o.threads == 1 else []
        cores = {"FLAME_THREADS": str(o.threads)} if device == "cpu" else {}
        env = dict(os.environ, **cores)
        env.update(pair.split("=", 1) for pair in o.flame_env)
        command = [o.flame, "bench/peers/worker.lua", device, *own]
        self.ours = Process(command, env, errors)
        self.rounded = Process(command, dict(env, FLAME_TF32="1"), errors)
        cores = {"OMP_NUM_THREADS": str(o.threads)} if device == "cpu" else {}
        env = dict(os.environ, OPENBLAS_THREAD_TIMEOUT="16", PYTHONDONTWRITEBYTECODE="1", **cores,
                   XLA_PYTHON_CLIENT_PREALLOCATE="false", JAX_PLATFORMS=device)
        if own:
            env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

        def peer(name, *rest):
            return Process([o.python, os.path.join(HERE, name), device, str(o.threads), *rest], env, errors)
        self.torch, self.compiler, self.graph = peer("torch_peer.py"), peer("torch_peer.py"), peer("torch_peer.py")
        self.jax = peer("jax_peer.py")
        self.flash = peer("torch_peer.py", os.path.abspath(o.flash_clifford)) if o.flash_clifford else None
        self.look(o)

    def look(self, o):
        """Asks who is there."""
        wanted = o.peers.split(",") if o.peers else KINDS
        asked = {"ours": self.ours}
        if {"eager", "compile", "graph", "flash"} & set(wanted):
            asked["torch"] = self.torch
        if "jax" in wanted:
            asked["jax"] = self.jax
        for p in asked.values():
            p.send("hello")
        self.hello = {name: p.answer(180) for name, p in asked.items()}
        if self.hello["ours"].get("error"):
            sys.exit(f"{self.ours.command[0]}: {self.hello['ours']['error']} (see peers.log)")
        processes = {"eager": self.torch, "compile": self.compiler, "graph": self.graph, "flash": self.flash, "jax": self.jax,
                     "hand": self.ours}
        for kind in wanted:
            why = self.reason(kind, o)
            if why:
                self.absent[kind] = why
            elif kind in processes:
                self.peers[kind] = processes[kind]

    def reason(self, kind, o):
        """Why this peer is not there, or None."""
        if kind == "llm.c" and not o.llmc:
            return "no --llmc"
        if kind == "flash" and not o.flash_clifford:
            return "no --flash-clifford"
        if kind in ("graph", "flash", "llm.c") and self.device == "cpu":
            return "needs a GPU"
        if kind in ("hand", "llm.c"):
            return None
        said = self.hello["jax" if kind == "jax" else "torch"]
        if said.get("error"):
            return said["error"]
        if kind == "compile" and not said["compile"]:
            return f"PyTorch {said['version']} has no torch.compile"
        return None

    def said(self, quick):
        """What the results tell about this device; the rate of a copy is the faster of ours and PyTorch's."""
        asked = [] if quick else [self.ours] + [p for kind, p in self.peers.items() if kind == "eager"]
        self.rate = max((p.ask("rate", 120).get("rate", 0) for p in asked), default=0)
        for p in self.running():
            p.ask("drop", 60)
        name = self.hello.get("torch", {}).get("device") or self.hello["ours"].get("name")
        self.name = name if self.device == "cuda" else platform.processor() or processor()
        return {"name": self.name, "copy": self.rate, "hello": self.hello}

    def ours_for(self, sizes):
        """Our process for a row; products of f32 that may round to TF32 need another one."""
        return self.rounded if sizes.get("tf32") == 1 else self.ours

    def all(self):
        every = [self.ours, self.rounded, self.torch, self.compiler, self.graph, self.jax, self.flash]
        return [p for p in every if p]

    def running(self):
        return [p for p in self.all() if p.process and p.process.poll() is None]

    def end(self):
        for p in self.all():
            p.end()


def processor():
    """The name of the processor, as Linux gives it."""
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def machine(o):
    """The head of the results: where, when and how they were measured."""
    chosen = [f"--{name} {getattr(o, name)}" for name in ("only", "row", "peers", "rounds", "threads") if getattr(o, name)]
    return {"format": 1, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "command": " ".join(["bench/compare.py", "--device", o.device, *chosen]),
            "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
            "threads": o.threads, "quick": o.quick, "devices": {}, "absent": {}, "rows": []}
