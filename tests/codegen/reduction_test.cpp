// Row reductions, column sums, and both at once.
#include "kernel_runner.h"
#include <algorithm>
#include <cmath>

using namespace tcc;
using namespace tcc::test;

namespace {

std::string shape(int64_t rows, int64_t columns, const char *element = "f32") {
  return std::to_string(rows) + "x" + std::to_string(columns) + "x" + element;
}

/// tcc.OP of x over `axes`.
KernelText reduction(const std::string &op, const std::string &x, const std::string &axes, const std::string &y) {
  return {
      {{"x", x}}, {{"y", y}}, "%y = tcc." + op + " %x axes [" + axes + "] : tensor<" + x + "> -> tensor<" + y + ">"};
}

KernelText softmax(int64_t rows, int64_t columns, const char *element = "f32") {
  std::string full = shape(rows, columns, element), row = shape(rows, 1, element);
  return {{{"x", full}},
          {{"y", full}},
          withTypes(R"(
    %m = tcc.reduce_max %x axes [1] : !f -> !r
    %mb = tcc.broadcast %m : !r -> !f
    %d = tcc.sub %x, %mb : !f
    %e = tcc.exp %d : !f
    %s = tcc.reduce_sum %e axes [1] : !f -> !r
    %sb = tcc.broadcast %s : !r -> !f
    %y = tcc.div %e, %sb : !f)",
                    {{"f", full}, {"r", row}})};
}

TEST(CpuRows, Softmax) {
  for (auto [rows, columns] : {std::pair(3, 1), {2, 7}, {5, 16}, {4, 17}, {3, 200}, {2, 1000}})
    expectLikeInterpreter(softmax(rows, columns));
  expectLikeInterpreter(softmax(3, 100, "bf16"));
}

/// e^(x - m) below the row's maximum m, in f32.
std::vector<double> belowMaximum(const char *element, const cpu::EmitOptions &options,
                                 std::vector<double> &differences) {
  const std::string x = shape(3, 9000, element);
  LoadedKernel kernel({{{"x", x}},
                       {{"y", shape(3, 9000)}},
                       withTypes(R"(
    %w = tcc.cast %x : !x -> !f
    %m = tcc.reduce_max %w axes [1] : !f -> !r
    %b = tcc.broadcast %m : !r -> !f
    %d = tcc.sub %w, %b : !f
    %y = tcc.exp %d : !f)",
                                 {{"x", x}, {"f", shape(3, 9000)}, {"r", shape(3, 1)}})},
                      options);
  EXPECT_EQ(kernel.error, "");
  std::vector<RefTensor> inputs = kernel.randomInputs(-40, 40);
  const std::vector<double> &data = inputs[0].data;
  for (size_t i = 0; i < data.size(); ++i) {
    const auto row = data.begin() + static_cast<std::ptrdiff_t>(i / 9000 * 9000);
    differences.push_back(static_cast<float>(data[i] - *std::max_element(row, row + 9000)));
  }
  return kernel.run(inputs)[0].data;
}

/// Of 16-bit numbers it may have the error that nearExp states; of f32 ones, and where code is steady, it has not: the
/// bits of steady code are those of f32.
TEST(CpuRows, AnExponentialBelowTheMaximumIsApproximated) {
  for (const char *element : {"bf16", "f16", "f32"})
    for (const cpu::Target &target : runnableTargets())
      for (const bool steady : {false, true}) {
        if (element == std::string("f16") && target.cpu == "x86-64")
          continue;
        cpu::EmitOptions options;
        options.target = target;
        options.steady = steady;
        std::vector<double> differences;
        const std::vector<double> results = belowMaximum(element, options, differences);
        const bool isNear = !steady && element != std::string("f32");
        double worst = 0;
        for (auto [below, result] : llvm::zip_equal(differences, results)) {
          const double bound = isNear ? 0x1p-21 - below * 0x1p-23 : 1.5 * 0x1p-23;
          worst = std::max(worst, std::fabs(result / std::exp(below) - 1) / bound);
        }
        EXPECT_LE(worst, 1) << element << " on " << target.cpu;
        EXPECT_GT(worst, 0.01) << "it is f32, and compared";
      }
}

