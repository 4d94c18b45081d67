"""What the translations of ATen ops share: the registry, and conversions of operands."""

from __future__ import annotations

import torch

from tcc.graph import Graph, Value

#: torch's element types that graphs compute with.
ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.bool: "i1", torch.int32: "i32",
            torch.int64: "i64"}
#: Types whose tensors pass through a step as they are: fallbacks compute with them. An element is so many bytes.
CARRIERS = {1: "f8E5M2", 2: "bf16", 4: "i32", 8: "i64"}

#: op → function(lowering, out, *args, **kwargs): the op's values. `out` is the fake tensor (or tuple) that torch says
#: the op gives; arguments are `Value`s where the op has tensors.
TABLE: dict = {}
#: The same by name, also of ops that this torch does not have.
NAMES: dict = {}


class NotLowered(Exception):
    """The op, with these arguments, has no translation; the message says why."""


class Unsupported(Exception):
    """The graph cannot be a step; torch runs it."""


def lower(*names: str):
    """Registers a translation for ATen overloads, such as "add.Tensor" or "prims.iota.default"."""
    def register(function):
        for name in names:
            if name in NAMES:
                raise KeyError(f"{name} has two translations")
            NAMES[name] = function
            if op := find(name):
                TABLE[op] = function
        return function
    return register


def find(name: str):
    """The overload of this name, or None."""
    parts = name.split(".")
    namespace = parts.pop(0) if len(parts) == 3 else "aten"
    try:
        return getattr(getattr(getattr(torch.ops, namespace), parts[0]), parts[1])
    except AttributeError:
        return None


class Lowering:
    """A graph that is being made of an FX graph."""

    def __init__(self, graph: Graph):
        self.g = graph
        self.node = None          # the FX node that is being translated
        self.streams = 0          # of random numbers, one an op
        self._seed = None

    # Types

    @staticmethod
    def element(dtype: torch.dtype) -> str:
        if dtype not in ELEMENTS:
            raise NotLowered(f"no {str(dtype).removeprefix('torch.')} in compiled code")
        return ELEMENTS[dtype]

    @classmethod
    def kind(cls, fake) -> tuple[tuple[int, ...], str]:
        return tuple(int(size) for size in fake.shape), cls.element(fake.dtype)

    # Operands

    def tensor(self, x, element: str | None = None, sizes=None) -> Value:
        """A value or number in this element type, broadcast to these sizes."""
        if not isinstance(x, Value):
            if isinstance(x, complex) or x is None:
                raise NotLowered(f"operand {x!r}")
            if element is None:
                element = "i1" if isinstance(x, bool) else "i64" if isinstance(x, int) else "f32"
            return self.g.constant(x, element, sizes or ())
        if element is not None:
            x = self.cast(x, element)
        return x if sizes is None else self.g.broadcast(x, tuple(sizes))

    def cast(self, x: Value, element: str) -> Value:
        return self.g.cast(x, element)

    def like(self, number, x: Value) -> Value:
        return self.g.constant(number, x.element, x.sizes)

    def to_kind(self, x, fake) -> Value:
        sizes, element = self.kind(fake)
        return self.tensor(x, element, sizes)

    def pair(self, a, b, fake, element: str | None = None) -> tuple[Value, Value]:
        """Both operands in the result's sizes, and its element type unless another is given."""
        sizes, own = self.kind(fake)
        return self.tensor(a, element or own, sizes), self.tensor(b, element or own, sizes)

    def scaled(self, op: str, a, b, fake) -> Value:
        """A product or quotient. torch computes one of 16 bits with a number that 16 bits do not hold in f32; the number of
        a sum it rounds to 16 bits."""
        loses = fake.dtype in (torch.bfloat16, torch.float16) and any(
            not isinstance(x, (Value, bool)) and torch.tensor(x, dtype=fake.dtype).item() != x for x in (a, b))
        a, b = self.pair(a, b, fake, "f32" if loses else None)
        return self.cast(self.g.binary(op, a, b), self.element(fake.dtype))

    def common(self, a, b) -> str:
        """The type in which a comparison compares, by torch's rules of promotion."""
        def sample(x):
            if isinstance(x, Value):
                dtype = next(dtype for dtype, element in ELEMENTS.items() if element == x.element)
                return torch.empty((1,) * min(x.rank, 1), dtype=dtype)
            return x
        return self.element(torch.result_type(sample(a), sample(b)))

    @staticmethod
    def axis(dim: int, rank: int) -> int:
        return dim + rank if dim < 0 else dim

    @classmethod
    def axes(cls, dims, rank: int) -> list[int]:
        if dims is None or (isinstance(dims, (list, tuple)) and not dims):
            return list(range(rank))
        if isinstance(dims, int):
            dims = [dims]
        return sorted(cls.axis(dim, rank) for dim in dims) if rank else []

    # What many ops are made of

    def wide(self, x: Value) -> Value:
        """In f32 where it is a narrower float."""
        return self.cast(x, "f32") if x.element in ("bf16", "f16") else x

    def reduce(self, op: str, x: Value, axes, keepdim: bool = True) -> Value:
        made = self.g.reduce(op, x, axes)
        if keepdim:
            return made
        return self.g.reshape(made, tuple(size for dim, size in enumerate(x.sizes) if dim not in axes))

    def mean(self, x: Value, axes) -> Value:
        """Over axes that stay; x is f32."""
        count = 1
        for dim in axes:
            count *= x.sizes[dim]
        total = self.g.reduce("reduce_sum", x, axes)
        return self.g.binary("div", total, self.like(float(count), total))

    def same_as(self, x: Value, like: Value) -> Value:
        return self.g.broadcast(x, like.sizes)

    def seed(self) -> Value:
        """The i64 scalar that all random numbers of the step come from; drawn anew for each run."""
        if self._seed is None:
            self._seed = self.g.argument("seed", (), "i64")
        return self._seed

    @property
    def is_random(self) -> bool:
        return self._seed is not None

    def random_bits(self, sizes) -> Value:
        self.streams += 1
        return self.g.random_bits(self.seed(), self.streams, tuple(sizes))

    def uniform(self, sizes) -> Value:
        """f32 in [0, 1), of 24 random bits each."""
        g, bits = self.g, self.random_bits(sizes)
        wide = g.cast(bits, "i64")
        negative = g.compare("lt", wide, self.like(0, wide))
        wide = g.select(negative, g.binary("add", wide, self.like(1 << 32, wide)), wide)
        whole = g.cast(wide, "f32")                               # rounds to 24 bits; 2^32 is possible
        share = g.binary("mul", whole, self.like(2.0 ** -32, whole))
        return g.binary("minimum", share, self.like(1 - 2.0 ** -24, share))
