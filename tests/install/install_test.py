#!/usr/bin/env python3
"""The installed tree: `cmake --install` into an empty prefix, then what a user does with it. The trainer of the README is built by
find_package and by pkg-config and run; public headers compile alone without a warning under every compiler that is here;
the libraries export no name of others; the programs run, and are completed.

    install_test.py CMAKE BUILD-FOLDER SOURCE-FOLDER COMPILER...
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wmissing-field-initializers", "-Werror"]
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(trainer LANGUAGES CXX)
find_package(tcc 0.1 CONFIG REQUIRED COMPONENTS tcc runtime)
add_executable(trainer trainer.cpp)
target_link_libraries(trainer PRIVATE tcc::tcc)
add_executable(run run.cpp)
target_link_libraries(run PRIVATE tcc::runtime)
"""
RUN = """#include <tcc/runtime.h>
int main(int, char **arguments) {
  auto artefact = tcc::runtime::readArtefact(arguments[1]);
  return artefact && tcc::runtime::Executable::load(std::move(*artefact)) ? 0 : 1;
}
"""
# Names of a shared library that are ours, and the variables that identify MLIR's types (cmake/install/exports.map).
OWN = re.compile(r"^((typeinfo( name)?|vtable|VTT|guard variable) for |(non-)?virtual thunk to )?tcc(::|_)"
                 r"|^(guard variable for )?mlir::(detail::TypeIDResolver<|SideEffects::)")


def run(*words, **how):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, **how)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(fine, what):
    if not fine:
        sys.exit(what)


