#include "runtime/cpu.h"
#include <array>

namespace tcc::runtime {
namespace {

struct Feature {
  std::string_view name;
  bool (*present)();
};

// LLVM's names, so that a target description can be copied into an artefact.
#define FEATURE(text)                                                                                                  \
  Feature {                                                                                                            \
    text, [] { return __builtin_cpu_supports(text) != 0; }                                                             \
  }
const std::array features{
    FEATURE("sse4.2"),   FEATURE("avx"),      FEATURE("avx2"),     FEATURE("fma"),      FEATURE("avx512f"),
    FEATURE("avx512bw"), FEATURE("avx512cd"), FEATURE("avx512dq"), FEATURE("avx512vl"), FEATURE("avx512bf16"),
};
#undef FEATURE

} // namespace

std::string cpuFeatures() {
  std::string list;
  for (const Feature &feature : features)
    if (feature.present())
      list += (list.empty() ? "" : ",") + std::string(feature.name);
  return list;
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
