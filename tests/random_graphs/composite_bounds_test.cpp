// Composites, sums and gradients have a bound on their error too: compiled at -O0 and -O2, for each CPU that this
// machine can be, against the fp64 interpreter. docs/LANGUAGE.md has the worst values that this prints.
#include "mlir/Parser/Parser.h"
#include "tests/random_graphs/graph_check.h"
#include "llvm/TargetParser/Host.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tcc;
using namespace tcc::test;

namespace {

/// What errors are in ulps of: each exact result, or where results cancel the largest of the row, or of the tensor.
enum class Scale { element, row, tensor };

/// A graph, and the bound of its results' errors in ulps.
struct Composite {
  std::string name, text; // results are tensors of f32
  double low, high;       // of every f32 argument
  Scale scale;
  double bound;
};

void PrintTo(const Composite &composite, std::ostream *out) {
  *out << composite.name;
}

/// The gradients of the sum of `op`'s results, each times its element of %dy, with respect to arguments.
struct Gradient {
  std::string op, result;                               // the op of arguments, and the type of what it gives
  std::vector<std::pair<std::string, std::string>> wrt; // names and types
  std::string others;                                   // arguments beside, with a comma
};

std::string gradientText(const Gradient &gradient) {
  std::string arguments, names, types, results;
  for (size_t i = 0; i < gradient.wrt.size(); ++i) {
    const auto &[name, type] = gradient.wrt[i];
    const std::string comma = i ? ", " : "";
    arguments += name + ": " + type + ", ";
    names += comma + name;
    types += comma + type;
    results += comma + "%d#" + std::to_string(i);
  }
  const bool scalar = gradient.result == "tensor<f32>";
  std::string ones, axes;
  for (size_t at = 0, n = 0; (at = gradient.result.find('x', at)) != std::string::npos; ++at, ++n) {
    axes += (n ? ", " : "") + std::to_string(n);
    ones += "1x";
  }
  const std::string sum = "  %s = tcc.reduce_sum %p axes [" + axes + "] : " + gradient.result + " -> tensor<" + ones +
                          "f32>\n  %l = tcc.reshape %s : tensor<" + ones + "f32> -> tensor<f32>\n";
  return "(" + arguments + gradient.others + "%dy: " + gradient.result + ") -> (" + types +
         ") {\n  %y = " + gradient.op + "\n  %p = tcc.mul %y, %dy : " + gradient.result + "\n" + (scalar ? "" : sum) +
         "  %d:" + std::to_string(gradient.wrt.size()) + " = tcc.gradient " + (scalar ? "%p" : "%l") + " wrt " + names +
         " : tensor<f32>, " + types + "\n  return " + results + " : " + types + " }";
}

const std::string rows = "tensor<64x257xf32>", row = "tensor<257xf32>", heads = "tensor<4x37x16xf32>";

std::string slopeOf(const std::string &op) {
  return gradientText({"tcc." + op + " %x : " + rows, rows, {{"%x", rows}}, ""});
}

const Composite composites[] = {
    {"softmax", R"((%x: tensor<64x257xf32>) -> tensor<64x257xf32> {
  %y = tcc.softmax %x : tensor<64x257xf32>
  return %y : tensor<64x257xf32> })",
     -20, 20, Scale::element, 48},
    {"layer_norm", R"((%x: tensor<64x257xf32>, %w: tensor<257xf32>, %b: tensor<257xf32>) -> tensor<64x257xf32> {
  %y = tcc.layer_norm %x, %w, %b : tensor<64x257xf32>, tensor<257xf32>, tensor<257xf32>
  return %y : tensor<64x257xf32> })",
     -20, 20, Scale::row, 8},
    {"rms_norm", R"((%x: tensor<64x257xf32>, %w: tensor<257xf32>) -> tensor<64x257xf32> {
  %y = tcc.rms_norm %x, %w : tensor<64x257xf32>, tensor<257xf32>
  return %y : tensor<64x257xf32> })",
     -20, 20, Scale::element, 8},
    {"cross_entropy", R"((%x: tensor<64x257xf32>, %t: tensor<64xi32>) -> tensor<f32> {
  %y = tcc.cross_entropy %x, %t : tensor<64x257xf32>, tensor<64xi32> -> tensor<f32>
  return %y : tensor<f32> })",
     -20, 20, Scale::element, 8},
    {"linear", R"((%x: tensor<64x257xf32>, %w: tensor<257x33xf32>, %b: tensor<33xf32>) -> tensor<64x33xf32> {
  %y = tcc.linear %x, %w, %b : tensor<64x257xf32>, tensor<257x33xf32>, tensor<33xf32> -> tensor<64x33xf32>
  return %y : tensor<64x33xf32> })",
     -1, 1, Scale::row, 16},
    {"attention",
     R"((%q: tensor<4x37x16xf32>, %k: tensor<4x37x16xf32>, %v: tensor<4x37x16xf32>) -> tensor<4x37x16xf32> {
  %y = tcc.attention %q, %k, %v causal scale 0.25 : tensor<4x37x16xf32>, tensor<4x37x16xf32>, tensor<4x37x16xf32>
  return %y : tensor<4x37x16xf32> })",
     -3, 3, Scale::row, 32},
    {"reduce_sum", R"((%x: tensor<100003x3xf32>) -> tensor<1x3xf32> {
  %y = tcc.reduce_sum %x axes [0] : tensor<100003x3xf32> -> tensor<1x3xf32>
  return %y : tensor<1x3xf32> })",
     0, 1, Scale::element, 32},
    {"reduce_mean", R"((%x: tensor<64x257xf32>) -> tensor<64x1xf32> {
  %y = tcc.reduce_mean %x axes [1] : tensor<64x257xf32> -> tensor<64x1xf32>
  return %y : tensor<64x1xf32> })",
     0, 20, Scale::element, 8},
    {"scatter_add", R"((%b: tensor<257x17xf32>, %i: tensor<2048xi32>, %r: tensor<2048x17xf32>) -> tensor<257x17xf32> {
  %y = tcc.scatter_add %b at %i, %r : tensor<257x17xf32>, tensor<2048xi32>, tensor<2048x17xf32>
  return %y : tensor<257x17xf32> })",
     0, 1, Scale::element, 8},
    {"dropout", R"((%x: tensor<64x257xf32>) -> tensor<64x257xf32> {
  %seed = tcc.constant dense<7> : tensor<i32>
  %y = tcc.dropout %x, %seed rate 0.3 stream 2 : tensor<64x257xf32>, tensor<i32>
  return %y : tensor<64x257xf32> })",
     -20, 20, Scale::element, 2},
    {"gelu_gradient", R"((%x: tensor<64x257xf32>, %dy: tensor<64x257xf32>) -> tensor<64x257xf32> {
  %y = tcc.gelu_gradient %x, %dy : tensor<64x257xf32>
  return %y : tensor<64x257xf32> })",
     -8, 8, Scale::row, 4},
    {"adamw", R"((%p: tensor<4099xf32>, %g: tensor<4099xf32>, %m: tensor<4099xf32>, %v: tensor<4099xf32>)
    -> (tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>) {
  %lr = tcc.constant dense<1.0e-3> : tensor<f32>
  %step = tcc.constant dense<10.0> : tensor<f32>
  %scale = tcc.constant dense<0.7> : tensor<f32>
  %yes = tcc.constant dense<true> : tensor<i1>
  %y:3 = tcc.adamw %p, %g, %m, %v lr %lr step %step scale %scale apply %yes {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.1} : tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>
  return %y#0, %y#1, %y#2 : tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32> })",
     0.01, 1, Scale::element, 4},
    {"softmax's", slopeOf("softmax"), -20, 20, Scale::row, 8},
    {"layer_norm's",
     gradientText({"tcc.layer_norm %x, %w, %b : " + rows + ", " + row + ", " + row,
                   rows,
                   {{"%x", rows}, {"%w", row}, {"%b", row}},
                   ""}),
     -20, 20, Scale::row, 8},
    {"rms_norm's", gradientText({"tcc.rms_norm %x, %w : " + rows + ", " + row, rows, {{"%x", rows}, {"%w", row}}, ""}),
     -20, 20, Scale::row, 8},
    {"cross_entropy's",
     gradientText({"tcc.cross_entropy %x, %t : " + rows + ", tensor<64xi32> -> tensor<f32>",
                   "tensor<f32>",
                   {{"%x", rows}},
                   "%t: tensor<64xi32>, "}),
     -20, 20, Scale::row, 4},
    {"linear's",
     gradientText({"tcc.linear %x, %w, %b : " + rows + ", tensor<257x33xf32>, tensor<33xf32> -> tensor<64x33xf32>",
                   "tensor<64x33xf32>",
                   {{"%x", rows}, {"%w", "tensor<257x33xf32>"}, {"%b", "tensor<33xf32>"}},
                   ""}),
     -1, 1, Scale::row, 16},
    {"attention's",
     gradientText({"tcc.attention %q, %k, %v causal scale 0.25 : " + heads + ", " + heads + ", " + heads,
                   heads,
                   {{"%q", heads}, {"%k", heads}, {"%v", heads}},
                   ""}),
     -3, 3, Scale::tensor, 32},
    {"exp's", slopeOf("exp"), -8, 8, Scale::row, 8},
    {"log's", slopeOf("log"), 0.01, 100, Scale::row, 8},
    {"sqrt's", slopeOf("sqrt"), 0.01, 100, Scale::row, 8},
    {"rsqrt's", slopeOf("rsqrt"), 0.01, 100, Scale::row, 8},
    {"tanh's", slopeOf("tanh"), -8, 8, Scale::row, 8},
    {"erf's", slopeOf("erf"), -8, 8, Scale::row, 8},
    {"sin's", slopeOf("sin"), -8, 8, Scale::row, 8},
    {"cos's", slopeOf("cos"), -8, 8, Scale::row, 8},
    {"softplus's", slopeOf("softplus"), -8, 8, Scale::row, 8},
    {"sigmoid's", slopeOf("sigmoid"), -8, 8, Scale::row, 8},
    {"silu's", slopeOf("silu"), -8, 8, Scale::row, 8},
    {"gelu's", slopeOf("gelu"), -8, 8, Scale::row, 8},
};

