// Reading of masks: one row of scores after the other, so that a mask of any size is checked in little memory.
#include "passes/attention_mask.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

/// A part of a dim's coordinate: (index of the batch, query or key) div `divisor` mod `size`.
struct Digit {
  unsigned role; // a bit of Variation
  int64_t divisor, size;
};
using DimDigits = SmallVector<Digit, 2>;

SmallVector<DimDigits> digitsOf(const AxisLayout &layout, const Axes &axes, const ScoreAxes &roles) {
  DenseMap<unsigned, Digit> digits;
  auto addRole = [&](ArrayRef<unsigned> run, unsigned role) {
    int64_t divisor = 1;
    for (unsigned axis : llvm::reverse(run)) {
      digits[axis] = {role, divisor, axes.size(axis)};
      divisor *= axes.size(axis);
    }
  };
  addRole(roles.batch, acrossBatch);
  addRole(roles.queries, acrossRows);
  addRole(roles.keys, acrossColumns);
  SmallVector<DimDigits> result;
  for (const AxisRun &run : layout) {
    result.emplace_back();
    for (unsigned axis : axes.leaves(run))
      result.back().push_back(digits.lookup(axis));
  }
  return result;
}

/// The dim's coordinate for query `row` of the first head, for each key.
RowNumbers coordinateOf(const DimDigits &digits, int64_t row, int64_t keys) {
  RowNumbers coordinate{{0}, 0};
  for (const Digit &digit : digits) {
    coordinate.varies |= digit.role;
    if (digit.role == acrossColumns && coordinate.values.size() == 1)
      coordinate.values.resize(keys, coordinate.values[0]);
    for (auto [key, value] : llvm::enumerate(coordinate.values)) {
      int64_t index = digit.role == acrossColumns ? static_cast<int64_t>(key) : digit.role == acrossRows ? row : 0;
      value = value * static_cast<double>(digit.size) + static_cast<double>(index / digit.divisor % digit.size);
    }
  }
  return coordinate;
}

/// At most this is no key's score any more: no score that counts is near it, nor made so by the scale.
double hiddenFrom(Type element, double scale) {
  const double far = -1e9 * std::max(1.0, std::abs(scale));
  double least = APFloat::getLargest(cast<FloatType>(element).getFloatSemantics(), true).convertToDouble();
  return std::max(far, least); // the least f16 is -65504
}

/// What has become of a score on its way from q·kᵀ to the softmax.
enum class Fate : char {
  kept,   // it is the score, scaled
  hidden, // a literal far below every score, perhaps -inf
  zeroed, // 0 in place of a score: whatever is added to it is exact
  other,  // only a select that hides it makes it harmless again
};

/// The fate after `step` of a score whose fate was `before`. An infinite score can be multiplied by 0 or lifted again
/// by a later step, so the steps are followed in the order in which the program computes them.
Fate fateAfter(const MaskStep &step, double number, Fate before, double hiddenFrom) {
  switch (step.kind) {
  case MaskStep::Kind::select:
    if ((number != 0) == step.keepsTrue)
      return before;
    return step.fill * step.factor <= hiddenFrom ? Fate::hidden : Fate::other;
  case MaskStep::Kind::add:
    if (number == 0)
      return before;
    if (before == Fate::hidden)
      return number * step.factor <= 0 ? Fate::hidden : Fate::other;
    return before != Fate::other && number * step.factor <= hiddenFrom ? Fate::hidden : Fate::other;
  case MaskStep::Kind::multiply:
    if (number == 1)
      return before;
    return number == 0 && (before == Fate::kept || before == Fate::zeroed) ? Fate::zeroed : Fate::other;
  }
  llvm_unreachable("all kinds");
}

std::string objection(const MaskStep &step, double number, int64_t row, size_t column) {
  std::string pair = llvm::formatv("query {0} and key {1}", row, column).str();
  switch (step.kind) {
  case MaskStep::Kind::select:
    return llvm::formatv("the masked score of {0} becomes {1}, which softmax still sees; -inf, the type's least number "
                         "or at most -1e9 hides a key",
                         pair, step.fill * step.factor);
  case MaskStep::Kind::add:
    return llvm::formatv("{0} is added to the score of {1}: a bias, and no mask", number * step.factor, pair);
  case MaskStep::Kind::multiply:
    return llvm::formatv("the score of {0} is multiplied by {1}; a factor of its own is no scale", pair, number);
  }
  llvm_unreachable("all kinds");
}

/// The mask that gives each row its range of keys [first, end), if there is one.
std::optional<AttentionMask> maskOf(ArrayRef<std::pair<int64_t, int64_t>> ranges, int64_t keys) {
  AttentionMask mask;
  std::optional<int64_t> least; // of key - query
  for (auto [row, range] : llvm::enumerate(ranges)) {
    if (range.second < keys)
      mask.diagonal = range.second - 1 - static_cast<int64_t>(row);
    if (range.first > 0)
      least = range.first - static_cast<int64_t>(row);
  }
  if (least) {
    mask.diagonal = mask.diagonal.value_or(keys - 1);
    mask.window = *mask.diagonal - *least + 1;
    if (*mask.window <= 0)
      return std::nullopt;
  }
  for (auto [row, range] : llvm::enumerate(ranges))
    if (mask.visibleKeys(row, keys) != range)
      return std::nullopt;
  return mask;
}

/// One pass over all rows.
class Reading {
public:
  Reading(LiteralRows &rows, ArrayRef<MaskStep> steps, ArrayRef<SmallVector<DimDigits>> digits, int64_t queries,
          int64_t keys, double scale)
      : rows(rows), steps(steps), digits(digits), queries(queries), keys(keys) {
    for (const MaskStep &step : steps)
      states.push_back({hiddenFrom(tensorType(step.op->getResult(0)).getElementType(), scale), {}, std::nullopt});
  }

