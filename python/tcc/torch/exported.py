"""Programs of torch.export as graphs: what `tcc model.pt2` runs.

    python -m tcc.torch.exported MODEL.pt2                       writes the .graph text to the standard output
    python -m tcc.torch.exported MODEL.pt2 VALUES.safetensors    and the values of its parameters to a file
    … MODEL.pt2 VALUES.safetensors --states                      which are states: a library loads them once

Parameters, buffers, constants and inputs are arguments by their names; buffers that the program changes are states, and
with --states all that the program holds.
Sizes that the program leaves open are those of the example that it was exported with.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import warnings

import torch
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from tcc.torch.backend import decompositions, fix_sizes, has_symbols
from tcc.torch.convert import Conversion
from tcc.torch.layouts import turned
from tcc.torch.lowering import Unsupported

aten = torch.ops.aten
#: The status that says to tcc: the program cannot be a graph.
REFUSED = 3
#: Results that are the new values of a buffer or an input.
UPDATES = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def fixed(program) -> torch.fx.GraphModule:
    """The program's graph, its open sizes those of its example."""
    module = program.graph_module
    if not has_symbols(module):
        return module
    if not program.example_inputs:
        raise Unsupported("sizes are left open, and the file has no example of inputs; export it with fixed sizes")
    held = {**program.state_dict, **program.constants}
    examples = iter(pytree.tree_leaves(program.example_inputs))
    fix_sizes(module, [held[spec.target] if spec.target is not None else next(examples)
                       for spec in program.graph_signature.input_specs])
    return module


def named(program, module: torch.fx.GraphModule) -> None:
    """Gives arguments their names, and writes new values into the arguments that they belong to."""
    signature = program.graph_signature
    graph = module.graph
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    places = {}
    for spec in signature.input_specs:
        node = placeholders[spec.arg.name]
        node.meta["tcc.name"] = spec.target or spec.arg.name
        places[spec.target or spec.arg.name] = node
    output = next(node for node in graph.nodes if node.op == "output")
    kept = []
    with graph.inserting_before(output):
        for spec, value in zip(signature.output_specs, output.args[0], strict=True):
            if spec.kind in UPDATES:
                graph.call_function(aten.copy_.default, (places[spec.target], value))
            else:
                kept.append(value)
    output.args = (tuple(kept),)


def values_of(program, module: torch.fx.GraphModule, conversion: Conversion) -> dict[str, torch.Tensor]:
    """What the program holds, by the graph's arguments, each as it lies there."""
    held = {**program.state_dict, **program.constants}
    nodes = {node.name: node for node in module.graph.nodes if node.op == "placeholder"}
    values = {}
    for spec in program.graph_signature.input_specs:
        look, name = conversion.looks.get(nodes[spec.arg.name], (None, None))
        if name is not None and spec.target is not None:
            values[name] = turned(held[spec.target], look)
    for (_, name, _), tensor, look in zip(conversion.handed, conversion.constants, conversion.constant_looks,
                                          strict=True):
        values[name] = turned(tensor, look)
    return values


def graph_text(path: str, values: str | None = None, as_states: bool = False) -> str:
    """The program's graph; what it holds goes to the file `values`."""
    program = torch.export.load(path).run_decompositions(decompositions())
    module = fixed(program)
    named(program, module)
    conversion = Conversion(module.graph, module, pathlib.Path(path).stem, None)
    conversion.run()
    if conversion.fallbacks:
        ops = sorted({f"{record.op} ({record.reason})" for record in conversion.fallbacks})
        raise Unsupported(f"no translation of {', '.join(ops)}; torch.compile(…, backend=\"tcc\") runs such ops by ATen")
    if values:
        from safetensors.torch import save_file
        held = values_of(program, module, conversion)
        save_file(held, values)
        if as_states:
            arguments = conversion.c.g.arguments
            arguments[:] = [(value, name, is_state or name in held) for value, name, is_state in arguments]
    return conversion.c.g.text()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tcc.torch.exported", description="Writes a program as a graph.")
    parser.add_argument("program", metavar="MODEL.pt2")
    parser.add_argument("values", metavar="VALUES.safetensors", nargs="?")
    parser.add_argument("--states", action="store_true", help="what VALUES.safetensors holds are states of the graph")
    given = parser.parse_args(arguments)
    if given.states and not given.values:
        parser.error("--states without VALUES.safetensors, the file that states begin with")
    warnings.simplefilter("ignore")
    try:
        sys.stdout.write(graph_text(given.program, given.values, given.states))
    except ModuleNotFoundError as why:
        print(why, file=sys.stderr)
        return 1
    except Exception as why:
        print(str(why).strip().splitlines()[0] if str(why).strip() else type(why).__name__, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
