// Code that kernels of several shapes share: which kernels do, that what they compute is right, and that what may not
// be shared is not.
#include "codegen/cpu/shared_code.h"
#include "kernel_runner.h"

using namespace tcc;
using namespace tcc::test;

namespace {

KernelInfo formOf(const KernelText &text) {
  cpu::EmitOptions options;
  options.threads = 1;
  return LoadedKernel(text, options).info;
}

std::string keyOf(const KernelText &text) {
  return cpu::bytesOf(cpu::sharedForm(formOf(text)).form);
}

/// [blocks, rows, columns] summed over rows.
KernelText columnSum(int64_t blocks, int64_t rows, int64_t columns) {
  const std::string block = std::to_string(blocks) + "x", row = "x" + std::to_string(columns) + "xf32";
  const std::string x = block + std::to_string(rows) + row, y = block + "1" + row;
  return {{{"x", x}}, {{"y", y}}, "%y = tcc.reduce_sum %x axes [1] : tensor<" + x + "> -> tensor<" + y + ">"};
}

/// x [rows, columns] + y repeated for each `period` rows.
KernelText repeated(int64_t rows, int64_t period, int64_t columns) {
  const std::string row = "x" + std::to_string(columns) + "xf32", x = std::to_string(rows) + row;
  const std::string parts = std::to_string(rows / period) + "x" + std::to_string(period) + row;
  return {{{"x", x}, {"y", std::to_string(period) + row}},
          {{"z", x}},
          withTypes("%p = tcc.broadcast %y : !y -> !p\n%r = tcc.reshape %p : !p -> !x\n%z = tcc.add %x, %r : !x",
                    {{"x", x}, {"y", std::to_string(period) + row}, {"p", parts}})};
}

/// The first half of the rows of each block of x [blocks, 2·rows, columns], summed: a block in memory has twice as many
/// rows as the kernel's.
KernelText sumOfHalf(int64_t blocks, int64_t rows, int64_t columns) {
  const std::string block = std::to_string(blocks) + "x", row = "x" + std::to_string(columns) + "xf32";
  const std::string sizes = std::to_string(blocks) + ", " + std::to_string(rows) + ", " + std::to_string(columns);
  return {
      {{"x", block + std::to_string(2 * rows) + row}},
      {{"y", block + "1" + row}},
      withTypes("%h = tcc.slice %x [0, 0, 0] to [" + sizes + "] : !x -> !h\n%y = tcc.reduce_sum %h axes [1] : !h -> !y",
                {{"x", block + std::to_string(2 * rows) + row},
                 {"h", block + std::to_string(rows) + row},
                 {"y", block + "1" + row}})};
}

TEST(SharedCode, KernelsOfOtherRowsHaveTheSameForm) {
  EXPECT_EQ(keyOf(layerNorm(4, 48)), keyOf(layerNorm(7, 48)));
  EXPECT_NE(keyOf(layerNorm(4, 48)), keyOf(layerNorm(4, 49)));
  EXPECT_NE(keyOf(layerNorm(1, 48)), keyOf(layerNorm(2, 48))) << "of one row there are other loops";
  EXPECT_EQ(keyOf(layerNormBackward(3, 4, 48)), keyOf(layerNormBackward(3, 9, 48)));
  EXPECT_NE(keyOf(layerNormBackward(3, 4, 48)), keyOf(layerNormBackward(4, 4, 48))) << "blocks decide about tiles";
  EXPECT_EQ(keyOf(repeated(8, 4, 33)), keyOf(repeated(24, 4, 33)));
  EXPECT_NE(keyOf(repeated(8, 4, 33)), keyOf(repeated(8, 2, 33)));
}

TEST(SharedCode, RowsAreReadWhereTheyAreALoop) {
  EXPECT_FALSE(cpu::sharedForm(formOf(layerNorm(4, 48))).rows);
  EXPECT_EQ(cpu::sharedForm(formOf(layerNormBackward(3, 4, 48))).rows, 4);
  EXPECT_EQ(cpu::sharedForm(formOf(columnSum(1, 9, 20))).rows, 9);
}

/// An index in which an outer block is not so many rows long has the number of rows in it.
TEST(SharedCode, OtherStridesOfBlocksStayInTheForm) {
  EXPECT_FALSE(cpu::sharedForm(formOf(sumOfHalf(3, 5, 20))).rows);
  EXPECT_NE(keyOf(sumOfHalf(3, 5, 20)), keyOf(sumOfHalf(3, 6, 20)));
  expectLikeInterpreter(sumOfHalf(3, 5, 20));
  expectLikeInterpreter(sumOfHalf(3, 6, 20));
}

/// Each with the code that the one before it has left.
TEST(SharedCode, ComputesTheSameAsTheInterpreterForEachNumberOfRows) {
  for (int64_t rows : {2, 3, 8, 17}) {
    expectLikeInterpreter(layerNorm(rows, 50));
    expectLikeInterpreter(layerNormBackward(3, rows, 50));
    expectLikeInterpreter(columnSum(1, rows, 70));
    expectLikeInterpreter(columnSum(5, rows, 200));
    expectLikeInterpreter(repeated(4 * rows, 4, 33));
  }
}

TEST(SharedCode, IsCompiledOnce) {
  cpu::EmitOptions options;
  options.threads = 1;
  auto kernel = [&](int64_t rows, const char *symbol) {
    return KernelSource(FormKernel{symbol, formOf(layerNormBackward(2, rows, 77))});
  };
  const std::vector<KernelSource> first{kernel(4, "a")}, both{kernel(6, "b"), kernel(8, "c")};
  cpu::SharedCode one(first, options);
  ASSERT_FALSE(one.compileMissing());
  cpu::SharedCode two(both, options);
  EXPECT_TRUE(two.missing().empty());
  EXPECT_EQ(two.object(0), one.object(0));
  const auto linked = two.link();
  ASSERT_TRUE(linked) << linked.error().message();
  EXPECT_EQ(*linked, *cpu::SharedCode(both, options).link()) << "the bytes depend on the list alone";
  cpu::EmitOptions other = options;
  other.steady = !options.steady;
  EXPECT_EQ(cpu::SharedCode(first, other).missing().size(), 1u);
  other = options;
  other.target.cpu = "x86-64";
  EXPECT_EQ(cpu::SharedCode(first, other).missing().size(), 1u);
}

/// Every number of a form is part of its bytes.
TEST(SharedCode, BytesTellFormsApart) {
  KernelInfo form;
  form.space = {2, 3, 4};
  form.arguments = {{ElementType::f32, 5}};
  form.results = {{ElementType::f32, 6}};
  form.derived.push_back({IndexExpr::ofAxis(axis::row, 3), 7});
  KernelNode node;
  node.operands = {1};
  node.index = IndexExpr::ofAxis(axis::column, 4);
  node.guards = {3};
  node.guardCounts = {1};
  node.steps.steps.push_back({});
  form.nodes = {node};
  form.stores = {KernelStore()};
  form.stores[0].index = IndexExpr::ofAxis(axis::row, 3);
  using Change = void (*)(KernelInfo &);
  const std::vector<Change> changes{
      [](KernelInfo &f) { ++f.space.outer; },
      [](KernelInfo &f) { ++f.space.rows; },
      [](KernelInfo &f) { ++f.space.columns; },
      [](KernelInfo &f) { f.arguments[0].type = ElementType::bf16; },
      [](KernelInfo &f) { ++f.arguments[0].elements; },
      [](KernelInfo &f) { f.arguments.push_back(f.arguments[0]); },
      [](KernelInfo &f) { ++f.results[0].elements; },
      [](KernelInfo &f) { ++f.derived[0].extent; },
      [](KernelInfo &f) { ++f.derived[0].value.constant; },
      [](KernelInfo &f) { f.nodes[0].kind = KernelNode::Kind::literal; },
      [](KernelInfo &f) { f.nodes[0].type = ElementType::i32; },
      [](KernelInfo &f) { ++f.nodes[0].operands[0]; },
      [](KernelInfo &f) { f.nodes[0].operands.push_back(0); },
      [](KernelInfo &f) { ++f.nodes[0].argument; },
      [](KernelInfo &f) { ++f.nodes[0].index.terms[0].axis; },
      [](KernelInfo &f) { ++f.nodes[0].index.terms[0].coefficient; },
      [](KernelInfo &f) { ++f.nodes[0].index.terms[0].divisor; },
      [](KernelInfo &f) { ++f.nodes[0].index.terms[0].modulus; },
      [](KernelInfo &f) { ++f.nodes[0].index.terms[0].extent; },
      [](KernelInfo &f) { ++f.nodes[0].gatherStride; },
      [](KernelInfo &f) { ++f.nodes[0].gatherRows; },
      [](KernelInfo &f) { ++f.nodes[0].guards[0]; },
      [](KernelInfo &f) { ++f.nodes[0].guardCounts[0]; },
      [](KernelInfo &f) { f.nodes[0].value = ScalarLiteral::ofFloat(-0.0); },
      [](KernelInfo &f) { ++f.nodes[0].stream; },
      [](KernelInfo &f) { f.nodes[0].steps.steps[0].opcode = Opcode::addF; },
      [](KernelInfo &f) { f.nodes[0].steps.steps[0].type = ElementType::i32; },
      [](KernelInfo &f) { ++f.nodes[0].steps.steps[0].operands[2]; },
      [](KernelInfo &f) { f.nodes[0].steps.steps[0].literal = ScalarLiteral::ofInteger(9); },
      [](KernelInfo &f) { ++f.nodes[0].steps.result; },
      [](KernelInfo &f) { f.nodes[0].reduction = Reduction::maximum; },
      [](KernelInfo &f) { f.nodes[0].perColumn = true; },
      [](KernelInfo &f) { ++f.nodes[0].stage; },
      [](KernelInfo &f) { f.stores[0].kind = KernelStore::Kind::scatterAdd; },
      [](KernelInfo &f) { ++f.stores[0].node; },
      [](KernelInfo &f) { ++f.stores[0].index.constant; },
      [](KernelInfo &f) { f.stores[0].perColumn = true; },
      [](KernelInfo &f) { f.stores[0].reduction = Reduction::product; },
      [](KernelInfo &f) { ++f.stores[0].scatterRow; },
      [](KernelInfo &f) { ++f.stores[0].scatterBase; },
      [](KernelInfo &f) { ++f.stores[0].scatterStride; },
      [](KernelInfo &f) { ++f.stores[0].scatterRows; },
      [](KernelInfo &f) { ++f.stages; },
  };
  std::set<std::string> seen{cpu::bytesOf(form)};
  for (size_t i = 0; i < changes.size(); ++i) {
    KernelInfo changed = form;
    changes[i](changed);
    EXPECT_TRUE(seen.insert(cpu::bytesOf(changed)).second) << "change " << i;
  }
}

} // namespace
