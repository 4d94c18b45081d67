// Compiled numbers where cancellation, tails, special values or long sums decide, against values worked out in double:
// for every level and for each CPU that this machine can be.
#include "mlir/Parser/Parser.h"
#include "tests/dialects.h"
#include "tests/random_graphs/graph_check.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tcc;
using namespace tcc::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();
using Numbers = std::vector<double>;

/// The results of a `@main` for each target and level; what `expect` says is checked for all.
void forAll(const std::string &text, const std::vector<Numbers> &inputs,
            llvm::function_ref<void(llvm::ArrayRef<RefTensor>)> expect, std::vector<int> levels = {0, 2}) {
  MLIRContext context;
  test::loadDialects(context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module) << text;
  std::vector<RefTensor> arguments;
  for (auto [type, data] : llvm::zip_equal(onlyFunction(*module).getArgumentTypes(), inputs)) {
    arguments.push_back({cast<RankedTensorType>(type), data});
    roundToElement(arguments.back());
  }
  for (const cpu::Target &target : cpuTargets())
    for (int level : levels) {
      CheckOptions options;
      options.level = level;
      options.target = target;
      options.checked = false; // NaN is expected here
      std::string error;
      auto graph = CompiledGraph::compile(*module, options, error);
      ASSERT_TRUE(graph) << error;
      auto results = graph->run(arguments, error);
      ASSERT_TRUE(results) << error;
      SCOPED_TRACE("cpu " + target.cpu + ", level " + std::to_string(level) + "\n" + text);
      expect(*results);
    }
}

/// Text of `@main`; `{T}` stands for tensor<Nxf32> in the body, arguments %x and, where asked, %y of it.
std::string mainOf(std::string body, size_t count, const std::string &arguments, const std::string &results) {
  std::string text = "func.func @main(" + arguments + ") -> (" + results + ") {\n" + body + "}\n";
  std::string type = "tensor<" + std::to_string(count) + "xf32>";
  for (size_t at; (at = text.find("{T}")) != std::string::npos;)
    text.replace(at, 3, type);
  return text;
}

/// `%y` = op of %x with d sum(y)/dx as second result.
std::string withGradient(const std::string &op, size_t count) {
  return mainOf("  %y = " + op + R"( : {T}
  %s = tcc.reduce_sum %y axes [0] : {T} -> tensor<1xf32>
  %l = tcc.reshape %s : tensor<1xf32> -> tensor<f32>
  %d = tcc.gradient %l wrt %x : tensor<f32>, {T}
  return %y, %d : {T}, {T}
)",
                count, "%x: {T}", "{T}, {T}");
}

void expectClose(const Numbers &actual, const Numbers &wanted, double tolerance) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (std::isnan(wanted[i]))
      EXPECT_TRUE(std::isnan(actual[i])) << i << ": " << actual[i];
    else if (std::isinf(wanted[i]) || wanted[i] == 0)
      EXPECT_EQ(actual[i], wanted[i]) << i;
    else // a few of the smallest numbers are what products of them may be off by
      EXPECT_NEAR(actual[i], wanted[i], std::abs(wanted[i]) * tolerance + std::ldexp(64, -149)) << i;
}

//===- a result that equals an operand is a value of its own -----------------------------------------------------===//

/// z = x·x + y with y = `op` of x: d sum(z)/dy is 1 everywhere, d sum(z)/dx is 2x + 1.
void expectOwnGradient(const std::string &op) {
  Numbers x = {1, 2, 3};
  forAll(mainOf("  %y = " + op + R"(
  %q = tcc.mul %x, %x : {T}
  %z = tcc.add %q, %y : {T}
  %s = tcc.reduce_sum %z axes [0] : {T} -> tensor<1xf32>
  %l = tcc.reshape %s : tensor<1xf32> -> tensor<f32>
  %d:2 = tcc.gradient %l wrt %y, %x : tensor<f32>, {T}, {T}
  return %y, %d#0, %d#1 : {T}, {T}, {T}
)",
                3, "%x: {T}, %seed: tensor<i32>", "{T}, {T}, {T}"),
         {x, {7}},
         [&](llvm::ArrayRef<RefTensor> results) {
           EXPECT_EQ(results[0].data, x);
           EXPECT_EQ(results[1].data, (Numbers{1, 1, 1}));
           EXPECT_EQ(results[2].data, (Numbers{3, 5, 7}));
         },
         {0});
}

