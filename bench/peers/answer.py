"""The loop of a peer's process: a line of JSON for each request, {"error": …} where it failed."""
import json
import os
import sys


def serve(answers):
    """answers: word -> function(rest of the line)."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                  # what libraries print is no answer
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        try:
            said = answers[word](rest)
        except Exception as e:                     # noqa: BLE001  (what a peer can not do is a result)
            text = (str(e).strip().splitlines() or [""])[0]
            said = {"error": f"{type(e).__name__}: {text[:200]}"}
        out.write(json.dumps(said) + "\n")
        out.flush()


def absent(why):
    """Answers each request with why this peer is not there."""
    for _ in sys.stdin:
        print(json.dumps({"error": str(why)}), flush=True)
    sys.exit(0)


def request(rest):
    """("kind", "name", "file", {option: number or text}) of a line "KIND NAME FILE KEY=VALUE…"."""
    kind, name, file, *pairs = rest.split(" ")
    options = {}
    for pair in pairs:
        key, value = pair.split("=", 1)
        try:
            options[key] = int(value)
        except ValueError:
            options[key] = value
    return kind, name, file, options


