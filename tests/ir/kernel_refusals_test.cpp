// What analyzeKernel refuses and in which words, when a result may take an operand's buffer, and that the evaluator
// notices a wrong form.
#include "tests/ir/kernel_fixture.h"

namespace tcc::test {
namespace {

TEST_F(Kernels, refusalsSayWhatWasExpected) {
  struct Refusal {
    const char *arguments, *body, *yields, *expected;
  };
  const Refusal refusals[] = {
      {"x: 2x3x4xf32", "%r = tcc.reduce_sum %x axes [0, 2] : tensor<2x3x4xf32> -> tensor<1x3x1xf32>", "%r : 1x3x1xf32",
       "expected the reduced axes to be neighbours"},
      {"x: 4x0xf32", "%r = tcc.reduce_sum %x axes [1] : tensor<4x0xf32> -> tensor<4x1xf32>", "%r : 4x1xf32",
       "expected a reduction over at least one element"},
      {"x: 2x3xf32, y: 2x4xf32", R"(
    %a = tcc.reduce_sum %x axes [1] : tensor<2x3xf32> -> tensor<2x1xf32>
    %b = tcc.reduce_sum %y axes [1] : tensor<2x4xf32> -> tensor<2x1xf32>)",
       "%a : 2x1xf32, %b : 2x1xf32", "expected row reductions over rows of one size"},
      {"x: 4x3xf32", R"(
    %a = tcc.reduce_sum %x axes [0] : tensor<4x3xf32> -> tensor<1x3xf32>
    %v = tcc.reshape %x : tensor<4x3xf32> -> tensor<2x2x3xf32>
    %b = tcc.reduce_sum %v axes [1] : tensor<2x2x3xf32> -> tensor<2x1x3xf32>)",
       "%a : 1x3xf32, %b : 2x1x3xf32", "expected sums over the rows of tensors of one size"},
      {"x: 4x3xf32, y: 6x2xf32", R"(
    %a = tcc.reduce_sum %x axes [0] : tensor<4x3xf32> -> tensor<1x3xf32>
    %b = tcc.reduce_sum %y axes [1] : tensor<6x2xf32> -> tensor<6x1xf32>)",
       "%a : 1x3xf32, %b : 6x1xf32", "expected sums along rows and over rows of tensors of one size"},
      {"x: 4x3xf32", R"(
    %a = tcc.reduce_sum %x axes [0] : tensor<4x3xf32> -> tensor<1x3xf32>
    %b = tcc.broadcast %a : tensor<1x3xf32> -> tensor<4x3xf32>
    %r = tcc.sub %x, %b : tensor<4x3xf32>)",
       "%r : 4x3xf32", "expected the column reduction to be a result, summed before it is used"},
      {"x: 2x8xf32", R"(
    %a = tcc.reduce_sum %x axes [1] : tensor<2x8xf32> -> tensor<2x1xf32>
    %t = tcc.transpose %a [1, 0] : tensor<2x1xf32> -> tensor<1x2xf32>
    %b = tcc.reshape %a : tensor<2x1xf32> -> tensor<1x2xf32>
    %c = tcc.broadcast %b : tensor<1x2xf32> -> tensor<8x2xf32>)",
       "%c : 8x2xf32", "expected a row's statistics to be used in that row alone"},
      {"x: 4x3xf32", R"(
    %a = tcc.reduce_sum %x axes [1] : tensor<4x3xf32> -> tensor<4x1xf32>
    %p = tcc.pad %a [0, 0], [0, 2] : tensor<4x1xf32> -> tensor<4x3xf32>)",
       "%p : 4x3xf32", "expected no row reduction below a pad or concat"},
      {"x: 3x4xf32, y: 5x1xf32", R"(
    %a = tcc.neg %x : tensor<3x4xf32>
    %b = tcc.neg %y : tensor<5x1xf32>)",
       "%a : 3x4xf32, %b : 5x1xf32",
       "expected every result to have one element for each row or each element of the iteration space"},
      {"x: 2x6xf32", R"(
    %p = tcc.pad %x [0, 0], [0, 1] : tensor<2x6xf32> -> tensor<2x7xf32>
    %s = tcc.slice %p [0, 1] to [-1, -1] : tensor<2x7xf32> -> tensor<2x6xf32>
    %v = tcc.reshape %s : tensor<2x6xf32> -> tensor<3x4xf32>)",
       "%v : 3x4xf32", "accepted"},
      {"w: 7x4xf32, i: 7xi32", R"(
    %e = tcc.exp %w : tensor<7x4xf32>
    %r = tcc.gather %e at %i : tensor<7x4xf32>, tensor<7xi32> -> tensor<7x4xf32>)",
       "%r : 7x4xf32", "expected the table of a gather to be in memory"},
      {"w: 7x4xf32, i: 3xi32, y: 3x4xf32", R"(
    %z = tcc.neg %w : tensor<7x4xf32>
    %r = tcc.scatter_add %z at %i, %y : tensor<7x4xf32>, tensor<3xi32>, tensor<3x4xf32>)",
       "%r : 7x4xf32", "expected the base of a scatter to be in memory"},
      {"w: 7x4xf32, i: 3xi32, y: 3x4xf32", R"(
    %s = tcc.scatter_add %w at %i, %y : tensor<7x4xf32>, tensor<3xi32>, tensor<3x4xf32>
    %r = tcc.neg %s : tensor<7x4xf32>)",
       "%r : 7x4xf32", "expected every result to have one element for each row or each element of the iteration space"},
      {"x: 2x2xf32", R"(
    %c = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %r = tcc.add %x, %c : tensor<2x2xf32>)",
       "%r : 2x2xf32", "expected literals inside a kernel to be splats"},
      {"x: 2x2xf32", "%r = tcc.matmul %x, %x : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>", "%r : 2x2xf32",
       "expected a computation of primitives, found tcc.matmul"},
      {"x: ?x2xf32", "%r = tcc.neg %x : tensor<?x2xf32>", "%r : ?x2xf32", "expected static shapes"},
  };
  for (const Refusal &each : refusals)
    EXPECT_EQ(refusalOf(each.arguments, each.body, each.yields), each.expected) << each.body;
}

