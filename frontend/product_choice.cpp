#include "frontend/product_choice.h"
#include "codegen/targets.h"
#include "frontend/shape.h"
#include "runtime/gemm.h"
#include "runtime/tuning_file.h"
#include "llvm/ADT/StringRef.h"

namespace tcc {
namespace {

std::unique_ptr<Target> targetOf(const CompilerFlags &flags, const std::string &name) {
  auto target = makeTarget(withArchitecture(name, flags.march), {}, flags.threads);
  if (!target)
    throw Error(target.error().message());
  return std::move(*target);
}

} // namespace

/// What is chosen by the target alone, and why.
/// What a target's choice holds for.
static std::string machineOf(const Target &target) {
  const std::string name = target.codeName();
  return llvm::StringRef(name).starts_with("cpu") ? name + ", products " + runtime::productInstructions() : name;
}

/// Sets the type, and says why.
static std::string choose(CompilerFlags &flags, const Target &target) {
  // TF32 is no choice to make for a user who wants f32.
  const Target::FastProducts fast = target.fastProducts();
  const std::string name = target.codeName();
  flags.products = runtime::DType::f32;
  if (fast.bf16 && !target.gainsFromBf16())
    return "f32, since " + name + " has instructions for bf16 but was measured to multiply it no faster";
  flags.products = fast.bf16 ? runtime::DType::bf16 : fast.f16 ? runtime::DType::f16 : runtime::DType::f32;
  return fast.bf16  ? "bf16, which " + name + " multiplies fastest"
         : fast.f16 ? "f16 with loss scaling, since " + name + " multiplies f16 fastest and has no fast bf16"
                    : "f32, since " + name + " multiplies neither bf16 nor f16 faster";
}

std::optional<std::string> chooseProducts(CompilerFlags &flags, const std::string &targetName) {
  if (!flags.tuning.empty())
    if (runtime::Error wrong = runtime::TuningFile::check(flags.tuning))
      throw Error(wrong.message());
  if (!flags.chooseProducts)
    return std::nullopt;
  const std::unique_ptr<Target> target = targetOf(flags, targetName);
  flags.chooseProducts = false;
  auto orThrow = [](auto given) {
    if (!given)
      throw Error(given.error().message());
    return std::move(*given);
  };
  runtime::TuningFile file = orThrow(runtime::TuningFile::open(flags.tuning));
  const std::string key = "--dtype=auto on " + machineOf(*target);
  if (const std::optional<std::string> kept = file.choice(key)) {
    CompilerFlags named;
    std::string problem;
    if (!takeCompilerFlag("--dtype=" + *kept, nullptr, named, problem) || !problem.empty() || named.chooseProducts)
      throw Error("tuning file `" + flags.tuning + "`: " + key + " is '" + *kept + "'; f32, bf16 or f16 is expected");
    flags.products = named.products;
    return *kept + ", which " + flags.tuning + " has for " + target->codeName();
  }
  std::string why = choose(flags, *target);
  if (file.isKept())
    (void)orThrow(file.addChoice(key, std::string(runtime::name(flags.products))));
  return why;
}

std::string slowProducts(const CompilerFlags &flags, const std::string &targetName) {
  if (flags.tf32) {
    const std::unique_ptr<Target> target = targetOf(flags, targetName);
    return target->fastProducts().tf32
               ? ""
               : "--dtype=tf32 changes nothing: " + target->codeName() + " has no TF32, its products are those of f32";
  }
  if (flags.products == runtime::DType::f32 || flags.chooseProducts)
    return {};
  const std::unique_ptr<Target> target = targetOf(flags, targetName);
  const Target::FastProducts fast = target->fastProducts();
  if (flags.products == runtime::DType::bf16 ? fast.bf16 : fast.f16)
    return {};
  const std::string type(flags.productName());
  return "--dtype=" + type + " gains no speed: " + target->codeName() + " has no instructions that multiply " + type +
         ", its products are widened to f32";
}

} // namespace tcc
