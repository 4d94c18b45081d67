// cond, repeat and lanes: bodies are recorded, what they capture becomes the op's inputs.
#include "frontend/control.h"
#include "frontend/body_trace.h"
#include "ir/lanes.h"
#include "runtime/plan.h"

namespace tcc {
namespace {

std::vector<ValueType> typesOf(const Tracer &tracer, std::span<const Tensor> tensors, Loc loc) {
  std::vector<ValueType> types;
  for (const Tensor &tensor : tensors)
    types.push_back(tracer.typeOf(tensor, loc));
  return types;
}

/// The bodies' captures as one list of inputs, which each names by its numbers there.
void joinCaptures(BodyRecord &body, const Tensors &captured, Tensors &inputs) {
  for (Captured &each : body.captures) {
    const Tensor &tensor = captured[each.input];
    size_t place = 0;
    while (place < inputs.size() && Tracer::handleOf(inputs[place]) != Tracer::handleOf(tensor))
      ++place;
    if (place == inputs.size())
      inputs.push_back(tensor);
    each.input = static_cast<uint32_t>(place);
  }
}

/// The types of what a turn sees of scanned values, each of which has `count` parts.
void addPartTypes(const Tracer &tracer, const std::string &op, int64_t count, std::span<const Tensor> scanned,
                  std::vector<ValueType> &types, Loc loc) {
  for (const ValueType &type : typesOf(tracer, scanned, loc)) {
    if (type.shape.empty() || type.shape[0] != count)
      throw Error("`" + op + "` scans " + type.text() + "; its first size must be the count " + std::to_string(count) +
                      " (" + op + "_c2)",
                  loc);
    types.push_back({type.dtype, Shape(std::span<const int64_t>(type.shape.begin() + 1, type.shape.end()))});
  }
}

/// One i1 of rank 0.
Tensor checkedPredicate(Tracer &tracer, const Tensor &predicate, Loc loc) {
  const ValueType type = tracer.typeOf(predicate, loc);
  if (type.dtype != DType::i1 || type.shape.elements() != 1)
    throw Error("`cond` predicate is " + type.text() + "; it must be one i1, as comparisons of scalars give", loc);
  return type.shape.empty() ? predicate : reshape(predicate, {}, loc);
}

} // namespace

Tensors detail::recordCond(const Tensor &given, const std::function<Tensors()> &then,
                           const std::function<Tensors()> &otherwise, Loc loc) {
  Tracer &tracer = Tracer::current(loc);
  const Tensor predicate = checkedPredicate(tracer, given, loc);
  auto bodies = std::make_shared<BodiesRecord>();
  Tensors inputs;
  std::vector<ValueType> types[2];
  for (const auto *callable : {&then, &otherwise}) {
    BodyTrace trace(tracer, "cond", {});
    const Tensors results = (*callable)();
    types[bodies->list.size()] = typesOf(tracer, results, loc);
    trace.give(results, loc);
    joinCaptures(trace.body, trace.captured, inputs);
    bodies->list.push_back(std::move(trace.body));
  }
  if (types[0].size() != types[1].size())
    throw Error("`cond` bodies give " + std::to_string(types[0].size()) + " and " + std::to_string(types[1].size()) +
                    " values; both give as many (cond_c2)",
                loc);
  for (size_t i = 0; i < types[0].size(); ++i)
    if (!(types[0][i] == types[1][i]))
      throw Error("`cond` bodies give " + types[0][i].text() + " and " + types[1][i].text() + " for value " +
                      std::to_string(i) + "; both give the same dtypes and shapes (cond_c2)",
                  loc);
  bodies->results = types[0];
  bodies->inputs = static_cast<uint32_t>(inputs.size());
  Tensors operands{predicate};
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  return tracer.control(OpKind::cond, operands, bodies, loc);
}

Tensors detail::recordRepeat(int64_t count, std::span<const Tensor> start, std::span<const Tensor> scanned,
                             const std::function<Tensors(const Tensors &, const Tensors &)> &body, Loc loc) {
  Tracer &tracer = Tracer::current(loc);
  if (count < 1 || count > runtime::maxTurns)
    throw Error("`repeat` count is " + std::to_string(count) + "; it must be 1 or more (repeat_c1)", loc);
  auto bodies = std::make_shared<BodiesRecord>();
  bodies->results = typesOf(tracer, start, loc);
  bodies->count = count;
  bodies->carried = static_cast<uint32_t>(start.size());
  bodies->scanned = static_cast<uint32_t>(scanned.size());
  std::vector<ValueType> arguments = bodies->results;
  addPartTypes(tracer, "repeat", count, scanned, arguments, loc);

  Tensors operands(start.begin(), start.end());
  operands.insert(operands.end(), scanned.begin(), scanned.end());
  Tensors inputs;
  {
    BodyTrace trace(tracer, "repeat", arguments);
    const Tensors own = trace.arguments();
    const auto middle = own.begin() + static_cast<std::ptrdiff_t>(start.size());
    const Tensors results = body(Tensors(own.begin(), middle), Tensors(middle, own.end()));
    const std::vector<ValueType> types = typesOf(tracer, results, loc);
    if (types.size() != start.size())
      throw Error("`repeat` body gives " + std::to_string(types.size()) + " values for " +
                      std::to_string(start.size()) + " that are carried; it gives as many (repeat_c4)",
                  loc);
    for (size_t i = 0; i < types.size(); ++i)
      if (!(types[i] == bodies->results[i]))
        throw Error("`repeat` body gives " + types[i].text() + " for value " + std::to_string(i) +
                        ", which starts as " + bodies->results[i].text() +
                        "; a carried value keeps dtype and shape (repeat_c4)",
                    loc);
    trace.give(results, loc);
    joinCaptures(trace.body, trace.captured, inputs);
    bodies->list.push_back(std::move(trace.body));
  }
  bodies->inputs = static_cast<uint32_t>(inputs.size());
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  return tracer.control(OpKind::repeat, operands, bodies, loc);
}

Tensors detail::recordLanes(int64_t count, std::span<const Tensor> scanned,
                            const std::function<Tensors(const Tensors &)> &body, Loc loc) {
  Tracer &tracer = Tracer::current(loc);
  if (count < 1 || count > mostLanes)
    throw Error("`lanes` count is " + std::to_string(count) + "; it must be 1 to " + std::to_string(mostLanes) +
                    " (lanes_c1)",
                loc);
  auto bodies = std::make_shared<BodiesRecord>();
  bodies->count = count;
  bodies->scanned = static_cast<uint32_t>(scanned.size());
  std::vector<ValueType> arguments;
  addPartTypes(tracer, "lanes", count, scanned, arguments, loc);
  Tensors operands(scanned.begin(), scanned.end());
  Tensors inputs;
  {
    BodyTrace trace(tracer, "lanes", arguments);
    const Tensors results = body(trace.arguments());
    bodies->results = typesOf(tracer, results, loc);
    for (const ValueType &type : bodies->results)
      if (type.dtype != DType::f32)
        throw Error("`lanes` body gives " + type.text() + "; what lanes add up is f32 (lanes_c4)", loc);
    trace.give(results, loc);
    joinCaptures(trace.body, trace.captured, inputs);
    bodies->list.push_back(std::move(trace.body));
  }
  bodies->inputs = static_cast<uint32_t>(inputs.size());
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  return tracer.control(OpKind::lanes, operands, bodies, loc);
}

} // namespace tcc
