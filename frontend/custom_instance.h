// CustomInstance: a custom op with operands of certain types. A number in a record stands for one. Instances are kept
// as long as the process runs, and equal ones have one number, so that a later call replays and finds its code.
#pragma once
#include "frontend/trace.h"
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tcc {

struct CustomInstance {
  std::string name;
  std::vector<ValueType> operands, results;
  std::optional<Record> body, gradient;
  std::string library, symbol;
  std::string kernelText, kernelName;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  int64_t sharedBytes = 0;
  std::vector<int64_t> kernelArguments;
  int64_t flops = 0, bytes = 0;                ///< 0: what the op computes by default
  double tolerance = 0;                        ///< 0: the usual one
  int64_t hostFunction = 0, hostReference = 0; ///< 0: none
};

/// The instance's number. Any thread may call this.
uint64_t internCustom(CustomInstance instance);
const CustomInstance &customInstance(uint64_t number);

} // namespace tcc
