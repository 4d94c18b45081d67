// optionalPasses: the passes that run under given options although code could be made without them.
#pragma once
#include "passes/pipeline.h"

namespace tcc {

/// These passes in the order of the pipeline's table. `-fno-<name>` switches each of them off.
std::vector<const PassInfo *> optionalPasses(const PipelineOptions &options);

} // namespace tcc
