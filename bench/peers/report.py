"""What bench/compare.py says: an entry for each row, its judgement, and the results as text, Markdown,
JSON and a picture."""
import json
import os
import statistics

from peers import picture
from peers.picture import NAMES
from peers.rows import GROUPS, KINDS, why

# Bytes and operations per second that the makers give.
PEAKS = {"H200": {"bytes": 4.8e12, "bf16": 989e12, "f32": 67e12}, "H100": {"bytes": 3.35e12, "bf16": 989e12, "f32": 67e12}}


def entry(row, side, sizes):
    return {"class": row.group, "name": row.name, "shape": row.shape(sizes), "device": side.device, "status": "",
            "budget": row.budgets[side.device], "goal": row.goals.get(side.device), "limit": limit(row, side, sizes), "samples": {}, "errors": {}, "notes": {}}


def limit(row, side, sizes):
    """The least seconds that the device's memory or arithmetic allows, or None."""
    peak = next((p for name, p in PEAKS.items() if name in str(side.name)), {"bytes": side.rate})
    least = [0]
    if row.moves:
        least.append(row.moves(sizes) / peak["bytes"] if peak["bytes"] else 0)
    if row.computes:
        count, dtype = row.computes(sizes)
        least.append(count / peak[dtype] if dtype in peak else 0)
    return max(least) or None


