// The block of runtime/README.md, compiled as it stands there, with what a caller has around it.
#include "runtime/executable.h"
#include "runtime/files.h"
#include "runtime/memory.h"

using namespace tcc::runtime;

[[noreturn]] void fail(const std::string &message);

void runtimeReadme(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                   std::span<const TensorRef> states, Profiler &profiler) {
#include "runtime_readme.inc"
  static_cast<void>(w);
  if (error)
    fail(error.message());
}
