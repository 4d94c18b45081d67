// -fmemory-report: where the planned peak of a step's memory goes, in words, by value, layer and source line. From the
// plan alone: of a step that has not run, and of one from the cache or from a file.
#pragma once
#include "runtime/plan.h"
#include <string>

namespace tcc::runtime {

/// The report, several lines: memory outside the arena, and the arena at its fullest instruction.
std::string memoryReport(const Plan &plan);

/// "206.0 MB model.cpp:88 `loss.cross_entropy+…`", a line each: the source lines with most bytes at the peak, at most
/// `most` of them, and the largest states.
std::string largestLines(const Plan &plan, size_t most);

} // namespace tcc::runtime