/// x - m for m the maximum of a row of x, or of z; e^(x - m) in the same kernel, and by a kernel that reads x - m.
struct Exponentials {
  std::vector<double> differences, fused, apart;
};
Exponentials exponentials(const cpu::EmitOptions &options, const std::string &of, const std::vector<double> &x,
                          const std::vector<double> &z) {
  const std::string full = "4x200xf32";
  LoadedKernel fused({{{"x", full}, {"z", full}},
                      {{"d", full}, {"e", full}},
                      withTypes("%o = tcc.detach %" + of + R"( : !f
    %m = tcc.reduce_max %o axes [1] : !f -> !r
    %mb = tcc.broadcast %m : !r -> !f
    %d = tcc.sub %x, %mb : !f
    %e = tcc.exp %d : !f)",
                                {{"f", full}, {"r", "4x1xf32"}})},
                     options);
  LoadedKernel apart({{{"d", full}}, {{"e", full}}, "%e = tcc.exp %d : tensor<" + full + ">"}, options);
  EXPECT_EQ(fused.error + apart.error, "");
  std::vector<RefTensor> inputs = fused.randomInputs();
  inputs[0].data = x;
  inputs[1].data = z;
  std::vector<RefTensor> results = fused.run(inputs);
  std::vector<RefTensor> differences = apart.randomInputs();
  differences[0].data = results[0].data;
  return {results[0].data, results[1].data, apart.run(differences)[0].data};
}

// Where the argument is known to be at most 0 the exponential takes fewer instructions, and has the same bits: those of
// denormals, NaN and infinities, too. Below the maximum of another tensor nothing is known.
TEST(CpuRows, AnExponentialOfAtMostOneHasTheBitsOfOthers) {
  std::vector<double> x, z(800, -50);
  for (int i = 0; i < 800; ++i)
    x.push_back(static_cast<float>(i < 400 ? -i * 0.6 : 3 * std::sin(i)));
  x[450] = -std::numeric_limits<double>::infinity();
  x[650] = NAN;
  x[500] = std::numeric_limits<double>::infinity(); // ∞ - ∞
  for (const cpu::Target &target : runnableTargets())
    for (const bool steady : {false, true})
      for (const char *of : {"x", "z"}) {
        cpu::EmitOptions options;
        options.target = target;
        options.steady = steady;
        const Exponentials found = exponentials(options, of, x, z);
        int denormals = 0, large = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          const double e = found.fused[i], apart = found.apart[i];
          EXPECT_TRUE(e == apart || (std::isnan(e) && std::isnan(apart)))
              << e << " and " << apart << " for " << found.differences[i] << " on " << target.cpu;
          denormals += e > 0 && e < 0x1p-126;
          large += e > 1e6;
        }
        EXPECT_GT(denormals, 10);
        EXPECT_EQ(large > 100, of == std::string("z"));
      }
}

TEST(CpuRows, SeveralValuesAreKeptBetweenPasses) {
  expectLikeInterpreter({{{"x", "4x50xf32"}, {"z", "4x50xf32"}},
                         {{"y", "4x50xf32"}},
                         withTypes(R"(
    %e = tcc.exp %x : !f
    %t = tcc.tanh %z : !f
    %p = tcc.mul %e, %t : !f
    %s = tcc.reduce_sum %p axes [1] : !f -> !r
    %b = tcc.broadcast %s : !r -> !f
    %u = tcc.mul %e, %b : !f
    %y = tcc.sub %u, %t : !f)",
                                   {{"f", "4x50xf32"}, {"r", "4x1xf32"}})});
}

TEST(CpuRows, SoftmaxOfLongRowsRecomputes) {
  expectLikeInterpreter(softmax(2, 70011));
}

TEST(CpuRows, MaxKeepsNaN) {
  KernelText text{
      {{"x", "3x33xf32"}}, {{"m", "3x1xf32"}}, "%m = tcc.reduce_max %x axes [1] : tensor<3x33xf32> -> tensor<3x1xf32>"};
  for (const cpu::Target &target : runnableTargets()) {
    cpu::EmitOptions options;
    options.target = target;
    LoadedKernel kernel(text, options);
    ASSERT_EQ(kernel.error, "");
    for (int64_t column : {0, 5, 32}) {
      std::vector<RefTensor> inputs = kernel.randomInputs();
      inputs[0].data[33 + column] = NAN;
      RefTensor result = kernel.run(inputs)[0];
      EXPECT_FALSE(std::isnan(result.data[0]));
      EXPECT_TRUE(std::isnan(result.data[1])) << "NaN in column " << column << " is lost";
      EXPECT_EQ(result.data[2], *std::max_element(inputs[0].data.begin() + 66, inputs[0].data.end()));
    }
  }
}

TEST(CpuRows, LayerNormForward) {
  for (auto [rows, columns] : {std::pair(3, 15), {5, 64}, {2, 384}, {4, 100}})
    expectLikeInterpreter(layerNorm(rows, columns));
}

TEST(CpuBlocks, LayerNormBackwardWithColumnSums) {
  for (auto [blocks, rows, columns] : {std::tuple(2, 7, 17), {3, 4, 64}, {1, 9, 100}, {2, 3, 5}})
    expectLikeInterpreter(layerNormBackward(blocks, rows, columns));
}

