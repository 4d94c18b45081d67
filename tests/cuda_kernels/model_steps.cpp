#include "tests/cuda_kernels/model_steps.h"
#include "tests/models/training_step.h"
#include "tests/ops/op_table.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {

OwningOpRef<ModuleOp> modelStep(MLIRContext &context, const models::ModelConfig &config, int64_t batch, int64_t time) {
  models::Model model(config);
  optim::Adamw optimizer(model.trained(), {.weightDecay = 0.1, .clip = 1.0});
  FunctionOptions options;
  options.inputs = {"tokens", "targets", "lr", "step"};
  Function step = compiledTrainingStep(model, optimizer, options);
  Array tokens = Array::of(std::vector<int32_t>(static_cast<size_t>(batch * time)), {batch, time});
  std::vector<Array> arguments = {tokens, tokens, Array(0.001f), Array(1.0f)};
  std::string text = step.graph(arguments), messages;
  OwningOpRef<ModuleOp> module = parseText(context, text, messages);
  EXPECT_TRUE(module) << messages;
  return module;
}

models::ModelConfig presetOf(const char *name, int64_t mostLayers, int64_t mostTokens) {
  models::ModelConfig config = *models::modelPreset(name);
  std::visit(
      [&](auto &sizes) {
        sizes.layers = std::min(sizes.layers, mostLayers);
        sizes.vocab = std::min(sizes.vocab, mostTokens);
      },
      config.kind);
  return config;
}

} // namespace tcc::test
