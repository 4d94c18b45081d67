#include "runtime/instructions/custom.h"

namespace tcc::runtime {

static std::string problemOf(const CustomTensor &tensor, const PlanLists &plan) {
  const TensorSpec spec{"", tensor.dtype, tensor.shape};
  const int64_t bytes = plan.buffers[tensor.buffer].bytes;
  if (static_cast<size_t>(tensor.dtype) >= dtypeTable.size() || tensor.shape.size() > static_cast<size_t>(maxRank) ||
      checkedElements(spec) < 0 || spec.bytes() != bytes)
    return "a custom op's tensor is not all of buffer " + std::to_string(tensor.buffer) + ", which has " +
           std::to_string(bytes) + " bytes";
  return {};
}

std::string CustomCall::validate(const PlanLists &plan) const {
  if (name.empty())
    return "a custom op has no name";
  if (host < 0 || (host == 0) == library.empty() || library.empty() != symbol.empty())
    return "custom op `" + name + "` names no function; it has a library and a symbol, or is of this process";
  if (!library.empty() && library.front() != '/' && !isProvided(library))
    return "custom op `" + name + "` names the library '" + library + "'; an absolute path is expected";
  for (const auto *tensors : {&inputs, &outputs})
    for (const CustomTensor &tensor : *tensors)
      if (std::string problem = problemOf(tensor, plan); !problem.empty())
        return problem;
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const CustomTensor &tensor : inputs)
      if (plan.overlap(outputs[i].buffer, tensor.buffer))
        return "a result of custom op `" + name + "` overlaps an operand";
    for (size_t j = 0; j < i; ++j)
      if (plan.overlap(outputs[i].buffer, outputs[j].buffer))
        return "two results of custom op `" + name + "` overlap";
  }
  return {};
}

} // namespace tcc::runtime
