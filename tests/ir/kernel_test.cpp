// The kernel form: what analyzeKernel makes of every pattern that training needs, and that the form alone gives the
// region's values.
#include "tests/ir/kernel_fixture.h"
#include "tests/passes/training_steps.h"
#include <cmath>

namespace tcc::test {
namespace {

//===- reductions ------------------------------------------------------------------------------------------------===//

TEST_F(Kernels, reductionsOverAnyAxisOfThree) {
  struct Case {
    std::string axes, result, space;
  };
  for (const Case &sample :
       {Case{"2", "2x3x1", "space 1 x 6 x 4, stages 1"}, Case{"1, 2", "2x1x1", "space 1 x 2 x 12, stages 1"},
        Case{"0, 1, 2", "1x1x1", "space 1 x 1 x 24, stages 1"}, Case{"1", "2x1x4", "space 2 x 3 x 4, stages 1"},
        Case{"0", "1x3x4", "space 1 x 2 x 12, stages 1"}, Case{"0, 1", "1x1x4", "space 1 x 6 x 4, stages 1"}})
    for (StringRef op : {"reduce_sum", "reduce_max"}) {
      KernelInfo info = form(
          "x: 2x3x4xf32",
          ("%r = tcc." + op + " %x axes [" + sample.axes + "] : tensor<2x3x4xf32> -> tensor<" + sample.result + "xf32>")
              .str(),
          "%r : " + sample.result + "xf32");
      EXPECT_EQ(spaceOf(info), sample.space) << "axes " << sample.axes;
    }
}

TEST_F(Kernels, softmaxTakesThreePassesOverARow) {
  KernelInfo info = form("x: 3x5xf32", R"(
    %m = tcc.reduce_max %x axes [1] : tensor<3x5xf32> -> tensor<3x1xf32>
    %mb = tcc.broadcast %m : tensor<3x1xf32> -> tensor<3x5xf32>
    %d = tcc.sub %x, %mb : tensor<3x5xf32>
    %e = tcc.exp %d : tensor<3x5xf32>
    %s = tcc.reduce_sum %e axes [1] : tensor<3x5xf32> -> tensor<3x1xf32>
    %sb = tcc.broadcast %s : tensor<3x1xf32> -> tensor<3x5xf32>
    %r = tcc.div %e, %sb : tensor<3x5xf32>)",
                         "%r : 3x5xf32");
  EXPECT_EQ(print(info), R"(space 1 x 3 x 5, stages 3
%0 = load arg0[5*row + column] : f32, stage 0
%1 = row maximum of %0 : f32, stage 0, once a row
%2 = subf(%0, %1) : f32, stage 1
%3 = exp(%2) : f32, stage 1
%4 = row sum of %3 : f32, stage 1, once a row
%5 = divf(%3, %4) : f32, stage 2
result0[5*row + column] = element %5
)");
}

TEST_F(Kernels, rowAndColumnReductionsShareASpace) {
  KernelInfo info = form("x: 6x4xf32, w: 4xf32", R"(
    %s = tcc.reduce_sum %x axes [1] : tensor<6x4xf32> -> tensor<6x1xf32>
    %sb = tcc.broadcast %s : tensor<6x1xf32> -> tensor<6x4xf32>
    %wb = tcc.broadcast %w : tensor<4xf32> -> tensor<6x4xf32>
    %p = tcc.mul %x, %sb : tensor<6x4xf32>
    %y = tcc.mul %p, %wb : tensor<6x4xf32>
    %v = tcc.reshape %p : tensor<6x4xf32> -> tensor<2x3x4xf32>
    %c = tcc.reduce_sum %v axes [1] : tensor<2x3x4xf32> -> tensor<2x1x4xf32>)",
                         "%y : 6x4xf32, %c : 2x1x4xf32, %s : 6x1xf32");
  EXPECT_EQ(print(info), R"(space 2 x 3 x 4, stages 2
%0 = load arg0[12*outer + 4*row + column] : f32, stage 0
%1 = row sum of %0 : f32, stage 0, once a row
%2 = mulf(%0, %1) : f32, stage 1
%3 = load arg1[column] : f32, stage 0
%4 = mulf(%2, %3) : f32, stage 1
result0[12*outer + 4*row + column] = element %4
result1[4*outer + column] = column sum %2
result2[3*outer + row] = element %1
)");
}

//===- views -----------------------------------------------------------------------------------------------------===//

