#!/usr/bin/env python3
"""flame-lua against its peers, in turns, results compared first: PyTorch's eager operators, torch.compile,
a CUDA graph made by hand, JAX, kernels written by hand, llm.c and flash-clifford. A peer that is not
there is named as absent.

usage, from the root of the repository:
  python3 bench/compare.py [--flame build/flame-lua] [--device cpu|cuda|all] [--only CLASS,…] [--row WORD]
      [--peers eager,compile,graph,jax,hand,llm.c,flash] [--llmc PATH] [--flash-clifford PATH] [--out DIR]
      [--rounds 7] [--threads 1] [--budget-seconds N] [--quick] [--flame-env NAME=VALUE]… [--python PATH]
  python3 bench/compare.py --docs write|check       picture and tables of docs/performance.md, of docs/measured

Both sides get the same weights and data, in a file. A peer whose results differ from ours is marked
wrong and not timed; where all differ, the row is wrong. Then rounds in turn (ours, eager, …, ours,
eager, …) and medians. On a CPU with one thread the processor's time is measured, not the wall's.
Writes peers.json after each row, peers.md and peers.svg after each class, into DIR (build/peers).
"""
import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
from peers import llmc, report                # noqa: E402
from peers.rows import GROUPS, KINDS, ROWS    # noqa: E402
from peers.sides import Side, machine         # noqa: E402

SAMPLE = {"cpu": 0.03, "cuda": 0.05}           # seconds of a sample, or one repetition
LEAST = 90                                    # seconds that a row gets while there are as many


# ---- one row ------------------------------------------------------------------------------------

def make(side, row, sizes, path, seconds, plant):
    """Makes the case on all sides. label -> (process, {"off": error} or {"error": why})."""
    text = " ".join(f"{k}={v}" for k, v in sizes.items())
    made = side.ours_for(sizes).ask(f"make {row.case} {path} {text}{' plant=1' if plant else ''}", seconds)
    if made.get("error"):
        raise RuntimeError(made["error"])
    asked, answers = [], {}
    for label, process in side.peers.items():
        if label == "hand":
            if label in made["who"]:
                answers[label] = process, {"off": made["differ"][label], "where": "a gradient"}
        elif label in row.peers:
            process.send(f"make {label} {row.case} {path} {text}")
            asked.append((label, process))
    end = time.monotonic() + seconds
    for label, process in asked:
        said = process.answer(end - time.monotonic())
        if not said.get("none"):
            answers[label] = process, said
    return answers


def check(answers, tolerance):
    """(label -> process of those that agree with us, label -> why not of the others, label -> error)."""
    right, notes, errors = {}, {}, {}
    for label, (process, said) in answers.items():
        if said.get("error"):
            notes[label] = said["error"]
            continue
        errors[label] = said["off"]
        if said["off"] <= tolerance:
            right[label] = process
        else:
            notes[label] = f"wrong: {said['where']} differs by {said['off']:.1e}, {tolerance:.0e} is allowed"
    return right, notes, errors


def seconds_of(process, label, reps, limit):
    said = process.ask(f"time {label} {reps}", limit)
    if said.get("error"):
        raise RuntimeError(said["error"])
    return float(f"{said['seconds']:.5g}")


def rounds_of(contenders, rounds, deadline, samples, sample):
    """Adds samples of alternating rounds to label -> list, until there are enough or time is over. sample: the
    seconds of one; 0: one repetition, not warmed up. label -> why, of those that failed."""
    reps, failed = {} if sample else dict.fromkeys(contenders, 1), {}
    for label, process in contenders.items() if sample else ():
        try:
            once = min(seconds_of(process, label, 1, 60) for _ in range(3))
            reps[label] = max(1, min(2000, int(sample / max(once, 1e-7))))
            seconds_of(process, label, reps[label], 60)        # warm
        except RuntimeError as e:
            failed[label] = str(e)
            reps.pop(label, None)
    for k in range(rounds):
        if k >= 3 and time.monotonic() > deadline:
            break
        for label in list(reps):
            try:
                samples.setdefault(label, []).append(seconds_of(contenders[label], label, reps[label], 60))
            except RuntimeError as e:
                failed[label] = str(e)
                del reps[label]
    return failed


