// Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
#include "tests/cuda_compiled/resources.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace tcc::test {

using runtime::cuda::KernelFigures;
using runtime::cuda::PtxasReport;

const std::vector<std::string> checkedArchitectures = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

namespace {

/// A spill that is known: of kernels with this name after their number, up to so many bytes of stores and of loads.
struct KnownSpill {
  std::string_view architecture, kernel;
  int bytes;
};
// The first kernel of GPT-2's norm, which adds up the squares of 148 gradients, and LayerNorm's backward, which has 72
// totals in its 128 registers. NVRTC 13.0 does not give the same PTX for this one each time (40 runs of one text: 40
// orders of the same instructions), and ptxas spills 8 to 16 bytes of about each third for sm_80 or sm_89.
constexpr KnownSpill knownSpills[] = {{"sm_80", "reduce_sum_div_add_rsqrt_sub_mul_neg", 16},
                                      {"sm_89", "reduce_sum_div_add_rsqrt_sub_mul_neg", 16},
                                      {"sm_100a", "mul_reduce_sum_add", 48},
                                      {"sm_120a", "mul_reduce_sum_add", 48},
                                      {"sm_120a", "reduce_sum_div_add_rsqrt_sub_mul_neg", 8}};

/// "k23_add" → "add".
std::string_view withoutNumber(std::string_view name) {
  const std::size_t end = name.find_first_not_of("0123456789", 1);
  const bool isNumbered = name.starts_with('k') && end != std::string_view::npos && end > 1 && name[end] == '_';
  return isNumbered ? name.substr(end + 1) : name;
}

int allocatedRegisters(int registers, int threads) {
  return (registers + 7) / 8 * 8 * ((threads + 31) / 32 * 32);
}

/// The number after `directive`, or 0: ".maxntid 256, 1, 1" and products of all its numbers.
int directiveValue(const std::string &line, const std::string &directive) {
  const std::size_t at = line.find(directive + " ");
  if (at == std::string::npos)
    return 0;
  std::istringstream numbers(line.substr(at + directive.size()));
  int product = 1, number = 0;
  for (char comma = ','; comma == ',' && numbers >> number; product *= number)
    if (!(numbers >> comma))
      comma = ' ';
  return product;
}

} // namespace

DeviceLimits limitsOf(const std::string &architecture) {
  DeviceLimits limits;
  // 8.6 and 8.9 run code of sm_80, and have less than its 163 KiB.
  const std::map<std::string, int> kibibytes = {
      {"sm_80", 99}, {"sm_89", 99}, {"sm_90a", 227}, {"sm_100a", 227}, {"sm_120a", 99}};
  const auto found = kibibytes.find(architecture);
  if (found == kibibytes.end())
    throw std::invalid_argument("no limits are known of " + architecture);
  limits.shared = found->second << 10;
  return limits;
}

std::map<std::string, LaunchBounds> launchBounds(const std::string &ptx) {
  std::map<std::string, LaunchBounds> bounds;
  std::istringstream lines(ptx);
  LaunchBounds *kernel = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (const std::size_t at = line.find(".entry "); at != std::string::npos) {
      const std::string rest = line.substr(at + 7);
      kernel = &bounds[rest.substr(0, rest.find_first_of("( \t"))];
    }
    if (!kernel)
      continue;
    for (const char *directive : {".maxntid", ".reqntid"})
      kernel->threads = std::max(kernel->threads, directiveValue(line, directive));
    kernel->blocks = std::max(kernel->blocks, directiveValue(line, ".minnctapersm"));
    if (line.find('{') != std::string::npos)
      kernel = nullptr;
  }
  return bounds;
}

std::vector<std::string> resourceFindings(const PtxasReport &report, const std::string &ptx,
                                          const std::string &architecture, std::span<const LaunchUse> launches) {
  const DeviceLimits limits = limitsOf(architecture);
  const std::map<std::string, LaunchBounds> bounds = launchBounds(ptx);
  std::vector<std::string> findings;
  for (const KernelFigures &kernel : report.kernels) {
    auto check = [&](int used, int most, const std::string &what) {
      if (used > most)
        findings.push_back(kernel.name + " for " + architecture + ": " + std::to_string(used) + " " + what + ", " +
                           std::to_string(most) + " at most");
    };
    const auto found = bounds.find(kernel.name);
    const LaunchBounds bound = found == bounds.end() ? LaunchBounds() : found->second;
    if (bound.threads == 0 || kernel.registers == 0) {
      findings.push_back(kernel.name + " for " + architecture + ": without launch bounds or figures");
      continue;
    }
    check(bound.threads, limits.threads, "threads a block");
    check(bound.blocks * allocatedRegisters(kernel.registers, bound.threads), limits.registers,
          "registers of " + std::to_string(bound.blocks) + " blocks of " + std::to_string(bound.threads) +
              " threads with " + std::to_string(kernel.registers) + " each");
    check(kernel.sharedBytes, limits.staticShared, "bytes of static shared memory");
    for (const LaunchUse &launch : launches)
      if (launch.kernel == kernel.name) {
        check(launch.threads, bound.threads, "threads in a launch");
        check(kernel.sharedBytes + launch.dynamicShared, limits.shared, "bytes of shared memory");
      }
  }
  return findings;
}

std::vector<std::string> unlistedSpills(const PtxasReport &report, const std::string &architecture) {
  std::vector<std::string> findings;
  for (const KernelFigures &kernel : report.kernels) {
    int listed = 0;
    for (const KnownSpill &known : knownSpills)
      if (known.architecture == architecture && known.kernel == withoutNumber(kernel.name))
        listed = std::max(listed, known.bytes);
    if (const int bytes = std::max(kernel.spillStores, kernel.spillLoads); bytes > listed)
      findings.push_back(kernel.name + " for " + architecture + ": " + std::to_string(bytes) + " bytes of spills, " +
                         std::to_string(listed) + " are listed");
  }
  return findings;
}

} // namespace tcc::test