TEST_F(Kernels, positionsAreReadModuloT) {
  std::string body = R"(
    %b = tcc.broadcast %p : tensor<3x4xf32> -> tensor<2x3x4xf32>
    %xf = tcc.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
    %bf = tcc.reshape %b : tensor<2x3x4xf32> -> tensor<6x4xf32>
    %y = tcc.add %xf, %bf : tensor<6x4xf32>)";
  KernelInfo flat = form("x: 2x3x4xf32, p: 3x4xf32", body, "%y : 6x4xf32");
  EXPECT_EQ(print(flat), R"(space 1 x 2 x 12, stages 1
%0 = load arg0[12*row + column] : f32, stage 0
%1 = load arg1[column] : f32, stage 0
%2 = addf(%0, %1) : f32, stage 0
result0[12*row + column] = element %2
)");
  KernelInfo rows =
      form("x: 2x3x4xf32, p: 3x4xf32", body + "%s = tcc.reduce_sum %y axes [1] : tensor<6x4xf32> -> tensor<6x1xf32>",
           "%y : 6x4xf32, %s : 6x1xf32");
  EXPECT_NE(print(rows).find("load arg1[4*(row mod 3) + column]"), std::string::npos) << print(rows);
}

TEST_F(Kernels, rotaryHalvesAreGuardedParts) {
  KernelInfo info = form("x: 3x8xf32, c: 3x4xf32", R"(
    %a = tcc.slice %x [0, 0] to [-1, 4] : tensor<3x8xf32> -> tensor<3x4xf32>
    %b = tcc.slice %x [0, 4] to [-1, 8] : tensor<3x8xf32> -> tensor<3x4xf32>
    %ac = tcc.mul %a, %c : tensor<3x4xf32>
    %nb = tcc.neg %b : tensor<3x4xf32>
    %r = tcc.concat %ac, %nb axis 1 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x8xf32>)",
                         "%r : 3x8xf32");
  EXPECT_EQ(print(info), R"(space 1 x 3 x 8, stages 1
d3 = column in 0..4
d4 = column + -4 in 0..4
%0 = load arg0[8*row + column] if d3 : f32, stage 0
%1 = load arg1[4*row + column] if d3 : f32, stage 0
%2 = mulf(%0, %1) : f32, stage 0
%3 = load arg0[8*row + column] if d4 : f32, stage 0
%4 = negf(%3) : f32, stage 0
%5 = choose %2 %4 if d3 if d4 : f32, stage 0
result0[8*row + column] = element %5
)");
}

TEST_F(Kernels, paddingIsAGuardThatGivesZero) {
  KernelInfo info = form("x: 2x3xf32", R"(
    %p = tcc.pad %x [1, 0], [0, 2] : tensor<2x3xf32> -> tensor<3x5xf32>
    %o = tcc.constant dense<1.0> : tensor<3x5xf32>
    %r = tcc.add %p, %o : tensor<3x5xf32>)",
                         "%r : 3x5xf32");
  EXPECT_EQ(print(info), R"(space 1 x 3 x 5, stages 1
d3 = row + -1 in 0..2
d4 = column in 0..3
%0 = load arg0[3*row + column + -3] if d3 if d4 : f32, stage 0
%1 = choose %0 if d3 if d4 : f32, stage 0
%2 = 1 : f32, stage 0, once a row
%3 = addf(%1, %2) : f32, stage 0
result0[5*row + column] = element %3
)");
}

TEST_F(Kernels, viewsNestInAnyOrder) {
  form("x: 2x3xf32", R"(
    %p = tcc.pad %x [1, 1], [0, 2] : tensor<2x3xf32> -> tensor<3x6xf32>
    %t = tcc.transpose %p [1, 0] : tensor<3x6xf32> -> tensor<6x3xf32>
    %q = tcc.concat %t, %t axis 1 : tensor<6x3xf32>, tensor<6x3xf32> -> tensor<6x6xf32>
    %e = tcc.exp %q : tensor<6x6xf32>
    %s = tcc.slice %e [1, 2] to [5, -1] : tensor<6x6xf32> -> tensor<4x4xf32>
    %u = tcc.reshape %s : tensor<4x4xf32> -> tensor<2x2x4xf32>
    %r = tcc.broadcast %u : tensor<2x2x4xf32> -> tensor<3x2x2x4xf32>)",
       "%r : 3x2x2x4xf32");
  form("x: 2x3x4x5xf32", "%r = tcc.transpose %x [2, 0, 3, 1] : tensor<2x3x4x5xf32> -> tensor<4x2x5x3xf32>",
       "%r : 4x2x5x3xf32");
  form("x: 2x3x4xf32, y: 3x2x4xf32", R"(
    %t = tcc.transpose %x [1, 0, 2] : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
    %a = tcc.add %t, %y : tensor<3x2x4xf32>
    %f = tcc.reshape %a : tensor<3x2x4xf32> -> tensor<6x4xf32>
    %r = tcc.reduce_max %f axes [1] : tensor<6x4xf32> -> tensor<6x1xf32>)",
       "%r : 6x1xf32");
}