TEST(Identities, keepTheirOwnGradient) {
  for (const char *op :
       {"tcc.dropout %x, %seed rate 0.0 stream 1 : {T}, tensor<i32>", "tcc.reduce_mean %x axes [] : {T} -> {T}",
        "tcc.reduce_sum %x axes [] : {T} -> {T}", "tcc.reduce_max %x axes [] : {T} -> {T}",
        "tcc.slice %x [0] to [3] : {T} -> {T}", "tcc.pad %x [0], [0] : {T} -> {T}", "tcc.transpose %x [0] : {T} -> {T}",
        "tcc.reshape %x : {T} -> {T}", "tcc.broadcast %x : {T} -> {T}", "tcc.cast %x : {T} -> {T}",
        "tcc.concat %x axis 0 : {T} -> {T}", "tcc.maximum %x, %x : {T}", "tcc.relu %x : {T}"})
    expectOwnGradient(op);
}

//===- cross-entropy ---------------------------------------------------------------------------------------------===//

std::string crossEntropy(int64_t rows, int64_t classes) {
  std::string x = "tensor<" + std::to_string(rows) + "x" + std::to_string(classes) + "xf32>";
  std::string t = "tensor<" + std::to_string(rows) + "xi32>";
  return "func.func @main(%x: " + x + ", %t: " + t + ") -> (tensor<f32>, " + x +
         ") {\n  %l = tcc.cross_entropy %x, %t : " + x + ", " + t +
         " -> tensor<f32>\n  %d = tcc.gradient %l wrt %x : tensor<f32>, " + x + "\n  return %l, %d : tensor<f32>, " +
         x + "\n}\n";
}

TEST(CrossEntropy, anOffsetOfTheLogitsCancels) {
  for (double offset : {0.0, 1e4, -1e4, 1e8}) {
    Numbers row = {0, 8, 16, 24}; // multiples of 8 are exact at 1e8
    double sum = 0;
    for (double value : row)
      sum += std::exp(value - 24);
    double wanted = std::log(sum) - (8 - 24);
    for (double &value : row)
      value += offset;
    forAll(crossEntropy(1, 4), {row, {1}},
           [&](llvm::ArrayRef<RefTensor> results) { expectClose(results[0].data, {wanted}, 3e-7); });
  }
  forAll(crossEntropy(1, 4), {{3e38, 3e38, -3e38, 0}, {0}}, [&](llvm::ArrayRef<RefTensor> results) {
    expectClose(results[0].data, {std::log(2.0)}, 3e-7);
    expectClose(results[1].data, {-0.5, 0.5, 0, 0}, 3e-7);
  });
}

TEST(CrossEntropy, aTargetBeyondTheClassesIsNan) {
  // The wrong row's gradient is NaN, the others' are what they are; a negative target does not count.
  double p = 1 / (1 + std::exp(-1.0)); // of the larger of two logits
  forAll(crossEntropy(3, 2), {{0, 1, 0, 1, 5, 6}, {1, 2, -1}}, [&](llvm::ArrayRef<RefTensor> results) {
    EXPECT_TRUE(std::isnan(results[0].data[0]));
    expectClose(results[1].data, {(1 - p) / 2, (p - 1) / 2, nan, nan, 0, 0}, 1e-6);
  });
}

//===- tails -----------------------------------------------------------------------------------------------------===//

const Numbers manySizes = {0,   -0.0, 1e-30, 0.5,   -0.5, 3,    -3,    8,    -8,   10,    -10,   16,    -16,  18,
                           -18, 30,   -30,   60,    -60,  87,   -87,   88.7, -90,  -95.5, -103,  -110,  1e3,  -1e3,
                           1e5, -1e5, 1e18,  -1e18, 1e20, 3e38, -3e38, 100,  -100, 0.1,   -0.75, -1.25, -2.5, nan};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
/// d(x · sigmoid(u))/dx.
double gated(double x, double u, double slope) {
  double inner = sigmoid(u) * sigmoid(-u);
  return sigmoid(u) + (inner == 0 ? 0 : x * inner * slope);
}

void expectTails(const std::string &op, double (*value)(double), double (*gradient)(double), double tolerance) {
  Numbers values, gradients, inputs;
  for (double x : manySizes) {
    x = static_cast<float>(x);
    inputs.push_back(x);
    values.push_back(static_cast<float>(value(x)));
    gradients.push_back(static_cast<float>(gradient(x)));
  }
  forAll(withGradient("tcc." + op + " %x", inputs.size()), {inputs}, [&](llvm::ArrayRef<RefTensor> results) {
    SCOPED_TRACE(op);
    for (size_t i = 0; i < inputs.size(); ++i) {
      SCOPED_TRACE("x = " + std::to_string(inputs[i]));
      expectClose({std::abs(results[0].data[i])}, {std::abs(values[i])}, tolerance);
      expectClose({std::abs(results[1].data[i])}, {std::abs(gradients[i])}, 4 * tolerance);
    }
  });
}

