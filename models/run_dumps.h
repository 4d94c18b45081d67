// Files about its first step that a run writes, for comparison with other programs.
#pragma once
#include "frontend/compile.h"
#include "models/model.h"

#include <optional>
#include <string>

namespace tcc::models {

/// Writes the training step for these arguments as .graph text. Throws Error where the file cannot be written.
void writeStepGraph(const std::string &path, Function &step, std::span<const Array> arguments);

/// One batch, and what is dropped out for it: nothing without a seed.
struct DumpedBatch {
  Array tokens, targets; ///< i32 [B, T]
  DropoutRates rates = {};
  std::optional<Array> seed = {}; ///< i32 scalar, as the training step has it
};

/// Writes the loss's gradients of one batch, unclipped, as a safetensors file, by a function that ends before training
/// begins. `function` holds device, level and passes. Throws Error where the file cannot be written.
void dumpGradients(const std::string &path, const Model &model, const DumpedBatch &batch, FunctionOptions function);

} // namespace tcc::models
