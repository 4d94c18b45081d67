// Reading of masks, in bands of rows:
//   1. a rectangle of scores of which bounds alone say that all are kept, or all hidden, is done;
//   2. any other is halved, down to small ones, whose scores are computed one by one;
//   3. a band in which that finds a reason against the mask is read again, a row at a time, which words the reason.
// Around the diagonals of a mask lie few scores, so that its time grows with the length and not with its square; where
// bounds say nothing it is read whole. Either way each score is proven, and little memory is taken.
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

/// Some rows of some columns of the scores: [row, rowEnd) × [key, keyEnd).
struct Rectangle {
  int64_t row, rowEnd, key, keyEnd;
  int64_t rows() const { return rowEnd - row; }
  int64_t keys() const { return keyEnd - key; }
};

/// The dim's coordinate for each score of the rectangle of the first head, row by row.
RowNumbers coordinateOf(const DimDigits &digits, const Rectangle &part) {
  RowNumbers coordinate{{0}, 0};
  for (const Digit &digit : digits) {
    coordinate.varies |= digit.role;
    const bool isShared = digit.role == acrossBatch || (digit.role == acrossRows && part.rows() == 1);
    if (!isShared && coordinate.values.size() == 1)
      coordinate.values.resize(part.rows() * part.keys(), coordinate.values[0]);
    for (auto [i, value] : llvm::enumerate(coordinate.values)) {
      const int64_t at = static_cast<int64_t>(i), index = digit.role == acrossColumns ? part.key + at % part.keys()
                                                          : digit.role == acrossRows  ? part.row + at / part.keys()
                                                                                      : 0;
      value = value * static_cast<double>(digit.size) + static_cast<double>(index / digit.divisor % digit.size);
    }
  }
  return coordinate;
}

