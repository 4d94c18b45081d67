// What command lines may say of passes: those that run under given options although code could be made without them,
// and those that may be dumped.
#pragma once
#include "passes/pipeline.h"

namespace tcc {

/// These passes in the order of the pipeline's table. `-fno-<name>` switches each of them off.
std::vector<const PassInfo *> optionalPasses(const PipelineOptions &options);

/// What is wrong with a word of -fdump-ir=; empty if nothing is.
std::string unknownDump(llvm::StringRef dump);

} // namespace tcc
