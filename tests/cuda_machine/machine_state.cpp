#include "tests/cuda_machine/machine_state.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Planned {
  std::uint64_t call;
  int code; // -1: the symbol's default
};

/// "symbol:n" or "symbol:n:code".
std::multimap<std::string, Planned> readPlan(const std::string &text) {
  std::multimap<std::string, Planned> plan;
  for (std::size_t at = 0; at < text.size();) {
    std::string item = text.substr(at, text.find(',', at) - at);
    at += item.size() + 1;
    char symbol[128];
    unsigned long long call = 0;
    int code = -1, length = 0;
    if (std::sscanf(item.c_str(), "%127[A-Za-z0-9_]:%llu%n:%d%n", symbol, &call, &length, &code, &length) < 2 ||
        static_cast<std::size_t>(length) != item.size())
      throw std::invalid_argument("TCC_CUDA_MACHINE_FAIL: `" + item + "`; it is symbol:n or symbol:n:code");
    plan.emplace(symbol, Planned{call, code});
  }
  return plan;
}

struct State {
  std::mutex mutex;
  TccMachineCounters counters;
  std::map<std::string, std::uint64_t> calls;
  std::multimap<std::string, Planned> plan;
  std::string report;

  State() {
    if (const char *text = std::getenv("TCC_CUDA_MACHINE_FAIL"))
      try {
        plan = readPlan(text);
      } catch (const std::invalid_argument &error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::abort(); // a plan that is not carried out would prove nothing
      }
  }
  ~State() {
    const char *path = std::getenv("TCC_CUDA_MACHINE_COUNTERS");
    std::FILE *file = path && *path ? std::fopen(path, "w") : nullptr;
    if (!file)
      return;
    const char *separator = "{";
#define TCC_WRITE(name)                                                                                                \
  std::fprintf(file, "%s\"%s\": %llu", separator, #name, static_cast<unsigned long long>(counters.name));              \
  separator = ", ";
    TCC_MACHINE_COUNTERS(TCC_WRITE)
#undef TCC_WRITE
    std::fprintf(file, "}\n");
    std::fclose(file);
  }
};

State &state() {
  static State state;
  return state;
}

} // namespace

TccMachineCounters *tccMachineCounters() {
  return &state().counters;
}

int tccMachineCall(const char *symbol, int defaultCode) {
  State &all = state();
  std::lock_guard lock(all.mutex);
  std::uint64_t call = ++all.calls[symbol];
  auto [first, last] = all.plan.equal_range(symbol);
  for (auto planned = first; planned != last; ++planned)
    if (planned->second.call == call)
      return planned->second.code < 0 ? defaultCode : planned->second.code;
  return 0;
}

std::uint64_t tccMachineCalls(const char *symbol) {
  State &all = state();
  std::lock_guard lock(all.mutex);
  auto found = all.calls.find(symbol);
  return found == all.calls.end() ? 0 : found->second;
}

const char *tccMachineSymbol(std::size_t index) {
  State &all = state();
  std::lock_guard lock(all.mutex);
  for (const auto &[symbol, count] : all.calls)
    if (index-- == 0)
      return symbol.c_str();
  return nullptr;
}

bool tccMachineFail(const char *plan) {
  State &all = state();
  std::lock_guard lock(all.mutex);
  try {
    all.plan = readPlan(plan);
  } catch (const std::invalid_argument &) {
    return false;
  }
  for (auto &[symbol, count] : all.calls)
    count = 0;
  return true;
}

void tccMachineNote(const char *finding) {
  State &all = state();
  std::lock_guard lock(all.mutex);
  if (all.report.size() < 1 << 20)
    all.report.append(finding).append("\n");
}

const char *tccMachineReport() {
  return state().report.c_str();
}

void tccMachineForget() {
  State &all = state();
  std::lock_guard lock(all.mutex);
  for (auto &[symbol, count] : all.calls)
    count = 0;
  all.report.clear();
  TccMachineCounters fresh, &old = all.counters;
  fresh.liveBuffers = old.liveBuffers;
  fresh.liveBytes = fresh.peakBytes = old.liveBytes;
  fresh.livePinned = old.livePinned;
  fresh.liveHandles = old.liveHandles;
  fresh.livePrograms = old.livePrograms;
  old = fresh;
}
