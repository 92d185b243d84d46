#!/usr/bin/env python3
"""Training of GPT-2 124M on one and on several GPUs of a host: flame-lua against PyTorch's DDP with
torch.compile, in turns of one run.

usage: scaling.py FLAME_LUA [--ranks 2] [--batches 16 32] [--rounds 3] [--steps 30] [--no-torch]
from the root of the repository. T = 1024, vocabulary 50304, bf16 autocast, AdamW, norm clipping, the
loss read each step (bench/gpt2.lua, and the same here). All processes stay and take turns; the median
of the rounds counts. Alone, flame-lua runs on each card at the same time: cards differ, and a step
of all waits for the slowest. 'of one' is the share of so many times the first card's tokens, 'of all'
that of all cards' together.
"""
import argparse
import os
import statistics
import subprocess
import sys
import threading
import time

T, V, WIDTH, HEADS, LAYERS = 1024, 50304, 768, 12, 12


# ---- PyTorch's side ----

def network():
    import torch
    from cases.nets import GPT
    net = GPT(dict(vocabulary=V, width=WIDTH, heads=HEADS, layers=LAYERS, length=T))
    for p in net.parameters():
        if p.ndim == 2:
            torch.nn.init.normal_(p, 0, 0.02)
    return net


def worker():
    """Reads "BATCH STEPS", prints the milliseconds of a step."""
    import torch
    place, ranks = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(place)
    torch.manual_seed(1)
    net = torch.compile(network().cuda(), dynamic=False)
    if ranks > 1:
        torch.distributed.init_process_group("nccl")
        net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[place], gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

    def step(ids):
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(ids[:, :-1], ids[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss.item()

    for line in sys.stdin:
        batch, steps = map(int, line.split())
        ids = torch.randint(0, V, (batch, T + 1), device="cuda")
        for _ in range(5):
            step(ids)
        torch.cuda.synchronize()
        if ranks > 1:
            torch.distributed.barrier()
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            step(ids)
        torch.cuda.synchronize()
        print(f"{(time.perf_counter() - start) / steps * 1e3:.3f}", flush=True)
        torch.cuda.empty_cache()
    if ranks > 1:
        torch.distributed.destroy_process_group()


# ---- turns ----

class Team:
    """Processes that measure together: as many ranks of a group, or each for itself."""
    port = 29600

    def __init__(self, command, cards, group):
        Team.port += 20
        self.processes = []
        for rank, card in enumerate(cards):
            env = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="4")
            if group:
                env.update(RANK=str(rank), LOCAL_RANK=str(card), WORLD_SIZE=str(len(cards)),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(Team.port))
            else:
                env["CUDA_VISIBLE_DEVICES"] = str(card)
            self.processes.append(subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE))

    def ask(self, batch, steps):
        for p in self.processes:
            try:
                p.stdin.write(f"{batch} {steps}\n")
                p.stdin.flush()
            except OSError:                              # it has ended, and said why
                pass

    def answers(self):
        return [float(p.stdout.readline() or "nan") for p in self.processes]

    def end(self):
        for p in self.processes:
            try:
                p.stdin.close()
            except OSError:
                pass
        for p in self.processes:
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()


def main():
    o = argparse.ArgumentParser(usage=__doc__)
    o.add_argument("flame")
    o.add_argument("--ranks", type=int, default=2)
    o.add_argument("--batches", type=int, nargs="+", default=[16, 32])
    o.add_argument("--rounds", type=int, default=3)
    o.add_argument("--steps", type=int, default=30)
    o.add_argument("--no-torch", action="store_true")
    o = o.parse_args()
    cards = list(range(o.ranks))
    ours = [o.flame, "bench/gpt2.lua", str(V), "16", "1", "turns"]
    peer = [sys.executable, __file__, "worker"]
    alone, group = Team(ours, cards, False), Team(ours, cards, True)
    teams = {b: [("flame-lua alone", alone), (f"flame-lua, {o.ranks} ranks", group)] for b in o.batches}
    for b in o.batches if not o.no_torch else []:        # one process compiles one batch
        teams[b] += [("PyTorch alone", Team(peer, cards[:1], False)), (f"DDP, {o.ranks} ranks", Team(peer, cards, True))]

    def warm(list_of_teams, b):
        for _, t in list_of_teams:
            t.ask(b, 1)
            t.answers()

    start = time.time()
    threads = [threading.Thread(target=warm, args=(teams[b][k:k + 1], b)) for b in o.batches
               for k in range(2, len(teams[b]))]
    threads.append(threading.Thread(target=warm, args=(teams[o.batches[0]][:2], o.batches[0])))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"ready after {time.time() - start:.0f} s", flush=True)
    times = {}
    for k in range(o.rounds):
        for b in o.batches:
            for name, t in teams[b]:
                t.ask(b, o.steps)
                times.setdefault((b, name), []).append(t.answers())
                print(f"round {k + 1}, batch {b}, {name}: {times[b, name][-1]} ms", flush=True)
    for b in o.batches:
        one = {}
        for name, _ in teams[b]:
            ms = [statistics.median(x) for x in zip(*times[b, name])]
            several = name.endswith("ranks")
            rate = (o.ranks if several else 1) * b * T / (max(ms) if several else ms[0])
            text = f"batch {b}, {name}: {' '.join(f'{x:.2f}' for x in ms)} ms, {rate:.1f} thousand tokens/s"
            if several:
                base, together = one[name.split(",")[0].replace("DDP", "PyTorch")]
                text += f", {100 * rate / (o.ranks * base):.1f} % of one"
                if together:
                    text += f", {100 * rate / together:.1f} % of all"
            else:
                one[name.split()[0]] = rate, sum(b * T / x for x in ms) if len(ms) > 1 else None
            print(text)
    for t in {id(t): t for b in o.batches for _, t in teams[b]}.values():
        t.end()


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        main()
