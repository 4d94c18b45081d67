#include "runtime/cpu.h"
#include <algorithm>
#include <array>
#include <cpuid.h>
#include <cstdlib>
#include <sys/syscall.h>
#include <unistd.h>

namespace tcc::runtime {
namespace {

/// The psABI's levels, each with the features of those before it.
constexpr std::array<std::string_view, 4> levels{"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
constexpr size_t noLevel = levels.size();

struct Feature {
  std::string_view name;
  size_t level; ///< the first that has it
  bool (*onCpu)();
};

/// A bit of EDX of CPUID leaf 7, for what the compiler's own list lacks.
bool leaf7Bit(unsigned subleaf, unsigned bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, subleaf, &a, &b, &c, &d) && (d >> bit & 1) != 0;
}

/// Linux gives a process the state of AMX's tiles when it asks for it; without it their first use is a fault.
bool mayUseTiles() {
  constexpr int requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = [] {
    const char *wanted = std::getenv("TCC_TILES");
    return !(wanted && std::string_view(wanted) == "0") && syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  }();
  return granted;
}

unsigned avx10Version() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(0x24, 0, &a, &b, &c, &d) ? b & 0xff : 0;
}

// LLVM's names, so that a target description can be copied into an artefact.
#define FEATURE(text, level)                                                                                           \
  Feature {                                                                                                            \
    text, level, [] { return __builtin_cpu_supports(text) != 0; }                                                      \
  }
const std::array features{
    FEATURE("sse4.2", 1),
    FEATURE("popcnt", 1),
    FEATURE("avx", 2),
    FEATURE("avx2", 2),
    FEATURE("fma", 2),
    FEATURE("f16c", 2),
    FEATURE("bmi", 2),
    FEATURE("bmi2", 2),
    FEATURE("lzcnt", 2),
    FEATURE("movbe", 2),
    FEATURE("gfni", noLevel),
    FEATURE("avxvnni", noLevel),
    FEATURE("avx512f", 3),
    FEATURE("avx512bw", 3),
    FEATURE("avx512cd", 3),
    FEATURE("avx512dq", 3),
    FEATURE("avx512vl", 3),
    FEATURE("avx512ifma", noLevel),
    FEATURE("avx512vbmi", noLevel),
    FEATURE("avx512vbmi2", noLevel),
    FEATURE("avx512vnni", noLevel),
    FEATURE("avx512bitalg", noLevel),
    FEATURE("avx512vpopcntdq", noLevel),
    FEATURE("avx512bf16", noLevel),
    FEATURE("avx512fp16", noLevel),
    Feature{"amx-bf16", noLevel, [] { return leaf7Bit(0, 22) && mayUseTiles(); }},
    Feature{"amx-tile", noLevel, [] { return leaf7Bit(0, 24) && mayUseTiles(); }},
    Feature{"avx10.1", noLevel, [] { return leaf7Bit(1, 19); }},
    Feature{"avx10.2", noLevel, [] { return leaf7Bit(1, 19) && avx10Version() >= 2; }},
    Feature{"egpr", noLevel, [] { return leaf7Bit(1, 21); }},
};
#undef FEATURE

std::string joined(bool (*wanted)(const Feature &)) {
  std::string list;
  for (const Feature &feature : features)
    if (wanted(feature))
      list += (list.empty() ? "" : ",") + std::string(feature.name);
  return list;
}

/// What TCC_CPU asks for.
struct Limit {
  std::string_view name; ///< empty: none
  Error error;
  size_t level = noLevel; ///< the last whose features are shown
};

const Limit &limit() {
  static const Limit found = [] {
    const char *wanted = std::getenv("TCC_CPU");
    if (!wanted || !*wanted)
      return Limit{};
    const Expected<std::string_view> level =
        limitedLevel(wanted, joined([](const Feature &feature) { return feature.level < noLevel && feature.onCpu(); }));
    if (!level)
      return Limit{{}, level.error(), 0};
    const auto *place = std::ranges::find(levels, *level);
    return Limit{*level, {}, static_cast<size_t>(place - levels.begin())};
  }();
  return found;
}

/// Hidden features are not looked for: looking for tiles asks the system for them.
bool isShown(const Feature &feature) {
  const bool hidden = limit().level < noLevel && feature.level > limit().level;
  return !hidden && feature.onCpu();
}

} // namespace

std::string_view cpuLimit() {
  return limit().name;
}

Error checkCpuLimit() {
  return limit().error;
}

Expected<std::string_view> limitedLevel(std::string_view wanted, std::string_view present) {
  if (wanted == "native")
    return std::string_view();
  const auto *place = std::ranges::find(levels, wanted);
  if (place == levels.end())
    return Error("TCC_CPU=" + std::string(wanted) +
                 " is no level of x86-64; x86-64, x86-64-v2, x86-64-v3, x86-64-v4 and native are known");
  std::string missing;
  const std::string list = "," + std::string(present) + ",";
  for (const Feature &feature : features)
    if (feature.level <= static_cast<size_t>(place - levels.begin()) &&
        list.find("," + std::string(feature.name) + ",") == std::string::npos)
      missing += (missing.empty() ? "" : ", ") + std::string(feature.name);
  if (!missing.empty())
    return Error("TCC_CPU=" + std::string(wanted) + " asks for what this CPU lacks: " + missing);
  return *place;
}

std::string featuresOfLevel(std::string_view level) {
  std::string list;
  for (const Feature &feature : features)
    if (feature.level < noLevel && levels[feature.level] <= level)
      list += (list.empty() ? "" : ",") + std::string(feature.name);
  return list;
}

bool hasTiles() {
  static const bool has = !requireCpuFeatures("avx512bf16,amx-bf16,amx-tile"); // a virtual machine's CPUID is slow
  return has;
}

std::string cpuFeatures() {
  return joined(isShown);
}

std::vector<std::string_view> knownCpuFeatures() {
  std::vector<std::string_view> names;
  for (const Feature &feature : features)
    names.push_back(feature.name);
  return names;
}

Error requireCpuFeatures(std::string_view list) {
  if (Error error = checkCpuLimit())
    return error;
  std::string missing;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view wanted = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    const auto *found = std::ranges::find(features, wanted, &Feature::name);
    if (found == features.end())
      return Error("unknown CPU feature `" + std::string(wanted) + "`; compile the step again for this machine");
    if (!isShown(*found))
      missing += (missing.empty() ? "" : ", ") + std::string(wanted);
  }
  if (missing.empty())
    return Error::success();
  const std::string shown = cpuLimit().empty() ? "" : ", shown as " + std::string(cpuLimit()) + " by TCC_CPU,";
  return Error("this CPU" + shown + " lacks " + missing + "; compile the step for it (-march=)");
}

} // namespace tcc::runtime
