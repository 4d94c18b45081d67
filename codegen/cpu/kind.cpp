// The CPU kind of target: its answers for -march=, -emit=, --help and --doctor.
#include "codegen/cpu/kind.h"
#include "codegen/cpu/doctor.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/cpu/target.h"
#include "llvm/TargetParser/X86TargetParser.h"

namespace tcc::cpu {
namespace {

constexpr KernelEmission shownKernels[] = {
    {"llvm", ".ll", true},
    {"asm", ".s", true},
    {"obj", ".o", false},
};

class CpuKind final : public TargetKind {
public:
  llvm::StringRef name() const override { return "cpu"; }
  llvm::StringRef noun() const override { return "CPU"; }
  llvm::StringRef help() const override { return "this machine's CPU, or -march=NAME, by LLVM's names: x86-64-v3"; }

  // No name can be only a CPU's.
  bool owns(llvm::StringRef) const override { return false; }
  bool takes(llvm::StringRef architecture) const override { return knowsCpu(architecture); }
  llvm::StringRef expected() const override { return "a name that -march=help lists, such as x86-64-v3,"; }

  runtime::Expected<std::vector<std::string>> targetsFor(llvm::ArrayRef<std::string> architectures,
                                                         std::string &) const override {
    std::vector<std::string> names;
    for (const std::string &architecture : architectures)
      names.push_back(architecture == "native" ? "cpu" : "cpu:" + architecture);
    return names.empty() ? std::vector<std::string>{"cpu"} : names;
  }

  runtime::Expected<std::unique_ptr<tcc::Target>> make(llvm::StringRef architecture, const CodeOptions &options,
                                                       int threads) const override {
    return std::unique_ptr<tcc::Target>(std::make_unique<CpuTarget>(emitOptions(architecture, options), threads));
  }

  std::vector<std::string> architectures() const override {
    llvm::SmallVector<llvm::StringRef> known;
    llvm::X86::fillValidCPUArchList(known, /*Only64Bit=*/true);
    std::vector<std::string> names{"native", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
    for (llvm::StringRef name : known)
      if (!name.starts_with("x86-64"))
        names.push_back(name.str());
    return names;
  }

  llvm::ArrayRef<KernelEmission> emissions() const override { return shownKernels; }
  llvm::StringRef assembly() const override { return "asm"; }
  bool examine(llvm::raw_ostream &os) const override { return examineCpu(os); }
};

} // namespace

const TargetKind &kind() {
  static const CpuKind only;
  return only;
}

EmitOptions emitOptions(llvm::StringRef architecture, const CodeOptions &options) {
  EmitOptions made;
  if (!architecture.empty())
    made.target.cpu = architecture.str();
  made.threads = options.compileThreads;
  made.fastMath = options.fastMath;
  made.steady = options.steady;
  return made;
}

EmitOptions hostOptions(llvm::StringRef target, const CodeOptions &options) {
  auto [name, architecture] = target.split(':');
  return emitOptions(name == kind().name() ? architecture : "", options);
}

} // namespace tcc::cpu
