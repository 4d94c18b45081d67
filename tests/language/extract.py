#!/usr/bin/env python3
"""Writes the first ```cpp block of a README to a file: extract.py README OUTPUT."""

import pathlib
import re
import sys

readme, output = sys.argv[1:]
block = re.search(r"^```cpp\n(.*?)^```$", pathlib.Path(readme).read_text(), re.MULTILINE | re.DOTALL)
if not block:
    sys.exit(f"{readme} has no ```cpp block")
pathlib.Path(output).write_text(f'#line 1 "{readme}, the first block"\n' + block[1])
