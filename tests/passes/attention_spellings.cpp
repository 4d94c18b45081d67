// Each spelling is a few lines over q, k and v, after the code that it is named for.
#include "tests/passes/attention_spellings.h"
#include <cmath>
#include <limits>
#include <span>

namespace tcc::test {
using In = const AttentionInputs &;

Tensor scoresOf(In in) {
  return matmul(in.q, in.k, {.transposeB = true}) * (1 / std::sqrt(double(in.shape.width)));
}

Tensor causalMask(In in, int64_t diagonal) {
  return lessEqual(iota(1, in.square()), iota(0, in.square()) + double(diagonal));
}

Tensor hidden(In in, const Tensor &seen, double fill) {
  return select(seen, scoresOf(in), fill);
}

Tensor mix(const Tensor &shares, In in) {
  return matmul(shares, in.v);
}

Tensor softmaxByHand(const Tensor &x, int64_t dim) {
  const Tensor e = exp(x - max(x, dim, KeepDims::yes));
  return e / sum(e, dim, KeepDims::yes);
}

namespace {

constexpr double leastFloat = -3.4028234663852886e38;

AttentionShape shapeOf(int64_t queries, int64_t keys, int64_t heads = 4, int64_t width = 8) {
  return {.heads = heads, .queries = queries, .keys = keys, .width = width, .keyHeads = heads};
}

AttentionMask causal(int64_t diagonal = 0) {
  return {diagonal, std::nullopt};
}

Tensor repeatHeads(const Tensor &x, int64_t times) { // [B, G, S, d] to [B, G·times, S, d]
  const int64_t batch = x.dim(0), heads = x.dim(1), length = x.dim(2), width = x.dim(3);
  return reshape(broadcast(reshape(x, {batch, heads, 1, length, width}), {batch, heads, times, length, width}),
                 {batch, heads * times, length, width});
}

//===- masks -----------------------------------------------------------------------------------------------------===//

void addMasks(std::vector<Spelling> &list) {
  list.push_back({"composite, causal", {}, [](In in) { return attention(in.q, in.k, in.v, true); }, causal()});
  list.push_back({"composite, all keys", {}, [](In in) { return attention(in.q, in.k, in.v, false); }});
  list.push_back({"nanoGPT",
                  {},
                  [](In in) {
                    const int64_t block = 9;
                    const Tensor bias = reshape(tril(ones({block, block})), {1, 1, block, block});
                    const Tensor part = slice(slice(bias, 2, 0, in.shape.queries), 3, 0, in.shape.keys);
                    const Tensor far =
                        full(-infinity, {in.shape.batch, in.shape.heads, in.shape.queries, in.shape.keys});
                    return mix(softmax(select(equal(part, 0.0), far, scoresOf(in))), in);
                  },
                  causal()});
  list.push_back({"minGPT, divided by the root", shapeOf(37, 37, 5, 16),
                  [](In in) {
                    const Tensor scores = matmul(in.q, transpose(in.k)) / std::sqrt(double(in.shape.width));
                    return mix(softmax(select(causalMask(in), scores, -infinity)), in);
                  },
                  causal()});
  for (int64_t queries : {6, 4, 1})
    list.push_back({"GPT-2, " + std::to_string(queries) + " of 6", shapeOf(queries, 6),
                    [](In in) {
                      const Tensor i = iota(0, in.square()), j = iota(1, in.square());
                      const Tensor b =
                          reshape(cast(greaterEqual(i, j - double(in.shape.keys - in.shape.queries)), DType::f32),
                                  {1, 1, in.shape.queries, in.shape.keys});
                      return mix(softmax(scoresOf(in) * b - 1e10 * (1 - b)), in);
                    },
                    queries == 1 ? AttentionMask() : causal(6 - queries)});
  list.push_back({"GPT-2, factor in front",
                  {},
                  [](In in) {
                    const Tensor b = cast(causalMask(in), DType::f32);
                    return mix(softmax(b * scoresOf(in) + (b - 1) * 1e10), in);
                  },
                  causal()});
  list.push_back({"where with the least float",
                  {},
                  [](In in) { return mix(softmax(hidden(in, causalMask(in), leastFloat)), in); },
                  causal()});
  list.push_back({"added triangle of the least float",
                  {},
                  [](In in) { return mix(softmax(scoresOf(in) + triu(full(leastFloat, in.square()), 1)), in); },
                  causal()});
  list.push_back({"cross attention", shapeOf(5, 7), [](In in) { return mix(softmax(scoresOf(in)), in); }});
  for (int64_t diagonal : {0, 3, 5})
    list.push_back({"fewer queries, diagonal " + std::to_string(diagonal), shapeOf(4, 7),
                    [diagonal](In in) { return mix(softmax(hidden(in, causalMask(in, diagonal))), in); },
                    causal(diagonal)});
  list.push_back({"more queries than keys", shapeOf(7, 4),
                  [](In in) { return mix(softmax(hidden(in, causalMask(in))), in); }, causal()});
  list.push_back({"window",
                  shapeOf(9, 9),
                  [](In in) {
                    const Tensor near = greater(iota(1, in.square()), iota(0, in.square()) - 3.0);
                    return mix(softmax(hidden(in, logicalAnd(causalMask(in), near))), in);
                  },
                  {0, 3}});
  list.push_back({"window to both sides",
                  shapeOf(9, 9),
                  [](In in) {
                    const Tensor far = abs(iota(0, in.square()) - iota(1, in.square()));
                    return mix(softmax(hidden(in, less(far, 3.0))), in);
                  },
                  {2, 5}});
  list.push_back(
      {"only what follows",
       shapeOf(5, 5),
       [](In in) { return mix(softmax(hidden(in, logicalNot(less(iota(1, in.square()), iota(0, in.square()))))), in); },
       {4, 5}});
  list.push_back({"two masks",
                  shapeOf(9, 9),
                  [](In in) {
                    const Tensor near = greaterEqual(iota(1, in.square()) + 4.0, iota(0, in.square()));
                    return mix(softmax(select(near, hidden(in, causalMask(in)), -1e30)), in);
                  },
                  {0, 5}});
  list.push_back({"mask as a literal", shapeOf(3, 3),
                  [](In in) {
                    const std::vector<double> seen = {1, 0, 0, 1, 1, 0, 1, 1, 1};
                    return mix(softmax(hidden(in, greater(literal(seen, {3, 3}), 0.5))), in);
                  },
                  causal()});
  list.push_back({"mask of all dims by one iota",
                  {},
                  [](In in) {
                    const Shape all = {in.shape.batch, in.shape.heads, in.shape.queries, in.shape.keys};
                    return mix(softmax(select(lessEqual(iota(3, all), iota(2, all)), scoresOf(in), -infinity)), in);
                  },
                  causal()});
  list.push_back({"scale after the mask",
                  {},
                  [](In in) {
                    const Tensor scores = matmul(in.q, in.k, {.transposeB = true});
                    return mix(softmax(select(causalMask(in), scores, -1e30) * 0.25), in);
                  },
                  causal()});
  list.push_back(
      {"a mask that hides nothing", {}, [](In in) { return mix(softmax(hidden(in, causalMask(in, 9))), in); }});
}

//===- softmax, scale, layouts -----------------------------------------------------------------------------------===//

void addForms(std::vector<Spelling> &list) {
  list.push_back(
      {"softmax by hand", {}, [](In in) { return mix(softmaxByHand(hidden(in, causalMask(in))), in); }, causal()});
  list.push_back({"softmax by a reciprocal",
                  {},
                  [](In in) {
                    const Tensor x = hidden(in, causalMask(in));
                    const Tensor e = exp(x - detach(max(x, -1, KeepDims::yes)));
                    return mix(e * (1 / sum(e, -1, KeepDims::yes)), in);
                  },
                  causal()});
  list.push_back({"softmax by statistics without the dim",
                  {},
                  [](In in) {
                    const Shape column = {in.shape.batch, in.shape.heads, in.shape.queries, 1};
                    const Tensor x = hidden(in, causalMask(in)), e = exp(x - reshape(max(x, -1), column));
                    return mix(reshape(1 / sum(e, -1), column) * e, in);
                  },
                  causal()});
  list.push_back({"no scale", {}, [](In in) { return mix(softmax(matmul(in.q, in.k, {.transposeB = true})), in); }});
  list.push_back(
      {"scale inside q", {}, [](In in) { return mix(softmax(matmul(in.q * 0.3, in.k, {.transposeB = true})), in); }});
  list.push_back({"scale split over q and k", shapeOf(6, 6, 5, 80),
                  [](In in) {
                    const double root = std::pow(double(in.shape.width), -0.25);
                    const Tensor scores = matmul(in.q * root, transpose(in.k / (1 / root)));
                    return mix(softmax(select(causalMask(in), scores, -infinity)), in);
                  },
                  causal()});
  list.push_back({"scale by sqrt of a literal", {}, [](In in) {
                    return mix(softmax(matmul(in.q, in.k, {.transposeB = true}) / sqrt(full(8, {1}))), in);
                  }});
  list.push_back({"negated twice", {}, [](In in) { return mix(softmax(-(-scoresOf(in))), in); }});
  list.push_back({"tokens before heads",
                  {},
                  [](In in) {
                    const auto heads = [&](const Tensor &x) {
                      return transpose(reshape(x, {in.shape.batch, x.dim(2), in.shape.heads, in.shape.width}),
                                       {0, 2, 1, 3});
                    };
                    const Tensor q = heads(in.q), k = heads(in.k), v = heads(in.v);
                    const Tensor scores = matmul(q, k, {.transposeB = true}) * 0.5;
                    return transpose(matmul(softmax(select(causalMask(in), scores, -infinity)), v), {0, 2, 1, 3});
                  },
                  causal()});
  list.push_back({"heads merged with the batch",
                  {},
                  [](In in) {
                    const auto merged = [&](const Tensor &x) {
                      return reshape(x, {in.shape.batch * in.shape.heads, x.dim(2), in.shape.width});
                    };
                    const Tensor scores = matmul(merged(in.q), merged(in.k), {.transposeB = true}) * 0.5;
                    return matmul(softmax(select(causalMask(in), scores, -infinity)), merged(in.v));
                  },
                  causal()});
  list.push_back({"merged for the products alone",
                  {},
                  [](In in) {
                    const auto merged = [](const Tensor &x) {
                      return reshape(x, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3)});
                    };
                    const Shape apart = {in.shape.batch, in.shape.heads, in.shape.queries, in.shape.keys};
                    const Tensor scores = reshape(matmul(merged(in.q), merged(in.k), {.transposeB = true}), apart);
                    return matmul(merged(softmax(select(causalMask(in), scores, -infinity))), merged(in.v));
                  },
                  causal()});
  for (bool transposedResult : {false, true})
    list.push_back({transposedResult ? "scores and result transposed" : "scores transposed", shapeOf(5, 7),
                    [=](In in) {
                      const Tensor scores = matmul(in.k, in.q, {.transposeB = true}) * 0.5; // [.., S, T]
                      const Shape square = {in.shape.keys, in.shape.queries};
                      const Tensor seen = lessEqual(iota(0, square), iota(1, square) + 2.0);
                      const Tensor shares = softmaxByHand(select(seen, scores, -infinity), -2);
                      return transposedResult ? matmul(in.v, shares, {.transposeA = true})
                                              : matmul(shares, in.v, {.transposeA = true});
                    },
                    causal(2)});
  list.push_back({"scores transposed by a view",
                  {},
                  [](In in) {
                    const Tensor scores = transpose(matmul(in.k, in.q, {.transposeB = true}));
                    return mix(softmax(select(causalMask(in), scores * 0.5, -infinity)), in);
                  },
                  causal()});
  list.push_back({"one head", shapeOf(6, 6),
                  [](In in) {
                    const auto one = [](const Tensor &x) {
                      return reshape(slice(slice(x, 0, 0, 1), 1, 0, 1), {x.dim(2), x.dim(3)});
                    };
                    const Tensor scores = matmul(one(in.q), one(in.k), {.transposeB = true});
                    return matmul(softmax(select(causalMask(in), scores, -infinity)), one(in.v));
                  },
                  causal()});
  list.push_back({"one query", shapeOf(1, 5), [](In in) { return mix(softmax(scoresOf(in)), in); }});
  list.push_back({"one key", shapeOf(4, 1), [](In in) { return mix(softmax(scoresOf(in)), in); }});
  list.push_back({"one query and one key", shapeOf(1, 1),
                  [](In in) { return mix(softmaxByHand(hidden(in, causalMask(in))), in); }});
  list.push_back(
      {"itself", {}, [](In in) { return matmul(softmax(matmul(in.q, in.q, {.transposeB = true}) * 0.5), in.q); }});
}

