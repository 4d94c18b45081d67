// Dropout in terms of primitives is found again as what it was, and nothing else is.
#include "ir/ops/dropout.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

class MatchDropOut : public ::testing::Test {
protected:
  /// %x: tensor<2x3xf32>, %s: tensor<i32>, %f: tensor<i32>, with dropOut of x after them.
  void build(const Dropout &like, bool withFirst) {
    std::string messages;
    module = parseText(*context,
                       "func.func @main(%x: tensor<2x3xf32>, %s: tensor<i32>, %f: tensor<i32>) -> tensor<2x3xf32> {\n"
                       "  return %x : tensor<2x3xf32>\n}",
                       messages);
    ASSERT_TRUE(module) << messages;
    func::FuncOp function = mainOf(*module);
    dropout = like;
    dropout.seed = function.getArgument(1);
    dropout.first = withFirst ? Value(function.getArgument(2)) : Value();
    x = function.getArgument(0);
    builder.setInsertionPoint(function.getBody().front().getTerminator());
    value = dropOut(b, x, dropout);
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module;
  OpBuilder builder{context.get()};
  Emit b{builder, builder.getUnknownLoc()};
  Dropout dropout;
  Value x, value;
};

TEST_F(MatchDropOut, findsWhatDropOutMade) {
  for (double rate : {0.1, 0.5, 0.9, 1e-9})
    for (bool withFirst : {false, true}) {
      build({rate, {}, 70000, {}}, withFirst);
      std::optional<DroppedOut> found = matchDropOut(value);
      ASSERT_TRUE(found) << rate;
      EXPECT_EQ(found->x, x);
      EXPECT_EQ(found->dropout.seed, dropout.seed);
      EXPECT_EQ(found->dropout.stream, dropout.stream);
      EXPECT_EQ(found->dropout.first, dropout.first);
      EXPECT_EQ(dropThreshold(found->dropout.rate), dropThreshold(rate));
      EXPECT_EQ(keepScale(found->dropout.rate), keepScale(rate));
    }
}

TEST_F(MatchDropOut, refusesWhatIsNearlyOne) {
  build({0.5, {}, 1, {}}, false);
  auto select = value.getDefiningOp<SelectOp>();
  EXPECT_FALSE(matchDropOut(x));
  EXPECT_FALSE(matchDropOut(b.select(select.getCondition(), x, select.getOnFalse()))) << "kept ones are not scaled";
  EXPECT_FALSE(matchDropOut(b.select(select.getCondition(), b.mul(x, 1.5), select.getOnFalse()))) << "another scale";
  EXPECT_FALSE(matchDropOut(b.select(select.getCondition(), select.getOnTrue(), x))) << "dropped ones are not 0";
  auto compare = select.getCondition().getDefiningOp<CompareOp>();
  Value flipped = b.compare(Predicate::lt, compare.getLhs(), compare.getRhs());
  EXPECT_FALSE(matchDropOut(b.select(flipped, select.getOnTrue(), select.getOnFalse()))) << "the others are kept";
}

} // namespace
} // namespace tcc::test
