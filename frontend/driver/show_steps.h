// -###: shows what would be done, as command lines that do it.
#pragma once
#include "frontend/driver/options.h"

namespace tcc::driver {

/// Prints a line for each input, with every choice spelled out and each word quoted for a shell. Nothing is opened.
void showSteps(llvm::raw_ostream &os, const Options &options);

} // namespace tcc::driver
