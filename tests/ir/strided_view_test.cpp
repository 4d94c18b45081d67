// Strided views against brute force: the interpreter moves each element's number through the views, and the stride
// arithmetic must name the same number.
#include "ir/strided_view.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

/// One function of views over argument %a, and what is known of its result.
struct ViewCase {
  std::string type; // of %a
  std::string body; // ops that end in %r
  std::string result;
  bool reachesArgument = true; // false: a copy is needed on the way
  bool dense = false;
};

std::string moduleOf(const ViewCase &sample) {
  return "func.func @main(%a: tensor<" + sample.type + "xf32>) -> tensor<" + sample.result + "xf32> {\n" + sample.body +
         "\n  return %r : tensor<" + sample.result + "xf32>\n}";
}

std::vector<ViewCase> viewCases() {
  return {
      {"2x3", "%r = tcc.reshape %a : tensor<2x3xf32> -> tensor<3x2xf32>", "3x2", true, true},
      {"2x3x4", "%r = tcc.transpose %a [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>", "4x2x3"},
      {"5x7", "%r = tcc.slice %a [1, 2] to [4, -1] : tensor<5x7xf32> -> tensor<3x5xf32>", "3x5"},
      {"5x7", "%r = tcc.slice %a [2, 0] to [4, -1] : tensor<5x7xf32> -> tensor<2x7xf32>", "2x7"},
      {"3x1", "%r = tcc.broadcast %a : tensor<3x1xf32> -> tensor<2x3x4xf32>", "2x3x4"},
      {"4", "%r = tcc.broadcast %a : tensor<4xf32> -> tensor<3x4xf32>", "3x4"},
      // a head's queries of a packed [B, T, 3C] projection
      {"2x3x12",
       "%s = tcc.slice %a [0, 0, 4] to [-1, -1, 8] : tensor<2x3x12xf32> -> tensor<2x3x4xf32>\n"
       "%h = tcc.reshape %s : tensor<2x3x4xf32> -> tensor<2x3x2x2xf32>\n"
       "%r = tcc.transpose %h [0, 2, 1, 3] : tensor<2x3x2x2xf32> -> tensor<2x2x3x2xf32>",
       "2x2x3x2"},
      // heads joined again: rows of a transposed tensor are no strided vector
      {"2x2x3x2",
       "%t = tcc.transpose %a [0, 2, 1, 3] : tensor<2x2x3x2xf32> -> tensor<2x3x2x2xf32>\n"
       "%r = tcc.reshape %t : tensor<2x3x2x2xf32> -> tensor<2x3x4xf32>",
       "2x3x4", false},
      {"2x3x4",
       "%t = tcc.transpose %a [1, 0, 2] : tensor<2x3x4xf32> -> tensor<3x2x4xf32>\n"
       "%r = tcc.reshape %t : tensor<3x2x4xf32> -> tensor<3x2x2x2xf32>",
       "3x2x2x2"},
      {"4x6",
       "%b = tcc.broadcast %a : tensor<4x6xf32> -> tensor<2x4x6xf32>\n"
       "%s = tcc.slice %b [0, 1, 2] to [-1, 3, -1] : tensor<2x4x6xf32> -> tensor<2x2x4xf32>\n"
       "%r = tcc.transpose %s [2, 1, 0] : tensor<2x2x4xf32> -> tensor<4x2x2xf32>",
       "4x2x2"},
      {"1x6x1", "%r = tcc.reshape %a : tensor<1x6x1xf32> -> tensor<2x1x3xf32>", "2x1x3", true, true},
      {"2x6",
       "%s = tcc.slice %a [0, 0] to [-1, 3] : tensor<2x6xf32> -> tensor<2x3xf32>\n"
       "%r = tcc.reshape %s : tensor<2x3xf32> -> tensor<6xf32>",
       "6", false},
      {"2x6",
       "%s = tcc.slice %a [1, 0] to [2, -1] : tensor<2x6xf32> -> tensor<1x6xf32>\n"
       "%r = tcc.reshape %s : tensor<1x6xf32> -> tensor<3x2xf32>",
       "3x2"},
      {"3x4",
       "%t = tcc.transpose %a [1, 0] : tensor<3x4xf32> -> tensor<4x3xf32>\n"
       "%r = tcc.transpose %t [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>",
       "3x4", true, true},
      {"3", "%r = tcc.pad %a [1], [0] : tensor<3xf32> -> tensor<4xf32>", "4", false},
      {"3", "%r = tcc.concat %a, %a axis 0 : tensor<3xf32>, tensor<3xf32> -> tensor<6xf32>", "6", false},
      {"3x0", "%r = tcc.transpose %a [1, 0] : tensor<3x0xf32> -> tensor<0x3xf32>", "0x3", false},
  };
}

