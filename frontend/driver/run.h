// The command line as a function; no MLIR.
#pragma once

namespace tcc::driver {

/// Runs tcc with `count` arguments, the first of which is the program's name; the answer is the exit status.
int run(int count, const char *const *arguments);

} // namespace tcc::driver
