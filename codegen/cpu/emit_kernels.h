// CPU emitter: kernel forms → MLIR vector → LLVM → object code → one shared object, all in-process.
#pragma once
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

/// Those of `known` (features by LLVM's names) that code for the target may use, comma separated.
runtime::Expected<std::string> usedFeatures(const Target &target, llvm::ArrayRef<std::string_view> known);

/// How the runtime divides a kernel: extern "C" void symbol(int64_t begin, int64_t end, void *const *args) runs items
/// begin..end of [0, extent), cut at multiples of `granularity`; args are the inputs and then the results.
/// Items are rows (outer·rows), outer blocks, or column elements (outer·columns): kernel_plan.h, parallelOf.
KernelLaunch launchOf(const KernelInfo &info);

struct EmitOptions {
  Target target;
  unsigned threads = 0; // compile threads; 0 = all cores
  /// Products may join sums in FMAs, sums may have any order, and a zero any sign.
  bool fastMath = false;
  /// The bits of a value are the same in every program that computes it, whatever else that computes: sums of rows have
  /// one order, and fastMath is for kernels of structured ops alone.
  bool steady = false;
};

/// What is made on the way, for -emit=llvm and -emit=asm.
enum class Artefact : uint8_t { sharedObject, llvm, assembly, object };

/// A kernel on its way to code.
struct KernelToEmit {
  const KernelSource *source;
  std::string_view name; // in messages
  /// The code reads how many rows an outer block has as the address of the symbol `rowsSymbol`, which the linker sets.
  bool readsRows = false;
};

/// Of the code that other lists of kernels may share: the name of each function, and of its number of rows.
inline constexpr char sharedSymbol[] = "kernel", rowsSymbol[] = "kernel.rows";

/// The object of each kernel, as one that linkSharedObject (machine_code.h) takes.
runtime::Expected<std::vector<std::string>> emitObjects(llvm::ArrayRef<KernelToEmit> kernels,
                                                        const EmitOptions &options);

/// The bytes (a shared object) or text.
runtime::Expected<std::string> emitKernels(llvm::ArrayRef<KernelSource> kernels, const EmitOptions &options,
                                           Artefact artefact);

} // namespace tcc::cpu
