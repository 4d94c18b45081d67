#!/usr/bin/env python3
"""Writes torch_data.h: PyTorch's values and gradients for the ops it has, from f32 inputs, computed in f64.

Usage: python3 tests/ops/make_torch_data.py > tests/ops/torch_data.h   (needs torch; tests need the header alone)
"""
import torch
import torch.nn.functional as F

torch.manual_seed(20)
cases = []
names = {torch.float64: "f32", torch.int32: "i32", torch.int64: "i64", torch.bool: "i1"}


def real(*shape, low=-2.0, high=2.0):
    return (torch.rand(shape, dtype=torch.float32) * (high - low) + low).double()


def kind(tensor):
    return "tensor<" + "".join(f"{size}x" for size in tensor.shape) + names[tensor.dtype] + ">"


def case(name, op, inputs, function, gradient=True):
    """op: the line's text after '%r = ' with {0}, {1}, … for operand types and {r} for the result's."""
    inputs = [x.clone().requires_grad_(gradient and x.dtype == torch.float64) for x in inputs]
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    weights, gradients = [], []
    if gradient:
        weights = [real(*y.shape) for y in results if y.dtype == torch.float64]
        loss = sum((y * w).sum() for y, w in zip([y for y in results if y.dtype == torch.float64], weights))
        wrt = [x for x in inputs if x.requires_grad]
        found = torch.autograd.grad(loss, wrt, allow_unused=True)
        gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(wrt, found)]
    types = [kind(x) for x in inputs]
    outs = [kind(y) for y in results]
    letters = "abcdefgh"
    line = op.format(*types, r=", ".join(outs))
    values = ", ".join("%r" if len(outs) == 1 else f"%r#{i}" for i in range(len(outs)))
    text = (f"func.func @main({', '.join(f'%{letters[i]}: {t}' for i, t in enumerate(types))}) -> ({', '.join(outs)}) {{\n"
            f"  %r{'' if len(outs) == 1 else f':{len(outs)}'} = {line}\n  return {values} : {', '.join(outs)}\n}}\n")
    cases.append((name, text, inputs, results, weights, gradients))


def unary(name, function, low=-2.0, high=2.0):
    x = real(3, 5, low=low, high=high)
    if low < 0:
        x[0, 0] = 0.0
    case(name, f"tcc.{name} %a : {{0}}", [x], function)


for name, function in {"neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "tanh": torch.tanh, "sin": torch.sin,
                       "cos": torch.cos, "erf": torch.erf, "silu": F.silu, "sigmoid": torch.sigmoid, "relu": F.relu,
                       "gelu": lambda x: F.gelu(x, approximate="tanh"),
                       "softmax": lambda x: F.softmax(x, -1)}.items():
    unary(name, function)
for name in ("log", "sqrt", "rsqrt"):
    unary(name, getattr(torch, name), 0.1, 5)

for name, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
                       "maximum": torch.maximum, "minimum": torch.minimum}.items():
    a, b = real(3, 5), real(3, 5, low=0.5, high=2)
    a[1, 2] = b[1, 2]
    case(name, f"tcc.{name} %a, %b : {{0}}", [a, b], function)
for predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
    a = torch.tensor([1.0, 2.0, 3.0, float("nan"), float("inf")], dtype=torch.float64)
    b = torch.tensor([2.0, 2.0, 1.0, float("nan"), float("inf")], dtype=torch.float64)
    case("compare " + predicate, f"tcc.compare {predicate} %a, %b : {{0}} -> {{r}}", [a, b], getattr(torch, predicate), False)
case("select", "tcc.select %a, %b, %c : {0}, {1}", [real(3, 5) > 0, real(3, 5), real(3, 5)], torch.where)
case("is_finite", "tcc.is_finite %a : {0} -> {r}",
     [torch.tensor([1.0, float("nan"), float("inf"), -float("inf")], dtype=torch.float64)], torch.isfinite, False)

case("broadcast", "tcc.broadcast %a : {0} -> {r}", [real(3, 1)], lambda x: x.expand(2, 3, 4))
case("reshape", "tcc.reshape %a : {0} -> {r}", [real(4, 6)], lambda x: x.reshape(3, 8))
case("transpose", "tcc.transpose %a [2, 0, 1] : {0} -> {r}", [real(2, 3, 4)], lambda x: x.permute(2, 0, 1))
case("slice", "tcc.slice %a [1, 0] to [3, -1] : {0} -> {r}", [real(4, 3)], lambda x: x[1:3])
case("pad", "tcc.pad %a [1, 0], [2, 3] : {0} -> {r}", [real(2, 3)], lambda x: F.pad(x, (0, 3, 1, 2)))
case("concat", "tcc.concat %a, %b axis 1 : {0}, {1} -> {r}", [real(2, 3), real(2, 4)], lambda a, b: torch.cat((a, b), 1))

tied = real(3, 5)
tied[1, 1] = tied[1, 3] = 3.0
case("reduce_sum", "tcc.reduce_sum %a axes [0, 2] : {0} -> {r}", [real(3, 4, 5)], lambda x: x.sum((0, 2), keepdim=True))
case("reduce_max", "tcc.reduce_max %a axes [1] : {0} -> {r}", [tied], lambda x: x.amax(1, keepdim=True))
case("reduce_mean", "tcc.reduce_mean %a axes [1] : {0} -> {r}", [real(3, 5)], lambda x: x.mean(1, keepdim=True))

index = torch.tensor([3, 0, 3, 1], dtype=torch.int32)
case("gather", "tcc.gather %a at %b : {0}, {1} -> {r}", [real(5, 3), index], lambda t, i: t[i.long()])
case("scatter_add", "tcc.scatter_add %a at %b, %c : {0}, {1}, {2}", [real(5, 3), index, real(4, 3)],
     lambda base, i, rows: base.index_add(0, i, rows))