std::vector<cpu::Target> targets() {
  std::vector<cpu::Target> found = {{}, {"x86-64", "", 0}};
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("avx2") && features.lookup("fma"))
    found.push_back({"x86-64-v3", "", 0});
  return found;
}

/// The largest error in ulps.
double worstUlps(const RefTensor &found, const RefTensor &exact, Scale scale) {
  const int64_t all = exact.size();
  const int64_t part = scale == Scale::tensor || exact.shape().empty() ? all
                       : scale == Scale::row                           ? exact.shape().back()
                                                                       : 1;
  double worst = 0;
  for (int64_t begin = 0; begin < all; begin += part) {
    double largest = std::ldexp(1.0, -126);
    for (int64_t i = begin; i < begin + part; ++i)
      largest = std::max(largest, std::fabs(exact.data[i]));
    for (int64_t i = begin; i < begin + part; ++i)
      worst = std::max(worst, std::fabs(found.data[i] - exact.data[i]) / std::ldexp(1.0, std::ilogb(largest) - 23));
  }
  return worst;
}

class CompositeBounds : public testing::TestWithParam<Composite> {};
INSTANTIATE_TEST_SUITE_P(All, CompositeBounds, testing::ValuesIn(composites), [](const auto &info) {
  return info.param.name.ends_with("'s") ? "gradient_of_" + info.param.name.substr(0, info.param.name.size() - 2)
                                         : info.param.name;
});

