#!/usr/bin/env python3
"""flame-lua as a kernel, asked by Jupyter's own client: jupyter.py FLAME_LUA."""
import os
import subprocess
import sys
import tempfile
import threading
import time

home = tempfile.mkdtemp()
os.environ["XDG_DATA_HOME"] = home
os.environ["JUPYTER_PATH"] = os.path.join(home, "jupyter")
program = os.path.abspath(sys.argv[1])
subprocess.run([program, "--jupyter", "install"], check=True, stdout=subprocess.DEVNULL)

from jupyter_client.manager import KernelManager  # noqa: E402  (the environment first)

manager = KernelManager(kernel_name="flame-lua")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)


def run(code):
    out = []

    def hook(message):
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            out.append(content["text"])
        elif kind == "execute_result":
            out.append(content["data"])
        elif kind == "error":
            out.append(content["evalue"])
    reply = client.execute_interactive(code, timeout=60, output_hook=hook)
    return reply["content"]["status"], out


def expect(wanted, got):
    if wanted != got:
        sys.exit(f"expected {wanted}, got {got}")


try:
    expect(("ok", [{"text/plain": "3"}]), run("1 + 2"))
    expect(("ok", ["1\n2\n", {"text/plain": "{1, 2}"}]), run("for i = 1, 2 do print(i) end\nlocal t = {1, 2}\nt"))
    expect(("error", ["stdin:1: boom"]), run("error('boom')"))
    status, shown = run("flame.plot.line({1, 4, 2})")
    expect(True, shown[0]["image/svg+xml"].startswith("<svg "))
    reply = client.complete("flame.cums", reply=True, timeout=60)["content"]
    expect((["cumsum"], 6, 10), (reply["matches"], reply["cursor_start"], reply["cursor_end"]))
    reply = client.inspect("flame.topk(x", 8, reply=True, timeout=60)["content"]
    expect(True, "k largest" in reply["data"]["text/plain"])
    threading.Timer(0.5, manager.interrupt_kernel).start()
    expect(("error", ["stdin:1: interrupted!"]), run("while true do end"))
    manager.interrupt_kernel()                # between two entries it does nothing
    time.sleep(0.1)
    expect(("ok", [{"text/plain": "2"}]), run("t[2]"))
    expect(True, client.hb_channel.is_beating())
finally:
    client.stop_channels()
    manager.shutdown_kernel()
expect(False, manager.is_alive())
print("all as expected")