for ta in (False, True):
    for tb in (False, True):
        a = real(2, 5, 3) if ta else real(2, 3, 5)
        b = real(2, 4, 5) if tb else real(2, 5, 4)
        case(f"matmul {ta} {tb}", f"tcc.matmul %a{' transposed' if ta else ''}, %b{' transposed' if tb else ''} : {{0}}, {{1}} -> {{r}}",
             [a, b], lambda a, b, ta=ta, tb=tb: (a.mT if ta else a) @ (b.mT if tb else b))
case("matmul one b", "tcc.matmul %a, %b : {0}, {1} -> {r}", [real(2, 3, 5), real(5, 4)], torch.matmul)

case("layer_norm", "tcc.layer_norm %a, %b, %c : {0}, {1}, {2}", [real(4, 7), real(7), real(7)],
     lambda x, w, b: F.layer_norm(x, (7,), w, b, 1e-5))
case("rms_norm", "tcc.rms_norm %a, %b : {0}, {1}", [real(4, 7), real(7)], lambda x, w: F.rms_norm(x, (7,), w, 1e-5))
case("linear", "tcc.linear %a, %b, %c : {0}, {1}, {2} -> {r}", [real(2, 3, 5), real(5, 4), real(4)],
     lambda x, w, b: F.linear(x, w.T, b))
case("linear no bias", "tcc.linear %a, %b : {0}, {1} -> {r}", [real(3, 5), real(5, 4)], lambda x, w: F.linear(x, w.T))
case("cross_entropy", "tcc.cross_entropy %a, %b : {0}, {1} -> {r}",
     [real(2, 3, 6, low=-4, high=4), torch.tensor([[0, 5, -1], [2, 2, 4]])],
     lambda x, t: F.cross_entropy(x.reshape(-1, 6), t.reshape(-1), ignore_index=-1))
for causal in (False, True):
    case(f"attention {causal}", f"tcc.attention %a, %b, %c {'causal ' if causal else ''}scale 0.5 : {{0}}, {{1}}, {{2}}",
         [real(2, 2, 5, 4), real(2, 2, 5, 4), real(2, 2, 5, 4)],
         lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.5))


def adamw(p, g, m, v, lr, step, scale, apply):
    p, m, v = p.clone(), m.clone(), v.clone()
    torch.optim._functional.adamw([p], [g * scale], [m], [v], [], [step - 1], foreach=False, amsgrad=False, beta1=0.9, beta2=0.95,
                                  lr=lr.item(), weight_decay=0.1, eps=1e-8, maximize=False)
    return p, m, v


scalar = lambda value: torch.tensor(value, dtype=torch.float32).double()
for step in (1.0, 7.0):
    case(f"adamw {step}", "tcc.adamw %a, %b, %c, %d lr %e step %f scale %g apply %h {{beta1 = 0.9 : f64, beta2 = 0.95 : f64, "
         "eps = 1.0e-8 : f64, weight_decay = 0.1 : f64}} : {0}, {1}, {2}",
         [real(3, 4), real(3, 4), real(3, 4), real(3, 4, low=0.01, high=1), scalar(0.01), scalar(step), scalar(0.5),
          torch.tensor(True)], adamw, False)


def chosen(predicate, x, w):
    return torch.tanh(x @ w) * 2 if predicate else torch.sin(x @ w.T) + w


for flag in (True, False):
    case(f"cond {flag}", """tcc.cond %a (%x = %b : {1}, %w = %c : {2}) -> {r} {{
    %h = tcc.matmul %x, %w : {1}, {2} -> {r}
    %t = tcc.tanh %h : {r}
    %d = tcc.add %t, %t : {r}
    tcc.yield %d : {r}
  }} else {{
    %h = tcc.matmul %x, %w transposed : {1}, {2} -> {r}
    %s = tcc.sin %h : {r}
    %d = tcc.add %s, %w : {r}
    tcc.yield %d : {r}
  }}""", [torch.tensor(flag), real(4, 4), real(4, 4)], chosen)


def turns(start, parts, w):
    for part in parts:
        start = torch.tanh(start @ w) + part
    return start


case("repeat", """tcc.repeat 3 (%x = %a : {0}) slices (%p = %b : {1}) uses (%w = %c : {2}) {{
    %h = tcc.matmul %x, %w : {0}, {2} -> {0}
    %t = tcc.tanh %h : {0}
    %n = tcc.add %t, %p : {0}
    tcc.yield %n : {0}
  }}""", [real(4, 4), real(3, 4, 4), real(4, 4)], turns)


def literal(value):
    if value != value:
        return "NAN"
    return {float("inf"): "INFINITY", -float("inf"): "-INFINITY"}.get(value, f"{value:.12g}")


def array(tensors):
    return "{" + ", ".join("{" + ", ".join(literal(float(x)) for x in t.detach().flatten()) + "}" for t in tensors) + "}"


print(f"""// PyTorch {torch.__version__}'s values, computed in f64 from f32 inputs. Written by make_torch_data.py.
#pragma once
#include <cmath>
#include <vector>

namespace tcc::test {{

struct TorchCase {{
  const char *name, *text;
  std::vector<std::vector<double>> inputs, results;
  std::vector<std::vector<double>> weights, gradients; // of sum(result · weight), for each float input; or none
}};

// clang-format off
inline const std::vector<TorchCase> torchCases = {{""")
for name, text, *arrays in cases:
    print(f'    {{"{name}", R"({text})",\n     ' + ",\n     ".join(array(tensors) for tensors in arrays) + "},")
print("""};
// clang-format on

} // namespace tcc::test""")
