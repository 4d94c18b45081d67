// One kernel to be emitted: plain data, the same for every target.
#pragma once
#include "ir/kernel.h"

namespace tcc {

struct KernelSource {
  std::string symbol;
  KernelInfo form;   // all that is emitted; kernels of equal forms are one
  KernelNames names; // for head comments, of the first kernel that had the form
};

} // namespace tcc