//===- groups and 16 bits ----------------------------------------------------------------------------------------===//

void addGroups(std::vector<Spelling> &list) {
  AttentionShape grouped = shapeOf(6, 6, 6), narrow = shapeOf(6, 6);
  grouped.keyHeads = 2;
  narrow.dtype = DType::bf16;
  list.push_back({"Llama's repeated heads", grouped,
                  [](In in) {
                    const Tensor scores = matmul(in.q, repeatHeads(in.k, 3), {.transposeB = true}) * 0.5;
                    return matmul(softmax(select(causalMask(in), scores, -infinity)), repeatHeads(in.v, 3));
                  },
                  causal(), "", 2});
  list.push_back({"repeated after the tokens",
                  grouped,
                  [](In in) {
                    const auto repeated = [&](const Tensor &x) { // [B, S, G, d] to [B, G·3, S, d]
                      const Tensor t =
                          reshape(transpose(x, {0, 2, 1, 3}), {in.shape.batch, in.shape.keys, 2, 1, in.shape.width});
                      return transpose(reshape(broadcast(t, {in.shape.batch, in.shape.keys, 2, 3, in.shape.width}),
                                               {in.shape.batch, in.shape.keys, 6, in.shape.width}),
                                       {0, 2, 1, 3});
                    };
                    return matmul(softmax(matmul(in.q, repeated(in.k), {.transposeB = true})), repeated(in.v));
                  },
                  {},
                  "",
                  2});
  list.push_back({"groups as a dim",
                  grouped,
                  [](In in) {
                    const Shape five = {in.shape.batch, 2, 3, in.shape.keys, in.shape.width};
                    const auto apart = [&](const Tensor &x) {
                      return broadcast(reshape(x, {in.shape.batch, 2, 1, in.shape.keys, in.shape.width}), five);
                    };
                    const Tensor q = reshape(in.q, {in.shape.batch, 2, 3, in.shape.queries, in.shape.width});
                    return matmul(softmax(matmul(q, apart(in.k), {.transposeB = true}) * 0.5), apart(in.v));
                  },
                  {},
                  "",
                  2});
  AttentionShape one = grouped;
  one.keyHeads = 1;
  list.push_back({"one key head for all",
                  one,
                  [](In in) {
                    const Shape all = {in.shape.batch, in.shape.heads, in.shape.keys, in.shape.width};
                    return matmul(softmax(matmul(in.q, transpose(broadcast(in.k, all)))), broadcast(in.v, all));
                  },
                  {},
                  "",
                  1});
  list.push_back({"heads repeated as a whole", grouped, [](In in) { // no group of neighbours, so keys stay repeated
                    const auto tiled = [](const Tensor &x) { return concat({x, x, x}, 1); };
                    return matmul(softmax(matmul(in.q, tiled(in.k), {.transposeB = true})), tiled(in.v));
                  }});
  list.push_back({"heads repeated outermost", grouped, [](In in) {
                    const auto tiled = [&](const Tensor &x) {
                      const Tensor apart = reshape(x, {in.shape.batch, 1, 2, in.shape.keys, in.shape.width});
                      return reshape(broadcast(apart, {in.shape.batch, 3, 2, in.shape.keys, in.shape.width}),
                                     in.heads());
                    };
                    return matmul(softmax(matmul(in.q, tiled(in.k), {.transposeB = true})), tiled(in.v));
                  }});
  list.push_back({"16 bits, softmax in f32", narrow,
                  [](In in) {
                    const Tensor scores = matmul(in.q, in.k, {.transposeB = true}) * 0.125;
                    const Tensor seen = select(causalMask(in), scores, -infinity);
                    return mix(cast(softmax(cast(seen, DType::f32)), DType::bf16), in);
                  },
                  causal()});
  list.push_back({"16 bits throughout", narrow,
                  [](In in) { return mix(softmax(hidden(in, causalMask(in), leastFloat)), in); }, causal()});
  list.push_back({"16-bit scale inside q", narrow,
                  [](In in) { return mix(softmax(matmul(in.q * 0.3, in.k, {.transposeB = true})), in); }});
  list.push_back({"16 bits, wide scores", narrow,
                  [](In in) {
                    const Tensor scores = matmul(in.q, in.k, {.transposeB = true, .dtype = DType::f32}) * 0.3;
                    return mix(cast(softmax(select(causalMask(in), scores, -infinity)), DType::bf16), in);
                  },
                  causal()});
}

