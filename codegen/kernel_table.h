// Equal kernels share one compiled function: a table from kernel regions to symbols.
#pragma once
#include "codegen/cpu/emit_kernels.h"

namespace tcc {

class KernelTable {
public:
  /// The number of the kernel's function; equal regions (locations and labels aside) have one number.
  unsigned add(KernelOp kernel);
  const std::vector<cpu::KernelSource> &sources() const { return list; }

private:
  std::vector<cpu::KernelSource> list;
  llvm::DenseMap<uint64_t, llvm::SmallVector<unsigned, 1>> byHash;
};

} // namespace tcc
