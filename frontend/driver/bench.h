// --bench: measures runs, and shows how many items they worked on and how each kernel compares with the machine's
// limits.
#pragma once
#include "frontend/driver/stage.h"

namespace tcc::driver {

inline constexpr size_t profileRows = 12; // rows of the table of kernels

/// The items that a run works on: the tokens of its first input if they select rows of a table, else that input's rows.
struct RunItems {
  int64_t count = 0;
  const char *unit = "rows"; ///< or "tokens"
  std::string of;            ///< the input's name; empty: no input has rows
};

RunItems itemsOf(const runtime::Plan &plan, const RunValues &values);

/// The arithmetic of a step. What stands in a loop counts once for each turn.
double flopsOf(const runtime::Plan &plan);

/// The value in the middle, or the mean of the two there.
double medianOf(std::vector<double> values);

/// Times options.benchRuns runs, prints what they took, and writes it as JSON where --json= asks for that. Throws
/// Error.
void bench(Stage &stage, runtime::Executable &executable, const Options &options, const RunValues &values,
           runtime::Profiler &profiler);

} // namespace tcc::driver
