// Recording of bodies. Types of ops are inferred by the dialect once for each combination of operands and attributes:
// a body is recorded at every call.
#include "frontend/body_trace.h"
#include "frontend/capture.h"
#include "frontend/scope.h"
#include <bit>
#include <unordered_map>

namespace tcc {
namespace {

void append(std::string &key, uint64_t word) {
  key.append(reinterpret_cast<const char *>(&word), sizeof word);
}

const std::vector<ValueType> &resultTypes(OpKind kind, std::span<const ValueType> operands,
                                          std::span<const uint64_t> words, Loc loc) {
  constexpr size_t mostKnown = 1 << 14;
  thread_local std::unordered_map<std::string, std::vector<ValueType>> known;
  std::string key;
  append(key, static_cast<uint64_t>(kind) | operands.size() << 16);
  for (const ValueType &type : operands) {
    append(key, static_cast<uint64_t>(type.dtype) | type.shape.size() << 8);
    for (int64_t size : type.shape)
      append(key, static_cast<uint64_t>(size));
  }
  for (uint64_t word : words)
    append(key, word);
  const auto found = known.find(key);
  if (found != known.end())
    return found->second;
  std::vector<ValueType> types = inferTypes(kind, operands, words, loc);
  if (known.size() >= mostKnown)
    known.clear();
  return known[key] = std::move(types);
}

} // namespace

std::vector<uint64_t> BodiesRecord::words() const {
  std::vector<uint64_t> words{static_cast<uint64_t>(count), carried, scanned, inputs, list.size()};
  const auto add = [&](const auto &numbers) {
    words.push_back(numbers.size());
    words.insert(words.end(), numbers.begin(), numbers.end());
  };
  for (const BodyRecord &body : list) {
    words.push_back(body.ops.size());
    for (const BodyOp &op : body.ops) {
      words.push_back(static_cast<uint64_t>(op.kind) | uint64_t{op.results} << 16);
      add(op.operands);
      add(op.words);
    }
    add(body.results);
    words.push_back(body.captures.size());
    for (const Captured &each : body.captures)
      words.push_back(uint64_t{each.input} << 32 | each.value);
  }
  return words;
}

BodyTrace::BodyTrace(Tracer &tracer, std::string_view what, std::span<const ValueType> arguments)
    : tracer(tracer), outer(tracer.body), what(what), id(tracer.newId()),
      ownArguments(static_cast<uint32_t>(arguments.size())) {
  body.values.assign(arguments.begin(), arguments.end());
  tracer.body = this;
}

BodyTrace::~BodyTrace() {
  tracer.body = outer;
}

std::vector<Tensor> BodyTrace::arguments() const {
  std::vector<Tensor> list;
  for (uint32_t i = 0; i < ownArguments; ++i)
    list.push_back(Tracer::handle(id, i));
  return list;
}

const ValueType &BodyTrace::typeOf(const Tensor &tensor, Loc loc) const {
  const auto [trace, value] = Tracer::handleOf(tensor);
  if (trace == id)
    return body.values[value];
  return outer ? outer->typeOf(tensor, loc) : tracer.rec.values[tracer.valueOf(tensor, loc)];
}

Loc BodyTrace::placeOf(const Tensor &tensor) const {
  const auto [trace, value] = Tracer::handleOf(tensor);
  if (trace == id)
    for (const BodyOp &op : body.ops)
      if (value >= op.firstResult && value < op.firstResult + op.results)
        return op.loc;
  return {};
}

uint32_t BodyTrace::numberOf(const Tensor &tensor, Loc loc) {
  const auto [trace, value] = Tracer::handleOf(tensor);
  if (trace == id)
    return value;
  const ValueType type = typeOf(tensor, loc); // fails for a tensor of nowhere
  for (size_t i = 0; i < captured.size(); ++i)
    if (Tracer::handleOf(captured[i]) == Tracer::handleOf(tensor))
      return body.captures[i].value;
  const auto number = static_cast<uint32_t>(body.values.size());
  body.captures.push_back({static_cast<uint32_t>(captured.size()), number});
  body.values.push_back(type);
  captured.push_back(tensor);
  return number;
}

std::vector<Tensor> BodyTrace::append(BodyOp op, std::span<const Tensor> operands, std::span<const ValueType> results,
                                      Loc loc) {
  for (const Tensor &operand : operands)
    op.operands.push_back(numberOf(operand, loc));
  op.firstResult = static_cast<uint32_t>(body.values.size());
  op.results = static_cast<uint32_t>(results.size());
  op.loc = loc;
  op.scope = Scope::at(loc);
  std::vector<Tensor> made;
  for (const ValueType &type : results) {
    made.push_back(Tracer::handle(id, static_cast<uint32_t>(body.values.size())));
    body.values.push_back(type);
  }
  body.ops.push_back(std::move(op));
  return made;
}

std::vector<Tensor> BodyTrace::op(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words,
                                  Loc loc) {
  std::vector<ValueType> types;
  for (const Tensor &operand : operands)
    types.push_back(typeOf(operand, loc));
  BodyOp op;
  op.kind = kind;
  op.words.assign(words.begin(), words.end());
  return append(std::move(op), operands, resultTypes(kind, types, words, loc), loc);
}

std::vector<Tensor> BodyTrace::op(OpKind kind, std::span<const Tensor> operands,
                                  const std::shared_ptr<const BodiesRecord> &bodies, Loc loc) {
  BodyOp op;
  op.kind = kind;
  op.words = bodies->words();
  op.bodies = bodies;
  return append(std::move(op), operands, bodies->results, loc);
}

void BodyTrace::give(std::span<const Tensor> results, Loc loc) {
  for (const Tensor &result : results)
    body.results.push_back(numberOf(result, loc));
}

} // namespace tcc
