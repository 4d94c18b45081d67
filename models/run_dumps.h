// Files about its first step that a run writes, for comparison with other programs.
#pragma once
#include "frontend/compile.h"
#include "models/model.h"

#include <span>
#include <string>

namespace tcc::models {

/// Writes the training step for these arguments as .graph text. Throws Error where the file cannot be written.
void writeStepGraph(const std::string &path, Function &step, std::span<const Array> arguments);

/// Writes the loss's gradients of one batch, unclipped, as a safetensors file, by a function that ends before training
/// begins. `inputs` are tokens, targets and, where `rates` drop something out, the seed of the step. `function` holds
/// device, level and passes. Throws Error where the file cannot be written.
void dumpGradients(const std::string &path, const Model &model, const DropoutRates &rates,
                   std::span<const Array> inputs, FunctionOptions function);

} // namespace tcc::models