// What is in memory has strides; a value that is computed has coordinates.
TEST_F(Kernels, sizesThatDoNotNestAreReadByStrides) {
  StringRef squares = R"(
    %v = tcc.reshape %x : tensor<4x9xf32> -> tensor<2x18xf32>
    %w = tcc.reshape %v : tensor<2x18xf32> -> tensor<6x6xf32>
    %p = tcc.mul %w, %w : tensor<6x6xf32>
    %r = tcc.reduce_sum %p axes [1] : tensor<6x6xf32> -> tensor<6x1xf32>)";
  EXPECT_EQ(print(form("x: 4x9xf32", squares, "%r : 6x1xf32")), R"(space 1 x 6 x 6, stages 1
%0 = load arg0[6*row + column] : f32, stage 0
%1 = mulf(%0, %0) : f32, stage 0
%2 = row sum of %1 : f32, stage 0, once a row
result0[row] = element %2
)");
  EXPECT_NE(print(form("x: 7x9xf32", R"(
    %s = tcc.slice %x [2, 0] to [6, 9] : tensor<7x9xf32> -> tensor<4x9xf32>
    %v = tcc.reshape %s : tensor<4x9xf32> -> tensor<6x6xf32>
    %r = tcc.reduce_sum %v axes [1] : tensor<6x6xf32> -> tensor<6x1xf32>)",
                       "%r : 6x1xf32"))
                .find("load arg0[6*row + column + 18]"),
            std::string::npos);
  EXPECT_EQ(refusalOf("x: 4x10xf32", R"(
    %s = tcc.slice %x [0, 1] to [4, 10] : tensor<4x10xf32> -> tensor<4x9xf32>
    %v = tcc.reshape %s : tensor<4x9xf32> -> tensor<6x6xf32>
    %r = tcc.reduce_sum %v axes [1] : tensor<6x6xf32> -> tensor<6x1xf32>)",
                      "%r : 6x1xf32"),
            "expected the sizes of 6x6xf32 and 4x9xf32 to divide each other");
  EXPECT_EQ(refusalOf("x: 4x9xf32", R"(
    %e = tcc.exp %x : tensor<4x9xf32>
    %v = tcc.reshape %e : tensor<4x9xf32> -> tensor<6x6xf32>
    %r = tcc.reduce_sum %v axes [1] : tensor<6x6xf32> -> tensor<6x1xf32>)",
                      "%r : 6x1xf32"),
            "expected the sizes of 6x6xf32 and 4x9xf32 to divide each other");
}

TEST_F(Kernels, coordinatesAndRandomBitsFollowViews) {
  KernelInfo info = form("s: i32", R"(
    %b = tcc.random_bits %s stream 3 : tensor<i32> -> tensor<4x6xi32>
    %i = tcc.iota dim 1 -> tensor<4x6xi32>
    %a = tcc.add %b, %i : tensor<4x6xi32>
    %c = tcc.slice %a [1, 2] to [3, 5] : tensor<4x6xi32> -> tensor<2x3xi32>
    %r = tcc.transpose %c [1, 0] : tensor<2x3xi32> -> tensor<3x2xi32>)",
                         "%r : 3x2xi32");
  EXPECT_NE(print(info).find("index[row + 2]"), std::string::npos) << print(info);
  EXPECT_EQ(print(form("s: i32, f: i32", R"(
    %b = tcc.random_bits %s stream 3 first %f : tensor<i32> -> tensor<2x3x4x6xi32>
    %r = tcc.reshape %b : tensor<2x3x4x6xi32> -> tensor<24x6xi32>)",
                       "%r : 24x6xi32")),
            R"(space 1 x 24 x 6, stages 1
