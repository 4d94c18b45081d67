// match-attention's masks beside what they say of every single score: random arithmetic of rows and keys, bands that
// are spelled in many ways, and bands of which one score differs, which must never be matched.
#include "frontend/capture.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "tests/passes/attention_spellings.h"
#include <chrono>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace tcc::test {
namespace {

/// A mask as a graph has it, and its elements, row by row, made beside it by plain arithmetic.
struct Mask {
  Tensor seen;
  std::vector<bool> elements;
};

/// Numbers of rows and keys in the same two ways.
struct Numbers {
  Tensor values;
  std::vector<double> elements;
};

class Masks {
public:
  Masks(uint64_t seed, int64_t queries, int64_t keys)
      : random(seed), queries(queries), keys(keys), count(queries * keys) {}

  int64_t number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }

  Numbers index(bool isKey) const {
    Numbers made{iota(isKey ? 1 : 0, {queries, keys}), std::vector<double>(count)};
    for (int64_t i = 0; i < count; ++i)
      made.elements[i] = double(isKey ? i % keys : i / keys);
    return made;
  }
  /// a · row + b · key + c, perhaps divided, or its rest.
  Numbers numbers() {
    const int64_t a = number(-1, 2), b = number(-2, 1), c = number(-keys, keys), divisor = number(2, 90);
    const Numbers row = index(false), key = index(true);
    const int64_t form = number(0, 4);
    const Tensor sum = row.values * double(a) + key.values * double(b) + double(c);
    Numbers made{form == 1   ? floorDivide(sum + 4.0 * keys + 4.0 * queries, double(divisor))
                 : form == 2 ? remainder(sum + 4.0 * keys + 4.0 * queries, double(divisor))
                 : form == 3 ? maximum(sum, 0.0)
                             : sum,
                 std::vector<double>(count)};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t plain = a * int64_t(row.elements[i]) + b * int64_t(key.elements[i]) + c,
                    lifted = plain + 4 * keys + 4 * queries;
      made.elements[i] = double(form == 1   ? lifted / divisor
                                : form == 2 ? lifted % divisor
                                : form == 3 ? std::max<int64_t>(plain, 0)
                                            : plain);
    }
    return made;
  }
  Mask comparison() {
    const Numbers n = numbers();
    const double bound = double(number(-20, 60));
    const int64_t form = number(0, 2);
    Mask made{form == 0   ? lessEqual(n.values, bound)
              : form == 1 ? greater(n.values, bound)
                          : notEqual(n.values, bound),
              std::vector<bool>(count)};
    for (int64_t i = 0; i < count; ++i)
      made.elements[i] = form == 0   ? n.elements[i] <= bound
                         : form == 1 ? n.elements[i] > bound
                                     : n.elements[i] != bound;
    return made;
  }
  Mask either(const Mask &a, const Mask &b, bool both) const {
    Mask made{both ? logicalAnd(a.seen, b.seen) : logicalOr(a.seen, b.seen), std::vector<bool>(count)};
    for (int64_t i = 0; i < count; ++i)
      made.elements[i] = both ? a.elements[i] && b.elements[i] : a.elements[i] || b.elements[i];
    return made;
  }
  Mask arithmetic(int depth) {
    if (depth == 0)
      return comparison();
    const Mask a = arithmetic(depth - 1), b = arithmetic(depth - 1);
    return either(a, b, number(0, 1) == 0);
  }
  /// least <= key - row <= most.
  Mask band(int64_t least, int64_t most) const {
    const Tensor row = iota(0, {queries, keys}), key = iota(1, {queries, keys});
    Mask made{logicalAnd(lessEqual(key, row + double(most)), greaterEqual(key - row, double(least))),
              std::vector<bool>(count)};
    for (int64_t i = 0; i < count; ++i)
      made.elements[i] = least <= i % keys - i / keys && i % keys - i / keys <= most;
    return made;
  }
  /// The mask with the other answer for one score.
  Mask without(const Mask &mask, int64_t row, int64_t key) const {
    const Tensor here =
        logicalAnd(equal(iota(0, {queries, keys}), double(row)), equal(iota(1, {queries, keys}), double(key)));
    Mask made{logicalXor(mask.seen, here), mask.elements};
    made.elements[row * keys + key] = !made.elements[row * keys + key];
    return made;
  }

  /// Whether all rows see some keys, and the visible ones are those whose distance lies between two numbers.
  bool isBand(const std::vector<bool> &elements) const {
    int64_t least = keys, most = -queries;
    for (int64_t row = 0; row < queries; ++row) {
      bool seesOne = false;
      for (int64_t key = 0; key < keys; ++key)
        if (elements[row * keys + key]) {
          seesOne = true;
          least = std::min(least, key - row);
          most = std::max(most, key - row);
        }
      if (!seesOne)
        return false;
    }
    for (int64_t i = 0; i < count; ++i)
      if (elements[i] != (least <= i % keys - i / keys && i % keys - i / keys <= most))
        return false;
    return true;
  }

  std::mt19937_64 random;
  const int64_t queries, keys, count;
};

