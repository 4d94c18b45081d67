// Kernels of each shape, written by hand: what each is launched as, and what it gives.
#include "mlir/Parser/Parser.h"
#include "tests/codegen/kernel_text.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

struct Sample {
  const char *name;
  cuda::KernelShape shape;
  KernelText text;
};

const std::vector<Sample> &samples() {
  using cuda::KernelShape;
  static const std::vector<Sample> all = {
      {"elements",
       KernelShape::elements,
       {{{"x", "5x7xf32"}, {"y", "7xf32"}},
        {{"r", "5x7xf32"}},
        "%b = tcc.broadcast %y : tensor<7xf32> -> tensor<5x7xf32>\n%r = tcc.add %x, %b : tensor<5x7xf32>"}},
      {"transposed",
       KernelShape::elements,
       {{{"x", "5x33xbf16"}},
        {{"r", "33x5xbf16"}},
        "%t = tcc.transpose %x [1, 0] : tensor<5x33xbf16> -> tensor<33x5xbf16>\n%r = tcc.neg %t : tensor<33x5xbf16>"}},
      {"segments",
       KernelShape::segments,
       {{{"x", "2x1500xf32"}, {"s", "f32"}},
        {{"r", "2x1500xf32"}},
        "%b = tcc.broadcast %s : tensor<f32> -> tensor<2x1500xf32>\n%r = tcc.mul %x, %b : tensor<2x1500xf32>"}},
      {"warp rows",
       KernelShape::warpRows,
       {{{"x", "9x80xf32"}},
        {{"r", "9x80xf32"}},
        "%m = tcc.reduce_max %x axes [1] : tensor<9x80xf32> -> tensor<9x1xf32>\n"
        "%b = tcc.broadcast %m : tensor<9x1xf32> -> tensor<9x80xf32>\n%d = tcc.sub %x, %b : tensor<9x80xf32>\n"
        "%e = tcc.exp %d : tensor<9x80xf32>\n%s = tcc.reduce_sum %e axes [1] : tensor<9x80xf32> -> tensor<9x1xf32>\n"
        "%c = tcc.broadcast %s : tensor<9x1xf32> -> tensor<9x80xf32>\n%r = tcc.div %e, %c : tensor<9x80xf32>"}},
      {"block rows",
       KernelShape::blockRows,
       {{{"x", "3x700xbf16"}},
        {{"r", "3x1xbf16"}, {"y", "3x700xbf16"}},
        "%r = tcc.reduce_sum %x axes [1] : tensor<3x700xbf16> -> tensor<3x1xbf16>\n"
        "%b = tcc.broadcast %r : tensor<3x1xbf16> -> tensor<3x700xbf16>\n%y = tcc.mul %x, %b : tensor<3x700xbf16>"}},
      {"long rows",
       KernelShape::blockRows,
       {{{"x", "2x20000xf32"}},
        {{"r", "2x1xf32"}},
        "%r = tcc.reduce_max %x axes [1] : tensor<2x20000xf32> -> tensor<2x1xf32>"}},
      {"columns",
       KernelShape::columns,
       {{{"x", "3x11x37xbf16"}},
        {{"r", "3x1x37xbf16"}},
        "%r = tcc.reduce_sum %x axes [1] : tensor<3x11x37xbf16> -> tensor<3x1x37xbf16>"}},
      {"block columns",
       KernelShape::blockColumns,
       {{{"x", "2x5x300xf32"}},
        {{"r", "2x1x300xf32"}},
        "%s = tcc.reduce_sum %x axes [2] : tensor<2x5x300xf32> -> tensor<2x5x1xf32>\n"
        "%b = tcc.broadcast %s : tensor<2x5x1xf32> -> tensor<2x5x300xf32>\n%m = tcc.mul %x, %b : tensor<2x5x300xf32>\n"
        "%r = tcc.reduce_sum %m axes [1] : tensor<2x5x300xf32> -> tensor<2x1x300xf32>"}},
      {"gather",
       KernelShape::elements,
       {{{"t", "6x20xf32"}, {"i", "7xi32"}},
        {{"r", "7x20xf32"}},
        "%r = tcc.gather %t at %i : tensor<6x20xf32>, tensor<7xi32> -> tensor<7x20xf32>"}},
      {"scatter",
       KernelShape::columns,
       {{{"t", "6x20xf32"}, {"i", "9xi64"}, {"x", "9x20xf32"}},
        {{"r", "6x20xf32"}},
        "%r = tcc.scatter_add %t at %i, %x : tensor<6x20xf32>, tensor<9xi64>, tensor<9x20xf32>"}},
      {"random",
       KernelShape::elements,
       {{{"s", "i32"}}, {{"r", "5x9xi32"}}, "%r = tcc.random_bits %s stream 3 : tensor<i32> -> tensor<5x9xi32>"}},
      {"random of a part",
       KernelShape::elements,
       {{{"s", "i64"}, {"f", "i32"}},
        {{"r", "2x2x9x19xi32"}},
        "%r = tcc.random_bits %s stream 3 first %f : tensor<i64> -> tensor<2x2x9x19xi32>"}},
      {"pad",
       KernelShape::elements,
       {{{"x", "4x5xf32"}}, {{"r", "7x9xf32"}}, "%r = tcc.pad %x [1, 2], [2, 2] : tensor<4x5xf32> -> tensor<7x9xf32>"}},
  };
  return all;
}

std::unique_ptr<EmulatedKernel> parsed(MLIRContext &context, const Sample &sample) {
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(context, sample.text.module(), messages);
  EXPECT_TRUE(module) << sample.name << ": " << messages << sample.text.module();
  if (!module)
    return nullptr;
  std::vector<EmulatedKernel> kernels = kernelsOf(*module, "sample", 7);
  EXPECT_EQ(kernels.size(), 1u) << sample.name;
  return kernels.empty() ? nullptr : std::make_unique<EmulatedKernel>(std::move(kernels.front()));
}

TEST(CudaKernels, eachFormHasItsShape) {
  auto context = makeContext();
  for (const Sample &sample : samples()) {
    std::unique_ptr<EmulatedKernel> kernel = parsed(*context, sample);
    ASSERT_TRUE(kernel) << sample.name;
    EXPECT_EQ(static_cast<int>(cuda::divide(kernel->source.form).shape), static_cast<int>(sample.shape)) << sample.name;
  }
}

TEST(CudaKernels, eachShapeEqualsTheInterpreter) {
  auto context = makeContext();
  std::vector<EmulatedKernel> kernels;
  for (const Sample &sample : samples())
    if (std::unique_ptr<EmulatedKernel> kernel = parsed(*context, sample)) {
      kernel->source.symbol += "_" + std::to_string(kernels.size());
      kernel->source.joined = true;
      kernels.push_back(std::move(*kernel));
    }
  checkKernels(kernels, emulator::testSchedules());
}

} // namespace
} // namespace tcc::test