//===- sharing buffers -------------------------------------------------------------------------------------------===//

TEST_F(Kernels, aResultMayTakeTheBufferItReadsAtItsOwnIndex) {
  KernelInfo add = form("x: 4x3xf32, w: 3xf32", R"(
    %b = tcc.broadcast %w : tensor<3xf32> -> tensor<4x3xf32>
    %r = tcc.add %x, %b : tensor<4x3xf32>)",
                        "%r : 4x3xf32");
  EXPECT_TRUE(mayShareBuffer(add, 0, 0));
  EXPECT_FALSE(mayShareBuffer(add, 0, 1)); // read by every row

  // A row's statistics need the row once more, in the stage that writes it.
  KernelInfo centred = form("x: 4x3xf32", R"(
    %s = tcc.reduce_sum %x axes [1] : tensor<4x3xf32> -> tensor<4x1xf32>
    %b = tcc.broadcast %s : tensor<4x1xf32> -> tensor<4x3xf32>
    %r = tcc.sub %x, %b : tensor<4x3xf32>)",
                            "%r : 4x3xf32");
  EXPECT_TRUE(mayShareBuffer(centred, 0, 0));
}

TEST_F(Kernels, aBufferThatIsReadElsewhereOrLaterIsKept) {
  KernelInfo transposed = form("x: 3x3xf32", R"(
    %t = tcc.transpose %x [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
    %r = tcc.neg %t : tensor<3x3xf32>)",
                               "%r : 3x3xf32");
  EXPECT_FALSE(mayShareBuffer(transposed, 0, 0));

  KernelInfo both = form("x: 3x3xf32", R"(
    %t = tcc.transpose %x [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
    %r = tcc.add %x, %t : tensor<3x3xf32>)",
                         "%r : 3x3xf32");
  EXPECT_FALSE(mayShareBuffer(both, 0, 0));

  // The first result is written in the first pass over a row; the second still reads x in the next one.
  KernelInfo later = form("x: 4x3xf32", R"(
    %n = tcc.neg %x : tensor<4x3xf32>
    %s = tcc.reduce_sum %x axes [1] : tensor<4x3xf32> -> tensor<4x1xf32>
    %b = tcc.broadcast %s : tensor<4x1xf32> -> tensor<4x3xf32>
    %r = tcc.sub %x, %b : tensor<4x3xf32>)",
                          "%n : 4x3xf32, %r : 4x3xf32");
  EXPECT_FALSE(mayShareBuffer(later, 0, 0));
  EXPECT_TRUE(mayShareBuffer(later, 1, 0));

  KernelInfo narrower = form("x: 4x3xf32", "%r = tcc.cast %x : tensor<4x3xf32> -> tensor<4x3xbf16>", "%r : 4x3xbf16");
  EXPECT_FALSE(mayShareBuffer(narrower, 0, 0));
  KernelInfo columns =
      form("x: 4x3xf32", "%r = tcc.reduce_sum %x axes [0] : tensor<4x3xf32> -> tensor<1x3xf32>", "%r : 1x3xf32");
  EXPECT_FALSE(mayShareBuffer(columns, 0, 0));
  KernelInfo gathered =
      form("w: 4x3xf32, i: 4xi32", "%r = tcc.gather %w at %i : tensor<4x3xf32>, tensor<4xi32> -> tensor<4x3xf32>",
           "%r : 4x3xf32");
  EXPECT_FALSE(mayShareBuffer(gathered, 0, 0));
}

