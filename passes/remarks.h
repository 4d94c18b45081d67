// What passes tell the user about their work, at the line that it concerns: what was done, what was left and why, and
// figures. A pass adds to the list of PipelineOptions::remarks, which is null where nobody asks.
#pragma once
#include "mlir/IR/Location.h"
#include <cstdint>
#include <string>
#include <vector>

namespace tcc {

struct Remark {
  enum class Kind { passed, missed, analysis };
  Kind kind;
  std::string pass;   // its name in the pipeline's table
  mlir::Location loc; // lives as long as the module's context
  std::string text;   // one line: lower case, no full stop
  int64_t bytes = 0;  // how much of a step's memory traffic the remark is about; 0: it is not about traffic
  int64_t count = 1;  // how many equal remarks this one stands for
};

using Remarks = std::vector<Remark>;

} // namespace tcc
