// -###: what would be done, as command lines that do it.
#pragma once
#include "frontend/driver/options.h"

namespace tcc::driver {

/// One line an input: every choice spelled out, each word quoted as a shell takes it. Nothing is opened.
void showSteps(llvm::raw_ostream &os, const Options &options);

} // namespace tcc::driver
