#include "codegen/targets.h"
#include "codegen/cpu/target.h"
#include "codegen/cuda/target.h"

namespace tcc {

std::unique_ptr<Target> makeTarget(llvm::StringRef name, const cpu::EmitOptions &cpu, int threads, std::string &error) {
  auto [kind, architecture] = name.split(':');
  if (kind == "cpu" && architecture.empty())
    return std::make_unique<cpu::CpuTarget>(cpu, threads);
  if (kind == "cuda") {
    cuda::EmitOptions options;
    if (!architecture.empty())
      options.architecture = architecture.str();
    return std::make_unique<cuda::CudaTarget>(std::move(options));
  }
  error = "unknown target '" + name.str() + "'; cpu and cuda[:ARCHITECTURE] are possible";
  return nullptr;
}

} // namespace tcc
