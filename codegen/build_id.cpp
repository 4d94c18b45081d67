#include "codegen/build_id.h"
#include "tcc_build_id.h"
#include "llvm-c/Core.h"

namespace tcc {

std::string buildText() {
  unsigned major = 0, minor = 0, patch = 0;
  LLVMGetVersion(&major, &minor, &patch);
  return std::string(buildId) + " LLVM " + std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

} // namespace tcc
