// The log is read line by line. "Compiling entry function 'k' for 'sm_80'" begins the lines of kernel k. After
// "Function properties for f" comes a line with the stack frame of f, which is the kernel or a function that it calls;
// frames of called functions count as the kernel's. "Used N registers, ..." is the last line of a kernel.
#include "runtime/device/cuda/ptxas_log.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace tcc::runtime::cuda {

namespace {

/// The number that stands directly before `unit` in `line`, or 0.
int numberBefore(std::string_view line, std::string_view unit) {
  std::size_t end = line.find(unit);
  if (end == std::string_view::npos)
    return 0;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1])))
    --begin;
  return std::atoi(std::string(line.substr(begin, end - begin)).c_str());
}

std::string_view quoted(std::string_view line) {
  std::size_t begin = line.find('\'');
  std::size_t end = begin == std::string_view::npos ? begin : line.find('\'', begin + 1);
  return end == std::string_view::npos ? std::string_view() : line.substr(begin + 1, end - begin - 1);
}

/// The message number of "(C7510)" in `line`, or 0.
int messageNumber(std::string_view line) {
  std::size_t at = line.find("(C7");
  return at == std::string_view::npos ? 0 : std::atoi(std::string(line.substr(at + 2, 4)).c_str());
}

/// Whether the line says that the assembler made slower code than was asked for. C7519 does not: it only adds a fence.
/// The text about wgmma finds the message in releases that give it another number.
bool losesPerformance(std::string_view line) {
  int message = messageNumber(line);
  return message == 7508 || (message >= 7510 && message <= 7520 && message != 7519) ||
         line.find("wgmma.mma_async instructions are serialized") != std::string_view::npos;
}

} // namespace

const KernelFigures *PtxasReport::find(std::string_view kernel) const {
  auto found = std::find_if(kernels.begin(), kernels.end(), [&](const KernelFigures &k) { return k.name == kernel; });
  return found == kernels.end() ? nullptr : &*found;
}

PtxasReport parsePtxasLog(std::string_view log) {
  PtxasReport report;
  while (!log.empty()) {
    std::size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (losesPerformance(line))
      report.lostPerformance.emplace_back(line);
    if (line.find("Compiling entry function") != std::string_view::npos)
      report.kernels.emplace_back().name = quoted(line);
    if (report.kernels.empty())
      continue;
    KernelFigures &kernel = report.kernels.back();
    if (line.find("bytes stack frame") != std::string_view::npos) {
      kernel.stackFrame += numberBefore(line, " bytes stack frame");
      kernel.spillStores += numberBefore(line, " bytes spill stores");
      kernel.spillLoads += numberBefore(line, " bytes spill loads");
    } else if (line.find("Used ") != std::string_view::npos) {
      kernel.registers = numberBefore(line, " registers");
      kernel.barriers = numberBefore(line, " barriers");
      kernel.sharedBytes = numberBefore(line, " bytes smem");
      kernel.localBytes = numberBefore(line, " bytes lmem");
    }
  }
  return report;
}

std::string ptxasFindings(const PtxasReport &report) {
  std::string text;
  for (const KernelFigures &kernel : report.kernels) {
    auto note = [&](int bytes, const char *what) {
      if (bytes != 0)
        text += kernel.name + ": " + std::to_string(bytes) + " bytes of " + what + "; none is allowed\n";
    };
    note(kernel.spillStores, "spill stores");
    note(kernel.spillLoads, "spill loads");
    note(kernel.stackFrame, "stack frame");
    note(kernel.localBytes, "local memory");
  }
  for (const std::string &line : report.lostPerformance)
    text += line + "\n";
  return text;
}

} // namespace tcc::runtime::cuda