double geluArgument(double x) {
  return 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

TEST(Tails, ofActivationsAreExact) {
  expectTails("sigmoid", sigmoid, [](double x) { return sigmoid(x) * sigmoid(-x); }, 1e-6);
  expectTails("silu", [](double x) { return x * sigmoid(x); }, [](double x) { return gated(x, x, 1); }, 1e-6);
  // An error of the argument, 2^-24 of up to 100, is the tail's.
  expectTails(
      "gelu", [](double x) { return x * sigmoid(geluArgument(x)); },
      [](double x) { return gated(x, geluArgument(x), 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x)); }, 2e-5);
  expectTails(
      "tanh", [](double x) { return std::tanh(x); }, [](double x) { return 4 * sigmoid(2 * x) * sigmoid(-2 * x); },
      2e-5);
}

TEST(Tails, logOfSigmoidIsFinite) {
  std::string text = mainOf(R"(  %s = tcc.sigmoid %x : {T}
  %y = tcc.log %s : {T}
  %t = tcc.reduce_sum %y axes [0] : {T} -> tensor<1xf32>
  %l = tcc.reshape %t : tensor<1xf32> -> tensor<f32>
  %d = tcc.gradient %l wrt %x : tensor<f32>, {T}
  return %y, %d : {T}, {T}
)",
                            4, "%x: {T}", "{T}, {T}");
  forAll(text, {{-18, -40, -80, 18}}, [&](llvm::ArrayRef<RefTensor> results) {
    expectClose(results[0].data, {-18.0000000152, -40, -80, 0}, 1e-6); // sigmoid(18) rounds to 1
    expectClose(results[1].data, {1, 1, 1, 1.52299795e-8}, 2e-6);
  });
}

//===- NaN in gradients ------------------------------------------------------------------------------------------===//

TEST(NanGradients, ofMaximumAndMinimumGoToBoth) {
  for (const char *op : {"maximum", "minimum"}) {
    std::string text = mainOf(std::string("  %m = tcc.") + op + R"( %x, %y : {T}
  %s = tcc.reduce_sum %m axes [0] : {T} -> tensor<1xf32>
  %l = tcc.reshape %s : tensor<1xf32> -> tensor<f32>
  %d:2 = tcc.gradient %l wrt %x, %y : tensor<f32>, {T}, {T}
  return %d#0, %d#1 : {T}, {T}
)",
                              5, "%x: {T}, %y: {T}", "{T}, {T}");
    bool larger = std::string(op) == "maximum";
    forAll(text, {{nan, 1, nan, 2, 3}, {1, nan, nan, 2, 4}}, [&](llvm::ArrayRef<RefTensor> results) {
      expectClose(results[0].data, {1, 1, 1, 0.5, larger ? 0.0 : 1.0}, 0);
      expectClose(results[1].data, {1, 1, 1, 0.5, larger ? 1.0 : 0.0}, 0);
    });
  }
}

TEST(NanGradients, ofReduceMaxFillItsRow) {
  forAll(R"(func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %m = tcc.reduce_max %x axes [1] : tensor<3x3xf32> -> tensor<3x1xf32>
  %s = tcc.reduce_sum %m axes [0, 1] : tensor<3x1xf32> -> tensor<1x1xf32>
  %l = tcc.reshape %s : tensor<1x1xf32> -> tensor<f32>
  %d = tcc.gradient %l wrt %x : tensor<f32>, tensor<3x3xf32>
  return %d : tensor<3x3xf32>
})",
         {{1, nan, 2, 5, 5, 4, -infinity, 0, -1}}, [&](llvm::ArrayRef<RefTensor> results) {
           expectClose(results[0].data, {nan, nan, nan, 0.5, 0.5, 0, 0, 1, 0}, 0);
         });
}

//===- rounding --------------------------------------------------------------------------------------------------===//

TEST(Rounding, ofDenormalsToBf16IsTheSameEverywhere) {
  Numbers inputs = {1e-40,   -1e-40, 1e-39, std::ldexp(1, -149), std::ldexp(1, -134), std::ldexp(3, -134),
                    1.1e-38, -3e-39};
  Numbers wanted;
  MLIRContext context;
  for (double &x : inputs) {
    x = static_cast<float>(x);
    wanted.push_back(roundToElement(x, BFloat16Type::get(&context)));
  }
  inputs.resize(37, inputs[2]); // whole vectors and a tail
  wanted.resize(37, wanted[2]);
  std::string text = mainOf("  %b = tcc.cast %x : {T} -> tensor<37xbf16>\n  %y = tcc.cast %b : tensor<37xbf16> -> {T}\n"
                            "  return %b, %y : tensor<37xbf16>, {T}\n",
                            37, "%x: {T}", "tensor<37xbf16>, {T}");
  forAll(text, {inputs}, [&](llvm::ArrayRef<RefTensor> results) {
    EXPECT_EQ(results[0].data, wanted);
    EXPECT_EQ(results[1].data, wanted);
  });
}

