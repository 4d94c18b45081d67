#include "models/run_dumps.h"
#include "frontend/files.h"
#include "frontend/safetensors.h"

namespace tcc::models {

void writeStepGraph(const std::string &path, Function &step, std::span<const Array> arguments) {
  AtomicFile file(path);
  file.write(step.graph(arguments));
  file.commit();
}

void dumpGradients(const std::string &path, const Model &model, const DumpedBatch &batch, FunctionOptions function) {
  function.inputs = {"tokens", "targets"};
  function.outputs.clear();
  for (const Parameter &parameter : model.trained())
    function.outputs.push_back(parameter.name());
  const std::vector<std::string> names = function.outputs;
  std::vector<Array> values;
  if (batch.seed) {
    function.inputs.emplace_back("seed");
    Function gradients = compile(
        "gradients",
        [&](Tensor tokens, Tensor targets, Tensor seed) {
          return modelGradients(model, tokens, targets, {.rates = batch.rates, .seed = seed});
        },
        std::move(function));
    values = gradients(batch.tokens, batch.targets, *batch.seed);
  } else {
    Function gradients = compile(
        "gradients", [&](Tensor tokens, Tensor targets) { return modelGradients(model, tokens, targets); },
        std::move(function));
    values = gradients(batch.tokens, batch.targets);
  }
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < names.size(); ++i)
    tensors.push_back({names[i], {values[i].shape().begin(), values[i].shape().end()}, values[i].read<float>()});
  writeTensors(path, tensors);
}

} // namespace tcc::models