//===- dropout ---------------------------------------------------------------------------------------------------===//

void addDropouts(std::vector<Spelling> &list) {
  constexpr double rate = 0.25;
  constexpr int64_t stream = 4294967303; // its low word counts
  const auto dropped = [](In in, const Tensor &x) { return dropout(x, rate, in.seed, stream); };
  AttentionShape grouped = shapeOf(6, 6, 6), narrow = shapeOf(6, 6);
  grouped.keyHeads = 2;
  narrow.dtype = DType::bf16;
  const size_t before = list.size();
  list.push_back({"dropout, GPT-2's", shapeOf(21, 21), // bit 3 of query and key chooses a word
                  [=](In in) { return mix(dropped(in, softmax(hidden(in, causalMask(in)))), in); }, causal()});
  list.push_back({"dropout, softmax by hand", shapeOf(9, 18),
                  [=](In in) { return mix(dropped(in, softmaxByHand(scoresOf(in))), in); }});
  list.push_back({"dropout of a part of a batch",
                  {},
                  [=](In in) {
                    const Tensor shares = softmax(hidden(in, causalMask(in)));
                    return mix(dropout(shares, rate, in.seed, stream, full(3, {}, DType::i32)), in);
                  },
                  causal()});
  list.push_back({"dropout of merged heads", {}, [=](In in) {
                    const auto merged = [](const Tensor &x) {
                      return reshape(x, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3)});
                    };
                    const Tensor scores = matmul(merged(in.q), merged(in.k), {.transposeB = true}) * 0.5;
                    return matmul(dropped(in, softmax(scores)), merged(in.v));
                  }});
  list.push_back({"dropout of heads merged after it", {}, [=](In in) {
                    const auto merged = [](const Tensor &x) {
                      return reshape(x, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3)});
                    };
                    const Tensor shares = dropout(softmax(scoresOf(in)), rate, in.seed, stream, in.seed);
                    return matmul(merged(shares), merged(in.v));
                  }});
  list.push_back({"dropout and groups", grouped,
                  [=](In in) {
                    const Tensor scores = matmul(in.q, repeatHeads(in.k, 3), {.transposeB = true}) * 0.5;
                    return matmul(dropped(in, softmax(select(causalMask(in), scores, -infinity))),
                                  repeatHeads(in.v, 3));
                  },
                  causal(), "", 2});
  list.push_back({"dropout of groups as a dim",
                  grouped,
                  [=](In in) {
                    const Shape five = {in.shape.batch, 2, 3, in.shape.keys, in.shape.width};
                    const auto apart = [&](const Tensor &x) {
                      return broadcast(reshape(x, {in.shape.batch, 2, 1, in.shape.keys, in.shape.width}), five);
                    };
                    const Tensor q = reshape(in.q, {in.shape.batch, 2, 3, in.shape.queries, in.shape.width});
                    const Tensor shares = softmax(matmul(q, apart(in.k), {.transposeB = true}) * 0.5);
                    return matmul(dropout(shares, rate, in.seed, stream, full(1, {}, DType::i32)), apart(in.v));
                  },
                  {},
                  "",
                  2});
  list.push_back({"dropout of scores turned back", shapeOf(5, 7), [=](In in) {
                    const Tensor scores = transpose(matmul(in.k, in.q, {.transposeB = true}));
                    return mix(transpose(transpose(dropped(in, softmax(scores)))), in);
                  }});
  list.push_back({"dropout in front of a cast", narrow, [=](In in) {
                    const Tensor scores = cast(matmul(in.q, in.k, {.transposeB = true}) * 0.125, DType::f32);
                    return mix(cast(dropped(in, softmax(scores)), DType::bf16), in);
                  }});
  list.push_back({"dropout after a cast", narrow, [=](In in) {
                    const Tensor scores = cast(matmul(in.q, in.k, {.transposeB = true}) * 0.125, DType::f32);
                    return mix(dropped(in, cast(softmax(scores), DType::bf16)), in);
                  }});
  for (Spelling &spelling : std::span(list).subspan(before))
    spelling.rate = rate;
  list.push_back(
      {"dropout of nothing", {}, [](In in) { return mix(dropout(softmax(scoresOf(in)), 0, in.seed, 1), in); }});
}

} // namespace

std::vector<Spelling> attentionSpellings() {
  std::vector<Spelling> list;
  addMasks(list);
  addForms(list);
  addGroups(list);
  addDropouts(list);
  return list;
}

} // namespace tcc::test