//===- long sums -------------------------------------------------------------------------------------------------===//

/// Sums of `rows` x 3 values over the rows, or of 3 rows over `rows` columns, within `tolerance` of the sum in double.
void expectSum(int64_t rows, bool columns, double tolerance) {
  std::string count = std::to_string(rows);
  std::string x = columns ? "tensor<" + count + "x3xf32>" : "tensor<3x" + count + "xf32>";
  std::string y = columns ? "tensor<1x3xf32>" : "tensor<3x1xf32>";
  std::string axis = columns ? "0" : "1";
  Numbers data(rows * 3), sums(3, 0);
  for (int64_t i = 0; i < rows * 3; ++i) {
    data[i] = static_cast<float>(static_cast<double>(i * 7919 % 10007) / 10007);
    sums[columns ? i % 3 : i / rows] += data[i];
  }
  forAll("func.func @main(%x: " + x + ") -> " + y + " {\n  %y = tcc.reduce_sum %x axes [" + axis + "] : " + x + " -> " +
             y + "\n  return %y : " + y + "\n}\n",
         {data}, [&](llvm::ArrayRef<RefTensor> results) { expectClose(results[0].data, sums, tolerance); }, {2});
}

TEST(LongSums, overPrimeNumbersOfRowsAreAsGoodAsOthers) {
  for (int64_t rows : {2053, 65537, 1000003, 1000000})
    expectSum(rows, true, 1.5e-6);
}
TEST(LongSums, overPrimeNumbersOfColumnsAreAsGoodAsOthers) {
  for (int64_t columns : {16411, 1000003})
    expectSum(columns, false, 1.5e-6);
}

TEST(LongSums, of16BitsAreRoundedOnce) {
  const char *text = R"(func.func @main(%x: tensor<256x3xbf16>) -> tensor<1x3xbf16> {
  %y = tcc.reduce_sum %x axes [0] : tensor<256x3xbf16> -> tensor<1x3xbf16>
  return %y : tensor<1x3xbf16>
})";
  // 16 parts of 16 rows: 144.25 and 145.25 in turns, which bf16 rounds to 144 and 145. Their sum is 2316, a bf16 is
  // 2304 or 2320; the sum of the rounded parts, 2312, would become 2304.
  Numbers data(256 * 3, 1);
  for (size_t i = 0; i < data.size(); ++i)
    if (size_t row = i / 3; row % 16 == 0)
      data[i] = row % 32 == 0 ? 129 : 130;
    else if (row % 16 == 1)
      data[i] = 1.25;
  forAll(text, {data}, [&](llvm::ArrayRef<RefTensor> results) { EXPECT_EQ(results[0].data, Numbers(3, 2320)); });
}

//===- the optimizer ---------------------------------------------------------------------------------------------===//

TEST(Adamw, correctsTheBiasOfTheFirstSteps) {
  for (double step : {1.0, 2.0, 1000.0}) {
    double g = 0.5, beta1 = 0.9, beta2 = 0.999;
    double m = (1 - beta1) * g, v = (1 - beta2) * g * g;
    double wanted = 1 - 0.1 * (m / (1 - std::pow(beta1, step))) / (std::sqrt(v / (1 - std::pow(beta2, step))) + 1e-8);
    std::string text = mainOf(R"(  %t:3 = tcc.adamw %x, %g, %m, %m lr %lr step %step scale %scale apply %apply
      {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0} : {T}, {T}, {T}
  return %t#0 : {T}
)",
                              1,
                              "%x: {T}, %g: {T}, %m: {T}, %lr: tensor<f32>, %step: tensor<f32>, %scale: tensor<f32>, "
                              "%apply: tensor<i1>",
                              "{T}");
    forAll(text, {{1}, {g}, {0}, {0.1}, {step}, {1}, {1}}, [&](llvm::ArrayRef<RefTensor> results) {
      EXPECT_NEAR(results[0].data[0], wanted, 2e-7 * std::abs(1 - wanted) + 6e-8) << step;
    });
  }
}

//===- each op rounds on its own ---------------------------------------------------------------------------------===//

