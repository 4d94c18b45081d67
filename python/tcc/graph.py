"""Writes `.graph` text, the language of docs/LANGUAGE.md, an op at a time.

A `Graph` has one method an op of the language; each checks nothing and writes one line, whose types follow from its
operands'. What is wrong with a line the compiler says, at the line's place in the user's program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

#: Bytes of an element of each type.
ELEMENT_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f8E4M3FN": 1, "f8E5M2": 1, "i1": 1, "i32": 4, "i64": 8}
FLOATS = ("f32", "bf16", "f16")


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a graph: its name in the text, its sizes, its element type."""

    name: str
    sizes: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        return tensor_type(self.sizes, self.element)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS


@dataclass(frozen=True)
class Place:
    """Where an op stands in the user's program, and which part of the model it belongs to."""

    file: str = ""
    line: int = 0
    scope: str = ""
    op: str = ""  # what the user's program calls it; the graph's own name by default


@dataclass
class Result:
    """What a graph gives: a value, its name, and the state that it is the new value of, if any."""

    value: Value
    name: str
    updates: str = ""


@dataclass
class Graph:
    """A graph that is being written."""

    name: str = "step"
    place: Place = field(default_factory=Place)
    arguments: list[tuple[Value, str, bool]] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _count: int = 0
    _constants: dict = field(default_factory=dict)

    # Structure

    def argument(self, name: str, sizes, element: str, state: bool = False) -> Value:
        value = Value(f"%arg{len(self.arguments)}", tuple(sizes), element)
        self.arguments.append((value, name, state))
        return value

    def result(self, value: Value, name: str, updates: str = "") -> None:
        self.results.append(Result(value, name, updates))

    def text(self) -> str:
        """The whole graph."""
        def attributes(name: str, rest: str) -> str:
            return f'{{tcc.name = "{name}"{rest}}}'

        arguments = ",\n    ".join(f"{value.name}: {value.type} " + attributes(name, ", tcc.state" if state else "")
                                   for value, name, state in self.arguments)
        types = ",\n    ".join(f"{result.value.type} " +
                               attributes(result.name, f', tcc.updates = "{result.updates}"' if result.updates else "")
                               for result in self.results)
        values = ", ".join(result.value.name for result in self.results)
        kinds = ", ".join(result.value.type for result in self.results)
        end = f"  func.return {values} : {kinds}\n" if self.results else "  func.return\n"
        head = f"func.func @{self.name}({arguments})\n    -> ({types}) {{\n"
        return head + "".join(f"  {line}\n" for line in self.lines) + end + "}\n"

    # Lines

    def _place(self, op: str) -> str:
        place = self.place
        op = place.op or op
        name = quoted(f"{place.scope}.{op}" if place.scope else op)
        if place.line:
            return f" loc({name}({quoted(place.file)}:{place.line}:0))"
        return f" loc({name})" if place.scope or place.op else " loc(unknown)"

    def _next(self) -> str:
        self._count += 1
        return f"%{self._count - 1}"

    def line(self, op: str, body: str, sizes, element: str) -> Value:
        """A line `%n = tcc.op body`."""
        value = Value(self._next(), tuple(sizes), element)
        self.lines.append(f"{value.name} = tcc.{op} {body}{self._place(op)}")
        return value

    def several(self, op: str, body: str, types) -> list[Value]:
        """A line of an op with results of these (sizes, element)."""
        name = self._next()
        if len(types) == 1:
            self.lines.append(f"{name} = {body}{self._place(op)}")
            return [Value(name, tuple(types[0][0]), types[0][1])]
        self.lines.append(f"{name}:{len(types)} = {body}{self._place(op)}")
        return [Value(f"{name}#{i}", tuple(sizes), element) for i, (sizes, element) in enumerate(types)]

    # Elementwise

    def unary(self, op: str, x: Value) -> Value:
        return self.line(op, f"{x.name} : {x.type}", x.sizes, x.element)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        return self.line(op, f"{a.name}, {b.name} : {a.type}", a.sizes, a.element)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        kind = tensor_type(a.sizes, "i1")
        return self.line("compare", f"{predicate} {a.name}, {b.name} : {a.type} -> {kind}", a.sizes, "i1")

    def is_finite(self, x: Value) -> Value:
        return self.line("is_finite", f"{x.name} : {x.type} -> {tensor_type(x.sizes, 'i1')}", x.sizes, "i1")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.line("select", f"{condition.name}, {a.name}, {b.name} : {condition.type}, {a.type}", a.sizes,
                         a.element)

    def cast(self, x: Value, element: str) -> Value:
        if x.element == element:
            return x
        return self.line("cast", f"{x.name} : {x.type} -> {tensor_type(x.sizes, element)}", x.sizes, element)

    # Sources

    def constant(self, value, element: str, sizes=()) -> Value:
        """A splat of a Python number."""
        key = (repr(value), element, tuple(sizes))
        known = self._constants.get(key)
        if known:
            return known
        kind = tensor_type(sizes, element)
        made = Value(self._next(), tuple(sizes), element)
        # At the front, so that it stands above every use; without a place, for it has many.
        self.lines.insert(0, f"{made.name} = tcc.constant dense<{literal(value, element)}> : {kind} loc(unknown)")
        self._constants[key] = made
        return made

    def iota(self, dim: int, sizes, element: str) -> Value:
        return self.line("iota", f"dim {dim} -> {tensor_type(sizes, element)}", sizes, element)

    def random_bits(self, seed: Value, stream: int, sizes) -> Value:
        return self.line("random_bits", f"{seed.name} stream {stream} : {seed.type} -> {tensor_type(sizes, 'i32')}",
                         sizes, "i32")

    # Views

    def broadcast(self, x: Value, sizes) -> Value:
        if x.sizes == tuple(sizes):
            return x
        return self.line("broadcast", f"{x.name} : {x.type} -> {tensor_type(sizes, x.element)}", sizes, x.element)

    def reshape(self, x: Value, sizes) -> Value:
        if x.sizes == tuple(sizes):
            return x
        return self.line("reshape", f"{x.name} : {x.type} -> {tensor_type(sizes, x.element)}", sizes, x.element)

    def transpose(self, x: Value, permutation) -> Value:
        permutation = list(permutation)
        if permutation == list(range(x.rank)):
            return x
        sizes = tuple(x.sizes[dim] for dim in permutation)
        return self.line("transpose", f"{x.name} {permutation} : {x.type} -> {tensor_type(sizes, x.element)}", sizes,
                         x.element)

    def slice(self, x: Value, starts, limits, steps=None) -> Value:
        steps = list(steps or [1] * x.rank)
        sizes = tuple(-(-(limit - start) // step) for start, limit, step in zip(starts, limits, steps))
        if sizes == x.sizes:
            return x
        by = f" by {steps}" if any(step != 1 for step in steps) else ""
        return self.line("slice", f"{x.name} {list(starts)} to {list(limits)}{by} : {x.type} -> "
                         f"{tensor_type(sizes, x.element)}", sizes, x.element)

    def pad(self, x: Value, low, high, value=0) -> Value:
        """`value` is a number that an f64 holds exactly."""
        if not any(low) and not any(high):
            return x
        sizes = tuple(size + before + after for size, before, after in zip(x.sizes, low, high))
        with_ = "" if value == 0 and math.copysign(1, value) > 0 else f" value {any_number(value)}"
        return self.line("pad", f"{x.name} {list(low)}, {list(high)}{with_} : {x.type} -> "
                         f"{tensor_type(sizes, x.element)}", sizes, x.element)

    def window(self, x: Value, dims, window, steps, dilations) -> Value:
        """Windows over some dims: their places stay in the dims, their elements come last."""
        sizes = list(x.sizes)
        for dim, size, step, dilation in zip(dims, window, steps, dilations):
            sizes[dim] = (sizes[dim] - (size - 1) * dilation - 1) // step + 1
        sizes += window
        return self.line("window", f"{x.name} dims {list(dims)} sizes {list(window)} steps {list(steps)} dilations "
                         f"{list(dilations)} : {x.type} -> {tensor_type(sizes, x.element)}", sizes, x.element)

    def fold(self, x: Value, sizes, dims, steps, dilations) -> Value:
        """The sum of such windows, each where it stands in a tensor of these sizes."""
        return self.line("fold", f"{x.name} dims {list(dims)} steps {list(steps)} dilations {list(dilations)} : "
                         f"{x.type} -> {tensor_type(sizes, x.element)}", sizes, x.element)

    def concat(self, parts, axis: int) -> Value:
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        sizes = list(parts[0].sizes)
        sizes[axis] = sum(part.sizes[axis] for part in parts)
        return self.line("concat", f"{', '.join(part.name for part in parts)} axis {axis} : "
                         f"{', '.join(part.type for part in parts)} -> {tensor_type(sizes, parts[0].element)}", sizes,
                         parts[0].element)

    # Reductions, indexing, products

    def reduce(self, op: str, x: Value, axes) -> Value:
        """Over axes, which stay as size 1."""
        axes = sorted(axes)
        if not axes:
            return x
        sizes = tuple(1 if dim in axes else size for dim, size in enumerate(x.sizes))
        return self.line(op, f"{x.name} axes {axes} : {x.type} -> {tensor_type(sizes, x.element)}", sizes, x.element)

    def place_of(self, op: str, x: Value, axis: int) -> Value:
        """argmax or argmin: i32, along an axis that stays as size 1."""
        sizes = x.sizes[:axis] + (1,) + x.sizes[axis + 1:]
        return self.line(op, f"{x.name} axis {axis} : {x.type} -> {tensor_type(sizes, 'i32')}", sizes, "i32")

    def running(self, op: str, x: Value, axis: int) -> Value:
        """cumsum or cumprod."""
        return self.line(op, f"{x.name} axis {axis} : {x.type}", x.sizes, x.element)

    def gather(self, table: Value, index: Value) -> Value:
        sizes = index.sizes + table.sizes[1:]
        return self.line("gather", f"{table.name} at {index.name} : {table.type}, {index.type} -> "
                         f"{tensor_type(sizes, table.element)}", sizes, table.element)

    def scatter_add(self, base: Value, index: Value, rows: Value) -> Value:
        return self.line("scatter_add", f"{base.name} at {index.name}, {rows.name} : {base.type}, {index.type}, "
                         f"{rows.type}", base.sizes, base.element)

    def matmul(self, a: Value, b: Value, transposed_a: bool = False, transposed_b: bool = False,
               wide: bool = False) -> Value:
        """`wide`: the sums stay f32, whatever is multiplied."""
        rows = a.sizes[-1] if transposed_a else a.sizes[-2]
        columns = b.sizes[-2] if transposed_b else b.sizes[-1]
        sizes = a.sizes[:-2] + (rows, columns)
        first = f"{a.name} transposed" if transposed_a else a.name
        second = f"{b.name} transposed" if transposed_b else b.name
        element, made = ("f32", " {dtype = f32}") if wide and a.element != "f32" else (a.element, "")
        return self.line("matmul", f"{first}, {second}{made} : {a.type}, {b.type} -> {tensor_type(sizes, element)}", sizes,
                         element)

    def convolution(self, x: Value, weight: Value, bias: Value | None, sizes, steps, padding, dilations,
                    groups: int) -> Value:
        added, its_type = (f" bias {bias.name}", f" bias {bias.type}") if bias else ("", "")
        return self.line("convolution", f"{x.name}, {weight.name}{added} steps {list(steps)} padding {list(padding)} "
                         f"dilations {list(dilations)} groups {groups} : {x.type}, {weight.type}{its_type} -> "
                         f"{tensor_type(sizes, x.element)}", sizes, x.element)

    def sort(self, x: Value, axis: int, descending: bool) -> list[Value]:
        """x in order along an axis, and where each element stood (i32)."""
        kinds = [(x.sizes, x.element), (x.sizes, "i32")]
        down = " descending" if descending else ""
        return self.several("sort", f"tcc.sort {x.name} axis {axis}{down} : {x.type} -> {tensor_type(*kinds[0])}, "
                            f"{tensor_type(*kinds[1])}", kinds)

    def flash_attention(self, q: Value, k: Value, v: Value, scale: float, diagonal: int | None,
                        bias: Value | None = None) -> list[Value]:
        """q [B, T, H, d], k and v [B, S, G, d], a bias f32 [B, H, T, S]: the result like q, f32 log-sum-exps [B, H, T]."""
        batch, rows, heads, _ = q.sizes
        return self._attention("flash_attention", [q, k, v], bias, scale, diagonal,
                               [(q.sizes, q.element), ((batch, heads, rows), "f32")])

    def flash_attention_backward(self, q, k, v, out, lse, dy, scale: float, diagonal: int | None,
                                 bias: Value | None = None) -> list[Value]:
        return self._attention("flash_attention_backward", [q, k, v, out, lse, dy], bias, scale, diagonal,
                               [(value.sizes, value.element) for value in (q, k, v)])

    def _attention(self, op: str, operands: list[Value], bias, scale: float, diagonal, kinds) -> list[Value]:
        names = ", ".join(value.name for value in operands) + (f" bias {bias.name}" if bias else "")
        types = ", ".join(value.type for value in operands + ([bias] if bias else []))
        seen = "" if diagonal is None else f" diagonal {diagonal}"
        return self.several(op, f"tcc.{op} {names}{seen} scale {number(scale)} : ({types}) -> "
                            f"({', '.join(tensor_type(*kind) for kind in kinds)})", kinds)

    def host(self, called: str, code: tuple[int, int] | tuple[str, str], operands, types) -> list[Value]:
        """An op that a function of this process computes: by its numbers (tcc._native.host_function), or by a provider's
        name and a symbol that the provider knows (tcc._native.provider)."""
        operands = list(operands)
        if isinstance(code[0], str):
            named = f'library = {quoted(f"<{code[0]}>")}, symbol = {quoted(code[1])}'
        else:
            named = f'host_function = {code[0]} : i64, host_reference = {code[1]} : i64'
        properties = f'<{{called = {quoted(called)}, {named}, unchecked}}>'
        kinds = [tensor_type(*kind) for kind in types]
        return self.several(called, f'"tcc.custom"({", ".join(value.name for value in operands)}) {properties} '
                            f'({{}}, {{}}) : ({", ".join(value.type for value in operands)}) -> ({", ".join(kinds)})',
                            types)


def tensor_type(sizes, element: str) -> str:
    return "tensor<" + "".join(f"{size}x" for size in sizes) + element + ">"


def quoted(text: str) -> str:
    """As a string of MLIR's text."""
    plain = all(" " <= c <= "~" and c not in '"\\' for c in text)
    if plain:
        return f'"{text}"'
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode())
                         for c in text) + '"'


def number(value: float) -> str:
    """A finite number as MLIR reads it back to the same bits."""
    text = repr(float(value))
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text


def any_number(value: float) -> str:
    """The same of any number, as an f64."""
    value = float(value)
    if math.isfinite(value):
        return number(value)
    return "0x7FF8000000000000" if math.isnan(value) else "0x7FF0000000000000" if value > 0 else "0xFFF0000000000000"


_SPECIAL = {"f32": ("0x7F800000", "0xFF800000", "0x7FC00000"), "bf16": ("0x7F80", "0xFF80", "0x7FC0"),
            "f16": ("0x7C00", "0xFC00", "0x7E00")}


def literal(value, element: str) -> str:
    if element == "i1":
        return "true" if value else "false"
    if element not in FLOATS:
        return str(int(value))
    value = float(value)
    if math.isinf(value):
        return _SPECIAL[element][value < 0]
    if math.isnan(value):
        return _SPECIAL[element][2]
    return number(value)
