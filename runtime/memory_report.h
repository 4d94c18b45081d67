// What the planned peak of a step's memory consists of, by value, layer and source line. -fmemory-report, -emit=memory
// and the page of --report show it. It needs the plan alone, so the step need not have run, and may come from the cache
// or from a file.
#pragma once
#include "runtime/memory_parts.h"
#include "runtime/plan.h"
#include <string>
#include <vector>

namespace tcc::runtime {

/// The bytes at the peak that belong to one layer, one source line or one value.
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
  std::vector<LiveValue> arena; ///< every value of the arena, also those that do not live at the peak

  /// Several lines: the memory outside the arena, and what the arena holds at its fullest instruction.
  std::string text() const;
  /// {"version": 1, "function", "planned_bytes", "parts": [{"what", "bytes"}], "fullest": {"instruction", "label",
  /// "source"}, "by_layer": [{"key", "bytes", "count", "note"}], "by_line", "by_value", "arena": [{"kind", "offset",
  /// "bytes", "first", "last", "label", "source"}]}. It has every row; the text has only the largest ones.
  std::string json() const;
};

PeakReport memoryReport(const Plan &plan);

/// The source lines with most bytes at the peak, at most `most` of them, and the largest states. Each has a line such
/// as "206.0 MB model.cpp:88 `loss.cross_entropy+…`".
std::string largestLines(const Plan &plan, size_t most);

} // namespace tcc::runtime