RefTensor numbered(RankedTensorType type) {
  RefTensor tensor = splatTensor(type, 0);
  for (size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = static_cast<double>(i);
  return tensor;
}

std::vector<double> valuesOf(func::FuncOp function) {
  auto results = interpret(function, {numbered(tensorType(function.getArgument(0)))}, RefMode::exact);
  EXPECT_TRUE(results) << results.error().message();
  return results ? results->front().data : std::vector<double>();
}

/// Element numbers of the root in the view's row-major order.
std::vector<double> elementsOf(const StridedView &view) {
  std::vector<double> elements{static_cast<double>(view.offset)};
  for (auto [size, stride] : llvm::zip(view.sizes, view.strides)) {
    std::vector<double> next;
    for (double base : elements)
      for (int64_t i = 0; i < size; ++i)
        next.push_back(base + static_cast<double>(i * stride));
    elements = std::move(next);
  }
  return elements;
}

TEST(StridedView, namesTheElementThatTheInterpreterMoves) {
  auto context = makeContext();
  for (const ViewCase &sample : viewCases()) {
    std::string messages;
    OwningOpRef<ModuleOp> module = parseText(*context, moduleOf(sample), messages);
    ASSERT_TRUE(module) << messages << moduleOf(sample);
    func::FuncOp function = mainOf(*module);
    Value result = function.getBody().front().getTerminator()->getOperand(0);
    StridedView view = stridedView(result);
    EXPECT_EQ(view.root == function.getArgument(0), sample.reachesArgument) << sample.body;
    EXPECT_EQ(isDense(view) && view.root == function.getArgument(0), sample.dense) << sample.body;
    EXPECT_TRUE(llvm::equal(view.sizes, tensorType(result).getShape()));
    std::vector<double> expected = valuesOf(function);
    function.getBody().front().getTerminator()->setOperand(0, view.root);
    function.setType(FunctionType::get(context.get(), function.getArgumentTypes(), view.root.getType()));
    std::vector<double> root = valuesOf(function);
    std::vector<double> actual;
    for (double element : elementsOf(view)) {
      ASSERT_LT(element, static_cast<double>(root.size())) << sample.body;
      actual.push_back(root[static_cast<size_t>(element)]);
    }
    EXPECT_EQ(actual, expected) << sample.body;
  }
}

/// A matmul, and whether its operands are read where they are.
struct ProductCase {
  std::string a, b; // types
  std::string body; // ends in %r, a matmul
  std::string result;
  bool readsA, readsB;
};

std::vector<ProductCase> productCases() {
  return {
      {"4x3", "3x5", "%r = tcc.matmul %a, %b : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>", "4x5", true, true},
      {"3x4", "5x3",
       "%r = tcc.matmul %a transposed, %b transposed : tensor<3x4xf32>, tensor<5x3xf32> -> tensor<4x5xf32>", "4x5",
       true, true},
      {"2x4x3", "3x5", "%r = tcc.matmul %a, %b : tensor<2x4x3xf32>, tensor<3x5xf32> -> tensor<2x4x5xf32>", "2x4x5",
       true, true},
      {"2x4x3", "3x5",
       "%t = tcc.transpose %b [1, 0] : tensor<3x5xf32> -> tensor<5x3xf32>\n"
       "%r = tcc.matmul %a, %t transposed : tensor<2x4x3xf32>, tensor<5x3xf32> -> tensor<2x4x5xf32>",
       "2x4x5", true, true},
      // queries and keys of two heads, out of [B, T, C]
      {"2x3x8", "2x3x8",
       "%q0 = tcc.reshape %a : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>\n"
       "%q = tcc.transpose %q0 [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>\n"
       "%k0 = tcc.reshape %b : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>\n"
       "%k = tcc.transpose %k0 [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>\n"
       "%r = tcc.matmul %q, %k transposed : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x3xf32>",
       "2x2x3x3", true, true},
      // batches joined on one side alone
      {"2x2x3x4", "2x4x2x5",
       "%t = tcc.transpose %b [0, 2, 1, 3] : tensor<2x4x2x5xf32> -> tensor<2x2x4x5xf32>\n"
       "%r = tcc.matmul %a, %t : tensor<2x2x3x4xf32>, tensor<2x2x4x5xf32> -> tensor<2x2x3x5xf32>",
       "2x2x3x5", true, true},
      // neither matrix stride is 1
      {"4x6x2", "6x5",
       "%s = tcc.slice %a [0, 0, 0] to [-1, -1, 1] : tensor<4x6x2xf32> -> tensor<4x6x1xf32>\n"
       "%v = tcc.reshape %s : tensor<4x6x1xf32> -> tensor<4x6xf32>\n"
       "%r = tcc.matmul %v, %b : tensor<4x6xf32>, tensor<6x5xf32> -> tensor<4x5xf32>",
       "4x5", false, true},
      // a broadcast batch has stride 0
      {"2x3x4", "4x5",
       "%w = tcc.broadcast %b : tensor<4x5xf32> -> tensor<2x4x5xf32>\n"
       "%r = tcc.matmul %a, %w : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>",
       "2x3x5", true, true},
      {"1x4", "4x1", "%r = tcc.matmul %a, %b : tensor<1x4xf32>, tensor<4x1xf32> -> tensor<1x1xf32>", "1x1", true, true},
  };
}

double elementAt(const MatrixView &view, ArrayRef<double> root, int64_t i, int64_t j, int64_t row, int64_t column) {
  return root[view.offset + i * view.batchStride[0] + j * view.batchStride[1] + row * view.rowStride +
              column * view.columnStride];
}

TEST(MatmulViews, productOfTheViewsIsTheProduct) {
  auto context = makeContext();
  for (const ProductCase &sample : productCases()) {
    std::string messages;
    std::string text = "func.func @main(%a: tensor<" + sample.a + "xf32>, %b: tensor<" + sample.b +
                       "xf32>) -> tensor<" + sample.result + "xf32> {\n" + sample.body + "\n  return %r : tensor<" +
                       sample.result + "xf32>\n}";
    OwningOpRef<ModuleOp> module = parseText(*context, text, messages);
    ASSERT_TRUE(module) << messages << text;
    func::FuncOp function = mainOf(*module);
    Operation *terminator = function.getBody().front().getTerminator();
    auto product = terminator->getOperand(0).getDefiningOp<MatmulOp>();
    MatmulViews views = matmulViews(product, {.batchDims = 2});
    EXPECT_EQ(views.a.root == function.getArgument(0), sample.readsA) << sample.body;
    EXPECT_EQ(views.b.root == function.getArgument(1), sample.readsB) << sample.body;
    for (const MatrixView &view : {views.a, views.b})
      EXPECT_TRUE(view.rowStride == 1 || view.columnStride == 1) << sample.body;
    ASSERT_EQ(views.a.columns, views.b.rows) << sample.body;

    // The roots' values and the matmul, from one run.
    terminator->setOperands({views.a.root, views.b.root, product.getResult()});
    function.setType(FunctionType::get(context.get(), function.getArgumentTypes(), terminator->getOperandTypes()));
    std::vector<RefTensor> inputs;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      inputs.push_back(randomTensor(cast<RankedTensorType>(type), i));
    auto results = interpret(function, inputs, RefMode::exact);
    ASSERT_TRUE(results) << results.error().message();
    const std::vector<double> &a = (*results)[0].data, &b = (*results)[1].data, &expected = (*results)[2].data;
    size_t next = 0;
    for (int64_t i = 0; i < views.a.batch[0]; ++i)
      for (int64_t j = 0; j < views.a.batch[1]; ++j)
        for (int64_t row = 0; row < views.a.rows; ++row)
          for (int64_t column = 0; column < views.b.columns; ++column) {
            double sum = 0;
            for (int64_t k = 0; k < views.a.columns; ++k)
              sum += elementAt(views.a, a, i, j, row, k) * elementAt(views.b, b, i, j, k, column);
            ASSERT_LT(next, expected.size()) << sample.body;
            ASSERT_NEAR(sum, expected[next++], 1e-12) << sample.body;
          }
    EXPECT_EQ(next, expected.size()) << sample.body;
  }
}

} // namespace
} // namespace tcc::test
