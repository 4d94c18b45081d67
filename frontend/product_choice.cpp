#include "frontend/product_choice.h"
#include "codegen/targets.h"
#include "frontend/shape.h"

namespace tcc {
namespace {

std::unique_ptr<Target> targetOf(const CompilerFlags &flags, const std::string &name) {
  auto target = makeTarget(withArchitecture(name, flags.march), {}, flags.threads);
  if (!target)
    throw Error(target.error().message());
  return std::move(*target);
}

} // namespace

std::optional<std::string> chooseProducts(CompilerFlags &flags, const std::string &targetName) {
  if (!flags.chooseProducts)
    return std::nullopt;
  const std::unique_ptr<Target> target = targetOf(flags, targetName);
  auto [bf16, f16] = target->fastProducts();
  const std::string name = target->codeName();
  flags.chooseProducts = false;
  flags.products = runtime::DType::f32;
  if (bf16 && !target->gainsFromBf16())
    return "f32, since " + name + " has instructions for bf16 but was measured to multiply it no faster";
  flags.products = bf16 ? runtime::DType::bf16 : f16 ? runtime::DType::f16 : runtime::DType::f32;
  return bf16  ? "bf16, which " + name + " multiplies fastest"
         : f16 ? "f16 with loss scaling, since " + name + " multiplies f16 fastest and has no fast bf16"
               : "f32, since " + name + " multiplies neither bf16 nor f16 faster";
}

std::string slowProducts(const CompilerFlags &flags, const std::string &targetName) {
  if (flags.products == runtime::DType::f32 || flags.chooseProducts)
    return {};
  const std::unique_ptr<Target> target = targetOf(flags, targetName);
  const auto [bf16, f16] = target->fastProducts();
  if (flags.products == runtime::DType::bf16 ? bf16 : f16)
    return {};
  const std::string type(runtime::name(flags.products));
  return "--dtype=" + type + " gains no speed: " + target->codeName() + " has no instructions that multiply " + type +
         ", its products are widened to f32";
}

} // namespace tcc
