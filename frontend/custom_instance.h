// A custom op with operands of certain types, as records and modules have it: a number in a record stands for one of
// these. They are kept for good; equal ones have one number, so that a call replays and finds its code.
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
  int64_t flops = 0, bytes = 0;                ///< 0: as the op reckons
  double tolerance = 0;                        ///< 0: the usual one
  int64_t hostFunction = 0, hostReference = 0; ///< 0: none
};

/// Its number. Any thread.
uint64_t internCustom(CustomInstance instance);
const CustomInstance &customInstance(uint64_t number);

} // namespace tcc
