// What compiled kernels take of a device: registers, threads and shared memory against its limits, and spills against a
// list. In: the assembler's figures and the PTX beside them; out: a line for each excess.
#pragma once

#include "runtime/device/cuda/ptxas_log.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace tcc::test {

/// The architectures that kernels are checked for.
extern const std::vector<std::string> checkedArchitectures;

/// The least that any device has which runs an architecture's code.
struct DeviceLimits {
  int threads = 1024;          // of a block
  int registers = 64 * 1024;   // of a multiprocessor
  int staticShared = 48 << 10; // bytes of a block
  int shared = 0;              // bytes of a block, static and dynamic, on request
};
/// Throws std::invalid_argument for an architecture that is not in the list.
DeviceLimits limitsOf(const std::string &architecture);

/// What a kernel's text promises: threads of a block at most, and blocks that a multiprocessor is to hold at once.
struct LaunchBounds {
  int threads = 0, blocks = 1;
};
/// By kernel, from its PTX; those that promise nothing have 0 threads.
std::map<std::string, LaunchBounds> launchBounds(const std::string &ptx);

/// One way in which a kernel is launched.
struct LaunchUse {
  std::string kernel;
  int threads = 0, dynamicShared = 0;
};

/// For each kernel of the report, as its bounds have it and in each of its launches: threads, registers of all threads
/// (whole warps, 8 a thread at once) of the blocks that it promises, shared memory.
std::vector<std::string> resourceFindings(const runtime::cuda::PtxasReport &report, const std::string &ptx,
                                          const std::string &architecture, std::span<const LaunchUse> launches = {});

/// Spills of kernels that are not in the list, or beyond what it says.
std::vector<std::string> unlistedSpills(const runtime::cuda::PtxasReport &report, const std::string &architecture);

} // namespace tcc::test
