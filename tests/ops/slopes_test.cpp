// First, second and third derivatives of ops of one number against closed forms, at ordinary points and where rules
// branch: zeros of both signs, equal operands, where functions saturate, infinities.
#include "mlir/IR/Verifier.h"
#include "tests/ops/differentiate.h"
#include "tests/ops/op_table.h"
#include <array>
#include <gtest/gtest.h>
#include <numbers>

using namespace mlir;

namespace tcc::test {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

using Slopes = std::array<double, 3>; // f', f'', f'''

/// "%r = ..." of "%x", or several lines.
struct Function {
  std::string body;
  Slopes (*slopes)(double);
};

const std::vector<double> everywhere = {-infinity, -1e30, -100, -40, -33, -31, -5, -1, -0.5, -1e-8, -1e-30,   -0.0, 0,
                                        1e-30,     1e-8,  0.5,  1,   5,   31,  33, 40, 100,  1e30,  infinity, nan};
const std::vector<double> positive = {1e-30, 1e-8, 0.5, 1, 5, 1e30, infinity, nan};

/// sigmoid(a) and its derivatives with respect to a; sigmoid(a) · sigmoid(-a) does not cancel.
std::array<double, 4> sigmoidAndSlopes(double a) {
  const double s = 1 / (1 + std::exp(-a)), other = 1 / (1 + std::exp(a)), first = s * other;
  return {s, first, first * (other - s), first * (1 - 6 * first)};
}

/// The slopes of x · s(x), given s and its derivatives. At an infinite x their limits are taken.
Slopes timesX(double x, std::array<double, 4> s) {
  if (std::isinf(x))
    return {s[0], 0, 0};
  return {s[0] + x * s[1], 2 * s[1] + x * s[2], 3 * s[2] + x * s[3]};
}

Slopes geluSlopes(double x) {
  if (std::abs(x) > 1e3)
    return {x > 0 ? 1.0 : 0.0, 0, 0};
  const double linear = 2 * std::sqrt(2 / std::numbers::pi), cubic = 0.044715 * linear;
  const double first = linear + 3 * cubic * x * x, second = 6 * cubic * x, third = 6 * cubic;
  const std::array<double, 4> s = sigmoidAndSlopes(x * (linear + cubic * x * x));
  return timesX(x, {s[0], s[1] * first, s[2] * first * first + s[1] * second,
                    s[3] * first * first * first + 3 * s[2] * first * second + s[1] * third});
}

const std::vector<Function> smooth = {
    {"%r = tcc.neg %x : T", [](double) { return Slopes{-1, 0, 0}; }},
    {"%r = tcc.exp %x : T", [](double x) { return Slopes{std::exp(x), std::exp(x), std::exp(x)}; }},
    {"%r = tcc.tanh %x : T",
     [](double x) {
       const double t = std::tanh(x), s = 1 / (std::cosh(x) * std::cosh(x));
       return Slopes{s, -2 * t * s, s * (4 - 6 * s)};
     }},
    {"%r = tcc.sin %x : T", [](double x) { return Slopes{std::cos(x), -std::sin(x), -std::cos(x)}; }},
    {"%r = tcc.cos %x : T", [](double x) { return Slopes{-std::sin(x), -std::cos(x), std::sin(x)}; }},
    {"%r = tcc.erf %x : T",
     [](double x) {
       const double s = 2 * std::numbers::inv_sqrtpi * std::exp(-x * x);
       return s == 0 ? Slopes{0, 0, 0} : Slopes{s, -2 * x * s, (4 * x * x - 2) * s};
     }},
    {"%r = tcc.sigmoid %x : T",
     [](double x) {
       const std::array<double, 4> s = sigmoidAndSlopes(x);
       return Slopes{s[1], s[2], s[3]};
     }},
    {"%r = tcc.softplus %x : T",
     [](double x) {
       const std::array<double, 4> s = sigmoidAndSlopes(x);
       return Slopes{s[0], s[1], s[2]};
     }},
    {"%r = tcc.silu %x : T", [](double x) { return timesX(x, sigmoidAndSlopes(x)); }},
    {"%r = tcc.gelu %x : T", geluSlopes},
};

/// At 0 these have no slope; what stands for it is constant, so the slopes above are 0.
const std::vector<Function> broken = {
    {"%r = tcc.abs %x : T", [](double x) { return Slopes{x > 0   ? 1.0
                                                         : x < 0 ? -1.0
                                                                 : 0.0,
                                                         0, 0}; }},
    {"%r = tcc.relu %x : T", [](double x) { return Slopes{x <= 0 ? 0.0 : 1.0, 0, 0}; }},
};

const std::vector<Function> ofPositive = {
    {"%r = tcc.log %x : T", [](double x) { return Slopes{1 / x, -1 / x / x, 2 / x / x / x}; }},
    {"%r = tcc.sqrt %x : T",
     [](double x) {
       const double y = 1 / std::sqrt(x);
       return Slopes{0.5 * y, -0.25 * y * y * y, 0.375 * std::pow(y, 5)};
     }},
    {"%r = tcc.rsqrt %x : T",
     [](double x) {
       const double y = 1 / std::sqrt(x);
       return Slopes{-0.5 * y * y * y, 0.75 * std::pow(y, 5), -1.875 * std::pow(y, 7)};
     }},
    {"%one = tcc.constant dense<1.0> : T\n%r = tcc.div %one, %x : T",
     [](double x) { return Slopes{-1 / x / x, 2 / x / x / x, -6 / x / x / x / x}; }},
};

/// Equal operands, at x = 1.
const std::vector<std::pair<std::string, Slopes>> atOne = {
    // halves of m · m, m = max(x, 1): 2m · 1/2, then 2 · 1/2 · 1/2
    {"%m = tcc.maximum %x, %c : T\n%r = tcc.mul %m, %m : T", {1, 0.5, 0}},
    {"%m = tcc.minimum %c, %x : T\n%r = tcc.mul %m, %m : T", {1, 0.5, 0}},
    {"%s = tcc.mul %x, %x : T\n%r = tcc.maximum %s, %c : T", {1, 1, 0}},
    {"%m = tcc.maximum %x, %x : T\n%r = tcc.mul %m, %m : T", {2, 2, 0}},
    {"%r = tcc.div %x, %x : T", {0, 0, 0}},
    {"%s = tcc.sub %x, %x : T\n%r = tcc.mul %s, %s : T", {0, 0, 0}},
    {"%s = tcc.mul %x, %x : T\n%r = tcc.mul %s, %s : T", {4, 12, 24}},
    {"%s = tcc.mul %x, %x : T\n%d = tcc.detach %s : T\n%r = tcc.mul %s, %d : T", {2, 2, 0}},
    {"%b = tcc.compare ge %x, %c : T -> B\n%s = tcc.mul %x, %x : T\n%r = tcc.select %b, %s, %x : B, T", {2, 2, 0}},
    {"%two = tcc.concat %x, %c axis 0 : T, T -> tensor<2xf32>\n%m = tcc.reduce_max %two axes [0] : tensor<2xf32> -> T\n"
     "%r = tcc.mul %m, %m : T",
     {1, 0.5, 0}},
};

class HigherSlopes : public testing::Test {
protected:
  /// f', f'' and f''' of `body` at x, each by a reverse sweep over the one before.
  Slopes slopesAt(const std::string &body, double x) {
    std::string lines = body;
    auto replaceAll = [&](const std::string &from, const std::string &to) {
      for (size_t at = lines.find(from); at != std::string::npos; at = lines.find(from, at + to.size()))
        lines.replace(at, from.size(), to);
    };
    replaceAll(" T", " tensor<1xf32>");
    replaceAll(" B", " tensor<1xi1>");
    std::string messages;
    OwningOpRef<ModuleOp> module =
        parseText(*context,
                  "func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {\n%c = tcc.constant dense<1.0> : "
                  "tensor<1xf32>\n" +
                      lines + "\nreturn %r : tensor<1xf32>\n}",
                  messages);
    EXPECT_TRUE(module) << messages;
    if (!module)
      return {};
    func::FuncOp function = mainOf(*module);
    decomposeAll(function);
    auto type = RankedTensorType::get({1}, Float32Type::get(context.get()));
    std::vector<RefTensor> inputs = {RefTensor{type, {x}}};
    Slopes slopes{};
    for (double &slope : slopes) {
      differentiate(function);
      keepFirstResult(function);
      inputs.push_back(splatTensor(type, 1));
      const auto results = interpret(function, inputs, RefMode::exact);
      EXPECT_TRUE(results) << results.error().message();
      if (!results)
        return slopes;
      slope = results->front().data[0];
    }
    return slopes;
  }