%0 = load arg0[0] : i32, stage 0, once a row
%1 = index[(row div 4)] : i32, stage 0, once a row
%2 = index[(row mod 4)] : i32, stage 0, once a row
%3 = index[column] : i32, stage 0
%4 = load arg1[0] : i32, stage 0, once a row
%5 = addi(%1, muli(%4, 3)) : i32, stage 0, once a row
%6 = random %0 stream 3 at %5, %2, %3 : i32, stage 0
result0[6*row + column] = element %6
)");
}

//===- indexing --------------------------------------------------------------------------------------------------===//

TEST_F(Kernels, embeddingAddsGatheredRowsAndPositions) {
  KernelInfo info = form("w: 7x4xf32, t: 2x3xi32, p: 3x4xf32", R"(
    %e = tcc.gather %w at %t : tensor<7x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
    %b = tcc.broadcast %p : tensor<3x4xf32> -> tensor<2x3x4xf32>
    %r = tcc.add %e, %b : tensor<2x3x4xf32>)",
                         "%r : 2x3x4xf32");
  EXPECT_EQ(print(info), R"(space 1 x 6 x 4, stages 1
%0 = load arg1[row] : i32, stage 0, once a row
%1 = load row %0 of arg0[column] : f32, stage 0
%2 = load arg2[4*(row mod 3) + column] : f32, stage 0
%3 = addf(%1, %2) : f32, stage 0
result0[4*row + column] = element %3
)");
}

TEST_F(Kernels, scatterAddsRowsInOrder) {
  KernelInfo info = form("base: 7x4xf32, t: 2x3xi32, y: 2x3x4xf32", R"(
    %d = tcc.neg %y : tensor<2x3x4xf32>
    %r = tcc.scatter_add %base at %t, %d : tensor<7x4xf32>, tensor<2x3xi32>, tensor<2x3x4xf32>)",
                         "%r : 7x4xf32");
  EXPECT_EQ(print(info), R"(space 1 x 6 x 4, stages 1
%0 = load arg1[row] : i32, stage 0, once a row
%1 = load arg2[4*row + column] : f32, stage 0
%2 = negf(%1) : f32, stage 0
result0[column] = scatterAdd %2
)");
}

//===- scalars, empty tensors, several tensors -------------------------------------------------------------------===//

TEST_F(Kernels, scalarsAreOneRow) {
  KernelInfo info = form("a: f32, b: f32", R"(
    %m = tcc.minimum %a, %b : tensor<f32>
    %r = tcc.rsqrt %m : tensor<f32>)",
                         "%r : f32");
  EXPECT_EQ(spaceOf(info), "space 1 x 1 x 1, stages 1");
}

TEST_F(Kernels, scalarResultsJoinATensorsKernel) {
  KernelInfo info = form("x: 4x3xf32, s: f32", R"(
    %b = tcc.broadcast %s : tensor<f32> -> tensor<4x3xf32>
    %y = tcc.mul %x, %b : tensor<4x3xf32>
    %r = tcc.reduce_sum %y axes [0, 1] : tensor<4x3xf32> -> tensor<1x1xf32>
    %q = tcc.sqrt %r : tensor<1x1xf32>)",
                         "%q : 1x1xf32, %y : 4x3xf32");
  EXPECT_EQ(spaceOf(info), "space 1 x 1 x 12, stages 2");
}

TEST_F(Kernels, emptyTensorsHaveNoRows) {
  EXPECT_EQ(form("x: 4x0xf32", "%r = tcc.neg %x : tensor<4x0xf32>", "%r : 4x0xf32").space, (KernelSpace{1, 0, 1}));
  EXPECT_EQ(
      form("x: 0x4xf32", "%r = tcc.reduce_sum %x axes [1] : tensor<0x4xf32> -> tensor<0x1xf32>", "%r : 0x1xf32").space,
      (KernelSpace{1, 0, 4}));
  EXPECT_EQ(
      form("x: 4x0xf32", "%r = tcc.reduce_sum %x axes [0] : tensor<4x0xf32> -> tensor<1x0xf32>", "%r : 1x0xf32").space,
      (KernelSpace{1, 0, 0}));
  form("base: 3x0xf32, t: 2xi32, y: 2x0xf32",
       "%r = tcc.scatter_add %base at %t, %y : tensor<3x0xf32>, tensor<2xi32>, tensor<2x0xf32>", "%r : 3x0xf32");
  form("base: 3x2xf32, t: 0xi32, y: 0x2xf32",
       "%r = tcc.scatter_add %base at %t, %y : tensor<3x2xf32>, tensor<0xi32>, tensor<0x2xf32>", "%r : 3x2xf32");
}

