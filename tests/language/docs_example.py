#!/usr/bin/env python3
"""Runs a program of docs/ and compares what it prints with the document's ```text block: docs_example.py PROGRAM DOCUMENT.

A line that is `…` stands for any lines, `…` at a line's beginning or end for the rest of it; numbers may differ in the last
digit that is shown.
"""
import pathlib
import re
import subprocess
import sys

from readme_test import same_words


def fits(shown, printed):
    return printed.endswith(shown[1:]) if shown.startswith("…") else same_words(shown, printed)


def main():
    program, document = sys.argv[1:]
    block = re.search(r"^```text\n(.*?)^```$", pathlib.Path(document).read_text(), re.MULTILINE | re.DOTALL)
    if not block:
        sys.exit(f"{document} does not show what its program prints")
    done = subprocess.run([program], capture_output=True, text=True)
    printed, skips = done.stdout.splitlines(), False
    for shown in block[1].splitlines():
        if shown == "…":
            skips = True
            continue
        while skips and printed and not fits(shown, printed[0]):
            printed.pop(0)
        if not printed or not fits(shown, printed.pop(0)):
            sys.exit(f"{document} shows\n  {shown}\nand {program} prints\n{done.stdout}{done.stderr}")
        skips = False
    if (printed and not skips) or done.returncode != 0:
        sys.exit(f"{program} ends with status {done.returncode} and prints more:\n" + "\n".join(printed))


if __name__ == "__main__":
    main()