def spread(samples):
    """Half of the middle half of the samples, over the median."""
    s = sorted(samples)
    return (s[(3 * len(s)) // 4 if len(s) > 3 else -1] - s[len(s) // 4]) / 2 / statistics.median(s)


def judged(e):
    """The entry with medians, the ratio to the best peer, and what follows."""
    e["medians"] = {k: statistics.median(v) for k, v in e["samples"].items() if v}
    e["spread"] = {k: round(spread(v), 4) for k, v in e["samples"].items() if v}
    mine = e["medians"].get("ours")
    others = {k: v for k, v in e["medians"].items() if k != "ours"}
    if mine is None:
        return dict(e, status="failed")
    if others:
        e["best"] = min(others, key=others.get)
        e["ratio"] = mine / others[e["best"]]
    elif not e["goal"]:
        return dict(e, status="alone")
    e["status"] = "met" if e.get("ratio", 0) <= e["budget"] and mine <= (e["goal"] or mine) else "missed"
    return e


# ---- text ---------------------------------------------------------------------------------------

def microseconds(s):
    if s is None:
        return "-"
    us = s * 1e6
    return f"{us:.1f}" if us < 100 else f"{us:.0f}" if us < 1e5 else f"{us / 1e3:.0f}k"


def copy(d):
    return f"; a copy {d['copy'] / 1e9:.0f} GB/s" if d["copy"] else ""


def wanted(e):
    return f"{e['budget']:.2f}" + (f", {microseconds(e['goal'])} us" if e.get("goal") else "")


def heading(results, device):
    d = results["devices"][device]
    print(f"{device}: {d['name']}{copy(d)}", flush=True)
    for kind, why in results["absent"][device].items():
        print(f"  {NAMES[kind]}: absent ({why})", flush=True)


def line(e):
    medians = e.get("medians", {})
    times = ", ".join(f"{NAMES[k]} {microseconds(v)}" for k, v in medians.items())
    ratio = f"{e['ratio']:.2f} of {NAMES[e['best']]}'s, {wanted(e)} is wanted" if "ratio" in e else ""
    print(f"{e['class']:10} {work(e)}: " + "; ".join(t for t in (e["status"], "us: " + times if times else "", ratio) if t), flush=True)
    for kind, note in e["notes"].items():
        print(f"{'':10}   {NAMES.get(kind, kind)}: {note}", flush=True)


def summary(results):
    count = {}
    for r in results["rows"]:
        count[r["status"]] = count.get(r["status"], 0) + 1
    return ", ".join(f"{n} {status}" for status, n in sorted(count.items())) + f"; {results.get('seconds', 0)} s"


def cell(e, kind):
    """A peer's cell in the table."""
    if kind in e.get("medians", {}):
        return microseconds(e["medians"][kind])
    note = e["notes"].get(kind)
    return "" if note is None else next((w for w in ("wrong", "no answer") if note.startswith(w)), "failed")


def table(results):
    """Markdown: a table for each device, and why rows miss what is wanted."""
    text = []
    for device, d in results["devices"].items():
        rows = [r for r in results["rows"] if r["device"] == device]
        kinds = [k for k in KINDS if any(cell(r, k) for r in rows)]
        absent = "; ".join(f"{NAMES[k]}: {why}" for k, why in results["absent"][device].items())
        threads = f", {results['threads']} thread{'s' if results['threads'] > 1 else ''}" if device == "cpu" else ""
        text += [f"{d['name']}{threads}, {results['date']}, {versions(d)}{copy(d)}."
                 + (f" Absent: {absent}." if absent else ""), ""]
        text += ["| class | work | ours us | " + " | ".join(NAMES[k] for k in kinds) + " | ratio | wanted | limit us |",
                 "|---|---|---|" + "---|" * len(kinds) + "---|---|---|"]
        for r in rows:
            ours = microseconds(r.get("medians", {}).get("ours"))
            ratio = f"{r['ratio']:.2f}" + ("" if r["status"] == "met" else " (missed)") if "ratio" in r else r["status"]
            text.append(f"| {r['class']} | {work(r)} | {ours} | " + " | ".join(cell(r, k) for k in kinds)
                        + f" | {ratio} | {wanted(r)} | {microseconds(r['limit'])} |")
        losses = {}
        for r in rows:
            if r["status"] == "missed":
                losses.setdefault(why(r["class"], r["name"], device), []).append(work(r))
        text += [""] + (["Where more is wanted, and why:", ""] + [f"- {'; '.join(names)}: {reason}" for reason, names in losses.items()] + [""]
                        if losses else [])
    return "\n".join(text)


def work(r):
    return r["name"] + (f" ({r['shape']})" if r["shape"] else "")


def versions(d):
    said = []
    for name, title in (("torch", "PyTorch"), ("jax", "JAX")):
        v = d["hello"].get(name, {})
        if v.get("version"):
            said.append(f"{title} {v['version']}")
    return ", ".join(said) or "no peers"


def text_of(results):
    """The results as JSON, a row on each line."""
    head = json.dumps({k: v for k, v in results.items() if k != "rows"}, indent=1)[:-2]
    return head + ',\n "rows": [\n' + ",\n".join("  " + json.dumps(r) for r in results["rows"]) + "\n ]\n}"


def write(results, folder, pictures):
    """Files that a run which is ended early leaves whole."""
    files = {"peers.json": text_of(results)}
    if pictures:
        files.update({"peers.md": table(results), "peers.svg": picture.draw(results["rows"])})
    for name, text in files.items():
        path = os.path.join(folder, name)
        with open(path + ".new", "w") as f:
            f.write(text + "\n")
        os.replace(path + ".new", path)


# ---- the documentation --------------------------------------------------------------------------

FIRST, LAST = "<!-- bench/compare.py --docs write -->", "<!-- /bench/compare.py -->"


def joined(folder, device):
    """All results of the folder for a device as those of one run, or None."""
    whole = None
    for name in sorted(n for n in os.listdir(folder) if n.endswith(".json")):
        with open(os.path.join(folder, name)) as f:
            run = json.load(f)
        if device not in run["devices"]:
            continue
        rows = [r for r in run["rows"] if r["device"] == device and r["status"] != "not reached"]
        if whole is None:
            whole = dict(run, rows=[], devices={device: run["devices"][device]}, absent={device: run["absent"][device]})
        whole["rows"] += rows
        for kind in list(whole["absent"][device]):
            if kind not in run["absent"][device]:
                del whole["absent"][device][kind]
    if whole:
        whole["rows"].sort(key=lambda r: GROUPS.index(r["class"]))
    return whole


def docs(mode, root):
    """Writes the picture and the tables of docs/performance.md from the results in docs/measured, or
    ("check") returns 1 where they are not what these give."""
    folder, page = os.path.join(root, "docs", "measured"), os.path.join(root, "docs", "performance.md")
    runs = [r for r in (joined(folder, device) for device in ("cuda", "cpu")) if r]
    with open(page) as f:
        before, rest = f.read().split(FIRST)
    after = rest.split(LAST)[1]
    text = before + FIRST + "\n\n" + "\n".join(table(r) for r in runs) + "\n" + LAST + after
    stale = 0
    for path, made in ((page, text), (os.path.join(folder, "peers.svg"), picture.draw([r for run in runs for r in run["rows"]]) + "\n")):
        old = None
        if os.path.exists(path):
            with open(path) as f:
                old = f.read()
        if old != made and mode == "write":
            with open(path, "w") as f:
                f.write(made)
        elif old != made:
            print(f"{path} is stale: python3 bench/compare.py --docs write")
            stale = 1
    return stale
