// What one run of a kernel costs, for profiles and reports.
#pragma once
#include "ir/kernel.h"

namespace tcc {

struct KernelCost {
  int64_t flops = 0; // an elementwise op or a step of a reduction counts one
  int64_t bytes =
      0; // least traffic: each operand read and each result written once; of a gathered table only the gathered rows
};
KernelCost costOf(const KernelInfo &info);

} // namespace tcc
