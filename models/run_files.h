// Which files a run of train_gpt reads and writes.
#pragma once
#include "models/options.h"

namespace tcc::models {

/// Throws Error where an output of the run is a file that it reads or another output, where an output that is
/// written at the run's end could not be, and where there is nothing to resume from. Files that it makes to find this
/// out are removed again.
void checkRunFiles(const TrainOptions &options);
/// The same for what --compile-only writes: the library, its header, the states.
void checkExportFiles(const TrainOptions &options);

} // namespace tcc::models