TEST_F(Kernels, aScatterWritesOverItsBaseAlone) {
  KernelInfo info = form("base: 6x4xf32, t: 6xi32, y: 6x4xf32", R"(
    %d = tcc.neg %y : tensor<6x4xf32>
    %r = tcc.scatter_add %base at %t, %d : tensor<6x4xf32>, tensor<6xi32>, tensor<6x4xf32>)",
                         "%r : 6x4xf32, %d : 6x4xf32");
  EXPECT_TRUE(mayShareBuffer(info, 0, 0));
  EXPECT_FALSE(mayShareBuffer(info, 0, 2)); // the rows are still being read
  EXPECT_TRUE(mayShareBuffer(info, 1, 2));
  EXPECT_FALSE(mayShareBuffer(info, 1, 0)); // the base is read by the scatter
}

//===- the evaluator itself --------------------------------------------------------------------------------------===//

TEST_F(Kernels, aWrongFormIsNoticed) {
  func::FuncOp function = parse("x: 4x3xf32, w: 3xf32", R"(
    %s = tcc.reduce_sum %x axes [1] : tensor<4x3xf32> -> tensor<4x1xf32>
    %sb = tcc.broadcast %s : tensor<4x1xf32> -> tensor<4x3xf32>
    %b = tcc.broadcast %w : tensor<3xf32> -> tensor<4x3xf32>
    %a = tcc.add %x, %b : tensor<4x3xf32>
    %r = tcc.mul %a, %sb : tensor<4x3xf32>)",
                                "%r : 4x3xf32");
  std::string refusal;
  std::optional<KernelInfo> info = analyze(function, refusal);
  ASSERT_TRUE(info) << refusal;
  ASSERT_EQ(difference(*info, function), "");
  auto nodeOf = [&](KernelInfo &form, KernelNode::Kind kind, unsigned argument) -> KernelNode & {
    for (KernelNode &node : form.nodes)
      if (node.kind == kind && node.argument == argument)
        return node;
    throw std::logic_error("no such node");
  };
  using Kind = KernelNode::Kind;

  KernelInfo shifted = *info;
  nodeOf(shifted, Kind::load, 1).index = nodeOf(shifted, Kind::load, 1).index * 0;
  EXPECT_EQ(difference(shifted, function), "result 0 (exact) differs");

  KernelInfo beyond = *info;
  nodeOf(beyond, Kind::load, 0).index = nodeOf(beyond, Kind::load, 0).index + IndexExpr(1);
  EXPECT_EQ(difference(beyond, function), "element 12 of argument 0 is read, which has 12");

  KernelInfo early = *info;
  early.nodes[early.stores[0].node].stage = 0;
  EXPECT_NE(difference(early, function).find("has a stage before its operand is ready"), std::string::npos);

  KernelInfo twice = *info;
  twice.stores[0].index = twice.stores[0].index.without(axis::column);
  EXPECT_NE(difference(twice, function).find("is written"), std::string::npos);
}

} // namespace
} // namespace tcc::test
