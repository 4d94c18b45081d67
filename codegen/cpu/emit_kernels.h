// The CPU emitter: turns kernel forms into one shared object, by way of MLIR, LLVM IR and object code, all within this
// process.
#pragma once
#include "codegen/cpu/kernel_tuning.h"
#include "codegen/kernel_source.h"
#include "runtime/error.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>
#include <vector>

namespace tcc::cpu {

/// What machine code is generated for.
struct Target {
  std::string cpu = "native"; // an LLVM CPU name, or "native"
  std::string features;       // additional LLVM feature string, for example "-avx512f"
  unsigned vectorBytes = 0;   // SIMD width: 64 (AVX-512), 32 (AVX2), 16 (generic); 0 derives it from the features
};

/// Which of the features `known` (by LLVM's names) code for the target may use, comma separated.
runtime::Expected<std::string> usedFeatures(const Target &target, llvm::ArrayRef<std::string_view> known);

/// How the runtime divides a kernel: extern "C" void symbol(int64_t begin, int64_t end, void *const *args) runs items
/// begin..end of [0, extent), cut at multiples of `granularity`; args are the inputs and then the results.
/// Items are rows (outer·rows), outer blocks, or column elements (outer·columns): kernel_plan.h, parallelOf.
KernelLaunch launchOf(const KernelInfo &info, const KernelTuning &tuning = {});

struct EmitOptions {
  Target target;
  unsigned threads = 0; // compile threads; 0 = all cores
  /// Whether products and sums may become FMAs, sums may have any order, and a zero may have any sign.
  bool fastMath = false;
  /// Whether a value must have the same bits in every program that computes it, whatever else that program computes.
  /// Then sums of rows have one order, and fastMath holds only for kernels of structured ops.
  bool steady = false;
};

/// What emitKernels() gives: the shared object, or a stage on the way to it (-emit=llvm, -emit=asm).
enum class Artefact : uint8_t { sharedObject, llvm, assembly, object };

/// A kernel on its way to code.
struct KernelToEmit {
  const KernelSource *source;
  std::string_view name; // for messages
  /// Whether the code takes the number of rows of an outer block from the address of the symbol `rowsSymbol`, which the
  /// linker sets.
  bool readsRows = false;
};

/// The names in code that several lists of kernels may share: of the function, and of its number of rows.
inline constexpr char sharedSymbol[] = "kernel", rowsSymbol[] = "kernel.rows";

/// The object of each kernel, for linkSharedObject (machine_code.h).
runtime::Expected<std::vector<std::string>> emitObjects(llvm::ArrayRef<KernelToEmit> kernels,
                                                        const EmitOptions &options);

/// The bytes or the text of what `artefact` asks for.
runtime::Expected<std::string> emitKernels(llvm::ArrayRef<KernelSource> kernels, const EmitOptions &options,
                                           Artefact artefact);

} // namespace tcc::cpu
