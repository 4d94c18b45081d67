#include "codegen/targets.h"
#include "codegen/cpu/target.h"
#include "codegen/cuda/target.h"

namespace tcc {

runtime::Expected<std::unique_ptr<Target>> makeTarget(llvm::StringRef name, const cpu::EmitOptions &cpu, int threads) {
  auto [kind, architecture] = name.split(':');
  std::unique_ptr<Target> target;
  if (kind == "cpu" && architecture.empty()) {
    target = std::make_unique<cpu::CpuTarget>(cpu, threads);
  } else if (kind == "cuda") {
    cuda::EmitOptions options;
    if (!architecture.empty())
      options.architecture = architecture.str();
    target = std::make_unique<cuda::CudaTarget>(std::move(options));
  } else {
    return runtime::Error("unknown target '" + name.str() + "'; cpu and cuda[:ARCHITECTURE] are possible");
  }
  return target;
}

} // namespace tcc
