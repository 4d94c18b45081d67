// Programs that are near to attention and none, or none to be matched: a bias, another softmax, roundings of their own.
#include "tests/passes/attention_spellings.h"

namespace tcc::test {
namespace {

using In = const AttentionInputs &;

void addBiases(std::vector<Spelling> &list) {
  list.push_back({"ALiBi",
                  {},
                  [](In in) {
                    const Shape all = {in.shape.heads, in.shape.queries, in.shape.keys};
                    const Tensor distance = iota(2, all, DType::f32) - iota(1, all, DType::f32);
                    const Tensor slope = exp((iota(0, all, DType::f32) + 1) * -0.5);
                    return mix(softmax(scoresOf(in) + distance * slope), in);
                  },
                  {},
                  "bias"});
  list.push_back({"distance of its own",
                  {},
                  [](In in) {
                    const Tensor distance = iota(1, in.square(), DType::f32) - iota(0, in.square(), DType::f32);
                    return mix(softmax(scoresOf(in) + distance * 0.1), in);
                  },
                  {},
                  "a bias, and no mask"});
  list.push_back({"learned bias",
                  {},
                  [](In in) { return mix(softmax(scoresOf(in) + in.bias), in); },
                  {},
                  "bias or mask that is data"});
  list.push_back(
      {"softcap", {}, [](In in) { return mix(softmax(tanh(scoresOf(in) / 20.0) * 20.0), in); }, {}, "'tcc.tanh'"});
  list.push_back({"scale for each head",
                  {},
                  [](In in) { return mix(softmax(scoresOf(in) * in.factor), in); },
                  {},
                  "learned scale"});
  list.push_back(
      {"literal scale for each head",
       {},
       [](In in) { return mix(softmax(scoresOf(in) * (iota(0, {in.shape.heads, 1, 1}, DType::f32) + 1)), in); },
       {},
       "differs between heads"});
  list.push_back(
      {"mask for each head",
       {},
       [](In in) {
         const Shape all = {in.shape.heads, in.shape.queries, in.shape.keys};
         return mix(softmax(select(lessEqual(iota(2, all), iota(1, all) + iota(0, all)), scoresOf(in), -infinity)), in);
       },
       {},
       "differs between heads"});
  list.push_back({"mask of data",
                  {},
                  [](In in) { return mix(softmax(hidden(in, greater(in.bias, 0.0))), in); },
                  {},
                  "the mask is data"});
  list.push_back({"strictly before",
                  {},
                  [](In in) { return mix(softmax(hidden(in, causalMask(in, -1), -1e30)), in); },
                  {},
                  "query 0 sees no key"});
  list.push_back({"holes",
                  {},
                  [](In in) {
                    const Tensor even = equal(iota(0, in.square()), iota(1, in.square()));
                    return mix(softmax(hidden(in, logicalOr(even, equal(iota(1, in.square()), 0.0)))), in);
                  },
                  {},
                  "no band"});
  list.push_back({"every second key",
                  {},
                  [](In in) { return mix(softmax(hidden(in, less(iota(1, in.square()), 4.0))), in); },
                  {},
                  "no band"});
  list.push_back({"a fill that is seen",
                  {},
                  [](In in) { return mix(softmax(hidden(in, causalMask(in), -30)), in); },
                  {},
                  "still sees"});
  list.push_back({"a fill made small",
                  {},
                  [](In in) { return mix(softmax(hidden(in, causalMask(in), -1e9) * 1e-6), in); },
                  {},
                  "still sees"});
  list.push_back({"a fill made large",
                  {},
                  [](In in) { return mix(softmax(hidden(in, causalMask(in), -1e30) * -1.0), in); },
                  {},
                  "still sees"});
  list.push_back({"a scale as large as the fill",
                  {},
                  [](In in) {
                    const Tensor scores = matmul(in.q, in.k, {.transposeB = true}) * 1e8;
                    return mix(softmax(select(causalMask(in), scores, -1e9)), in);
                  },
                  {},
                  "still sees"});
  list.push_back({"a factor alone",
                  {},
                  [](In in) { return mix(softmax(scoresOf(in) * cast(causalMask(in), DType::f32)), in); },
                  {},
                  "is multiplied by 0"});
  list.push_back({"an infinite score times 0",
                  {},
                  [](In in) { // not a number, and no key's doing
                    const Tensor b = cast(causalMask(in), DType::f32);
                    return mix(softmax(hidden(in, causalMask(in)) * b - 1e10 * (1 - b)), in);
                  },
                  {},
                  "is multiplied by 0"});
  list.push_back({"a hidden score lifted again",
                  {},
                  [](In in) {
                    const Tensor seen = causalMask(in), lift = select(seen, full(0, in.square()), 1e30);
                    return mix(softmax(hidden(in, seen, -1e30) + lift), in);
                  },
                  {},
                  "a bias, and no mask"});
  list.push_back({"a bias in the mask",
                  {},
                  [](In in) {
                    const Tensor b = cast(causalMask(in), DType::f32);
                    return mix(softmax(scoresOf(in) * b - 10 * (1 - b)), in);
                  },
                  {},
                  "bias"});
}

void addOthers(std::vector<Spelling> &list) {
  list.push_back({"softmax over queries",
                  {},
                  [](In in) { return mix(softmaxByHand(scoresOf(in), -2), in); },
                  {},
                  "over the keys is expected"});
  list.push_back({"softmax with a sink",
                  {},
                  [](In in) {
                    const Tensor x = scoresOf(in), top = max(x, -1, KeepDims::yes), e = exp(x - top);
                    return mix(e / (sum(e, -1, KeepDims::yes) + exp(0.5 - top)), in);
                  },
                  {},
                  "sink"});
  list.push_back({"softmax by the logarithm of its sum",
                  {},
                  [](In in) {
                    const Tensor x = scoresOf(in), top = stopGradient(max(x, -1, KeepDims::yes));
                    return mix(exp(x - (log(sum(exp(x - top), -1, KeepDims::yes)) + top)), in);
                  },
                  {},
                  "its softmax is exp(x - logsumexp(x))"});
  list.push_back({"divided after the values",
                  {},
                  [](In in) {
                    const Tensor x = scoresOf(in), e = exp(x - stopGradient(max(x, -1, KeepDims::yes)));
                    return mix(e, in) / sum(e, -1, KeepDims::yes);
                  },
                  {},
                  "divided by the sum of the exponentials"});
  list.push_back({"sink as a column",
                  {},
                  [](In in) {
                    const Shape one = {in.shape.batch, in.shape.heads, in.shape.queries, 1};
                    const Tensor all = softmax(concat({scoresOf(in), broadcast(in.factor, one)}, -1));
                    return mix(slice(all, -1, 0, in.shape.keys), in);
                  },
                  {},
                  "'tcc.slice'"});
  list.push_back({"mask after the softmax",
                  {},
                  [](In in) { return mix(select(causalMask(in), softmax(scoresOf(in)), 0.0), in); },
                  {},
                  "after the softmax"});
  list.push_back({"factor after the softmax",
                  {},
                  [](In in) { return mix(softmax(scoresOf(in)) * 2.0, in); },
                  {},
                  "after the softmax"});
  list.push_back({"no maximum",
                  {},
                  [](In in) {
                    const Tensor e = exp(scoresOf(in));
                    return mix(e / sum(e, -1, KeepDims::yes), in);
                  },
                  {},
                  "maximum is not taken off"});
  list.push_back({"another maximum",
                  {},
                  [](In in) {
                    const Tensor x = scoresOf(in), e = exp(x - max(x * 0.5, -1, KeepDims::yes));
                    return mix(e / sum(e, -1, KeepDims::yes), in);
                  },
                  {},
                  "not the maximum of the same scores"});
  list.push_back({"detached sum",
                  {},
                  [](In in) {
                    const Tensor x = scoresOf(in), e = exp(x - max(x, -1, KeepDims::yes));
                    return mix(e / detach(sum(e, -1, KeepDims::yes)), in);
                  },
                  {},
                  "own sum"});
  list.push_back(
      {"detached scores", {}, [](In in) { return mix(softmax(detach(scoresOf(in))), in); }, {}, "'tcc.detach'"});
  list.push_back(
      {"detached probabilities", {}, [](In in) { return mix(detach(softmax(scoresOf(in))), in); }, {}, "'tcc.detach'"});
  list.push_back({"talking heads",
                  {},
                  [](In in) {
                    const Shape rows = {in.shape.batch, in.shape.heads, in.shape.queries * in.shape.keys};
                    const Shape square = {in.shape.batch, in.shape.heads, in.shape.heads};
                    const Tensor mixing = broadcast(sin(iota(0, {in.shape.heads, in.shape.heads}, DType::f32)), square);
                    const Tensor shares = matmul(mixing, reshape(softmax(scoresOf(in)), rows));
                    return mix(reshape(shares, {in.shape.batch, in.shape.heads, in.shape.queries, in.shape.keys}), in);
                  },
                  {},
                  "over the keys is expected"});
  list.push_back({"values of another width",
                  {},
                  [](In in) { return mix(softmax(scoresOf(in)), {in.shape, in.q, in.k, concat({in.v, in.v}, -1)}); },
                  {},
                  "values have width 16"});
  list.push_back({"heads in another order",
                  {},
                  [](In in) {
                    const auto turned = [](const Tensor &x) { return transpose(x, {1, 0, 2, 3}); };
                    return matmul(turned(softmax(scoresOf(in))), turned(in.v));
                  },
                  {},
                  "another order"});
  list.push_back({"one matrix of keys",
                  {},
                  [](In in) {
                    const Tensor k = reshape(slice(slice(in.k, 0, 0, 1), 1, 0, 1), {in.shape.keys, in.shape.width});
                    return mix(softmax(matmul(in.q, k, {.transposeB = true})), in);
                  },
                  {},
                  "one matrix"});
  list.push_back({"maximum with a literal",
                  {},
                  [](In in) { return mix(softmax(maximum(scoresOf(in), -0.1)), in); },
                  {},
                  "'tcc.maximum'"});
  AttentionShape narrow;
  narrow.dtype = DType::bf16;
  list.push_back(
      {"softmax in 16 bits", narrow, [](In in) { return mix(softmaxByHand(scoresOf(in)), in); }, {}, "16 bits"});
  list.push_back({"wide result",
                  narrow,
                  [](In in) { return matmul(softmax(scoresOf(in)), in.v, {.dtype = DType::f32}); },
                  {},
                  "one element type"});
  list.push_back({"rounded and widened probabilities",
                  {},
                  [](In in) { return mix(cast(cast(softmax(scoresOf(in)), DType::bf16), DType::f32), in); },
                  {},
                  "widened again"});
}

void addDropouts(std::vector<Spelling> &list) {
  constexpr double rate = 0.25;
  list.push_back({"dropout of scores",
                  {},
                  [](In in) { return mix(softmax(dropout(scoresOf(in), rate, in.seed, 1)), in); },
                  {},
                  "scores are dropped out"});
  list.push_back({"dropout of transposed probabilities",
                  {},
                  [](In in) {
                    const Tensor shares = softmaxByHand(matmul(in.k, in.q, {.transposeB = true}) * 0.5, -2);
                    return matmul(dropout(shares, rate, in.seed, 1), in.v, {.transposeA = true});
                  },
                  {},
                  "other coordinates"});
  list.push_back({"dropout of probabilities that are turned for it",
                  {},
                  [](In in) { return mix(transpose(dropout(transpose(softmax(scoresOf(in))), rate, in.seed, 1)), in); },
                  {},
                  "other coordinates"});
  list.push_back({"dropout of heads in front of the batch",
                  {},
                  [](In in) {
                    const auto turned = [](const Tensor &x) { return transpose(x, {1, 0, 2, 3}); };
                    return mix(turned(dropout(turned(softmax(scoresOf(in))), rate, in.seed, 1)), in);
                  },
                  {},
                  "other coordinates"});
  list.push_back({"dropout of rows without heads",
                  {},
                  [](In in) {
                    const int64_t rows = in.shape.batch * in.shape.heads * in.shape.queries;
                    const Tensor shares = reshape(softmax(scoresOf(in)), {rows, in.shape.keys});
                    const Tensor left = dropout(shares, rate, in.seed, 1);
                    return mix(reshape(left, {in.shape.batch, in.shape.heads, in.shape.queries, in.shape.keys}), in);
                  },
                  {},
                  "other coordinates"});
  list.push_back({"dropout of a part of all heads",
                  {},
                  [](In in) {
                    const Shape heads = {in.shape.batch * in.shape.heads, in.shape.queries, in.shape.keys};
                    const Tensor shares = reshape(softmax(scoresOf(in)), heads);
                    const Tensor left = dropout(shares, rate, in.seed, 1, full(2, {}, DType::i32));
                    return mix(reshape(left, {in.shape.batch, in.shape.heads, in.shape.queries, in.shape.keys}), in);
                  },
                  {},
                  "counts other rows"});
  list.push_back({"dropout twice",
                  {},
                  [](In in) {
                    const Tensor once = dropout(softmax(scoresOf(in)), rate, in.seed, 1);
                    return mix(dropout(once, rate, in.seed, 2), in);
                  },
                  {},
                  "dropped out twice"});
}

} // namespace

std::vector<Spelling> nearAttentionSpellings() {
  std::vector<Spelling> list;
  addBiases(list);
  addOthers(list);
  addDropouts(list);
  return list;
}

} // namespace tcc::test
