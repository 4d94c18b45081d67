// Records the ops of a call, or compares them one by one with the record of the call before (replay).
#include "frontend/trace.h"
#include "frontend/body_trace.h"
#include "frontend/capture.h"
#include "frontend/scope.h"
#include "frontend/storage.h"
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

namespace tcc {
namespace {

thread_local Tracer *recording = nullptr;
std::atomic<uint32_t> lastId{0};

void hashType(runtime::RollingHash &hash, const ValueType &type) {
  hash.add(static_cast<uint64_t>(type.dtype));
  hash.add(static_cast<uint64_t>(type.shape.size()));
  for (int64_t size : type.shape)
    hash.add(static_cast<uint64_t>(size));
}

using K = WordKind;
const TracedOp table[] = {
#include "frontend/op_table.inc"
};

} // namespace

const TracedOp &tracedOp(OpKind kind) {
  return table[static_cast<size_t>(kind)];
}

std::span<const TracedOp> tracedOps() {
  return table;
}

void detail::retainHandle(uint32_t trace, uint32_t value) noexcept {
  if (!recording || recording->id != trace)
    return;
  if (recording->handles.size() <= value)
    recording->handles.resize(value + 64);
  ++recording->handles[value];
}
void detail::releaseHandle(uint32_t trace, uint32_t value) noexcept {
  if (recording && recording->id == trace)
    --recording->handles[value];
}

void detail::refuseEmpty(Loc loc) {
  throw Error("an empty tensor is used; a Tensor is the result of an op or an argument of the traced function", loc);
}

std::optional<size_t> Record::producerOf(uint32_t value) const {
  const auto next = std::upper_bound(ops.begin(), ops.end(), value,
                                     [](uint32_t wanted, const OpRecord &op) { return wanted < op.firstResult; });
  if (next == ops.begin())
    return std::nullopt;
  const OpRecord &op = *std::prev(next);
  if (value - op.firstResult >= op.results)
    return std::nullopt;
  return static_cast<size_t>(std::prev(next) - ops.begin());
}

bool Record::hasLiteral(size_t index) const {
  const size_t end = index + 1 < ops.size() ? ops[index + 1].literals : literals.size();
  return ops[index].literals < end;
}

Tracer &Tracer::current(Loc loc) {
  if (!recording)
    throw Error("an op outside of a traced function; ops only record, so they stand in what tcc::compile() calls", loc);
  return *recording;
}

uint32_t Tracer::valueOf(const Tensor &tensor, Loc loc) const {
  if (tensor.trace != id) {
    if (!tensor.defined())
      detail::refuseEmpty(loc);
    if (!inside.empty())
      throw Error(
          "the body of " + inside + " uses a tensor of outside; it is a function of its operands alone, add one", loc);
    if (std::find(bodyIds.begin(), bodyIds.end(), tensor.trace) != bodyIds.end())
      throw Error("a value of a body of `cond` or `repeat` is used outside of it; return the value", loc);
    throw Error(
        "a tensor of an earlier call is used; a Tensor lives only within the traced function that made it, a State "
        "lives longer",
        loc);
  }
  return tensor.value;
}

const ValueType &Tracer::typeOf(const Tensor &tensor, Loc loc) const {
  return body ? body->typeOf(tensor, loc) : rec.values[valueOf(tensor, loc)];
}

uint32_t Tracer::newId() {
  return bodyIds.emplace_back(++lastId);
}

Loc Tracer::placeOf(const Tensor &tensor) const {
  if (body && tensor.trace != id)
    return body->placeOf(tensor);
  const uint32_t value = valueOf(tensor, Loc());
  if (const std::optional<size_t> producer = rec.producerOf(value))
    return rec.ops[*producer].loc;
  for (const Record::Argument &argument : rec.arguments)
    if (argument.value == value)
      return argument.loc;
  return {};
}

bool Tracer::matches(const OpRecord &op, OpKind kind, std::span<const Tensor> operands,
                     std::span<const uint64_t> words) const {
  if (op.kind != kind || op.operandEnd - op.operands != operands.size() || op.wordEnd - op.words != words.size() ||
      op.firstResult != nextValue)
    return false;
  for (size_t i = 0; i < operands.size(); ++i)
    if (rec.operands[op.operands + i] != operands[i].value)
      return false;
  return std::equal(words.begin(), words.end(), rec.words.begin() + op.words);
}

uint32_t Tracer::firstResult(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc,
                             const std::shared_ptr<const BodiesRecord> &bodies) {
  for (const Tensor &operand : operands)
    valueOf(operand, loc);
  if (replaying && (position == rec.ops.size() || !matches(rec.ops[position], kind, operands, words)))
    diverge(tracedOp(kind).name, loc);
  if (!replaying)
    append(kind, operands, words, loc, bodies.get());
  rec.ops[position].loc = loc;
  rec.ops[position].bodies = bodies;
  rec.ops[position].scope = Scope::at(loc);
  const uint32_t first = nextValue;
  nextValue += rec.ops[position++].results;
  return first;
}

/// From here on the recording differs from the last one: drops what that one had beyond this point.
void Tracer::diverge(std::string_view what, Loc place) {
  if (complete && position < rec.ops.size())
    left = {what, tracedOp(rec.ops[position].kind).name, place, rec.ops[position].loc};
  else if (complete)
    left = {what, {}, place, {}};
  replaying = complete = false;
  rec.ops.resize(position);
  rec.operands.resize(position ? rec.ops.back().operandEnd : 0);
  rec.words.resize(position ? rec.ops.back().wordEnd : 0);
  rec.literals.resize(literal);
  rec.reads.resize(reading);
  rec.arguments.resize(argument);
  rec.values.resize(nextValue);
  indexArguments();
}

void Tracer::indexArguments() {
  names.clear();
  states.clear();
  for (size_t i = 0; i < rec.arguments.size(); ++i) {
    const Record::Argument &kept = rec.arguments[i];
    names.insert(kept.name);
    if (kept.state)
      states.add(kept.state.storage.get(), static_cast<uint32_t>(i));
  }
}

void Tracer::append(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc,
                    const BodiesRecord *bodies) {
  std::vector<ValueType> operandTypes;
  operandTypes.reserve(operands.size());
  for (const Tensor &operand : operands)
    operandTypes.push_back(rec.values[operand.value]);
  const std::vector<ValueType> results = bodies ? bodies->results : inferTypes(kind, operandTypes, words, loc);

  OpRecord op;
  op.kind = kind;
  op.results = static_cast<uint16_t>(results.size());
  op.operands = static_cast<uint32_t>(rec.operands.size());
  op.words = static_cast<uint32_t>(rec.words.size());
  op.literals = static_cast<uint32_t>(literal);
  op.firstResult = nextValue;
  if (!rec.ops.empty())
    op.hash = rec.ops.back().hash;
  for (const Tensor &operand : operands)
    rec.operands.push_back(operand.value);
  rec.words.insert(rec.words.end(), words.begin(), words.end());
  hashOp(op.hash, kind, std::span(rec.operands).subspan(op.operands), words);
  op.operandEnd = static_cast<uint32_t>(rec.operands.size());
  op.wordEnd = static_cast<uint32_t>(rec.words.size());
  rec.values.insert(rec.values.end(), results.begin(), results.end());
  rec.ops.push_back(op);
  ++recordedOps;
}

std::vector<Tensor> Tracer::ops(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words,
                                Loc loc) {
  if (body)
    return body->op(kind, operands, words, loc);
  const uint32_t first = firstResult(kind, operands, words, loc);
  std::vector<Tensor> results;
  for (uint32_t value = first; value < nextValue; ++value)
    results.push_back(Tensor(id, value));
  return results;
}

std::vector<Tensor> Tracer::control(OpKind kind, std::span<const Tensor> operands,
                                    const std::shared_ptr<const BodiesRecord> &bodies, Loc loc) {
  if (body)
    return body->op(kind, operands, bodies, loc);
  const uint32_t first = firstResult(kind, operands, bodies->words(), loc, bodies);
  std::vector<Tensor> results;
  for (uint32_t value = first; value < nextValue; ++value)
    results.push_back(Tensor(id, value));
  return results;
}

Tensor Tracer::splat(double value, const ValueType &type, Loc loc) {
  std::array<uint64_t, 3 + Shape::maxRank> words{0, static_cast<uint64_t>(type.dtype), type.shape.size()};
  std::copy(type.shape.begin(), type.shape.end(), words.begin() + 3);
  const Tensor result(id, firstResult(OpKind::constant, {}, std::span(words).first(3 + type.shape.size()), loc));
  if (replaying)
    rec.literals[literal] = {value, loc};
  else
    rec.literals.push_back({value, loc});
  ++literal;
  return result;
}

Tensor Tracer::use(const State &state, Loc loc) {
  return Tensor(id, rec.arguments[argumentOf(state, loc)].value);
}

/// The state's place among the arguments of the running recording, which has it from now on.
uint32_t Tracer::argumentOf(const State &state, Loc loc) {
  if (!state)
    throw Error("an empty state is used; give it a name and a shape first", loc);
  if (!inside.empty())
    throw Error("the body of " + inside + " uses state '" + state.name() +
                    "'; it is a function of its operands alone, add one",
                loc);
  const auto isNext = [&] { return argument < rec.arguments.size() && rec.arguments[argument].state == state; };
  if (!(replaying && isNext()))
    if (const uint32_t *known = states.find(state.storage.get()); known && *known < argument)
      return *known;
  if (replaying && !(isNext() && rec.arguments[argument].value == nextValue))
    diverge("a state", loc);
  if (!replaying) {
    const detail::StateStorage &storage = *state.storage;
    if (names.contains(storage.name))
      throw Error("two arguments or states are named '" + storage.name + "'; names are unique within a function", loc);
    rec.arguments.push_back({storage.name, {storage.dtype, storage.shape}, state, nextValue, loc});
    rec.values.push_back({storage.dtype, storage.shape});
    names.insert(storage.name);
    states.add(&storage, static_cast<uint32_t>(argument));
  }
  ++nextValue;
  return static_cast<uint32_t>(argument++);
}

void Tracer::assign(const State &state, const Tensor &value, Loc loc) {
  if (!inside.empty())
    throw Error("the body of " + inside + " assigns state '" + state.name() + "'; return the value", loc);
  if (body)
    throw Error("a state is assigned in a body of `" + std::string(body->name()) +
                    "`, which is not run while it is recorded; return the value, and assign it outside",
                loc);
  const uint32_t place = argumentOf(state, loc);
  const detail::StateStorage &storage = *state.storage;
  const ValueType &type = typeOf(value, loc);
  if (type.dtype != storage.dtype || !(type.shape == storage.shape))
    throw Error("state '" + storage.name + "' is " + ValueType{storage.dtype, storage.shape}.text() +
                    " and its next value " + type.text() + "; both need the same dtype and shape",
                loc);
  for (const Record::Update &update : updates)
    if (update.argument == place)
      throw Error("state '" + storage.name + "' is assigned twice in one step", loc);
  updates.push_back({place, value.value, loc});
}

Array Tracer::read(const Tensor &tensor, ReadKind kind, std::string_view name, Loc loc) {
  static constexpr const char *calls[] = {"item()", "toHost()", "print()", "a condition"};
  if (body)
    throw Error(std::string(calls[static_cast<size_t>(kind)]) + " in a body of `" + std::string(body->name()) +
                    "`, which is not run while it is recorded; return the value",
                loc);
  const uint32_t value = valueOf(tensor, loc);
  if (!inside.empty())
    throw Error("the body of " + inside + " asks for a value, and is computed in one piece; return the value", loc);
  HostRead read{value, kind, std::string(name), static_cast<uint32_t>(position), static_cast<uint32_t>(literal), loc};
  if (!answer)
    throw Error("a value is asked for where nothing runs; return it from the traced function", loc);
  if (replaying &&
      (reading == rec.reads.size() || rec.reads[reading].value != value || rec.reads[reading].kind != kind ||
       rec.reads[reading].name != name || rec.reads[reading].ops != read.ops))
    diverge("a question", loc);
  if (replaying)
    rec.reads[reading] = read;
  else
    rec.reads.push_back(read);
  ++reading;
  return answer(read);
}

void hashOp(runtime::RollingHash &hash, OpKind kind, std::span<const uint32_t> operands,
            std::span<const uint64_t> words) {
  hash.add(static_cast<uint64_t>(kind) | operands.size() << 16 | words.size() << 32);
  for (uint32_t operand : operands)
    hash.add(static_cast<uint64_t>(operand));
  for (uint64_t word : words)
    hash.add(word);
}

uint64_t recordHash(const Record &rec) {
  runtime::RollingHash hash = rec.ops.empty() ? runtime::RollingHash() : rec.ops.back().hash;
  hash.add(static_cast<uint64_t>(rec.arguments.size()));
  for (const Record::Argument &argument : rec.arguments) {
    hash.add(argument.name);
    hash.add(static_cast<uint64_t>(argument.value) << 1 | static_cast<bool>(argument.state));
    hashType(hash, argument.type);
  }
  for (uint32_t output : rec.outputs)
    hash.add(static_cast<uint64_t>(output));
  for (const Record::Update &update : rec.updates)
    hash.add(static_cast<uint64_t>(update.argument) << 32 | update.value);
  for (const HostRead &read : rec.reads)
    hash.add(static_cast<uint64_t>(read.ops) << 32 | read.value);
  hash.add(static_cast<uint64_t>(rec.asked) << 1 | rec.steady);
  return hash.value();
}

Recorded Tracer::recordBody(std::string what, const std::function<std::vector<Tensor>(std::span<const Tensor>)> &fn,
                            std::span<const ValueType> inputs) {
  struct Inside {
    Tracer *outer = std::exchange(recording, nullptr);
    ~Inside() { recording = outer; }
  } restore;
  inside = std::move(what);
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i)
    names.push_back("operand" + std::to_string(i));
  return record(fn, inputs, names);
}

