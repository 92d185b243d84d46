"""The picture of bench/compare.py: a line for each row, with a dot for each peer at its time over ours,
on a logarithmic axis. Right of 1 we are faster; the bar is what is wanted of the best peer, red where it
is missed."""
import html
import math

NAMES = {"ours": "ours", "eager": "PyTorch", "compile": "torch.compile", "graph": "CUDA graph", "jax": "JAX", "flash": "flash-clifford",
         "hand": "by hand", "llm.c": "llm.c"}
COLOURS = {"eager": "#4477aa", "compile": "#aa3377", "graph": "#228833", "jax": "#ccbb44", "flash": "#ee6677", "hand": "#66ccee",
           "llm.c": "#777777"}
LEFT, WIDTH, ROW, TOP, RIGHT = 430, 420, 17, 56, 30


def draw(rows):
    """The SVG's text."""
    rows = [r for r in rows if r.get("medians", {}).get("ours") and len(r["medians"]) > 1]
    ratios = [v / r["medians"]["ours"] for r in rows for k, v in r["medians"].items() if k != "ours"]
    low = math.floor(math.log2(min(ratios + [0.5])))
    high = math.ceil(math.log2(max(ratios + [2])))

    def x(ratio):
        return LEFT + WIDTH * (math.log2(ratio) - low) / (high - low)
    lines, y, device, group = [], TOP, None, None
    for r in rows:
        if r["device"] != device:
            y += ROW + 6
            lines.append(f'<text x="10" y="{y + 4}" font-weight="bold">{"CPU" if r["device"] == "cpu" else "GPU"}</text>')
        elif r["class"] != group:
            y += 7
        device, group, y = r["device"], r["class"], y + ROW
        lines += row(r, x, y)
    height = y + 20
    return "\n".join(head(rows, height) + grid(low, high, x, height) + lines + ["</svg>"])


def grid(low, high, x, height):
    out = []
    for k in range(low, high + 1, max(1, (high - low) // 8)):
        out.append(f'<path d="M{x(2.0**k):.1f} {TOP}V{height - 8}" stroke="{"#000" if k == 0 else "#ddd"}"/>')
        out.append(f'<text x="{x(2.0**k):.1f}" y="{TOP - 6}" text-anchor="middle">{2**k if k >= 0 else f"1/{2**-k}"}</text>')
    return out


def head(rows, height):
    width = LEFT + WIDTH + RIGHT
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="11">', f'<rect width="{width}" height="{height}" fill="#fff"/>',
            '<text x="10" y="18" font-size="13">Time of a peer over ours: right of 1 ours is faster; '
            'bars are what is wanted of the best peer</text>']
    at = 10
    for k in COLOURS:
        if any(k in r["medians"] for r in rows):
            text.append(f'<circle cx="{at + 5}" cy="34" r="4" fill="{COLOURS[k]}"/><text x="{at + 13}" y="38">{NAMES[k]}</text>')
            at += 26 + 7 * len(NAMES[k])
    return text


def row(r, x, y):
    """A row's label, its line, a dot for each peer, and a bar for what is wanted."""
    peers = {k: v / r["medians"]["ours"] for k, v in r["medians"].items() if k != "ours"}
    colour = "#b00" if r["status"] == "missed" else "#222"
    name = r["name"] + (", " + r["shape"] if r["shape"] else "")
    out = [f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="{colour}">{html.escape(name if len(name) < 71 else name[:69] + "…")}</text>']
    first, last, at = min(1, *peers.values()), max(1, *peers.values()), x(1 / r["budget"])
    out.append(f'<path d="M{x(first):.1f} {y}H{x(last):.1f}" stroke="#bbb"/>')
    out.append(f'<path d="M{at:.1f} {y - 6}V{y + 6}" stroke="{colour}" stroke-width="2"/>')
    return out + [f'<circle cx="{x(v):.1f}" cy="{y}" r="4" fill="{COLOURS[k]}"><title>{NAMES[k]}: {v:.2f}</title></circle>'
                  for k, v in peers.items()]
