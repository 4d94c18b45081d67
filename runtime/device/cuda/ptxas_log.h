// Reads the assembler's report. In: the log of a compilation with --ptxas-options=-v; out: figures for each kernel and
// the findings that make a build fail.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tcc::runtime::cuda {

/// What one kernel uses, per thread except the shared memory.
struct KernelFigures {
  std::string name;
  int registers = 0;
  int stackFrame = 0;
  int spillStores = 0;
  int spillLoads = 0;
  int localBytes = 0;
  /// Static shared memory of a block in bytes; dynamic memory is the launch's.
  int sharedBytes = 0;
  int barriers = 0;
};

struct PtxasReport {
  std::vector<KernelFigures> kernels;
  /// Lines with C7508 or C7510 to C7520 without C7519: the assembler serialised wgmma or ignored setmaxnreg.
  std::vector<std::string> lostPerformance;

  const KernelFigures *find(std::string_view kernel) const;
};

PtxasReport parsePtxasLog(std::string_view log);

/// Why the build must fail (spills, stack frame, local memory, lost performance), one reason a line; empty if sound.
std::string ptxasFindings(const PtxasReport &report);

} // namespace tcc::runtime::cuda
