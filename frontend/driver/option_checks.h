// Which options of a command line contradict each other.
#pragma once
#include "frontend/driver/options.h"

namespace tcc::driver {

/// Throws Error for the first contradiction.
void checkTogether(const Options &options);

} // namespace tcc::driver
