#!/usr/bin/env python3
"""safetensors files by another hand, from the format's description (https://github.com/huggingface/safetensors#format).

    safetensors_oracle.py dump FILE     one line a tensor, sorted: name, dtype, shape, bytes in hex
    safetensors_oracle.py make FILE     a file of what stdin has in these lines, in their order
"""
import json
import struct
import sys


def dump(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    assert data[8:9] == b"{" and length % 8 == 0, "the header begins with { and ends where tensors are aligned"
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    ends = sorted(tuple(entry["data_offsets"]) for entry in tensors.values())
    assert [begin for begin, _ in ends] + [len(data) - 8 - length] == [0] + [end for _, end in ends], "no hole, no overlap"
    for name, entry in sorted(tensors.items()):
        begin, end = entry["data_offsets"]
        content = data[8 + length + begin:8 + length + end]
        print(name, entry["dtype"], json.dumps(entry["shape"], separators=(",", ":")), content.hex() or "-")


def make(path):
    header, content = {}, b""
    for line in sys.stdin:
        name, dtype, shape, digits = line.split()
        begin = len(content)
        content += bytes.fromhex("" if digits == "-" else digits)
        header[name] = {"dtype": dtype, "shape": json.loads(shape), "data_offsets": [begin, len(content)]}
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + content)


if __name__ == "__main__":
    {"dump": dump, "make": make}[sys.argv[1]](sys.argv[2])
