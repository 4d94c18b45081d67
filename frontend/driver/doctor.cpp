// --doctor and --version: what is here, what is missing, and how to get it.
#include "codegen/targets.h"
#include "frontend/driver/driver.h"
#include "runtime/ranks/ranks.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/TargetParser/Host.h"

namespace tcc::driver {

void printVersion(llvm::raw_ostream &os) {
  os << "tcc " << versionText << "\nLLVM " << LLVM_VERSION_STRING << ", target " << llvm::sys::getDefaultTargetTriple()
     << '\n';
}

int runDoctor(llvm::raw_ostream &os) {
  os << "tcc " << versionText << '\n';
  bool isWell = true;
  for (const TargetKind *kind : targetKinds())
    isWell &= kind->examine(os);
  os << runtime::describeEngines();
  return isWell ? exitSuccess : exitDiagnosed;
}

} // namespace tcc::driver
