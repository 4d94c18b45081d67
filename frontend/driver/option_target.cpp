#include "frontend/driver/option_target.h"
#include "codegen/targets.h"
#include "frontend/error.h"
#include "llvm/ADT/StringExtras.h"

using llvm::SmallVector;
using llvm::StringRef;

namespace tcc::driver {
namespace {

/// "-emit=llvm, -emit=asm and -emit=obj".
std::string emissionsOf(const TargetKind &kind) {
  std::vector<std::string> flags;
  for (const KernelEmission &form : kind.emissions())
    flags.push_back("-emit=" + form.name.str());
  const std::string last = flags.back();
  flags.pop_back();
  return flags.empty() ? last : llvm::join(flags, ", ") + " and " + last;
}

/// What a target other than the default shows of kernels means that target.
const TargetKind &settleKind(const Options &options) {
  const TargetKind *kind = targetKindOf(options.compile.targetName);
  for (const Emission &emission : options.emissions)
    if (const auto *code = std::get_if<CodeEmission>(&emission); code && code->kind != targetKinds().front())
      kind = code->kind;
  for (const Emission &emission : options.emissions)
    if (const auto *code = std::get_if<CodeEmission>(&emission); code && code->kind != kind)
      throw usageError(emissionsOf(*code->kind) + " are of the " + code->kind->noun().str() + "; -emit=" +
                       kind->emissions().front().name.str() + " prints the kernels for a " + kind->noun().str());
  return *kind;
}

} // namespace

void settleTarget(Options &options) {
  const TargetKind &kind = settleKind(options);
  const std::string &march = options.flags.march;
  SmallVector<StringRef> names;
  if (!march.empty())
    StringRef(march).split(names, ',');
  for (StringRef name : names)
    for (const TargetKind *other : targetKinds())
      if (other != &kind && other->owns(name) && !kind.takes(name))
        throw usageError("-march=" + name.str() + " names a " + other->noun().str() +
                         "; --target=" + other->name().str() + " compiles for it");
  for (StringRef name : names) {
    if (!kind.takes(name) && name != "native")
      throw usageError("unknown " + kind.noun().str() + " '" + name.str() + "' of -march= with --target=" +
                       kind.name().str() + "; " + kind.expected().str() + " is expected");
    if (llvm::is_contained(options.architectures, name))
      throw usageError("-march= names " + name.str() + " twice");
    options.architectures.push_back(name.str());
  }
  const bool isNamed = !options.architectures.empty() && options.architectures.front() != "native";
  options.compile.targetName = withArchitecture(kind.name(), isNamed ? options.architectures.front() : "");
}

void settleAssembly(Options &options) {
  const TargetKind &kind = *targetKindOf(options.compile.targetName);
  for (const KernelEmission &form : kind.emissions())
    if (form.name == kind.assembly()) {
      options.emissions.push_back(CodeEmission{&kind, &form, /*isPrinted=*/false});
      return;
    }
  throw usageError("-S: a " + kind.noun().str() + " has no assembly");
}

} // namespace tcc::driver