def measured(o, side, row, sizes, path, deadline):
    """The entry of a row in the results."""
    entry = report.entry(row, side, sizes)
    try:
        answers = make(side, row, sizes, path, deadline - time.monotonic(), o.plant and o.plant in row.name)
    except RuntimeError as e:
        return dict(entry, status="failed", notes={"ours": str(e)})
    right, entry["notes"], entry["errors"] = check(answers, row.tolerance(sizes))
    if answers and entry["errors"] and not any(k in right for k in entry["errors"]):
        return dict(entry, status="wrong")
    outside = llmc.Peer(o.llmc, sizes) if o.llmc and "llm.c" in row.peers and side.device == "cuda" else None
    if outside:
        outside.run(entry)
    failed = rounds_of({"ours": side.ours_for(sizes), **right}, o.rounds, deadline, entry["samples"], 0 if o.quick else SAMPLE[side.device])
    entry["notes"].update(failed)
    if outside:
        outside.run(entry)
    return report.judged(entry)


# ---- all rows -----------------------------------------------------------------------------------

def chosen(o, device):
    """[(row, sizes)] of this device, the class of what was asked for."""
    groups, list_ = o.only.split(",") if o.only else GROUPS, []
    for row in ROWS:
        sizes = row.sizes["quick" if o.quick else device]
        if sizes is None or row.group not in groups or (o.row and o.row not in row.name + " " + row.case):
            continue
        list_.append((row, sizes))
    return list_


def run_rows(o, side, rows, results, start):
    """Measures rows one by one, and writes what there is after each."""
    weight = sum(row.weight for row, _ in rows)
    with tempfile.TemporaryDirectory(prefix="flame-peers-", dir=o.scratch) as folder:
        for i, (row, sizes) in enumerate(rows):
            left = start + o.budget_seconds - time.monotonic()
            if left < 5:
                entry = dict(report.entry(row, side, sizes), status="not reached")
            else:
                deadline = time.monotonic() + min(left, max(LEAST, 2 * left * row.weight / weight))
                entry = measured(o, side, row, sizes, os.path.join(folder, "case"), deadline)
                for p in side.running():
                    p.ask("drop", 60)
            weight -= row.weight
            results["rows"].append(entry)
            report.line(entry)
            last = i + 1 == len(rows) or rows[i + 1][0].group != row.group
            report.write(results, o.out, pictures=last)


def main():
    o = arguments()
    if o.docs:
        return report.docs(o.docs, os.path.dirname(HERE))
    os.makedirs(o.out, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))    # processes and files go then too
    start, results = time.monotonic(), machine(o)
    with open(os.path.join(o.out, "peers.log"), "w") as errors:
        for device in o.devices:
            rows = chosen(o, device)
            if not rows:
                continue
            side = Side(o, device, errors)
            try:
                results["devices"][device] = side.said(o.quick)
                results["absent"][device] = side.absent
                report.heading(results, device)
                run_rows(o, side, rows, results, start)
            finally:
                side.end()
    results["seconds"] = round(time.monotonic() - start)
    report.write(results, o.out, pictures=True)
    print(report.summary(results))
    return 1 if any(r["status"] in ("wrong", "failed") for r in results["rows"]) else 0


def arguments():
    a = argparse.ArgumentParser(usage=__doc__)
    a.add_argument("--flame", default="build/flame-lua")
    a.add_argument("--device", default="all", choices=["cpu", "cuda", "all"])
    for name in ("only", "row", "peers", "llmc", "flash-clifford", "plant", "scratch"):
        a.add_argument("--" + name)
    a.add_argument("--out", default="build/peers")
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--budget-seconds", type=float, default=3600)
    a.add_argument("--quick", action="store_true")
    a.add_argument("--flame-env", action="append", default=[])
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--docs", choices=["write", "check"])
    o = a.parse_args()
    if o.scratch is None and os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 1 << 33:
        o.scratch = "/dev/shm"                # files of weights and data stay in memory
    gpu = os.path.exists("/dev/nvidiactl")
    o.devices = [d for d in ("cuda", "cpu") if o.device == d or o.device == "all" and (gpu or d == "cpu")]
    unknown = [k for k in (o.peers or "").split(",") if k and k not in KINDS]
    unknown += [g for g in (o.only or "").split(",") if g and g not in GROUPS]
    if unknown:
        a.error(f"no '{unknown[0]}': peers are {', '.join(KINDS)}; classes {', '.join(GROUPS)}")
    return o


if __name__ == "__main__":
    sys.exit(main())
