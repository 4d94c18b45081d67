#!/usr/bin/env python3
"""Every message of an error or a warning in the sources has one form: lower case at its start (but for names such as CUDA), no full
stop, exclamation mark or apology, and no "error:", which who prints it adds.

    style_test.py FOLDER-OF-THE-PROJECT
"""

import pathlib
import re
import sys

FOLDERS = ["ir", "passes", "codegen", "runtime", "frontend", "models"]
# Where a message begins: what throws, returns or prints it.
SITES = re.compile(r"""\b(?:Error|InputError|UsageError|CudaError)[({]|\bemit(?:Op|Optional)?Error\(|\bnotifyMatchFailure\(
                       |\b(?:fail|refuse|warning|warn|addError|addWarning)\(|\bSeverity::(?:error|warning),|\berror\ =\ |std::cerr\ <<""", re.VERBOSE)
NAMES = re.compile(r"^(?:[A-Z0-9_]{2,}\b|Split\b)")  # CUDA, LLVM; a splitter of tokenizer.json
APOLOGY = re.compile(r"\b(?:please|sorry|oops|invalid argument|illegal)\b", re.IGNORECASE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def without_comments(text):
    """The same text, its // comments blank; strings stay."""
    return re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*', lambda found: found.group(1) or " " * len(found.group(0)), text)


def statement(text, start):
    """From `start` to the semicolon that ends the statement, strings left out of the search."""
    position = start
    while position < len(text) and text[position] != ";":
        found = LITERAL.match(text, position)
        position = found.end() if found else position + 1
    return text[start:position]


def messages(text):
    """(position, first literal, last literal) of each message."""
    for site in SITES.finditer(text):
        literals = [found.group(1) for found in LITERAL.finditer(statement(text, site.end()))]
        literals = [literal for literal in literals if " " in literal.strip()]
        if literals:
            yield site.start(), literals[0], literals[-1]


def faults(first, last):
    start = first.lstrip("'`\\\"")
    if start[:1].isupper() and not NAMES.match(start):
        yield "begins with a capital letter"
    if re.search(r"(?<!\.)[.!]$", last.removesuffix("\\n").rstrip()):
        yield "ends with a full stop"
    if re.match(r"(error|warning|note): ", first, re.IGNORECASE):
        yield "says itself what it is"
    if APOLOGY.search(first + " " + last):
        yield "is not plain"


def main():
    root, found, seen = pathlib.Path(sys.argv[1]), [], 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h"):
                continue
            text = without_comments(path.read_text())
            for position, first, last in messages(text):
                seen += 1
                line = text.count("\n", 0, position) + 1
                found += [f"{path.relative_to(root)}:{line}: {fault}: {first} … {last}" for fault in faults(first, last)]
    print(*found, f"{seen} messages, {len(found)} faults", sep="\n")
    return 1 if found or seen < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