/// x · w + b of three 64x1000 inputs as `%y`, then `body`.
std::string productAndSum(const std::string &body, const std::string &results) {
  std::string text = "func.func @main(%x: {T}, %w: {T}, %b: {T}) -> (" + results +
                     ") {\n  %p = tcc.mul %x, %w : {T}\n  %y = tcc.add %p, %b : {T}\n" + body + "}\n";
  for (size_t at; (at = text.find("{T}")) != std::string::npos;)
    text.replace(at, 3, "tensor<64x1000xf32>");
  return text;
}

Numbers roundedSines(size_t count, double factor) {
  Numbers numbers(count);
  for (size_t i = 0; i < count; ++i)
    numbers[i] = std::sin(factor * static_cast<double>(i + 1));
  return numbers;
}

const std::vector<Numbers> threeInputs = {roundedSines(64000, 1.3), roundedSines(64000, 0.7), roundedSines(64000, 2.9)};

TEST(Roundings, aMaximumIsAnElementOfItsRow) {
  const std::string text = productAndSum(R"(  %m = tcc.reduce_max %y axes [1] : {T} -> tensor<64x1xf32>
  %s = tcc.reduce_sum %m axes [0, 1] : tensor<64x1xf32> -> tensor<1x1xf32>
  %l = tcc.reshape %s : tensor<1x1xf32> -> tensor<f32>
  %d = tcc.gradient %l wrt %b : tensor<f32>, {T}
  return %p, %d : {T}, {T}
)",
                                         "{T}, {T}");
  forAll(text, threeInputs, [&](llvm::ArrayRef<RefTensor> results) {
    for (size_t row = 0; row < 64; ++row) {
      double sum = 0;
      for (size_t column = 0; column < 1000; ++column)
        sum += results[1].data[row * 1000 + column];
      EXPECT_NEAR(sum, 1, 1e-6) << "row " << row;
    }
  });
}

TEST(Roundings, anArgmaxWrittenByHandFindsIt) {
  const std::string text = productAndSum(R"(  %m = tcc.reduce_max %y axes [1] : {T} -> tensor<64x1xf32>
  %all = tcc.broadcast %m : tensor<64x1xf32> -> {T}
  %is = tcc.compare eq %y, %all : {T} -> tensor<64x1000xi1>
  %i = tcc.iota dim 1 -> tensor<64x1000xi32>
  %none = tcc.constant dense<-1> : tensor<64x1000xi32>
  %at = tcc.select %is, %i, %none : tensor<64x1000xi1>, tensor<64x1000xi32>
  %r = tcc.reduce_max %at axes [1] : tensor<64x1000xi32> -> tensor<64x1xi32>
  return %r : tensor<64x1xi32>
)",
                                         "tensor<64x1xi32>");
  forAll(text, threeInputs, [&](llvm::ArrayRef<RefTensor> results) {
    for (double index : results[0].data)
      EXPECT_GE(index, 0);
  });
}

TEST(Roundings, equalProductsHaveNoDifference) {
  const std::string text = mainOf(R"(  %a = tcc.mul %x, %x : {T}
  %b = tcc.mul %y, %y : {T}
  %c = tcc.sub %a, %b : {T}
  %z = tcc.sqrt %c : {T}
  return %z : {T}
)",
                                  1000, "%x: {T}, %y: {T}", "{T}");
  const Numbers numbers = roundedSines(1000, 1.3);
  forAll(text, {numbers, numbers},
         [&](llvm::ArrayRef<RefTensor> results) { EXPECT_EQ(results[0].data, Numbers(1000, 0)); });
}

//===- means add up before they divide, as PyTorch's do
//------------------------------------------------------------===//

TEST(Means, whoseSumIsBeyondF32AreInfinite) {
  const auto isInfinite = [](llvm::ArrayRef<RefTensor> results) { EXPECT_EQ(results[0].data, (Numbers{infinity})); };
  forAll(R"(func.func @main(%x: tensor<2xf32>) -> tensor<1xf32> {
  %m = tcc.reduce_mean %x axes [0] : tensor<2xf32> -> tensor<1xf32>
  return %m : tensor<1xf32>
})",
         {{3e38, 3e38}}, isInfinite);
  forAll(R"(func.func @main(%l: tensor<2x2xf32>, %t: tensor<2xi32>) -> tensor<f32> {
  %c = tcc.cross_entropy %l, %t : tensor<2x2xf32>, tensor<2xi32> -> tensor<f32>
  return %c : tensor<f32>
})",
         {{3e38, 0, 3e38, 0}, {1, 1}}, isInfinite, {1, 2, 3});
}

} // namespace
