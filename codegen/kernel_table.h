// Equal kernels share one compiled function: a table from kernel regions to symbols.
#pragma once
#include "codegen/kernel_source.h"
#include <map>
#include <vector>

namespace tcc {

class KernelTable {
public:
  /// The number of the kernel's function. Equal regions (locations and labels aside) have one number, and so have
  /// segments of sizes with equal tails.
  unsigned add(KernelOp kernel, const KernelInfo &info);
  const std::vector<KernelSource> &sources() const { return list; }

private:
  std::vector<KernelSource> list;
  std::map<std::vector<uintptr_t>, unsigned> bySignature;
};

} // namespace tcc
