// CPU features by name: what code needs and what this machine has.
#pragma once
#include "runtime/error.h"
#include <string>
#include <string_view>
#include <vector>

namespace tcc::runtime {

/// The features of this CPU that code may rely on, comma separated: "sse4.2,avx,avx2,fma,f16c,avx512f,...". Of AMX's,
/// which the system grants, the process asks for them.
std::string cpuFeatures();

/// Whether this process may multiply tiles of bf16 by AMX, 16 rows of 64 bytes each; never with TCC_TILES=0.
bool hasTiles();

/// Every feature that can be looked for, by LLVM's name: those that change which instructions kernels may use.
std::vector<std::string_view> knownCpuFeatures();

/// Whether this CPU has all of a comma separated list. Errors: the features it lacks, or an unknown name.
Error requireCpuFeatures(std::string_view list);

} // namespace tcc::runtime