  void check(const Function &function, ArrayRef<double> points) {
    for (double x : points) {
      const Slopes actual = slopesAt(function.body, x), expected = function.slopes(x);
      // Literals are f32: a rounded factor within an exponential is that many times what it multiplies.
      EXPECT_TRUE(allClose(actual, expected, 1e-5, 1e-7))
          << function.body << " at " << x << ": " << actual[0] << " " << actual[1] << " " << actual[2] << ", expected "
          << expected[0] << " " << expected[1] << " " << expected[2];
    }
  }

  std::unique_ptr<MLIRContext> context = makeContext();

private:
  /// The gradient of x alone: those of weights, times 0, would make NaN of infinities.
  static void keepFirstResult(func::FuncOp function) {
    Operation *exit = function.getBody().front().getTerminator();
    exit->setOperands(exit->getOperand(0));
    function.setType(
        FunctionType::get(function.getContext(), function.getArgumentTypes(), exit->getOperand(0).getType()));
  }
};

TEST_F(HigherSlopes, ofSmoothFunctions) {
  for (const Function &function : smooth)
    check(function, everywhere);
}

TEST_F(HigherSlopes, ofBrokenFunctions) {
  for (const Function &function : broken)
    check(function, ArrayRef(everywhere).drop_back()); // NaN has no side
}

TEST_F(HigherSlopes, ofPositiveNumbers) {
  for (const Function &function : ofPositive)
    check(function, positive);
}

TEST_F(HigherSlopes, ofEqualOperands) {
  for (const auto &[body, expected] : atOne) {
    const Slopes actual = slopesAt(body, 1);
    EXPECT_TRUE(allClose(actual, expected, 1e-6, 1e-7))
        << body << ": " << actual[0] << " " << actual[1] << " " << actual[2];
  }
}

/// A literal may be asked for its gradient, also where it is the 1 of a reciprocal.
TEST_F(HigherSlopes, ofALiteralDividend) {
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(*context, R"(func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %one = tcc.constant dense<1.0> : tensor<f32>
    %y = tcc.div %one, %x : tensor<f32>
    %d = tcc.gradient %y wrt %one : tensor<f32>, tensor<f32>
    return %d : tensor<f32>
  })",
                                           messages);
  ASSERT_TRUE(module) << messages;
  expandGradients(mainOf(*module));
  auto results = interpret(mainOf(*module), splatTensor(RankedTensorType::get({}, Float32Type::get(context.get())), 4),
                           RefMode::exact);
  ASSERT_TRUE(results) << results.error().message();
  EXPECT_EQ(results->front().data, std::vector<double>{0.25});
}

} // namespace
} // namespace tcc::test
