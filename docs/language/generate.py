#!/usr/bin/env python3
"""Writes docs/LANGUAGE.md from ir/Ops.td and docs/language/preface.md.

    generate.py                  write it
    generate.py --check          status 1 where the file is not what it should be

`llvm-tblgen --dump-json` reads Ops.td; --tblgen and --include say where it and MLIR's own .td files are.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {"Tcc_Float": "float", "Tcc_Tensor": "any element", "Tcc_FloatTensor": "float", "Tcc_NumberTensor": "float or integer",
         "Tcc_IntTensor": "i32 or i64", "Tcc_BoolTensor": "i1", "Tcc_LogicTensor": "i1, i32 or i64",
         "Tcc_PrintedTensor": "any element but f8", "Tcc_FloatScalar": "f32 scalar", "Tcc_BoolScalar": "i1 scalar", "Tcc_IndexScalar": "i32 scalar", "Tcc_IntScalar": "i32 or i64 scalar", "Tcc_Predicate": "predicate", "UnitAttr": "flag",
         "I64Attr": "integer", "F64Attr": "number", "DenseI64ArrayAttr": "list of integers", "ElementsAttr": "literal",
         "StrAttr": "text", "TypeAttr": "element type"}


def records(tblgen, includes):
    command = [tblgen, *(f"-I{path}" for path in [ROOT / "ir", *includes]), str(ROOT / "ir/Ops.td"), "--dump-json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def own_texts(data):
    """{op: {"formula", "gradient", "example": lines, "results": [(name, numbers as text)]}} of Ops.td."""
    texts = {}
    for key in data["!instanceof"]["Tcc_Op"]:
        record = data[key]
        text = texts[record["opName"]] = {"formula": " ".join(record["formula"].split()),
                                          "gradient": " ".join(record["gradientFormula"].split()),
                                          "example": [], "results": []}
        for line in textwrap.dedent(record["example"].strip("\n")).splitlines():
            if line.startswith("// %"):
                text["results"].append(tuple(line[3:].split(" = ")))
            elif line.strip():
                text["example"].append("  " + line)
    return texts


def example_graph(text):
    """The example as a whole graph; its results are named r0, r1, ..."""
    body, types = "\n".join(text["example"]), []
    for name, _ in text["results"]:
        base, _, number = name.partition("#")
        line = next(line for line in text["example"] if re.match(rf"  {base}\b", line))
        types.append(result_type(line, int(number or 0)))
    heads = ", ".join(f'{type} {{tcc.name = "r{i}"}}' for i, type in enumerate(types))
    names = ", ".join(name for name, _ in text["results"])
    return f"func.func @example() -> ({heads}) {{\n{body}\n  func.return {names} : {', '.join(types)}\n}}\n"


def result_type(line, number):
    types = re.findall(r"tensor<[^>]*>", line)
    if "tcc.gradient" in line:
        return types[1 + number]
    if "->" in line:
        return re.findall(r"tensor<[^>]*>", line.rpartition("->")[2])[number]
    return types[-1] if "tcc.select" in line else types[number]


def kind_of(data, name):
    if name in KINDS:
        return KINDS[name]
    record = data[name]
    for wrapper, base in (("Optional", "baseType"), ("Variadic", "baseType"), ("OptionalAttr", "baseAttr"),
                          ("DefaultValuedAttr", "baseAttr")):
        if wrapper in record["!superclasses"]:
            inner = kind_of(data, record[base]["def"])
            if wrapper == "DefaultValuedAttr":
                return f"{inner}, {record['defaultValue']} where absent"
            return {"Variadic": f"any number of {inner}"}.get(wrapper, f"{inner}, may be absent")
    if "RankedTensorOf" in record["!superclasses"]:
        return elements_of(record["summary"])
    raise SystemExit(f"generate.py: no words for {name}, expected a name in KINDS")


def elements_of(summary):
    """"ranked tensor of 32-bit float or bfloat16 type values" as "f32 or bf16"."""
    named = summary.removeprefix("ranked tensor of ").removesuffix(" values")
    for words, name in (("bfloat16 type", "bf16"), (r"(\d+)-bit signless integer", r"i\1"), (r"(\d+)-bit float", r"f\1")):
        named = re.sub(words, name, named)
    return named


def spelling(data, record):
    """The assembly format as a user writes it: operands with %, optional parts in brackets."""
    kinds = {name: kind_of(data, value["def"]).split(",")[0] for value, name in record["arguments"]["args"]}
    attributes = {name for name, kind in kinds.items() if kind in
                  ("flag", "integer", "number", "list of integers", "literal", "text", "element type", "predicate")}
    flags = "|".join(name for name, kind in kinds.items() if kind == "flag")
    text = " ".join(record["assemblyFormat"].split()).replace("`", "").replace("attr-dict", "{...}")
    text = text.replace("functional-type(operands, results)", "(types of operands) -> (types of results)")
    text = re.sub(r"type\(\$(\w+)\)", r"type-of-\1", text)
    text = re.sub(rf"\((\w+) \$(?:{flags})\^\)\?", r"[\1]", text)  # a flag is its word
    text = re.sub(r"\(([^()]*)\)\?", r"[\1]", text).replace("^", "")
    text = re.sub(r"\$(\w+)", lambda m: m[1].upper() if m[1] in attributes else "%" + m[1], text)
    return f"tcc.{record['opName']} {text}".replace(" ,", ",").replace("[, ", "[, ")


def operands(data, record, dag):
    rows = []
    for value, name in record[dag]["args"]:
        rows.append(f"`{name}` {kind_of(data, value['def'])}")
    return "; ".join(rows) or "none"


def section(data, key, text):
    record = data[key]
    name = record["opName"]
    composite = any(data[t["def"]].get("cppInterfaceName") == "CompositeOpInterface" for t in record["traits"])
    lines = [f"### `tcc.{name}`", "", f"{sentence(record['summary'])} *{'Composite' if composite else 'Primitive'}.*", ""]
    if record["assemblyFormat"]:
        lines += [f"    {spelling(data, record)}", ""]
    lines += [f"- operands and attributes: {operands(data, record, 'arguments')}",
              f"- results: {operands(data, record, 'results')}",
              f"- meaning: {text['formula']}", f"- gradient: {text['gradient']}"]
    described = " ".join(record["description"].split())
    prose, *labels = re.split(r"(?=\b[a-z_]+_c\d+:)", described)
    if prose.strip():
        lines.append(f"- {prose.strip()}")
    lines += [f"- `{label.split(':')[0]}`:{label.split(':', 1)[1].rstrip()}" for label in labels]
    lines += ["", "```", *(line[2:] for line in text["example"]),
              *(f"// {result} = {numbers}" for result, numbers in text["results"]), "```", ""]
    return "\n".join(lines)


def sentence(text):
    return text[0].upper() + text[1:] + "." if not text.endswith(".") else text


def families(data):
    """[(heading, [record names])] in the order of Ops.td."""
    source = (ROOT / "ir/Ops.td").read_text().splitlines()
    ops = sorted((int(data[key]["!locs"][-1].split(":")[-1]), key) for key in data["!instanceof"]["Op"]
                 if data[key]["opDialect"]["def"] == "Tcc_Dialect")
    found = []
    for line, key in ops:
        heading = next(text for text in reversed(source[:line]) if text.startswith("//===- ")).strip("/=- ")
        if not found or found[-1][0] != heading:
            found.append((heading, []))
        found[-1][1].append(key)
    return found


def document(data):
    texts = own_texts(data)
    parts = [(ROOT / "docs/language/preface.md").read_text().rstrip() + "\n"]
    for heading, keys in families(data):
        parts.append(f"## {sentence(heading)[:-1]}\n")
        for key in keys:
            name = data[key]["opName"]
            if not texts[name]["formula"] or not texts[name]["gradient"]:
                raise SystemExit(f"generate.py: ir/Ops.td has no formula or gradientFormula for '{name}'")
            parts.append(section(data, key, texts[name]))
    return "\n".join(parts).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tblgen", default=shutil.which("llvm-tblgen-22") or "/usr/lib/llvm-22/bin/llvm-tblgen")
    parser.add_argument("--include", action="append", default=[])
    arguments = parser.parse_args()
    target = ROOT / "docs/LANGUAGE.md"
    text = document(records(arguments.tblgen, arguments.include or ["/usr/lib/llvm-22/include"]))
    if arguments.check:
        if not target.exists() or target.read_text() != text:
            print("docs/LANGUAGE.md is not what ir/Ops.td and docs/language say; python3 docs/language/generate.py writes it")
            return 1
        return 0
    target.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