Recorded Tracer::record(const std::function<std::vector<Tensor>(std::span<const Tensor>)> &fn,
                        std::span<const ValueType> inputs, std::span<const std::string> inputNames, HostAnswer answer) {
  if (recording)
    throw Error("a compiled function is called while another one is being traced; call plain C++ functions there");
  struct Scope {
    explicit Scope(Tracer *tracer) { recording = tracer; }
    ~Scope() { recording = nullptr; }
  } scope(this);

  // 1. Start over: a replay if the inputs are those of the last record.
  id = ++lastId;
  this->answer = std::move(answer);
  position = literal = reading = 0;
  updates.clear();
  handles.clear();
  bodyIds.clear();
  left.reset();
  replaying = rec.inputs == inputs.size();
  for (size_t i = 0; replaying && i < inputs.size(); ++i)
    replaying = rec.arguments[i].type == inputs[i] && rec.arguments[i].name == inputNames[i];
  argument = nextValue = 0;
  if (!replaying) {
    complete = false;
    diverge({}, {});
    for (size_t i = 0; i < inputs.size(); ++i) {
      rec.arguments.push_back({inputNames[i], inputs[i], {}, static_cast<uint32_t>(i), {}});
      rec.values.push_back(inputs[i]);
    }
    rec.inputs = inputs.size();
    indexArguments();
  }
  argument = nextValue = static_cast<uint32_t>(inputs.size());

  // 2. Run the user's function.
  std::vector<Tensor> arguments;
  for (uint32_t i = 0; i < inputs.size(); ++i)
    arguments.push_back(Tensor(id, i));
  const std::vector<Tensor> results = fn(arguments);
  if (replaying && (position != rec.ops.size() || argument != rec.arguments.size() || reading != rec.reads.size()))
    diverge({}, {});

  // 3. Compare or store how it ended.
  const bool sameEnd =
      replaying && complete && results.size() == rec.outputs.size() && updates.size() == rec.updates.size() &&
      std::equal(results.begin(), results.end(), rec.outputs.begin(),
                 [&](const Tensor &a, uint32_t b) { return valueOf(a, Loc()) == b; }) &&
      std::equal(updates.begin(), updates.end(), rec.updates.begin(),
                 [](const auto &a, const auto &b) { return a.argument == b.argument && a.value == b.value; });
  if (!sameEnd) {
    rec.outputs.clear();
    for (const Tensor &result : results) {
      if (result.trace != id) {
        if (std::find(bodyIds.begin(), bodyIds.end(), result.trace) != bodyIds.end())
          throw Error("the traced function returns a value of a body of `cond` or `repeat`; return it from the body");
        throw Error("the traced function returns a tensor that is empty or of an earlier call");
      }
      rec.outputs.push_back(result.value);
    }
    rec.updates = updates;
    lastHash = recordHash(rec);
    complete = true;
  }
  return {&rec, lastHash, sameEnd};
}

} // namespace tcc