  size_t step = 0; // of the refusal
  std::string why;

  std::optional<AttentionMask> run() {
    SmallVector<std::pair<int64_t, int64_t>> ranges;
    for (int64_t row = 0; row < queries; ++row) {
      if (!readRow(row))
        return std::nullopt;
      auto isVisible = [](char seen) { return seen != 0; };
      auto first = llvm::find_if(visible, isVisible), end = std::find_if_not(first, visible.end(), isVisible);
      step = 0;
      if (first == visible.end()) {
        why = llvm::formatv("query {0} sees no key, and its softmax is not attention's", row);
        return std::nullopt;
      }
      why = llvm::formatv("the keys that query {0} sees are no band around a diagonal, causal or a window", row);
      if (std::any_of(end, visible.end(), isVisible))
        return std::nullopt;
      ranges.emplace_back(first - visible.begin(), end - visible.begin());
    }
    why = "the keys that queries see are no band around a diagonal, causal or a window";
    return maskOf(ranges, keys);
  }

private:
  LiteralRows &rows;
  ArrayRef<MaskStep> steps;
  ArrayRef<SmallVector<DimDigits>> digits;
  int64_t queries, keys;
  std::vector<char> visible;
  std::vector<Fate> fates;                         // of the row's scores
  std::vector<std::pair<size_t, double>> culprits; // the step that changed a score's fate last, and its number
  struct State {
    double hiddenFrom;
    SmallVector<RowNumbers> coordinates;
    std::optional<RowNumbers> numbers; // of the last row
  };
  std::vector<State> states; // of each step

  /// The step's literal numbers in this row. What no row changes is computed once.
  const RowNumbers *numbersOf(size_t step, int64_t row) {
    State &state = states[step];
    if (row > 0 && state.numbers && !(state.numbers->varies & acrossRows))
      return &*state.numbers;
    state.coordinates.resize(digits[step].size());
    for (auto [coordinate, dim] : llvm::zip_equal(state.coordinates, digits[step]))
      if (row == 0 || (coordinate.varies & acrossRows))
        coordinate = coordinateOf(dim, row, keys);
    state.numbers = rows.evaluate(steps[step].literal, state.coordinates);
    return state.numbers ? &*state.numbers : nullptr;
  }

  bool refuse(size_t at, std::string reason) {
    step = at;
    why = std::move(reason);
    return false;
  }

  bool readRow(int64_t row) {
    fates.assign(keys, Fate::kept);
    culprits.assign(keys, {});
    for (size_t i = steps.size(); i-- > 0;) { // from q·kᵀ to the softmax
      const RowNumbers *numbers = numbersOf(i, row);
      if (!numbers)
        return refuse(i, "the mask's arithmetic is too long, or its integers overflow");
      if (numbers->varies & acrossBatch)
        return refuse(i, "the mask or bias differs between heads or batch elements; one for all is expected");
      for (int64_t key = 0; key < keys; ++key) {
        double number = numbers->at(key);
        if (steps[i].kind == MaskStep::Kind::multiply && !std::isfinite(number)) // its gradient is no number
          return refuse(i, objection(steps[i], number, row, key));
        Fate before = fates[key];
        fates[key] = fateAfter(steps[i], number, before, states[i].hiddenFrom);
        if (fates[key] != before)
          culprits[key] = {i, number};
      }
    }
    visible.assign(keys, 1);
    for (int64_t key = 0; key < keys; ++key) {
      if (fates[key] == Fate::zeroed || fates[key] == Fate::other)
        return refuse(culprits[key].first, objection(steps[culprits[key].first], culprits[key].second, row, key));
      visible[key] = fates[key] == Fate::kept;
    }
    return true;
  }
};

} // namespace

std::optional<AttentionMask> MaskReader::read(ArrayRef<MaskStep> steps, const Axes &axes, const ScoreAxes &roles,
                                              double scale, Operation *&at, std::string &why) {
  if (steps.empty())
    return AttentionMask();
  int64_t queries = axes.size(roles.queries), keys = axes.size(roles.keys);
  std::vector<uint64_t> key = {static_cast<uint64_t>(queries), static_cast<uint64_t>(keys),
                               llvm::bit_cast<uint64_t>(scale)};
  SmallVector<SmallVector<DimDigits>> digits;
  for (const MaskStep &step : steps) {
    key.insert(key.end(), {static_cast<uint64_t>(step.kind), step.keepsTrue, llvm::bit_cast<uint64_t>(step.fill),
                           llvm::bit_cast<uint64_t>(step.factor)});
    key.push_back(reinterpret_cast<uintptr_t>(step.op->getResult(0).getType().getAsOpaquePointer()));
    for (const DimDigits &dim : digits.emplace_back(digitsOf(step.layout, axes, roles)))
      for (const Digit &digit : dim)
        key.insert(key.end(), {digit.role, static_cast<uint64_t>(digit.divisor), static_cast<uint64_t>(digit.size)});
    rows.appendKey(step.literal, key);
  }
  auto [known, isNew] = answers.try_emplace(key);
  Answer &answer = known->second;
  if (isNew) {
    Reading reading(rows, steps, digits, queries, keys, scale);
    answer.mask = reading.run();
    answer.step = reading.step;
    answer.why = std::move(reading.why);
  }
  if (!answer.mask) {
    at = steps[answer.step].op;
    why = answer.why;
  }
  return answer.mask;
}

} // namespace tcc
