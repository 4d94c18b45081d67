// The interpreter and the gradients against PyTorch's values.
#include "tests/ops/differentiate.h"
#include "tests/ops/op_table.h"
#include "tests/ops/torch_data.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

/// Tensors of the given types from literal data.
std::vector<RefTensor> tensorsOf(TypeRange types, const std::vector<std::vector<double>> &data) {
  std::vector<RefTensor> tensors;
  for (auto [type, values] : llvm::zip_equal(types, data))
    tensors.push_back({cast<RankedTensorType>(type), values});
  return tensors;
}

void expectClose(ArrayRef<RefTensor> actual, const std::vector<std::vector<double>> &expected,
                 const std::string &what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(allClose(actual[i].data, expected[i], 1e-5, 1e-9))
        << what << " " << i << " differs by " << largestDifference(actual[i].data, expected[i]);
}

TEST(Torch, valuesAgree) {
  auto context = makeContext();
  ASSERT_GT(torchCases.size(), 50u);
  for (const TorchCase &torchCase : torchCases) {
    std::string messages;
    OwningOpRef<ModuleOp> module = parseText(*context, torchCase.text, messages);
    ASSERT_TRUE(module) << torchCase.text << messages;
    func::FuncOp function = mainOf(*module);
    auto results = interpret(function, tensorsOf(function.getArgumentTypes(), torchCase.inputs), RefMode::exact);
    ASSERT_TRUE(results) << results.error().message();
    expectClose(*results, torchCase.results, std::string(torchCase.name) + ": result");
  }
}

TEST(Torch, gradientsAgree) {
  auto context = makeContext();
  int checked = 0;
  for (const TorchCase &torchCase : torchCases) {
    if (torchCase.gradients.empty())
      continue;
    std::string messages;
    OwningOpRef<ModuleOp> module = parseText(*context, torchCase.text, messages);
    ASSERT_TRUE(module) << messages;
    func::FuncOp function = mainOf(*module);
    decomposeAll(function);
    differentiate(function);
    std::vector<std::vector<double>> inputs = torchCase.inputs;
    inputs.insert(inputs.end(), torchCase.weights.begin(), torchCase.weights.end());
    auto gradients = interpret(function, tensorsOf(function.getArgumentTypes(), inputs), RefMode::exact);
    ASSERT_TRUE(gradients) << torchCase.name << ": " << gradients.error().message();
    expectClose(*gradients, torchCase.gradients, std::string(torchCase.name) + ": gradient");
    ++checked;
  }
  EXPECT_GT(checked, 40);
}

} // namespace
} // namespace tcc::test