TEST(CpuColumns, SumsOverLeadingAndMiddleAxes) {
  expectLikeInterpreter(reduction("reduce_sum", "37x50xf32", "0", "1x50xf32"));
  expectLikeInterpreter(reduction("reduce_sum", "3x9x70xf32", "1", "3x1x70xf32"));
  expectLikeInterpreter(reduction("reduce_max", "5x300xf32", "0", "1x300xf32"));
  expectLikeInterpreter(reduction("reduce_sum", "2x3x5x8xf32", "1, 2", "2x1x1x8xf32"));
}

TEST(CpuRows, NoRows) {
  expectLikeInterpreter(softmax(0, 9));
}

TEST(CpuColumns, SixteenBitSumsAreRoundedOnce) {
  expectLikeInterpreter(reduction("reduce_sum", "200x70xbf16", "0", "1x70xbf16"));
  expectLikeInterpreter(reduction("reduce_sum", "2x50x300xbf16", "1", "2x1x300xbf16"));
}

TEST(CpuColumns, ElementsBesideSums) {
  expectLikeInterpreter({{{"x", "23x40xf32"}, {"dy", "23x40xf32"}}, {{"dx", "23x40xf32"}, {"db", "1x40xf32"}}, R"(
    %t = tcc.tanh %x : tensor<23x40xf32>
    %dx = tcc.mul %dy, %t : tensor<23x40xf32>
    %db = tcc.reduce_sum %dx axes [0] : tensor<23x40xf32> -> tensor<1x40xf32>)"});
}

TEST(CpuRows, ReduceEverything) {
  expectLikeInterpreter(reduction("reduce_sum", "7x11xf32", "0, 1", "1x1xf32"));
  expectLikeInterpreter({{{"x", "7x11xi32"}}, {{"y", "7x1xi32"}, {"m", "7x1xi32"}}, R"(
    %y = tcc.reduce_sum %x axes [1] : tensor<7x11xi32> -> tensor<7x1xi32>
    %m = tcc.reduce_max %x axes [1] : tensor<7x11xi32> -> tensor<7x1xi32>)"});
}

TEST(CpuRows, CrossEntropyForwardAndBackward) {
  for (int64_t columns : {33, 257}) {
    std::string full = shape(6, columns), row = "6x1xf32", target = "6xi32", index = shape(6, columns, "i32"),
                boolean = shape(6, columns, "i1");
    KernelText text{{{"x", full}, {"target", target}, {"scale", "f32"}},
                    {{"loss", row}, {"dx", full}},
                    withTypes(R"(
      %m = tcc.reduce_max %x axes [1] : !f -> !r
      %mb = tcc.broadcast %m : !r -> !f
      %d = tcc.sub %x, %mb : !f
      %e = tcc.exp %d : !f
      %s = tcc.reduce_sum %e axes [1] : !f -> !r
      %i = tcc.iota dim 1 -> !i
      %t1 = tcc.reshape %target : tensor<6xi32> -> tensor<6x1xi32>
      %tb = tcc.broadcast %t1 : tensor<6x1xi32> -> !i
      %is = tcc.compare eq %i, %tb : !i -> !b
      %zero = tcc.constant dense<0.0> : !f
      %one = tcc.constant dense<1.0> : !f
      %p = tcc.select %is, %d, %zero : !b, !f
      %picked = tcc.reduce_sum %p axes [1] : !f -> !r
      %log = tcc.log %s : !r
      %loss = tcc.sub %log, %picked : !r
      %sb = tcc.broadcast %s : !r -> !f
      %q = tcc.div %e, %sb : !f
      %hot = tcc.select %is, %one, %zero : !b, !f
      %g = tcc.sub %q, %hot : !f
      %scaleb = tcc.broadcast %scale : tensor<f32> -> !f
      %dx = tcc.mul %g, %scaleb : !f)",
                              {{"f", full}, {"r", row}, {"i", index}, {"b", boolean}})};
    mlir::MLIRContext context;
    auto tensor = [&](llvm::ArrayRef<int64_t> dims, mlir::Type element) {
      return mlir::RankedTensorType::get(dims, element);
    };
    mlir::Type f32 = mlir::Float32Type::get(&context), i32 = mlir::IntegerType::get(&context, 32);
    RefTensor targets{tensor({6}, i32), {0, 5, static_cast<double>(columns - 1), -1, 16, 32}};
    expectLikeInterpreter(
        text, {randomTensor(tensor({6, columns}, f32), 3, -5, 5), targets, splatTensor(tensor({}, f32), 0.25)});
  }
}

} // namespace
