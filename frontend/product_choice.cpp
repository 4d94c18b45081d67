#include "frontend/product_choice.h"
#include "codegen/targets.h"
#include "frontend/shape.h"

namespace tcc {

std::optional<std::string> chooseProducts(CompilerFlags &flags, const std::string &targetName) {
  if (!flags.chooseProducts)
    return std::nullopt;
  std::string error;
  cpu::EmitOptions cpu;
  if (!flags.march.empty())
    cpu.target.cpu = flags.march;
  const std::unique_ptr<Target> target = makeTarget(targetName, cpu, 1, error);
  if (!target)
    throw Error(error);
  const auto [bf16, f16] = target->fastProducts();
  flags.chooseProducts = false;
  flags.products = bf16 ? runtime::DType::bf16 : f16 ? runtime::DType::f16 : runtime::DType::f32;
  const std::string name = target->codeName();
  return bf16  ? "bf16, which " + name + " multiplies fastest"
         : f16 ? "f16 with loss scaling, since " + name + " multiplies f16 fastest and has no fast bf16"
               : "f32, since " + name + " multiplies neither bf16 nor f16 faster";
}

} // namespace tcc
