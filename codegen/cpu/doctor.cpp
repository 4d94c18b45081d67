#include "codegen/cpu/doctor.h"
#include "runtime/cpu.h"
#include "runtime/gemm.h"
#include "runtime/machine_limits.h"
#include "runtime/threads.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Format.h"
#include "llvm/TargetParser/Host.h"
#include <unistd.h>

namespace tcc::cpu {
namespace {

using Row = llvm::function_ref<void(bool, llvm::StringRef, const std::string &)>;

/// What multiplies each type and how fast, so that a type that gains nothing is seen.
void reportProducts(Row row) {
  const runtime::MachineLimits limits = runtime::machineLimits(0);
  for (const runtime::DType dtype : {runtime::DType::f32, runtime::DType::bf16}) {
    const std::string what = std::string(runtime::name(dtype)) + " products";
    const auto by = runtime::productImplementation(dtype, 0);
    if (!by) {
      row(false, what, by.error().message());
      continue;
    }
    const bool slow = dtype == runtime::DType::bf16 && !limits.gainsFromBf16();
    row(true, what, runtime::rateText(limits.product(dtype)) + " by " + *by + (slow ? ", no faster than f32" : ""));
  }
  row(true, "f16 products", "widened to f32");
}

} // namespace

bool examineCpu(llvm::raw_ostream &os) {
  bool isWell = true;
  auto row = [&](bool good, llvm::StringRef what, const std::string &detail) {
    os << (good ? "  ok       " : "  missing  ") << llvm::left_justify(what, 14) << detail << '\n';
  };
  const std::string features = runtime::cpuFeatures();
  const bool vectors = llvm::StringRef(features).contains("avx2");
  row(true, "CPU", llvm::sys::getHostCPUName().str() + ": " + features);
  if (!runtime::cpuLimit().empty())
    os << "           TCC_CPU=" << std::string(runtime::cpuLimit()) << " hides what else it has\n";
  if (!vectors)
    os << "           no AVX2: code uses 16-byte vectors and is slower\n";
  row(true, "threads", std::to_string(runtime::availableThreads()) + " that this process may use");
  const int64_t memory = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  row(true, "memory", std::to_string(memory >> 20) + " MiB");
  row(true, "LLVM", LLVM_VERSION_STRING);
  reportProducts(row);
  const bool mapped = ::access("/proc/self/fd", R_OK) == 0;
  isWell &= mapped;
  row(mapped, "/proc",
      mapped ? "compiled code is loaded from memory" : "compiled code is loaded through /proc/self/fd; mount /proc");
  return isWell;
}

} // namespace tcc::cpu
