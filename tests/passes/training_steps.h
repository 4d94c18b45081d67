// Small training steps as text: what the pipeline's and the kernel form's tests compile.
#pragma once
#include <string>
#include <vector>

namespace tcc::test {

struct TrainingStep {
  std::string name;
  std::string text; // a module with one function @main, static shapes
};

/// layer_norm, mlp, attention, cross_entropy, rotary and gpt: each a forward pass, a loss and its gradients; gpt has a
/// tied embedding, positions, gradient clipping and AdamW over its states.
const std::vector<TrainingStep> &trainingSteps();

/// The step of this name.
const TrainingStep &trainingStep(const std::string &name);

} // namespace tcc::test