def trainer(source):
    """The README's program: one block, of 15 lines at most."""
    blocks = re.findall(r"^```cpp\n(.*?)^```$", (source / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    check(len(blocks) == 1 and "tcc/tcc.h" in blocks[0], "README.md has no one trainer")
    check(len(blocks[0].splitlines()) <= 15, f"the trainer has {len(blocks[0].splitlines())} lines")
    return blocks[0]


def check_losses(printed):
    losses = [float(number) for number in re.findall(r"\d+\.\d+", printed)]
    check(len(losses) >= 2 and losses[-1] < 0.5 * losses[0], f"the trainer does not learn:\n{printed}")


def check_headers(prefix, compilers):
    headers = sorted((prefix / "include").rglob("*.h"))
    check({"tcc.h", "runtime.h", "tcc_custom.h"} <= {header.name for header in headers}, f"headers are missing: {headers}")
    for header in headers:
        text = header.read_text()
        check(not re.search(r"#include [<\"](mlir|llvm|ir|passes|codegen)/", text), f"{header} includes the compiler's inside")
    languages = [(compiler, "c++", "-std=c++20") for compiler in compilers]
    def alone(job):
        header, (compiler, language, standard) = job
        run(compiler, standard, "-fsyntax-only", *WARNINGS, f"-I{prefix}/include", "-x", language, "-",
            input=f"#include <{header.relative_to(prefix / 'include')}>\n")
    plain = [header for header in headers if header.name.startswith("tcc_")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(alone, [(header, language) for header in headers for language in languages]
                      + [(header, ("cc", "c", "-std=c11")) for header in plain]))
    return len(headers)


def check_exports(library):
    symbols = [line.split(" ", 2)[1:] for line in run("nm", "-DC", "--defined-only", library).splitlines()]
    names = [name for kind, name in symbols if kind.isupper() or kind in "uvw"] # the others are local
    foreign = [name for name in names if not OWN.match(name)]
    check(len(names) > 100 and not foreign, f"{library} exports {len(foreign)} foreign names: {foreign[:5]}")


def check_completion(prefix, environment):
    script = prefix / "share/bash-completion/completions/tcc"
    body = f"""source {script}
complete_word() {{ COMP_LINE="tcc $1"; COMP_POINT=${{#COMP_LINE}}; COMPREPLY=(); _tcc_graph {prefix}/bin/tcc 2>/dev/null; echo "${{COMPREPLY[*]}}"; }}
complete_word -fno-simp; complete_word -emit=fu; complete_word {prefix}/li"""
    said = run("bash", "-c", body, env=environment).splitlines()
    check(said == ["-fno-simplify", "fused", f"{prefix}/lib"], f"completed to {said}")


C_PROGRAM = """#include <tcc/tcc_runtime.h>
#include "step.h"
#include <stdio.h>
int main(void) {
  tcc_step *step;
  float w[256 * 32] = {0};
  if (train_step_create(NULL, &step) || train_step_set_state(step, "table", w, sizeof w))
    return fprintf(stderr, "%s\\n", train_step_last_error()), 1;
  printf("%s %d\\n", train_step_target(step), TRAIN_STEP_STATES);
  train_step_destroy(step);
  return 0;
}
"""


def check_libraries(prefix, folder, source, environment):
    """Step libraries that the installed compiler writes, and the runtime that C sees."""
    runtime = prefix / "lib/libtcc_runtime.so"
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", runtime).splitlines()]
    check(len(exported) > 20 and all(name.startswith(("tcc_", "TCC_1")) for name in exported), f"{runtime} exports {exported}")
    run("strip", "-o", folder / runtime.name, runtime)
    size = (folder / runtime.name).stat().st_size
    check(size <= 3e6 and "LLVM" not in run("ldd", runtime), f"the runtime has {size} bytes, or needs LLVM")
    print(f"{runtime.name}: {size / 1e6:.1f} MB")
    (folder / "use.c").write_text(C_PROGRAM)
    flags = run("pkg-config", "--cflags", "tcc-c-runtime", env=environment).split()
    for extra in ([], ["--static"]):
        run(prefix / "bin/tcc", source / "models/train_step.graph", "-o", folder / "step.so", *extra)
        run("cc", "-std=c11", "-Wall", "-Werror", *flags, f"-I{folder}", folder / "use.c", folder / "step.so",
            "-Wl,-rpath,$ORIGIN", "-o", folder / "use")
        check(run(folder / "use") == "cpu 6\n", f"the C program over step.so {extra} says {run(folder / 'use')}")


def main():
    cmake, build, source, compilers = sys.argv[1], *map(pathlib.Path, sys.argv[2:4]), sys.argv[4:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix, project = folder / "prefix", folder / "project"
        environment = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "PATH": f"{prefix}/bin:{os.environ['PATH']}"}
        run(cmake, "--install", build, "--prefix", prefix)

        # 1. What is there, how large.
        libraries = [prefix / f"lib/libtcc-{library}.so" for library in ("graph-runtime", "graph")]
        for library in libraries:
            check_exports(library)
            run("strip", "-o", folder / library.name, library)
            print(f"{library.name}: {(folder / library.name).stat().st_size / 1e6:.1f} MB")
        check((folder / libraries[0].name).stat().st_size <= 3e6, "the runtime is larger than 3 MB")
        check("LLVM" not in run("ldd", libraries[0]), "the runtime needs LLVM")
        print(check_headers(prefix, compilers), "headers compile alone with", *compilers)

        # 2. The programs, their page, completion.
        check(run(prefix / "bin/tcc", "-dumpversion") == run(prefix / "bin/tcc-graph", "-dumpversion"), "tcc is another program")
        step = folder / "step.tcc"
        run(prefix / "bin/tcc", source / "models/train_step.graph", "-o", step)
        run(prefix / "bin/train_gpt", "--help")
        page = run("zcat", prefix / "share/man/man1/tcc.1.gz")
        for option in re.findall(r"^  (-\S+)", run(prefix / "bin/tcc", "--help"), re.MULTILINE):
            check(".B " + option.replace("-", "\\-") in page, f"the man page lacks {option}")
        check_completion(prefix, environment)
        check_libraries(prefix, folder, source, environment)

        # 3. find_package, then pkg-config.
        project.mkdir()
        (project / "trainer.cpp").write_text(trainer(source))
        (project / "run.cpp").write_text(RUN)
        (project / "CMakeLists.txt").write_text(CMAKE)
        run(cmake, "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        run(cmake, "--build", project / "build")
        check_losses(run(project / "build/trainer"))
        run(project / "build/run", step)
        for compiler in compilers:
            for package, program in (("tcc", "trainer"), ("tcc-runtime", "run")):
                flags = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
                out = folder / f"{program}-{pathlib.Path(compiler).name}"
                run(compiler, "-std=c++20", *WARNINGS, project / f"{program}.cpp", "-o", out, *flags, f"-Wl,-rpath,{prefix}/lib")
                said = run(out, step)
                if program == "trainer":
                    check_losses(said)
    print("find_package and pkg-config give a trainer that learns")


if __name__ == "__main__":
    main()
