"""Reads .npy files without NumPy: the numbers of one array, in order (NEP 1; versions 1 and 2, little-endian, C order)."""

import ast
import struct

FORMATS = {"<f4": "f", "<f8": "d", "<f2": "e", "<i4": "i", "<i8": "q", "|b1": "?", "<u2": "H"}


def load(path):
    data = open(path, "rb").read()
    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"{path} is no .npy file")
    wide = data[6] >= 2
    start = 12 if wide else 10
    length = struct.unpack("<I" if wide else "<H", data[8:start])[0]
    header = ast.literal_eval(data[start:start + length].decode("latin1"))
    code = FORMATS[header["descr"]]
    body = data[start + length:]
    return [float(value) for value in struct.unpack(f"<{len(body) // struct.calcsize(code)}{code}", body)]
