// train_gpt --compile-only: the training step as a library for programs without a compiler.
#pragma once
#include "models/options.h"

namespace tcc::models {

/// Compiles the step that a run with these options trains by and writes it to options.compileOnly, with its C header
/// beside it, and the states that training begins with to options.initialStates, if that is given. Says on stderr
/// (unless quiet) what was written. Throws Error for bad folders and sizes, where the step cannot be compiled, and for
/// files that cannot be written.
void exportStep(const TrainOptions &options);

} // namespace tcc::models
