"""llm.c as a peer: its own program train_gpt2cu, with random weights and tokens, for a number of steps."""
import os
import re
import struct
import subprocess
import tempfile


def tokens(path, count, vocabulary):
    """Writes tokens in llm.c's format: 256 integers (magic, version, count), then 16 bits for each."""
    with open(path, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
        f.write(struct.pack(f"<{count}H", *((i * 7919 + i * i % 9973 * 31) % vocabulary for i in range(count))))


class Peer:
    def __init__(self, path, sizes):
        self.program = os.path.join(path, "train_gpt2cu") if os.path.isdir(path) else path
        self.sizes = sizes

    def run(self, entry, steps=25):
        """Adds a sample, the median step of a run, or says why there is none. What it computes is not
        compared: its weights and tokens are its own."""
        o = self.sizes
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "tokens.bin")
            tokens(data, (steps + 8) * o["batch"] * o["length"] + 1, 50257)
            command = [self.program, "-i", data, "-j", data, "-e", f"d{o['layers']}", "-b", str(o["batch"]), "-t", str(o["length"]),
                       "-d", str(o["batch"] * o["length"]), "-x", str(steps), "-v", "1000000", "-s", "0", "-m", "1", "-l", "1e-4", "-r", "0"]
            try:
                said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=120,
                                      cwd=os.path.dirname(os.path.abspath(self.program)))
            except (OSError, subprocess.TimeoutExpired) as e:
                entry["notes"]["llm.c"] = str(e)[:200]
                return
        times = sorted(float(t) for t in re.findall(r"\|\s*([\d.]+) ms", said.stdout)[5:])
        if not times:
            entry["notes"]["llm.c"] = "it printed no times: " + (said.stdout.strip().splitlines() or ["nothing"])[-1][:160]
            return
        entry["samples"].setdefault("llm.c", []).append(times[len(times) // 2] / 1e3)
        entry["notes"]["llm.c"] = "timed alone, with its own weights and tokens: not compared"
