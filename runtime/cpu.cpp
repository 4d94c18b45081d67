#include "runtime/cpu.h"
#include <array>
#include <cpuid.h>
#include <cstdlib>
#include <sys/syscall.h>
#include <unistd.h>

namespace tcc::runtime {
namespace {

struct Feature {
  std::string_view name;
  bool (*present)();
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
#define FEATURE(text)                                                                                                  \
  Feature {                                                                                                            \
    text, [] { return __builtin_cpu_supports(text) != 0; }                                                             \
  }
const std::array features{
    FEATURE("sse4.2"),
    FEATURE("popcnt"),
    FEATURE("avx"),
    FEATURE("avx2"),
    FEATURE("fma"),
    FEATURE("f16c"),
    FEATURE("bmi"),
    FEATURE("bmi2"),
    FEATURE("lzcnt"),
    FEATURE("movbe"),
    FEATURE("gfni"),
    FEATURE("avxvnni"),
    FEATURE("avx512f"),
    FEATURE("avx512bw"),
    FEATURE("avx512cd"),
    FEATURE("avx512dq"),
    FEATURE("avx512vl"),
    FEATURE("avx512ifma"),
    FEATURE("avx512vbmi"),
    FEATURE("avx512vbmi2"),
    FEATURE("avx512vnni"),
    FEATURE("avx512bitalg"),
    FEATURE("avx512vpopcntdq"),
    FEATURE("avx512bf16"),
    FEATURE("avx512fp16"),
    Feature{"amx-bf16", [] { return leaf7Bit(0, 22) && mayUseTiles(); }},
    Feature{"amx-tile", [] { return leaf7Bit(0, 24) && mayUseTiles(); }},
    Feature{"avx10.1", [] { return leaf7Bit(1, 19); }},
    Feature{"avx10.2", [] { return leaf7Bit(1, 19) && avx10Version() >= 2; }},
    Feature{"egpr", [] { return leaf7Bit(1, 21); }},
};
#undef FEATURE

} // namespace

bool hasTiles() {
  return !requireCpuFeatures("avx512bf16,amx-bf16,amx-tile");
}

std::string cpuFeatures() {
  std::string list;
  for (const Feature &feature : features)
    if (feature.present())
      list += (list.empty() ? "" : ",") + std::string(feature.name);
  return list;
}

std::vector<std::string_view> knownCpuFeatures() {
  std::vector<std::string_view> names;
  for (const Feature &feature : features)
    names.push_back(feature.name);
  return names;
}

Error requireCpuFeatures(std::string_view list) {
  std::string missing;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view wanted = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    const Feature *found = nullptr;
    for (const Feature &feature : features)
      if (feature.name == wanted)
        found = &feature;
    if (!found)
      return Error("unknown CPU feature `" + std::string(wanted) + "`; recompile the artefact for this machine");
    if (!found->present())
      missing += (missing.empty() ? "" : ", ") + std::string(wanted);
  }
  if (!missing.empty())
    return Error("this CPU lacks " + missing + "; recompile the artefact for it");
  return Error::success();
}

} // namespace tcc::runtime
