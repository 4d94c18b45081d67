#include "models/run_dumps.h"
#include "frontend/files.h"
#include "frontend/safetensors.h"

namespace tcc::models {

void writeStepGraph(const std::string &path, Function &step, std::span<const Array> arguments) {
  AtomicFile file(path);
  file.write(step.graph(arguments));
  file.commit();
}

void dumpGradients(const std::string &path, const Model &model, const DropoutRates &rates,
                   std::span<const Array> inputs, FunctionOptions function) {
  function.inputs = {"tokens", "targets"};
  if (rates.any())
    function.inputs.emplace_back("seed");
  function.outputs.clear();
  for (const Parameter &parameter : model.trained())
    function.outputs.push_back(parameter.name());
  const std::vector<std::string> names = function.outputs;
  Function gradients = compile(
      "gradients",
      [&](std::span<const Tensor> in) {
        return modelGradients(model, in[0], in[1], {rates, in.size() > 2 ? in[2] : Tensor()});
      },
      std::move(function));
  const std::vector<Array> values = gradients.call(inputs);
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < names.size(); ++i)
    tensors.push_back({names[i], {values[i].shape().begin(), values[i].shape().end()}, values[i].read<float>()});
  writeTensors(path, tensors);
}

} // namespace tcc::models
