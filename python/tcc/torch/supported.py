"""The list of translated ops in docs/TORCH.md.

    python -m tcc.torch.supported FILE            writes it between the file's marks
    python -m tcc.torch.supported --check FILE    status 1 where the file has another one
"""

from __future__ import annotations

import pathlib
import sys
import textwrap

BEGIN, END = "<!-- ops -->\n", "<!-- end of ops -->\n"


def table() -> str:
    from tcc.torch import lowering
    groups: dict[str, set[str]] = {}
    for name, function in lowering.NAMES.items():
        groups.setdefault(function.__module__.rsplit(".", 1)[1], set()).add(name.removesuffix(".default"))
    lines = []
    for group in sorted(groups):
        words = ", ".join(f"`{name}`" for name in sorted(groups[group]))
        lines.append(f"**{group}**\n\n" + "\n".join(textwrap.wrap(words, 120, break_long_words=False)) + "\n")
    return "\n" + "\n".join(lines) + "\n"


def written(text: str) -> str:
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    return before + BEGIN + table() + END + after


def main(arguments: list[str]) -> int:
    path = pathlib.Path(arguments[-1])
    text = path.read_text()
    new = written(text)
    if "--check" in arguments:
        return 0 if new == text else 1
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
