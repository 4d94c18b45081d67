// Which passes of the pipeline's table run under given options although code could be made without them.
#pragma once
#include "passes/pipeline.h"

namespace tcc {

/// In the table's order. `-fno-<name>` switches each of them off.
std::vector<const PassInfo *> optionalPasses(const PipelineOptions &options);

} // namespace tcc
