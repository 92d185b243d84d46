"""Reads a safetensors file without any library: name -> (dtype, shape, bytes)."""
import json
import mmap
import struct


def read(path):
    with open(path, "rb") as f:
        memory = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
    n, = struct.unpack("<Q", memory[:8])
    head, view = json.loads(memory[8:8 + n]), memoryview(memory)[8 + n:]
    head.pop("__metadata__", None)
    return {name: (e["dtype"], e["shape"], view[slice(*e["data_offsets"])]) for name, e in head.items()}
