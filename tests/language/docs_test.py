#!/usr/bin/env python3
"""The programs of docs/ as a project of somebody else's: their CMake lines configure, each includes tcc as everything here does.

    docs_test.py CMAKE SCRATCH-FOLDER [CMAKE-OPTION...]
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = "#include <tcc/tcc.h>"


def block(text, language):
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def spelling_failures():
    """Every C++ file and document spells the header in one way; the header itself says what it stands for."""
    for folder in ["docs", "frontend", "models", "tests", "README.md"]:
        paths = [ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*.*"))
        for path in paths:
            if path.suffix in {".cpp", ".h", ".md", ".py"} and path != ROOT / "frontend/include/tcc/tcc.h":
                for line in path.read_text(errors="replace").splitlines():
                    if re.search(r'#include\s*[<"][\w/]*\btcc\.h[>"]', line) and INCLUDE not in line:
                        yield f"{path.relative_to(ROOT)}: {line.strip()}, {INCLUDE} is its one spelling"


def configure_failures(cmake, scratch, options):
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (scratch / "tcc").symlink_to(ROOT)
    whole, parts, programs = "", "", []
    for document in sorted((ROOT / "docs").glob("*.md")):
        text = document.read_text()
        program, lines = block(text, "cpp"), block(text, "cmake")
        if not program:
            continue
        name = re.search(r"add_executable\(\w+ (\w+\.cpp)\)", lines)
        if not name:
            yield f"{document.name} shows a program and no CMake lines for it"
            continue
        programs.append(name[1])
        (scratch / name[1]).write_text(program)
        if lines.startswith("cmake_minimum_required"):
            whole = lines
        else:
            parts += lines
    if not whole:
        yield "no document has a whole CMakeLists.txt"
        return
    (scratch / "CMakeLists.txt").write_text(whole + parts)
    done = subprocess.run([cmake, "-S", scratch, "-B", scratch / "build", "-G", "Ninja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options],
                          capture_output=True, text=True)
    if done.returncode:
        yield f"the CMake lines of docs/ cannot be configured:\n{done.stdout}{done.stderr}"
        return
    commands = {pathlib.Path(entry["file"]).name: entry["command"] for entry in
                json.loads((scratch / "build/compile_commands.json").read_text()) if pathlib.Path(entry["file"]).parent == scratch}
    for name in programs:
        folders = re.findall(r"(?:-I|-isystem )(\S+)", commands.get(name, ""))
        if not any((pathlib.Path(folder) / "tcc/tcc.h").exists() for folder in folders):
            yield f"{name} is built without the folder of tcc/tcc.h: {commands.get(name)}"
    if len(programs) < 4:
        yield f"docs/ has {len(programs)} programs"


def main():
    failures = [*spelling_failures(), *configure_failures(sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:])]
    print(*failures, f"{len(failures)} failures", sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
