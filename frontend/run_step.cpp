#include "frontend/run_step.h"
#include "frontend/storage.h"

namespace tcc {

using runtime::ConstTensorRef;
using runtime::Expected;
using runtime::TensorRef;

Expected<std::vector<Array>> runStepInPlace(runtime::Executable &executable, std::span<const State> states,
                                            std::span<const ConstTensorRef> inputs, runtime::Profiler *profiler) {
  std::vector<Array> results;
  std::vector<TensorRef> outputs, stateRefs;
  for (const runtime::TensorSpec &spec : executable.plan().outputs) {
    results.push_back(Array::uninitialized(Shape(spec.shape), spec.dtype));
    outputs.push_back({results.back().raw(), results.back().bytes()});
  }
  for (const State &state : states)
    stateRefs.push_back({state.raw(), state.bytes()});
  if (runtime::Error error = executable.run(inputs, outputs, stateRefs, profiler))
    return error;
  return results;
}

Expected<std::optional<std::vector<Array>>> startStepPart(runtime::Executable &executable,
                                                          std::span<const State> states,
                                                          std::span<const ConstTensorRef> inputs, StepPartWish wish,
                                                          runtime::Profiler *profiler, bool checked) {
  const std::shared_ptr<runtime::Device> &device = executable.device();
  std::vector<TensorRef> places;
  for (const State &state : states) {
    Expected<char *> address = detail::memoryOf(state).onDevice(device);
    if (!address)
      return runtime::Error("state '" + state.name() + "': " + address.error().message());
    places.push_back({*address, state.bytes()});
  }
  auto outputs = executable.startPart(inputs, places, wish.step, wish.end, wish.count, profiler);
  if (outputs && !*outputs)
    return std::optional<std::vector<Array>>();
  if (!outputs && device->isClosed())
    return outputs.error();
  if (wish.end == executable.plan().instructions.size()) // a step waits in front of what writes states
    for (const State &state : states)
      detail::memoryOf(state).deviceWrote(checked);
  if (!outputs)
    return outputs.error();
  std::vector<Array> results;
  for (const runtime::TensorSpec &spec : std::span(executable.plan().outputs).first(wish.count))
    results.push_back(detail::arrayOf(Shape(spec.shape), spec.dtype,
                                      runtime::MirroredTensor(*outputs, results.size(), spec.bytes())));
  return std::optional(std::move(results));
}

Expected<std::vector<Array>> runStep(runtime::Executable &executable, std::span<const State> states,
                                     std::span<const Array> inputs) {
  std::vector<ConstTensorRef> refs;
  for (const Array &input : inputs)
    refs.emplace_back(input.rawForReading(), input.bytes());
  if (executable.device()->sharesHostMemory())
    return runStepInPlace(executable, states, refs, nullptr);
  runtime::PartialStep whole;
  const runtime::Plan &plan = executable.plan();
  auto results = startStepPart(executable, states, refs, {whole, plan.instructions.size(), plan.outputs.size()},
                               nullptr, /*checked=*/false);
  if (!results)
    return results.error();
  return std::move(**results);
}

} // namespace tcc
