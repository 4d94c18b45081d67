// Equal kernels share one compiled function: a table from kernel forms to symbols. One table serves one plan, and a
// kernel has one number in both.
#pragma once
#include "codegen/kernel_source.h"
#include <unordered_map>
#include <vector>

namespace tcc {

class KernelTable {
public:
  /// Adds a kernel and gives the number of its function. Kernels share a number if their normalised forms are equal;
  /// these are the forms that are emitted. How a target launches a kernel follows from its form alone. `joined` says
  /// that the kernel is called together with others of its form.
  unsigned add(KernelInfo form, KernelNames names, bool joined = false);
  /// Adds a kernel of which it is known that its form is that of function `number`.
  void addAnother(unsigned number, const std::string &label, bool joined);
  /// Adds a kernel that the target itself has written; equal symbols are one kernel.
  unsigned add(TextKernel kernel);
  const std::vector<KernelSource> &sources() const { return list; }

private:
  std::vector<KernelSource> list;
  std::unordered_multimap<size_t, unsigned> byHash;
};

} // namespace tcc