//===- what the pipeline makes -----------------------------------------------------------------------------------===//

TEST_F(Kernels, everyTrainingStepsKernelsEqualTheirRegions) {
  for (const TrainingStep &step : trainingSteps()) {
    int one = proveKernels(*fuse(step.text, 0), step.name), fused = proveKernels(*fuse(step.text, 2), step.name);
    EXPECT_LT(fused, one) << step.name;
    EXPECT_GT(fused, 0) << step.name;
  }
}

TEST_F(Kernels, everyOpsKernelEqualsItsRegion) {
  int kernels = 0;
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases)
      kernels += proveKernels(*fuse(opCase.text, 2), opCase.name);
  EXPECT_GT(kernels, 300);
}

TEST_F(Kernels, layerNormForwardAndBackwardAreOneKernelOverItsRows) {
  OwningOpRef<ModuleOp> fused = fuse(R"(
    func.func @main(%x: tensor<2x64x8xf32>, %w: tensor<8x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>)
        -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) {
      %h = tcc.matmul %x, %w : tensor<2x64x8xf32>, tensor<8x8xf32> -> tensor<2x64x8xf32>
      %y = tcc.layer_norm %h, %g, %b : tensor<2x64x8xf32>, tensor<8xf32>, tensor<8xf32>
      %z = tcc.matmul %y, %w : tensor<2x64x8xf32>, tensor<8x8xf32> -> tensor<2x64x8xf32>
      %s = tcc.reduce_sum %z axes [0, 1, 2] : tensor<2x64x8xf32> -> tensor<1x1x1xf32>
      %loss = tcc.reshape %s : tensor<1x1x1xf32> -> tensor<f32>
      %dw, %dg, %db = tcc.gradient %loss wrt %w, %g, %b : tensor<f32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>
      return %dw, %dg, %db : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>
    })",
                                     2);
  EXPECT_GT(proveKernels(*fused, "layer_norm"), 2);
  int norms = 0;
  fused->walk([&](KernelOp kernel) {
    if (kernel.getBody().front().getOps<RsqrtOp>().empty())
      return;
    ++norms;
    std::string refusal;
    KernelInfo info = *analyzeKernel(kernel, refusal);
    // The mean, the variance and two sums of the backward, some of which share a pass; gradients of weight and bias as
    // partial sums; y and the gradient of x.
    EXPECT_EQ(spaceOf(info), "space 16 x 8 x 8, stages 3");
    EXPECT_EQ(llvm::count_if(info.nodes, [](const KernelNode &n) { return n.kind == KernelNode::Kind::rowReduce; }), 4);
    EXPECT_EQ(
        llvm::count_if(info.stores, [](const KernelStore &s) { return s.kind == KernelStore::Kind::columnReduce; }), 2);
    EXPECT_EQ(llvm::count_if(info.stores, [](const KernelStore &s) { return s.kind == KernelStore::Kind::element; }),
              2);
  });
  EXPECT_EQ(norms, 1);
}

TEST_F(Kernels, adamwOfOneTensorIsASegment) {
  OwningOpRef<ModuleOp> fused = fuse(R"(
    func.func @main(%p: tensor<8x16xf32>, %g: tensor<8x16xf32>, %m: tensor<8x16xf32>, %v: tensor<8x16xf32>,
                    %lr: tensor<f32>, %step: tensor<f32>, %scale: tensor<f32>, %apply: tensor<i1>)
        -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
      %r:3 = tcc.adamw %p, %g, %m, %v lr %lr step %step scale %scale apply %apply
        {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64}
        : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      return %r#0, %r#1, %r#2 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
    })",
                                     2);
  EXPECT_EQ(proveKernels(*fused, "adamw"), 1);
  fused->walk([&](KernelOp kernel) {
    std::string refusal;
    KernelInfo info = *analyzeKernel(kernel, refusal);
    EXPECT_EQ(spaceOf(info), "space 1 x 1 x 128, stages 1");
    EXPECT_TRUE(info.isSegment());
    for (auto [argument, input] : llvm::enumerate(kernel.getInputs())) // p, m and v are updated in place
      for (unsigned result = 0; result < 3; ++result)
        EXPECT_EQ(mayShareBuffer(info, result, argument), tensorType(input).getRank() == 2);
  });
}

} // namespace
} // namespace tcc::test
