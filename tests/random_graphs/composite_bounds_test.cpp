// Composites have a bound on their error too: compiled at -O0 and -O2, for each CPU that this machine can be, against
// the fp64 interpreter. docs/LANGUAGE.md has the worst values that this prints.
#include "ir/reference/interpreter.h"
#include "mlir/Parser/Parser.h"
#include "tests/random_graphs/graph_check.h"
#include "llvm/TargetParser/Host.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tcc;
using namespace tcc::test;

namespace {

/// An op over rows, and the bound of its error in ulps.
struct Composite {
  const char *name, *text; // results are tensors of f32
  double low, high;        // of every f32 argument
  bool byRow;              // in ulps of the row's largest result, where results cancel; else of each exact result
  double bound;
};

const Composite composites[] = {
    {"softmax", R"((%x: tensor<64x257xf32>) -> tensor<64x257xf32> {
  %y = tcc.softmax %x : tensor<64x257xf32>
  return %y : tensor<64x257xf32> })",
     -20, 20, false, 48},
    {"layer_norm", R"((%x: tensor<64x257xf32>, %w: tensor<257xf32>, %b: tensor<257xf32>) -> tensor<64x257xf32> {
  %y = tcc.layer_norm %x, %w, %b : tensor<64x257xf32>, tensor<257xf32>, tensor<257xf32>
  return %y : tensor<64x257xf32> })",
     -20, 20, true, 8},
    {"rms_norm", R"((%x: tensor<64x257xf32>, %w: tensor<257xf32>) -> tensor<64x257xf32> {
  %y = tcc.rms_norm %x, %w : tensor<64x257xf32>, tensor<257xf32>
  return %y : tensor<64x257xf32> })",
     -20, 20, false, 8},
    {"cross_entropy", R"((%x: tensor<64x257xf32>, %t: tensor<64xi32>) -> tensor<f32> {
  %y = tcc.cross_entropy %x, %t : tensor<64x257xf32>, tensor<64xi32> -> tensor<f32>
  return %y : tensor<f32> })",
     -20, 20, false, 8},
    {"linear", R"((%x: tensor<64x257xf32>, %w: tensor<257x33xf32>, %b: tensor<33xf32>) -> tensor<64x33xf32> {
  %y = tcc.linear %x, %w, %b : tensor<64x257xf32>, tensor<257x33xf32>, tensor<33xf32> -> tensor<64x33xf32>
  return %y : tensor<64x33xf32> })",
     -1, 1, true, 16},
    {"attention",
     R"((%q: tensor<4x37x16xf32>, %k: tensor<4x37x16xf32>, %v: tensor<4x37x16xf32>) -> tensor<4x37x16xf32> {
  %y = tcc.attention %q, %k, %v causal scale 0.25 : tensor<4x37x16xf32>, tensor<4x37x16xf32>, tensor<4x37x16xf32>
  return %y : tensor<4x37x16xf32> })",
     -3, 3, true, 32},
};

std::vector<cpu::Target> targets() {
  std::vector<cpu::Target> found = {{}, {"x86-64", "", 0}};
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("avx2") && features.lookup("fma"))
    found.push_back({"x86-64-v3", "", 0});
  return found;
}

/// The largest error in ulps.
double worstUlps(const RefTensor &found, const RefTensor &exact, bool byRow) {
  const int64_t columns = exact.shape().empty() ? 1 : exact.shape().back();
  double worst = 0;
  for (int64_t row = 0; row < exact.size(); row += columns) {
    double largest = 0;
    for (int64_t i = row; i < row + columns; ++i)
      largest = std::max(largest, std::fabs(exact.data[i]));
    for (int64_t i = row; i < row + columns; ++i) {
      const double scale = byRow ? largest : std::max(std::fabs(exact.data[i]), std::ldexp(1.0, -126));
      worst = std::max(worst, std::fabs(found.data[i] - exact.data[i]) / std::ldexp(1.0, std::ilogb(scale) - 23));
    }
  }
  return worst;
}

class CompositeBounds : public testing::TestWithParam<Composite> {};
INSTANTIATE_TEST_SUITE_P(All, CompositeBounds, testing::ValuesIn(composites),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(CompositeBounds, holdOnEveryCpu) {
  const Composite &composite = GetParam();
  MLIRContext context;
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>("func.func @main" + std::string(composite.text), &context);
  ASSERT_TRUE(module) << composite.text;
  func::FuncOp function = onlyFunction(*module);
  std::vector<RefTensor> arguments;
  for (Type type : function.getArgumentTypes()) {
    const auto tensor = cast<RankedTensorType>(type);
    const bool isFloat = isa<FloatType>(tensor.getElementType());
    arguments.push_back(
        randomTensor(tensor, 31 + arguments.size(), isFloat ? composite.low : 0, isFloat ? composite.high : 257));
  }
  std::string error;
  const auto exact = interpret(function, arguments, RefMode::exact, error);
  ASSERT_TRUE(succeeded(exact)) << error;
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
      const double worst = worstUlps((*results)[0], (*exact)[0], composite.byRow);
      EXPECT_LE(worst, composite.bound) << target.cpu << ", -O" << level;
      std::printf("%-14s %-10s -O%d %.2f ulp\n", composite.name, target.cpu.empty() ? "native" : target.cpu.c_str(),
                  level, worst);
    }
}

} // namespace
