// Reading of masks: one row of scores after the other, so that a mask of any size is checked in little memory.
#include "passes/attention_mask.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"

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

/// At most this is no key's score any more: no score that counts is near it.
double hiddenFrom(Type element) {
  constexpr double far = -1e9;
  double least = APFloat::getLargest(cast<FloatType>(element).getFloatSemantics(), true).convertToDouble();
  return std::max(far, least); // the least f16 is -65504
}

enum class Effect { keep, hide, other };

Effect effectOf(const MaskStep &step, double number, double hiddenFrom) {
  auto hiding = [&](double value) { return value <= hiddenFrom ? Effect::hide : Effect::other; };
  switch (step.kind) {
  case MaskStep::Kind::select:
    return (number != 0) == step.keepsTrue ? Effect::keep : hiding(step.fill * step.factor);
  case MaskStep::Kind::add:
    return number == 0 ? Effect::keep : hiding(number * step.factor);
  case MaskStep::Kind::multiply:
    return number == 1 ? Effect::keep : Effect::other;
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
          int64_t keys)
      : rows(rows), steps(steps), digits(digits), queries(queries), keys(keys) {
    for (const MaskStep &step : steps)
      states.push_back({hiddenFrom(tensorType(step.op->getResult(0)).getElementType()), {}, std::nullopt});
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
      step = steps.size() - 1;
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
    visible.assign(keys, 1);
    for (size_t i = 0; i < steps.size(); ++i) {
      const RowNumbers *numbers = numbersOf(i, row);
      if (!numbers)
        return refuse(i, "the mask's arithmetic is too long, or its integers overflow");
      if (numbers->varies & acrossBatch)
        return refuse(i, "the mask or bias differs between heads or batch elements; one for all is expected");
      for (int64_t key = 0; key < keys; ++key) {
        if (!visible[key]) // whatever is below does not count
          continue;
        Effect effect = effectOf(steps[i], numbers->at(key), states[i].hiddenFrom);
        if (effect == Effect::other)
          return refuse(i, objection(steps[i], numbers->at(key), row, key));
        visible[key] = effect == Effect::keep;
      }
    }
    return true;
  }
};

} // namespace

std::optional<AttentionMask> MaskReader::read(ArrayRef<MaskStep> steps, const Axes &axes, const ScoreAxes &roles,
                                              Operation *&at, std::string &why) {
  if (steps.empty())
    return AttentionMask();
  int64_t queries = axes.size(roles.queries), keys = axes.size(roles.keys);
  std::vector<uint64_t> key = {static_cast<uint64_t>(queries), static_cast<uint64_t>(keys)};
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
    Reading reading(rows, steps, digits, queries, keys);
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