TEST_P(CompositeBounds, holdOnEveryCpu) {
  const Composite &composite = GetParam();
  MLIRContext context;
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>("func.func @main" + composite.text, &context);
  ASSERT_TRUE(module) << composite.text;
  std::vector<RefTensor> arguments;
  for (Type type : onlyFunction(*module).getArgumentTypes()) {
    const auto tensor = cast<RankedTensorType>(type);
    const bool isFloat = isa<FloatType>(tensor.getElementType());
    arguments.push_back(
        randomTensor(tensor, 31 + arguments.size(), isFloat ? composite.low : 0, isFloat ? composite.high : 257));
  }
  std::string error;
  const auto reference = Reference::make(*module, arguments, error);
  ASSERT_TRUE(reference) << error;
  const llvm::ArrayRef<RefTensor> exact = reference->exact();
  for (const cpu::Target &target : targets())
    for (const int level : {0, 2}) {
      CheckOptions options;
      options.level = level;
      options.target = target;
      options.matchAttention = level > 0;
      const auto graph = CompiledGraph::compile(*module, options, error);
      ASSERT_TRUE(graph) << error;
      const auto results = graph->run(arguments, error);
      ASSERT_TRUE(results) << error;
      ASSERT_EQ(results->size(), exact.size());
      double worst = 0;
      for (size_t i = 0; i < exact.size(); ++i)
        worst = std::max(worst, worstUlps((*results)[i], exact[i], composite.scale));
      EXPECT_LE(worst, composite.bound) << target.cpu << ", -O" << level;
      std::printf("%-16s %-10s -O%d %.2f ulp\n", composite.name.c_str(),
                  target.cpu.empty() ? "native" : target.cpu.c_str(), level, worst);
    }
}

} // namespace
