#include "frontend/driver/device_code.h"
#include "codegen/cuda/modules.h"
#include "frontend/driver/outputs.h"
#include "frontend/shape.h"
#include "runtime/device/cuda/step_device.h"
#include "llvm/ADT/StringExtras.h"

using llvm::ArrayRef;
using llvm::StringRef;

namespace tcc::driver {
namespace {

constexpr llvm::StringLiteral kind = "cuda:";

/// 90 of "sm_90a" and of "compute_90".
int numberOf(StringRef architecture) {
  StringRef digits = architecture.rsplit('_').second;
  digits.consume_back("a");
  int number = 0;
  digits.getAsInteger(10, number);
  return number;
}

std::string joined(const DeviceCode &code, bool isPtx, bool isOneOfMany) {
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

} // namespace

std::vector<std::string> gpuTargets(ArrayRef<std::string> architectures, std::string &why) {
  std::vector<std::string> targets;
  for (const std::string &architecture : architectures)
    targets.push_back(kind.str() + architecture);
  const bool isNamed = !targets.empty();
  if (isNamed && !llvm::is_contained(architectures, "native")) {
    why = "architectures of -march=: " + llvm::join(architectures, ", ");
    return targets;
  }
  auto device = runtime::cuda::openStepDevice();
  if (!device && isNamed)
    throw Error("-march=native finds no GPU: " + device.error().message());
  if (!device) {
    why = "no GPU to compile for, so sm_90a is taken: " + device.error().message();
    return {kind.str() + "sm_90a"};
  }
  const std::string own = (*device)->codeTarget();
  why = "the GPU of this machine: " + (*device)->name() + ", " + own;
  if (!isNamed)
    return {own};
  std::vector<std::string> resolved; // a name that is also native's counts once
  for (const std::string &target : targets)
    if (const std::string name = target == "cuda:native" ? own : target; !llvm::is_contained(resolved, name))
      resolved.push_back(name);
  return resolved;
}

void addPtx(std::vector<std::string> &targets) {
  int newest = 0;
  for (StringRef target : targets) {
    if (target.starts_with("cuda:compute_"))
      return;
    newest = std::max(newest, numberOf(target));
  }
  targets.push_back("cuda:compute_" + std::to_string(newest));
}

std::shared_ptr<runtime::Device> deviceFor(StringRef target) {
  if (!target.starts_with("cuda"))
    return nullptr;
  auto device = runtime::cuda::openStepDevice();
  if (!device)
    throw Error(device.error().message());
  return *device;
}

DeviceCode deviceCode(ArrayRef<KernelSource> kernels, StringRef target, Emission emission, const FileCache &cache) {
  DeviceCode code{target.substr(kind.size()).str(), {}};
  if (emission == Emission::cuda) {
    for (cuda::ModuleText &module : cuda::moduleTexts(kernels))
      code.modules.push_back(std::move(module.text));
    return code;
  }
  const cuda::CodeKind wanted = emission == Emission::ptx ? cuda::CodeKind::ptx : cuda::CodeKind::cubin;
  if (wanted == cuda::CodeKind::cubin && StringRef(code.architecture).starts_with("compute_"))
    throw Error("-emit=cubin for " + code.architecture + ", which is no GPU's; -emit=ptx prints its code");
  std::string notes;
  auto modules = cuda::compileModules(kernels, code.architecture, wanted, cache, notes);
  if (!modules)
    throw Error(modules.error().message());
  code.modules = std::move(*modules);
  return code;
}

void writeDeviceCode(ArrayRef<DeviceCode> codes, Emission emission, const std::string &input,
                     const std::string &output) {
  if (emission != Emission::cubin) {
    std::string text;
    for (const DeviceCode &code : codes)
      text += (text.empty() ? "" : "\n") + joined(code, emission == Emission::ptx, codes.size() > 1);
    return writeResult(output, text);
  }
  size_t count = 0;
  for (const DeviceCode &code : codes)
    count += code.modules.size();
  if (!output.empty() && count != 1)
    throw Error("-o " + output + " holds one cubin, and there are " + std::to_string(count) +
                "; without -o each gets a file of its own");
  for (const DeviceCode &code : codes)
    for (auto [i, module] : llvm::enumerate(code.modules)) {
      const std::string file = output.empty() ? cubinPath(input, code.architecture, i) : output;
      writeResult(file, module);
      if (output.empty())
        llvm::outs() << file << '\n';
    }
}

} // namespace tcc::driver
