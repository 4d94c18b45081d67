#!/usr/bin/env python3
"""Forward and backward of a value times several parameters, as join-matmuls leaves them apart or joins them.

    tests/bench/joined_matmuls.py [--tcc=build/bin/tcc] [--device=cuda] [--rounds=9] [--json=F.json]

The value is rows x 768 in f32. Each step is timed with the pass and with -fno-join-matmuls, each first in turn;
`joined / apart` is the median of the rounds' quotients. What the pass leaves apart is not timed.
"""

import argparse

import sweep

WIDTH, RUNS = 768, 20
STEPS = [((8, 8, 8), 1024), ((8, 8), 4096), ((64, 64), 4096), ((128, 128), 1024), ((WIDTH, WIDTH, WIDTH), 1024)]


def graph(columns, rows):
    x = f"tensor<{rows}x{WIDTH}xf32>"
    arguments = [f'%x: {x} {{tcc.name = "x"}}']
    results, types, lines = ["%g#0"], [f'{x} {{tcc.name = "dx"}}'], []
    for i, count in enumerate(columns):
        w, y = f"tensor<{WIDTH}x{count}xf32>", f"tensor<{rows}x{count}xf32>"
        arguments += [f'%w{i}: {w} {{tcc.name = "w{i}"}}', f'%d{i}: {y} {{tcc.name = "d{i}"}}']
        lines += [f"  %y{i} = tcc.matmul %x, %w{i} : {x}, {w} -> {y}", f"  %p{i} = tcc.mul %y{i}, %d{i} : {y}",
                  f"  %q{i} = tcc.reduce_sum %p{i} axes [0, 1] : {y} -> tensor<1x1xf32>"]
        if i > 0:
            lines.append(f"  %l{i} = tcc.add {'%q0' if i == 1 else f'%l{i - 1}'}, %q{i} : tensor<1x1xf32>")
        results.append(f"%g#{i + 1}")
        types.append(f'{w} {{tcc.name = "dw{i}"}}')
    wanted = ", ".join(["%x"] + [f"%w{i}" for i in range(len(columns))])
    plain = ", ".join(text.split(" {")[0] for text in types)
    return (f"func.func @step({', '.join(arguments)}) -> ({', '.join(types)}) {{\n" + "\n".join(lines) +
            f"\n  %loss = tcc.reshape %l{len(columns) - 1} : tensor<1x1xf32> -> tensor<f32>\n"
            f"  %g:{len(results)} = tcc.gradient %loss wrt {wanted} : tensor<f32>, {plain}\n"
            f"  func.return {', '.join(results)} : {plain}\n}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sweep.common_arguments(parser)
    parser.set_defaults(rounds=9)
    arguments = parser.parse_args()
    tcc = sweep.tcc_of(arguments)
    rows, figures = [], []
    for columns, length in STEPS:
        name = "+".join(map(str, columns))
        path = tcc.file(f"{name}-{length}.graph", graph(columns, length))
        forms = {"joined": (), "apart": ("-fno-join-matmuls",)}
        joins = tcc.planned_bytes(path) != tcc.planned_bytes(path, forms["apart"])
        times = {form: [] for form in forms}
        for i in range(arguments.rounds if joins else 0):
            for form in list(forms)[::1 if i % 2 else -1]:
                times[form].append(tcc.bench(path, RUNS, forms[form])["ms"])
        figures.append({"columns": columns, "rows": length, "joins": joins, "ms": times})
        quotients = sorted(joined / apart for joined, apart in zip(times["joined"], times["apart"]))
        rows.append([name, str(length), *([f"{sweep.median(times['apart']):.2f}", f"{sweep.median(times['joined']):.2f}",
                                           f"{sweep.median(quotients):.2f}",
                                           f"{quotients[len(quotients) // 4]:.2f} to {quotients[-1 - len(quotients) // 4]:.2f}"]
                                          if joins else ["leaves them apart", "", "", ""])])
    sweep.finish(arguments, sweep.table(["columns", "rows", "apart ms", "joined ms", "joined / apart", "quartiles"], rows), figures, [])


if __name__ == "__main__":
    main()
