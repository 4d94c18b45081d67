// -fmemory-report, -emit=memory and the page of --report: where the planned peak of a step's memory goes, by value,
// layer and source line. From the plan alone: of a step that has not run, and of one from the cache or from a file.
#pragma once
#include "runtime/memory_parts.h"
#include "runtime/plan.h"
#include <string>
#include <vector>

namespace tcc::runtime {

/// Bytes at the peak that have something in common: a layer, a source line, or the value itself.
struct MemoryRow {
  std::string key, note;
  int64_t bytes = 0;
  int64_t count = 0; ///< values
};

struct PeakReport {
  struct Part {
    std::string what; ///< "states", "arena: scratch"
    int64_t bytes = 0;
  };
  std::string function;
  std::vector<Part> parts; ///< whose sum is plannedBytes; none is 0
  int64_t plannedBytes = 0, arenaBytes = 0;
  std::vector<MemoryRow> layers, lines, values; ///< most bytes first; `lines` is of the arena alone
  size_t fullest = 0;                           ///< the instruction at which most of the arena is used
  struct Place {
    std::string label, source; ///< the source's "FILE:LINE", or empty
  };
  std::vector<Place> instructions;
  std::vector<LiveValue> arena; ///< every value of it, in and out of the peak

  /// Several lines: memory outside the arena, and the arena at its fullest instruction.
  std::string text() const;
  /// {"version": 1, "function", "planned_bytes", "parts": [{"what", "bytes"}], "fullest": {"instruction", "label",
  /// "source"}, "by_layer": [{"key", "bytes", "count", "note"}], "by_line", "by_value", "arena": [{"kind", "offset",
  /// "bytes", "first", "last", "label", "source"}]}: every row, where the text has the largest.
  std::string json() const;
};

PeakReport memoryReport(const Plan &plan);

/// "206.0 MB model.cpp:88 `loss.cross_entropy+…`", a line each: the source lines with most bytes at the peak, at most
/// `most` of them, and the largest states.
std::string largestLines(const Plan &plan, size_t most);

} // namespace tcc::runtime