/// The mask that match-attention finds; nothing where it leaves the program as it is.
std::optional<AttentionMask> matchedMask(int64_t queries, int64_t keys, const std::function<Tensor()> &seen,
                                         Remarks &remarks) {
  Tracer tracer;
  const std::vector<ValueType> types = {
      {DType::f32, {1, 1, queries, 8}}, {DType::f32, {1, 1, keys, 8}}, {DType::f32, {1, 1, keys, 8}}};
  const std::vector<std::string> names = {"q", "k", "v"};
  const Recorded recorded = tracer.record(
      [&](std::span<const Tensor> in) {
        const Tensor scores = matmul(in[0], in[1], {.transposeB = true});
        return std::vector<Tensor>{matmul(softmax(select(seen(), scores, -infinity)), in[2])};
      },
      types, names);
  OwningOpRef<ModuleOp> module = buildModule(*recorded.record, "main", {}, threadContext());
  PipelineOptions options;
  options.passes["match-attention"] = true;
  options.stopAfter = Phase::joint;
  options.remarks = &remarks;
  PipelineReport report;
  EXPECT_TRUE(succeeded(runPipeline(*module, options, report)));
  std::optional<AttentionMask> mask;
  module->walk([&](FlashAttentionOp op) { mask = attentionMask(op); });
  return mask;
}

/// The match is the mask, to the score; a band is always matched, anything else never.
void expectExactMatch(Masks &masks, const std::function<Mask()> &make) {
  std::vector<bool> elements;
  Remarks remarks;
  const std::optional<AttentionMask> found = matchedMask(
      masks.queries, masks.keys,
      [&] {
        const Mask mask = make();
        elements = mask.elements;
        return mask.seen;
      },
      remarks);
  ASSERT_EQ(found.has_value(), masks.isBand(elements)) << (remarks.empty() ? "" : remarks[0].text);
  for (int64_t row = 0; found && row < masks.queries; ++row) {
    const auto [first, end] = found->visibleKeys(row, masks.keys);
    for (int64_t key = 0; key < masks.keys; ++key)
      ASSERT_EQ(elements[row * masks.keys + key], first <= key && key < end) << row << ", " << key;
  }
}

TEST(AttentionMasks, RandomArithmeticIsReadExactly) {
  int bands = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 sizes(seed);
    Masks masks(seed, std::uniform_int_distribution<int64_t>(1, 210)(sizes),
                std::uniform_int_distribution<int64_t>(1, 330)(sizes));
    expectExactMatch(masks, [&] {
      const Mask mask = masks.arithmetic(int(masks.number(0, 2)));
      bands += masks.isBand(mask.elements);
      return mask;
    });
  }
  EXPECT_GE(bands, 15) << "of 300";
}

TEST(AttentionMasks, BandsOfAnyWidthAreMatched) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Masks masks(seed, 1 + int64_t(seed * 37 % 200), 1 + int64_t(seed * 53 % 300));
    const int64_t most = masks.number(0, masks.keys), least = masks.number(-masks.queries, std::min<int64_t>(most, 0));
    expectExactMatch(masks, [&] { return masks.band(least, most); });
  }
}

/// One score of a mask of several bands and blocks differs: at the corners of blocks, at the diagonal, far from it.
TEST(AttentionMasks, OneScoreThatDiffersIsNoMatch) {
  constexpr int64_t length = 200;
  const int64_t places[] = {0, 1, 63, 64, 65, 127, 128, 129, 192, 198, 199};
  for (const int64_t window : {length, int64_t(70)})
    for (const int64_t row : places)
      for (const int64_t key : places) {
        SCOPED_TRACE(std::to_string(row) + ", " + std::to_string(key));
        Masks masks(1, length, length);
        expectExactMatch(masks, [&] { return masks.without(masks.band(1 - window, 0), row, key); });
      }
}

/// Reading each score of 4·10⁹ would take a minute and more.
TEST(AttentionMasks, LongOnesAreReadInTimeOfTheirLength) {
  constexpr int64_t length = 65536;
  for (const int64_t window : {length, int64_t(1000)}) {
    const auto start = std::chrono::steady_clock::now();
    Remarks remarks;
    const std::optional<AttentionMask> found = matchedMask(
        length, length,
        [&] {
          const Tensor distance = iota(1, {length, length}) - iota(0, {length, length});
          return logicalAnd(lessEqual(distance, 0.0), greater(distance, -double(window)));
        },
        remarks);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_TRUE(found) << (remarks.empty() ? "" : remarks[0].text);
    EXPECT_EQ(found->diagonal, 0);
    EXPECT_EQ(found->window, window == length ? std::nullopt : std::optional(window));
    EXPECT_LT(seconds, 20);
  }
}

} // namespace
} // namespace tcc::test
