#include "codegen/cuda/kind.h"
#include "codegen/cuda/doctor.h"
#include "codegen/cuda/self_test.h"
#include "codegen/cuda/target.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/step_device.h"
#include "llvm/ADT/StringExtras.h"

using llvm::ArrayRef;
using llvm::StringRef;

namespace tcc::cuda {
namespace {

constexpr KernelEmission shownKernels[] = {
    {"cuda", ".cu", true},
    {"ptx", ".ptx", true},
    {"cubin", ".cubin", false, true},
};

const std::string prefix = "cuda:";

/// The number of an architecture: 90 for "sm_90a" and for "compute_90".
int numberOf(StringRef architecture) {
  StringRef digits = architecture.rsplit('_').second;
  digits.consume_back("a");
  int number = 0;
  digits.getAsInteger(10, number);
  return number;
}

/// The text of one target, which says whose it is where there are several (`isOneOfMany`) and in PTX.
std::string joined(const EmittedCode &code, bool isPtx, bool isOneOfMany) {
  std::string text;
  for (auto [i, module] : llvm::enumerate(code.modules)) {
    if (!text.empty())
      text += '\n';
    if (isPtx || (isOneOfMany && i == 0))
      text += "// " + code.architecture + (isPtx ? ", module " + std::to_string(i) : "") + "\n";
    text += StringRef(module).rtrim('\0');
  }
  return text;
}

class CudaKind final : public TargetKind {
public:
  StringRef name() const override { return "cuda"; }
  StringRef noun() const override { return "GPU"; }
  StringRef help() const override {
    return "NVIDIA GPUs; -march=sm_80,sm_90a,compute_90 or native (where there is a GPU, else sm_90a)";
  }

  /// "sm_90a", "compute_90".
  bool owns(StringRef architecture) const override {
    if (!architecture.consume_front("sm_") && !architecture.consume_front("compute_"))
      return false;
    architecture.consume_back("a");
    return !architecture.empty() && architecture.size() <= 3 && llvm::all_of(architecture, llvm::isDigit);
  }
  StringRef expected() const override { return "an architecture such as sm_90a"; }

  runtime::Expected<std::vector<std::string>> targetsFor(ArrayRef<std::string> architectures,
                                                         std::string &why) const override {
    std::vector<std::string> targets;
    for (const std::string &architecture : architectures)
      targets.push_back(prefix + architecture);
    const bool isNamed = !targets.empty();
    if (isNamed && !llvm::is_contained(architectures, "native")) {
      why = "architectures of -march=: " + llvm::join(architectures, ", ");
      return targets;
    }
    auto device = runtime::cuda::openStepDevice();
    if (!device && isNamed)
      return runtime::Error("-march=native finds no GPU: " + device.error().message());
    if (!device) {
      const std::string usual = EmitOptions().architecture;
      why = "no GPU to compile for, so " + usual + " is taken: " + device.error().message();
      return std::vector<std::string>{prefix + usual};
    }
    const std::string own = (*device)->codeTarget();
    why = "the GPU of this machine: " + (*device)->name() + ", " + own;
    if (!isNamed)
      return std::vector<std::string>{own};
    std::vector<std::string> resolved; // a name that is also native's counts once
    for (const std::string &target : targets)
      if (const std::string found = target == prefix + "native" ? own : target; !llvm::is_contained(resolved, found))
        resolved.push_back(found);
    return resolved;
  }

  /// Adds PTX of the newest architecture, which drivers of newer GPUs compile, unless there is PTX among the targets.
  void addPortable(std::vector<std::string> &targets) const override {
    int newest = 0;
    for (StringRef target : targets) {
      if (target.starts_with(prefix + "compute_"))
        return;
      newest = std::max(newest, numberOf(target));
    }
    targets.push_back(prefix + "compute_" + std::to_string(newest));
  }

  runtime::Expected<std::unique_ptr<Target>> make(StringRef architecture, const CodeOptions &options,
                                                  int) const override {
    EmitOptions made;
    made.tf32 = options.tf32;
    made.steady = options.steady;
    if (!architecture.empty())
      made.architecture = architecture.str();
    return std::unique_ptr<Target>(std::make_unique<CudaTarget>(std::move(made)));
  }

  std::vector<std::string> architectures() const override {
    return {"native", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "compute_80", "compute_90"};
  }

  ArrayRef<KernelEmission> emissions() const override { return shownKernels; }
  StringRef assembly() const override { return "ptx"; }
  std::string shown(const KernelEmission &emission, ArrayRef<EmittedCode> codes) const override {
    std::string text;
    for (const EmittedCode &code : codes)
      text += (text.empty() ? "" : "\n") + joined(code, emission.name == "ptx", codes.size() > 1);
    return text;
  }

  bool hasDevices() const override { return true; }
  std::string absence() const override {
    return runtime::cuda::Driver::isInstalled() ? "" : "there is no driver of an NVIDIA GPU";
  }
  runtime::Expected<std::shared_ptr<runtime::Device>> openDevice(const DeviceOptions &options) const override {
    return runtime::cuda::openStepDevice({.ordinal = options.ordinal, .tuningFile = options.tuningFile});
  }
  runtime::Error testDevice(const std::shared_ptr<runtime::Device> &device) const override { return selfTest(device); }
  bool examine(llvm::raw_ostream &os) const override { return examineGpus(os); }
};

} // namespace

const TargetKind &kind() {
  static const CudaKind only;
  return only;
}

} // namespace tcc::cuda
