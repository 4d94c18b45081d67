// cast_by_bits: the bits of a definition by integers alone, on every target; a mean that is x.
#include "kernel_runner.h"
#include "tests/ops/random_elements.h"
#include <bit>
#include <cmath>

using namespace tcc;
using namespace tcc::test;

namespace {

mlir::MLIRContext &context() {
  static mlir::MLIRContext made;
  return made;
}

double expected(double x, double bits) {
  if (std::isnan(x))
    return x;
  const uint32_t low = static_cast<uint32_t>(static_cast<int32_t>(bits)) & 0xffff;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(static_cast<float>(x)) + low) & 0xffff0000u);
}

const char *text = R"(
    %r = tcc.random_bits %seed stream 3 : tensor<i32> -> tensor<37x61xi32>
    %y = tcc.cast_by_bits %x, %r : tensor<37x61xf32>, tensor<37x61xi32> -> tensor<37x61xbf16>)";

RefTensor values() {
  RefTensor x = randomTensor(mlir::RankedTensorType::get({37, 61}, mlir::Float32Type::get(&context())), 1);
  const double special[] = {0.0,          -0.0,  INFINITY,  -INFINITY, NAN,      3.4028234663852886e38,
                            3.3961776e38, 1e-40, -9.18e-41, 1.5,       -1.99999, 1.1754942e-38};
  for (size_t i = 0; i < x.data.size(); ++i) {
    if (i % 3 == 0)
      x.data[i] = static_cast<float>(special[i / 3 % std::size(special)]);
    else if (i % 3 == 1)
      x.data[i] = static_cast<float>(std::ldexp(x.data[i], static_cast<int>(i % 250) - 125));
  }
  return x;
}

TEST(CpuStochasticCast, HasTheBitsOfItsDefinition) {
  const RefTensor x = values();
  const RefTensor seed{mlir::RankedTensorType::get({}, mlir::IntegerType::get(&context(), 32)), {-5}};
  const std::vector<double> bits = randomElements(0xfffffffb, 3, 1, 37, 61);
  for (const cpu::Target &target : runnableTargets()) {
    LoadedKernel kernel({{{"x", "37x61xf32"}, {"seed", "i32"}}, {{"y", "37x61xbf16"}}, text}, {.target = target});
    ASSERT_EQ(kernel.error, "");
    const std::vector<double> found = kernel.run({x, seed})[0].data;
    for (size_t i = 0; i < found.size(); ++i) {
      const double wanted = expected(x.data[i], bits[i]);
      EXPECT_TRUE(std::isnan(wanted) ? std::isnan(found[i])
                                     : found[i] == wanted && std::signbit(found[i]) == std::signbit(wanted))
          << x.data[i] << " by " << bits[i] << ": " << found[i] << ", not " << wanted;
    }
  }
}

TEST(CpuStochasticCast, IsItsOperandOnAverage) {
  LoadedKernel kernel({{{"x", "37x61xf32"}, {"seed", "i32"}}, {{"y", "37x61xbf16"}}, text}, {});
  ASSERT_EQ(kernel.error, "");
  RefTensor x = values();
  RefTensor seed{mlir::RankedTensorType::get({}, mlir::IntegerType::get(&context(), 32)), {0}};
  for (const double value : {1 + 0x1p-9, -3.3, 1e-3, 0x1.fffp5}) {
    std::fill(x.data.begin(), x.data.end(), static_cast<float>(value));
    double sum = 0;
    for (seed.data[0] = 0; seed.data[0] < 8; ++seed.data[0]) {
      const std::vector<RefTensor> results = kernel.run({x, seed});
      for (const double y : results[0].data)
        sum += y - x.data[0];
    }
    const auto runs = static_cast<double>(8 * x.data.size());
    const double unit = std::ldexp(1.0, std::ilogb(value) - 7); // between neighbours in bf16; half of it is the most
    EXPECT_LT(std::fabs(sum / runs), 4 * 0.5 * unit / std::sqrt(runs)) << value;
  }
}

} // namespace
