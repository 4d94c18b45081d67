#include "codegen/targets.h"
#include "codegen/cpu/kind.h"
#include "codegen/cuda/kind.h"
#include "llvm/ADT/StringExtras.h"

namespace tcc {

/// A new folder of codegen/ has a line here.
static std::vector<const TargetKind *> &kinds() {
  static std::vector<const TargetKind *> list = {
      &cpu::kind(),
      &cuda::kind(),
  };
  return list;
}

std::vector<const TargetKind *> targetKinds() {
  return kinds();
}

void addTargetKind(const TargetKind &kind) {
  kinds().push_back(&kind);
}

const TargetKind *targetKindOf(llvm::StringRef target) {
  for (const TargetKind *kind : kinds())
    if (kind->name() == target.split(':').first)
      return kind;
  return nullptr;
}

std::string kindNames(llvm::StringRef separator, bool (*includes)(const TargetKind &)) {
  std::vector<llvm::StringRef> names;
  for (const TargetKind *kind : kinds())
    if (!includes || includes(*kind))
      names.push_back(kind->name());
  return llvm::join(names, separator);
}

std::string withArchitecture(llvm::StringRef target, llvm::StringRef march) {
  return march.empty() || target.contains(':') ? target.str() : (target + ":" + march).str();
}

runtime::Expected<std::unique_ptr<Target>> makeTarget(llvm::StringRef name, const CodeOptions &options, int threads) {
  auto [kindName, architecture] = name.split(':');
  if (const TargetKind *kind = targetKindOf(kindName))
    return kind->make(architecture, options, threads);
  return runtime::Error("unknown target '" + name.str() + "'; " + kindNames(" and ") +
                        " are possible, with an architecture after a colon");
}

std::string TargetKind::shown(const KernelEmission &, llvm::ArrayRef<EmittedCode> codes) const {
  std::string text;
  for (const EmittedCode &code : codes)
    for (const std::string &module : code.modules)
      text += (text.empty() ? "" : "\n") + module;
  return text;
}

} // namespace tcc
