// CPU features by name: what code needs and what this machine has.
#pragma once
#include "runtime/error.h"
#include <string>
#include <string_view>
#include <vector>

namespace tcc::runtime {

/// The level of x86-64 ("x86-64-v3") to which TCC_CPU of the environment limits this process; empty without a limit.
/// All functions of this header then answer as if the CPU had no more. The variable is read once, by the first call.
std::string_view cpuLimit();

/// What is wrong with TCC_CPU: it names no level, or one that this CPU lacks. In that case the functions here give no
/// features at all, code is neither compiled for the CPU nor loaded (requireCpuFeatures), and programs say so at their
/// start.
Error checkCpuLimit();

/// The level that TCC_CPU=`wanted` means on a CPU with the features `present`; empty for "native". Errors: as above.
Expected<std::string_view> limitedLevel(std::string_view wanted, std::string_view present);

/// The features of `level`, which is one of those that TCC_CPU may name, as in cpuFeatures().
std::string featuresOfLevel(std::string_view level);

/// The features of this CPU that code may rely on, comma separated: "sse4.2,avx,avx2,fma,f16c,avx512f,...". AMX is
/// among them if the system grants it to this process, which asks for it.
std::string cpuFeatures();

/// Whether this process may multiply tiles of bf16 by AMX, 16 rows of 64 bytes each; never with TCC_TILES=0.
bool hasTiles();

/// Every feature that can be looked for, by LLVM's name: those that change which instructions kernels may use.
std::vector<std::string_view> knownCpuFeatures();

/// Whether this CPU has all of a comma separated list. Errors: the features it lacks, an unknown name, a wrong TCC_CPU.
Error requireCpuFeatures(std::string_view list);

} // namespace tcc::runtime
