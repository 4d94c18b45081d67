// Matmuls by tiles where the CPU has them for such operands, else by panels: checks and the choice.
#include "runtime/gemm.h"
#include "runtime/cpu.h"
#include "runtime/panels/product.h"
#include "runtime/tiles/product.h"
#include <utility>

namespace tcc::runtime {
namespace {

struct Choice {
  bool swapped = false; // C's transpose is computed, as B^T A^T
  std::optional<tiles::Product> tiles;
  std::optional<panels::Product> panels; // neither for a matmul of no terms or no elements
  int64_t scratch = 0;

  int64_t packedBytes() const { return panels && !swapped ? panels->packedBytes() : 0; }
};

Expected<Choice> choose(const GemmDesc &desc, int threads) {
  if (auto extents = gemmExtents(desc); !extents)
    return extents.error();
  if (desc.geluGradient)
    return Error("product " + describe(desc) + " is multiplied by slopes of GELU; the CPU's products are not");
  Choice choice;
  if (desc.flops() == 0)
    return choice;
  GemmDesc used = desc; // whose C has unit column stride
  const MatrixLayout c = normalized(desc.c, desc.m, desc.n);
  if (c.columnStride != 1) {
    if (c.rowStride != 1)
      return Error("c of product " + describe(desc) + " has no unit stride; copy it, or give it unit column stride");
    if (desc.bias)
      return Error("c of product " + describe(desc) + " is transposed and has a bias; give it unit column stride");
    used = transposed(desc);
    choice.swapped = true;
  }
  for (auto [operand, layout] :
       {std::pair{"a", normalized(used.a, used.m, used.k)}, std::pair{"b", normalized(used.b, used.k, used.n)}})
    if (layout.rowStride == 0 || layout.columnStride == 0 || (layout.rowStride != 1 && layout.columnStride != 1))
      return Error(std::string(choice.swapped ? (*operand == 'a' ? "b" : "a") : operand) + " of product " +
                   describe(desc) + " has neither unit row nor unit column stride; copy it first");
  choice.tiles = tiles::Product::plan(used, threads);
  if (!choice.tiles)
    choice.panels = panels::Product::plan(used, threads);
  choice.scratch = choice.tiles ? choice.tiles->scratchBytes() : choice.panels->scratchBytes();
  return choice;
}

/// k = 0: C = bias or 0, or C += bias.
void fillEmptyProduct(const GemmDesc &desc, void *c, const void *bias) {
  auto load = [](DType dtype, const void *data, int64_t i) {
    if (dtype == DType::f32)
      return static_cast<const float *>(data)[i];
    const uint16_t bits = static_cast<const uint16_t *>(data)[i];
    return dtype == DType::bf16 ? bf16ToFloat(bits) : f16ToFloat(bits);
  };
  for (int64_t batch = 0; batch < desc.batchCount(); ++batch) {
    const int64_t start =
        batch / desc.batch[1] * desc.c.batchStrides[0] + batch % desc.batch[1] * desc.c.batchStrides[1];
    for (int64_t i = 0; i < desc.m; ++i)
      for (int64_t j = 0; j < desc.n; ++j) {
        const int64_t at = start + i * desc.c.rowStride + j * desc.c.columnStride;
        float value = desc.bias ? load(*desc.bias, bias, j) : 0.0f;
        if (desc.accumulate)
          value += load(desc.c.dtype, c, at);
        if (desc.c.dtype == DType::f32)
          static_cast<float *>(c)[at] = value;
        else
          static_cast<uint16_t *>(c)[at] = desc.c.dtype == DType::bf16 ? floatToBf16(value) : floatToF16(value);
      }
  }
}

} // namespace

struct Gemm::Impl {
  GemmDesc desc;
  Choice choice;
  std::string implementation;
};

Gemm::Gemm(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Gemm::Gemm(Gemm &&) noexcept = default;
Gemm &Gemm::operator=(Gemm &&) noexcept = default;
Gemm::~Gemm() = default;

int64_t Gemm::scratchpadBytes() const {
  return impl->choice.scratch;
}
int64_t Gemm::packedBytes() const {
  return impl->choice.packedBytes();
}
const std::string &Gemm::implementation() const {
  return impl->implementation;
}

std::string productInstructions() {
  const panels::Kernel &wide = panels::bestKernel(DType::f32), &narrow = panels::bestKernel(DType::bf16);
  std::string text = std::string("panels by ") + wide.name;
  if (&narrow != &wide)
    text += std::string(", of bf16 by ") + narrow.name;
  return hasTiles() ? text + ", AMX's tiles" : text;
}

bool multipliesBf16() {
  return hasTiles() || panels::bestKernel(DType::bf16).packedDepth > 1;
}

Expected<int64_t> scratchpadBytes(const GemmDesc &desc, int threads) {
  auto choice = choose(desc, threads);
  if (!choice)
    return choice.error();
  return choice->scratch;
}

Expected<int64_t> packedBytes(const GemmDesc &desc, int threads) {
  auto choice = choose(desc, threads);
  if (!choice)
    return choice.error();
  return choice->packedBytes();
}

Expected<Gemm> Gemm::create(const GemmDesc &desc, int threads) {
  auto choice = choose(desc, threads);
  if (!choice)
    return choice.error();
  auto impl = std::make_unique<Impl>();
  impl->desc = desc;
  impl->implementation = choice->tiles                                       ? choice->tiles->name()
                         : choice->panels                                    ? choice->panels->name()
                         : desc.batchCount() > 0 && desc.m > 0 && desc.n > 0 ? "zero"
                                                                             : "none";
  impl->choice = std::move(*choice);
  return Gemm(std::move(impl));
}

void Gemm::run(const void *a, const void *b, void *c, const void *bias, void *scratch, PackedOperand packed) const {
  const Choice &choice = impl->choice;
  if (choice.swapped)
    std::swap(a, b);
  if (choice.tiles)
    choice.tiles->run(a, b, c, bias, scratch);
  else if (choice.panels)
    choice.panels->run(a, b, c, bias, scratch, packed);
  else
    fillEmptyProduct(impl->desc, c, bias);
}

} // namespace tcc::runtime
