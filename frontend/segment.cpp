// Cutting a segment:
//   1. walk back from the targets to arguments and kept values;
//   2. values that gradients among the ops found run through are no inputs: walk again through those;
//   3. write the ops, with values numbered in the order of their first use.
#include "frontend/segment.h"
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace tcc {
namespace {

constexpr uint32_t noValue = ~uint32_t{0};

std::span<const uint32_t> operandsOf(const Record &record, const OpRecord &op) {
  return std::span(record.operands).subspan(op.operands, op.operandEnd - op.operands);
}

/// Adds to `between` what lies between the loss and a wrt of gradient op `index`, the loss too.
void addDifferentiated(const Record &record, size_t index, std::unordered_set<uint32_t> &between) {
  const std::span<const uint32_t> operands = operandsOf(record, record.ops[index]);
  const size_t values = record.ops[index].firstResult;
  std::vector<bool> isWrt(values), depends(values), reaches(values);
  for (uint32_t wrt : operands.subspan(1))
    isWrt[wrt] = true;
  for (size_t i = 0; i < index; ++i) {
    const OpRecord &op = record.ops[i];
    bool any = false;
    for (uint32_t operand : operandsOf(record, op))
      any = any || isWrt[operand] || depends[operand];
    std::fill_n(depends.begin() + op.firstResult, op.results, any);
  }
  reaches[operands[0]] = true;
  for (size_t i = index; i-- > 0;) {
    const OpRecord &op = record.ops[i];
    if (std::find(reaches.begin() + op.firstResult, reaches.begin() + op.firstResult + op.results, true) !=
        reaches.begin() + op.firstResult + op.results)
      for (uint32_t operand : operandsOf(record, op))
        reaches[operand] = true;
  }
  for (uint32_t value = 0; value < values; ++value)
    if (depends[value] && reaches[value])
      between.insert(value);
  between.insert(noValue); // known, though perhaps empty
}

class Cutter {
public:
  Cutter(const Record &whole, const SegmentWish &wish) : whole(whole), wish(wish) {}

  std::vector<uint32_t> ops() {
    for (size_t gradients = 0;; gradients = between.size()) {
      std::vector<uint32_t> found = walk();
      for (uint32_t op : found)
        if (whole.ops[op].kind == OpKind::gradient && wish.isKept)
          between.try_emplace(op);
      if (between.size() == gradients)
        return found;
      for (auto &[gradient, values] : between)
        if (values.empty())
          addDifferentiated(whole, gradient, values);
    }
  }

  Segment run() {
    for (size_t i = 0; i < whole.arguments.size(); ++i)
      argumentOf[whole.arguments[i].value] = static_cast<uint32_t>(i);
    for (uint32_t op : ops())
      write(op);
    for (uint32_t target : wish.targets)
      made.record.outputs.push_back(numberOf(target));
    made.record.asked = wish.asked;
    made.record.steady = wish.steady;
    finish();
    return std::move(made);
  }

private:
  const Record &whole;
  const SegmentWish &wish;
  std::unordered_map<uint32_t, uint32_t> argumentOf, number; // by value of the whole: its argument, its number here
  std::map<uint32_t, std::unordered_set<uint32_t>> between;  // by gradient op: the values that it runs through
  Segment made;
  std::vector<Record::Argument> inputs, states;

  bool isInput(uint32_t value) const {
    return wish.isKept && wish.isKept(value) &&
           std::ranges::none_of(between, [&](const auto &gradient) { return gradient.second.contains(value); });
  }

  /// The ops that the targets need, in order: from them back to what is there, so that a small part of a long record
  /// costs little.
  std::vector<uint32_t> walk() const {
    std::unordered_set<uint32_t> seen;
    std::vector<uint32_t> found, work = wish.targets;
    for (const Record::Update &update : wish.updates)
      work.push_back(update.value);
    while (!work.empty()) {
      const uint32_t value = work.back();
      work.pop_back();
      const std::optional<size_t> producer = isInput(value) ? std::nullopt : whole.producerOf(value);
      if (!producer || !seen.insert(static_cast<uint32_t>(*producer)).second)
        continue;
      found.push_back(static_cast<uint32_t>(*producer));
      std::ranges::copy(operandsOf(whole, whole.ops[*producer]), std::back_inserter(work));
    }
    std::ranges::sort(found);
    return found;
  }

  uint32_t newValue(const ValueType &type) {
    made.record.values.push_back(type);
    return static_cast<uint32_t>(made.record.values.size() - 1);
  }

  uint32_t newInput(SegmentInput source, const ValueType &type, const std::string &name) {
    const uint32_t value = newValue(type);
    inputs.push_back({name.empty() ? "value." + std::to_string(inputs.size()) : name, type, {}, value, {}});
    made.inputs.push_back(source);
    return value;
  }

  uint32_t numberOf(uint32_t value) {
    if (const auto known = number.find(value); known != number.end())
      return known->second;
    if (const auto found = argumentOf.find(value); found != argumentOf.end()) {
      const uint32_t index = found->second;
      const Record::Argument &argument = whole.arguments[index];
      if (argument.state) {
        states.push_back({argument.name, argument.type, argument.state, newValue(argument.type), argument.loc});
        return number[value] = states.back().value;
      }
      return number[value] =
                 newInput({SegmentInput::Source::argument, index}, argument.type, wish.keepsNames ? argument.name : "");
    }
    return number[value] = newInput({SegmentInput::Source::kept, value}, whole.values[value], "");
  }

  void append(OpKind kind, const OpRecord &from, std::span<const uint32_t> operands, std::span<const uint64_t> words,
              std::span<const ValueType> results) {
    Record &record = made.record;
    OpRecord op = from;
    op.kind = kind;
    op.results = static_cast<uint16_t>(results.size());
    op.literals = static_cast<uint32_t>(record.literals.size());
    op.operands = static_cast<uint32_t>(record.operands.size());
    op.words = static_cast<uint32_t>(record.words.size());
    record.operands.insert(record.operands.end(), operands.begin(), operands.end());
    record.words.insert(record.words.end(), words.begin(), words.end());
    op.operandEnd = static_cast<uint32_t>(record.operands.size());
    op.wordEnd = static_cast<uint32_t>(record.words.size());
    op.firstResult = static_cast<uint32_t>(record.values.size());
    op.hash = record.ops.empty() ? runtime::RollingHash() : record.ops.back().hash;
    hashOp(op.hash, kind, operands, words);
    record.values.insert(record.values.end(), results.begin(), results.end());
    record.ops.push_back(op);
  }

  /// A literal that the call hands over: broadcast where the op was a splat of some shape.
  void writeScalar(const OpRecord &op, uint32_t literal, std::span<const uint64_t> words) {
    const ValueType &type = whole.values[op.firstResult];
    const uint32_t scalar = newInput({SegmentInput::Source::literal, literal}, {type.dtype, {}}, "");
    number[op.firstResult] = scalar;
    if (type.shape.empty())
      return;
    append(OpKind::broadcast, op, std::span(&scalar, 1), words.subspan(1), std::span(&type, 1));
    number[op.firstResult] = made.record.ops.back().firstResult;
  }

  void write(uint32_t index) {
    made.ops.push_back(index);
    const OpRecord &op = whole.ops[index];
    const auto words = std::span<const uint64_t>(whole.words).subspan(op.words, op.wordEnd - op.words);
    const bool hasLiteral = whole.hasLiteral(index) && op.literals < wish.literals;
    if (hasLiteral && wish.isScalar && wish.isScalar(op.literals))
      return writeScalar(op, op.literals, words);
    std::vector<uint32_t> operands;
    for (uint32_t operand : operandsOf(whole, op))
      operands.push_back(numberOf(operand));
    append(op.kind, op, operands, words, std::span(whole.values).subspan(op.firstResult, op.results));
    if (hasLiteral) {
      made.literals.push_back(op.literals);
      made.record.literals.push_back(whole.literals[op.literals]);
    }
    const uint32_t first = made.record.ops.back().firstResult;
    for (uint32_t i = 0; i < op.results; ++i)
      if (!isInput(op.firstResult + i))
        number[op.firstResult + i] = first + i;
  }

  /// Updates, and the arguments: inputs first.
  void finish() {
    std::vector<std::pair<uint32_t, Record::Update>> updates; // with the state's value here
    for (const Record::Update &update : wish.updates)
      updates.push_back({numberOf(whole.arguments[update.argument].value), {0, numberOf(update.value), update.loc}});
    Record &record = made.record;
    record.inputs = inputs.size();
    record.arguments = std::move(inputs);
    record.arguments.insert(record.arguments.end(), states.begin(), states.end());
    for (auto &[state, update] : updates) {
      for (uint32_t i = 0; i < record.arguments.size(); ++i)
        if (record.arguments[i].value == state)
          update.argument = i;
      record.updates.push_back(update);
    }
  }
};

} // namespace

std::vector<uint32_t> segmentOps(const Record &whole, const SegmentWish &wish) {
  return Cutter(whole, wish).ops();
}

Segment cutSegment(const Record &whole, const SegmentWish &wish) {
  return Cutter(whole, wish).run();
}

bool takesGradients(const Record &record, size_t ops) {
  return std::any_of(record.ops.begin(), record.ops.begin() + static_cast<std::ptrdiff_t>(ops),
                     [](const OpRecord &op) { return op.kind == OpKind::gradient; });
}

} // namespace tcc
