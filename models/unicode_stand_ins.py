#!/usr/bin/env python3
"""Writes unicode_stand_ins.inc: how texts are split as the `tokenizers` package splits them, by an older Oniguruma.

  unicode_stand_ins.py > models/unicode_stand_ins.inc     with the package `tokenizers` and libonig.so.5 installed

For each code point that is of another kind in the package than in the installed library (letters, numbers, symbols of
later Unicode versions), the table has one that is of the same kind in both and as long in UTF-8. A kind is what the
properties below say.
"""
import ctypes
import ctypes.util
import sys

import tokenizers
from tokenizers import Regex, pre_tokenizers

PROPERTIES = ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe", "Pi",
              "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co", "Cn", "Alphabetic", "Han",
              "Hiragana", "Katakana", "Hangul", "Emoji"]
PATTERNS = [r"\s", r"\w", r"\d"] + [r"\p{%s}" % name for name in PROPERTIES]
POINTS = [point for point in range(0x110000) if not 0xd800 <= point < 0xe000]
TEXT = "".join(map(chr, POINTS))


def of_package(pattern):
    """The code points that the pattern matches; what it removes from the text is what the others leave."""
    others = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(TEXT)
    return set(POINTS).difference(*(map(ord, piece) for piece, _ in others))


class Library:
    """Oniguruma as the program links it."""

    class Region(ctypes.Structure):
        _fields_ = [("allocated", ctypes.c_int), ("num_regs", ctypes.c_int), ("beg", ctypes.POINTER(ctypes.c_int)),
                    ("end", ctypes.POINTER(ctypes.c_int)), ("history_root", ctypes.c_void_p)]

    def __init__(self):
        self.onig = ctypes.CDLL(ctypes.util.find_library("onig"))
        self.onig.onig_region_new.restype = ctypes.POINTER(self.Region)
        self.onig.onig_version.restype = ctypes.c_char_p
        self.utf8 = ctypes.addressof(ctypes.c_char.in_dll(self.onig, "OnigEncodingUTF8"))
        self.syntax = ctypes.c_void_p.in_dll(self.onig, "OnigDefaultSyntax")
        self.text = TEXT.encode()
        self.buffer = ctypes.create_string_buffer(self.text, len(self.text))

    def matches(self, pattern):
        regex, info, source = ctypes.c_void_p(), ctypes.create_string_buffer(64), (pattern + "+").encode()
        begin = ctypes.cast(ctypes.create_string_buffer(source, len(source)), ctypes.c_void_p).value
        if self.onig.onig_new(ctypes.byref(regex), ctypes.c_void_p(begin), ctypes.c_void_p(begin + len(source)), 0,
                              ctypes.c_void_p(self.utf8), self.syntax, info) != 0:
            raise ValueError(pattern)
        start = ctypes.addressof(self.buffer)
        end, at, region, found = start + len(self.text), start, self.onig.onig_region_new(), set()
        pointer = ctypes.c_void_p
        while at < end and self.onig.onig_search(regex, pointer(start), pointer(end), pointer(at), pointer(end), region, 0) >= 0:
            first, last = region.contents.beg[0], region.contents.end[0]
            found.update(map(ord, self.text[first:last].decode()))
            at = start + last
        return found


def is_caseless(point):
    return chr(point).lower() == chr(point) == chr(point).upper()


def main():
    library = Library()
    kinds, olds = [0] * 0x110000, [0] * 0x110000
    for bit, pattern in enumerate(PATTERNS):
        for point in of_package(pattern):
            kinds[point] |= 1 << bit
        for point in library.matches(pattern):
            olds[point] |= 1 << bit
    length = lambda point: len(chr(point).encode())
    known = {}  # by kind and length: code points on which both agree, those without upper and lower case first
    for point in sorted(POINTS, key=lambda point: (not is_caseless(point), point)):
        if kinds[point] == olds[point]:
            known.setdefault((kinds[point], length(point)), point)
    ranges, missing = [], []
    for point in POINTS:
        if kinds[point] == olds[point]:
            continue
        if (kinds[point], length(point)) not in known:
            missing.append(point)
            continue
        stand_in = known[kinds[point], length(point)]
        if ranges and ranges[-1][1] + 1 == point and ranges[-1][2] == stand_in:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, stand_in])
    print(f"// Written by unicode_stand_ins.py: tokenizers {tokenizers.__version__} beside Oniguruma "
          f"{library.onig.onig_version().decode()}, first, last, stand-in.")
    row = ""
    for first, last, stand_in in ranges:
        entry = f"{{0x{first:x}, 0x{last:x}, 0x{stand_in:x}}},"
        if len(row) + len(entry) > 118:
            print(row.rstrip())
            row = ""
        row += entry + " "
    print(row.rstrip())
    if missing:
        print(f"{len(missing)} without a stand-in, the first of them U+{missing[0]:04X}", file=sys.stderr)


if __name__ == "__main__":
    main()