/// Between which numbers these coordinates lie.
NumberRange coordinateRange(const DimDigits &digits, const Rectangle &part) {
  NumberRange coordinate;
  for (const Digit &digit : digits) {
    NumberRange index;
    if (digit.role == acrossRows)
      index = {static_cast<double>(part.row), static_cast<double>(part.rowEnd - 1)};
    else if (digit.role == acrossColumns)
      index = {static_cast<double>(part.key), static_cast<double>(part.keyEnd - 1)};
    const NumberRange own = digit.role == acrossBatch ? NumberRange() : digitOf(index, digit.divisor, digit.size);
    const auto size = static_cast<double>(digit.size);
    coordinate = {coordinate.low * size + own.low, coordinate.high * size + own.high};
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

constexpr int64_t bandRows = 64, fewestKeys = 64; // of a rectangle whose scores are computed one by one

/// The keys that a query sees, as they are found from the first to the last.
struct SeenKeys {
  int64_t first = -1, end = -1;

  /// False where keys are seen, then hidden, then seen again.
  bool add(int64_t key, int64_t keyEnd) {
    if (first < 0)
      first = key;
    else if (end != key)
      return false;
    end = keyEnd;
    return true;
  }
};

/// One pass over all rows.
class Reading {
public:
  Reading(LiteralRows &rows, ArrayRef<MaskStep> steps, ArrayRef<SmallVector<DimDigits>> digits, int64_t queries,
          int64_t keys, double scale)
      : rows(rows), steps(steps), digits(digits), queries(queries), keys(keys) {
    for (const MaskStep &step : steps)
      hidden.push_back(hiddenFrom(tensorType(step.op->getResult(0)).getElementType(), scale));
  }

  size_t step = 0; // of the refusal
  std::string why;

  std::optional<AttentionMask> run() {
    SmallVector<std::pair<int64_t, int64_t>> ranges;
    for (int64_t row = 0; row < queries;) {
      // The first row is read alone: which directions a mask varies along, its numbers say for all rows.
      const int64_t end = row == 0 ? 1 : std::min(row + bandRows, queries);
      seen.assign(end - row, {});
      const bool isRead = row > 0 && readBand({row, end, 0, keys}) &&
                          llvm::all_of(seen, [](const SeenKeys &range) { return range.first >= 0; });
      if (!isRead && !readRows(row, end))
        return std::nullopt;
      for (const SeenKeys &range : seen)
        ranges.emplace_back(range.first, range.end);
      row = end;
    }
    step = 0;
    why = "the keys that queries see are no band around a diagonal, causal or a window";
    return maskOf(ranges, keys);
  }

private:
  LiteralRows &rows;
  LiteralBounds bounds;
  ArrayRef<MaskStep> steps;
  ArrayRef<SmallVector<DimDigits>> digits;
  int64_t queries, keys;
  SmallVector<double> hidden;                      // of each step: hiddenFrom
  std::vector<SeenKeys> seen;                      // by the rows of the band
  std::vector<Fate> fates;                         // of a rectangle's scores
  std::vector<std::pair<size_t, double>> culprits; // the step that changed a score's fate last, and its number

  bool refuse(size_t at, std::string reason) {
    step = at;
    why = std::move(reason);
    return false;
  }

  /// The fate that all scores of the rectangle have, where bounds say it.
  std::optional<Fate> sharedFate(const Rectangle &part) {
    Fate fate = Fate::kept;
    for (size_t i = steps.size(); i-- > 0;) {
      SmallVector<NumberRange> coordinates;
      for (const DimDigits &dim : digits[i])
        coordinates.push_back(coordinateRange(dim, part));
      const std::optional<NumberRange> number = bounds.evaluate(steps[i].literal, coordinates);
      if (!number || !number->isOne() || (steps[i].kind == MaskStep::Kind::multiply && !std::isfinite(number->low)))
        return std::nullopt;
      fate = fateAfter(steps[i], number->low, fate, hidden[i]);
    }
    return fate;
  }

  /// Adds to `seen` what the band's rows see of the rectangle's keys. False where something is against the mask.
  bool readBand(const Rectangle &part) {
    const bool isSmall = part.keys() <= fewestKeys;
    const std::optional<Fate> shared = sharedFate(part);
    if (!shared && isSmall)
      return readFates(part) && addSeen(part);
    if (!shared) {
      const int64_t middle = part.key + (part.keys() / 2 + fewestKeys - 1) / fewestKeys * fewestKeys;
      return readBand({part.row, part.rowEnd, part.key, middle}) &&
             readBand({part.row, part.rowEnd, middle, part.keyEnd});
    }
    if (*shared == Fate::hidden)
      return true;
    return *shared == Fate::kept && llvm::all_of(seen, [&](SeenKeys &row) { return row.add(part.key, part.keyEnd); });
  }

  /// Adds to `seen` what the fates of the rectangle's scores say; the rectangle has all rows of `seen`.
  bool addSeen(const Rectangle &part) {
    for (auto [i, fate] : llvm::enumerate(fates)) {
      const int64_t row = static_cast<int64_t>(i) / part.keys(), key = part.key + static_cast<int64_t>(i) % part.keys();
      if (fate != Fate::hidden && (fate != Fate::kept || !seen[row].add(key, key + 1)))
        return false;
    }
    return true;
  }

  /// Each score of the rectangle by itself.
  bool readFates(const Rectangle &part) {
    fates.assign(part.rows() * part.keys(), Fate::kept);
    culprits.assign(fates.size(), {});
    for (size_t i = steps.size(); i-- > 0;) { // from q·kᵀ to the softmax
      SmallVector<RowNumbers> coordinates;
      for (const DimDigits &dim : digits[i])
        coordinates.push_back(coordinateOf(dim, part));
      const std::optional<RowNumbers> numbers = rows.evaluate(steps[i].literal, coordinates);
      if (!numbers)
        return refuse(i, "the mask's arithmetic is too long, or its integers overflow");
      if (numbers->varies & acrossBatch)
        return refuse(i, "the mask or bias differs between heads or batch elements; one for all is expected");
      for (size_t score = 0; score < fates.size(); ++score) {
        const double number = numbers->at(score);
        if (steps[i].kind == MaskStep::Kind::multiply && !std::isfinite(number)) // its gradient is no number
          return refuse(i, objection(steps[i], number, part.row, score));
        const Fate before = fates[score];
        fates[score] = fateAfter(steps[i], number, before, hidden[i]);
        if (fates[score] != before)
          culprits[score] = {i, number};
      }
    }
    return true;
  }

  /// The rows one after the other, all keys of each: what is found first against the mask is put into words.
  bool readRows(int64_t row, int64_t end) {
    seen.assign(end - row, {});
    for (int64_t i = row; i < end; ++i) {
      if (!readFates({i, i + 1, 0, keys}))
        return false;
      for (int64_t key = 0; key < keys; ++key) {
        const auto &[at, number] = culprits[key];
        if (fates[key] == Fate::zeroed || fates[key] == Fate::other)
          return refuse(at, objection(steps[at], number, i, key));
      }
      for (int64_t key = 0; key < keys; ++key)
        if (fates[key] == Fate::kept && !seen[i - row].add(key, key + 1))
          return refuse(
              0, llvm::formatv("the keys that query {0} sees are no band around a diagonal, causal or a window", i));
      if (seen[i - row].first < 0)
        return refuse(0, llvm::formatv("query {0} sees no key, and its softmax is not attention's", i));
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
