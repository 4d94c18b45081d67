// The kernel form: what analyzeKernel makes of every pattern that training needs, that the form alone gives the
// region's values, what it refuses and in which words, and when a result may take an operand's buffer.
#include "ir/reference/compare.h"
#include "ir/scalar_form.h"
#include "passes/pipeline.h"
#include "tests/ir/kernel_evaluator.h"
#include "tests/ops/op_table.h"
#include "tests/passes/training_steps.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

class Kernels : public ::testing::Test {
protected:
  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module; // the one last parsed

  /// "x: 2x3xf32, i: 4xi32" as a function around `body`, whose `yields` ("%r : 2x3xf32, …") are returned.
  func::FuncOp parse(StringRef arguments, StringRef body, StringRef yields) {
    auto tensor = [](StringRef type) { return "tensor<" + type.trim().str() + ">"; };
    std::string head, values, types;
    for (StringRef argument : llvm::split(arguments, ','))
      if (auto [name, type] = argument.split(':'); !name.trim().empty())
        head += (head.empty() ? "%" : ", %") + name.trim().str() + ": " + tensor(type);
    for (StringRef yield : llvm::split(yields, ',')) {
      auto [value, type] = yield.split(':');
      values += (values.empty() ? "" : ", ") + value.trim().str();
      types += (types.empty() ? "" : ", ") + tensor(type);
    }
    std::string messages;
    module = parseText(*context,
                       "func.func @main(" + head + ") -> (" + types + ") {\n" + body.str() + "\nreturn " + values +
                           " : " + types + "\n}",
                       messages);
    EXPECT_TRUE(module) << messages << body.str();
    return module ? mainOf(*module) : func::FuncOp();
  }

  std::optional<KernelInfo> analyze(func::FuncOp function, std::string &refusal) {
    Block &block = function.getBody().front();
    SmallVector<Value> results(block.getTerminator()->getOperands()), arguments(block.getArguments());
    return analyzeKernel(KernelView{results, arguments}, refusal);
  }

  static std::string print(const KernelInfo &info) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    info.print(stream);
    return text;
  }

  static std::vector<RefTensor> inputsOf(func::FuncOp function, uint64_t seed) {
    std::vector<RefTensor> inputs;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto tensor = cast<RankedTensorType>(type);
      bool isIndex = tensor.getElementType().isInteger() && !tensor.getElementType().isInteger(1);
      inputs.push_back(isIndex ? randomTensor(tensor, seed + i, -1, 9) : randomTensor(tensor, seed + i, -2, 2));
    }
    return inputs;
  }

  /// Whether an op computes in more than two rounded steps: the reference may say it by another formula then.
  static bool hasLongForms(func::FuncOp function) {
    bool found = false;
    function.walk([&](ElementwiseOpInterface op) {
      std::string refusal;
      const ScalarSteps *form = ScalarForms::of(op, refusal);
      auto rounds = [](const ScalarStep &step) {
        return step.type == ElementType::f32 && step.opcode != Opcode::constant && step.opcode != Opcode::select;
      };
      found |= form && llvm::count_if(form->steps, rounds) > 2;
    });
    return found;
  }

  /// Why the form and the interpreter disagree on the function; empty where each result is equal in every bit, or with
  /// long forms within the tolerance of compiled code.
  static std::string difference(const KernelInfo &info, func::FuncOp function) {
    SmallVector<RankedTensorType> types;
    for (Type type : function.getResultTypes())
      types.push_back(cast<RankedTensorType>(type));
    bool longForms = hasLongForms(function);
    std::vector<RefTensor> inputs = inputsOf(function, 40);
    const auto exact = interpret(function, inputs, RefMode::exact);
    if (!exact)
      return exact.error().message();
    for (RefMode mode : {RefMode::exact, RefMode::rounding}) {
      const auto expected = interpret(function, inputs, mode);
      if (!expected)
        return expected.error().message();
      KernelRun run = runKernelForm(info, types, inputs, mode);
      if (!run.fault.empty())
        return run.fault;
      for (size_t i = 0; i < types.size(); ++i)
        if (!sameElements(run.results[i], (*expected)[i]) &&
            !(longForms && compare(run.results[i], (*exact)[i], (*expected)[i]).ok))
          return "result " + std::to_string(i) + (mode == RefMode::exact ? " (exact)" : " (rounding)") + " differs";
    }
    return {};
  }

  /// The form of a function that must have one; it is executed beside the interpreter.
  KernelInfo form(StringRef arguments, StringRef body, StringRef yields) {
    func::FuncOp function = parse(arguments, body, yields);
    std::string refusal;
    std::optional<KernelInfo> info = analyze(function, refusal);
    EXPECT_TRUE(info) << refusal << body.str();
    if (!info)
      return {};
    EXPECT_EQ(difference(*info, function), "") << print(*info);
    return std::move(*info);
  }

  std::string refusalOf(StringRef arguments, StringRef body, StringRef yields) {
    std::string refusal;
    return analyze(parse(arguments, body, yields), refusal) ? "accepted" : refusal;
  }

  static std::string spaceOf(const KernelInfo &info) {
    std::string text = print(info);
    return text.substr(0, text.find('\n'));
  }

  /// Runs the pipeline up to the fused phase and proves the form of each kernel; their count.
  int proveKernels(ModuleOp fused, const std::string &name) {
    int kernels = 0;
    fused.walk([&](KernelOp kernel) {
      ++kernels;
      std::string refusal;
      std::optional<KernelInfo> info = analyzeKernel(kernel, refusal);
      ASSERT_TRUE(info) << name << ": " << refusal;
      OwningOpRef<func::FuncOp> function = func::FuncOp::create(
          kernel.getLoc(), "kernel",
          FunctionType::get(context.get(), kernel.getInputs().getTypes(), kernel.getResultTypes()));
      Block *block = function->addEntryBlock();
      OpBuilder builder = OpBuilder::atBlockEnd(block);
      Operation *copy = builder.clone(*kernel);
      copy->setOperands(block->getArguments());
      func::ReturnOp::create(builder, kernel.getLoc(), copy->getResults());
      EXPECT_EQ(difference(*info, *function), "") << name << '\n' << print(*info);
    });
    return kernels;
  }

  OwningOpRef<ModuleOp> fuse(const std::string &text, int level) {
    std::string messages;
    OwningOpRef<ModuleOp> fused = parseText(*context, text, messages);
    EXPECT_TRUE(fused) << messages;
    PipelineOptions options;
    options.level = level;
    options.stopAfter = Phase::fused;
    PipelineReport report;
    EXPECT_TRUE(fused && succeeded(runPipeline(*fused, options, report))) << text;
    return fused;
  }
};

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
result1[4*outer + column] = columnSum %2
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
    EXPECT_EQ(llvm::count_if(info.stores, [](const KernelStore &s) { return s.kind == KernelStore::Kind::columnSum; }),
              2);
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

//===- refusals --------------------------------------------------------------------------------------------------===//

TEST_F(Kernels, refusalsSayWhatWasExpected) {
  EXPECT_EQ(refusalOf("x: 2x3x4xf32", "%r = tcc.reduce_sum %x axes [0, 2] : tensor<2x3x4xf32> -> tensor<1x3x1xf32>",
                      "%r : 1x3x1xf32"),
            "expected the reduced axes to be neighbours");
  EXPECT_EQ(
      refusalOf("x: 4x0xf32", "%r = tcc.reduce_sum %x axes [1] : tensor<4x0xf32> -> tensor<4x1xf32>", "%r : 4x1xf32"),
      "expected a reduction over at least one element");
  EXPECT_EQ(refusalOf("x: 2x3xf32, y: 2x4xf32", R"(
    %a = tcc.reduce_sum %x axes [1] : tensor<2x3xf32> -> tensor<2x1xf32>
    %b = tcc.reduce_sum %y axes [1] : tensor<2x4xf32> -> tensor<2x1xf32>)",
                      "%a : 2x1xf32, %b : 2x1xf32"),
            "expected row reductions over rows of one size");
  EXPECT_EQ(refusalOf("x: 4x3xf32", R"(
    %a = tcc.reduce_sum %x axes [0] : tensor<4x3xf32> -> tensor<1x3xf32>
    %v = tcc.reshape %x : tensor<4x3xf32> -> tensor<2x2x3xf32>
    %b = tcc.reduce_sum %v axes [1] : tensor<2x2x3xf32> -> tensor<2x1x3xf32>)",
                      "%a : 1x3xf32, %b : 2x1x3xf32"),
            "expected sums over the rows of tensors of one size");
  EXPECT_EQ(refusalOf("x: 4x3xf32, y: 6x2xf32", R"(
    %a = tcc.reduce_sum %x axes [0] : tensor<4x3xf32> -> tensor<1x3xf32>
    %b = tcc.reduce_sum %y axes [1] : tensor<6x2xf32> -> tensor<6x1xf32>)",
                      "%a : 1x3xf32, %b : 6x1xf32"),
            "expected sums along rows and over rows of tensors of one size");
  EXPECT_EQ(refusalOf("x: 4x3xf32", R"(
    %a = tcc.reduce_sum %x axes [0] : tensor<4x3xf32> -> tensor<1x3xf32>
    %b = tcc.broadcast %a : tensor<1x3xf32> -> tensor<4x3xf32>
    %r = tcc.sub %x, %b : tensor<4x3xf32>)",
                      "%r : 4x3xf32"),
            "expected the column reduction to be a result, summed before it is used");
  EXPECT_EQ(refusalOf("x: 2x8xf32", R"(
    %a = tcc.reduce_sum %x axes [1] : tensor<2x8xf32> -> tensor<2x1xf32>
    %t = tcc.transpose %a [1, 0] : tensor<2x1xf32> -> tensor<1x2xf32>
    %b = tcc.reshape %a : tensor<2x1xf32> -> tensor<1x2xf32>
    %c = tcc.broadcast %b : tensor<1x2xf32> -> tensor<8x2xf32>)",
                      "%c : 8x2xf32"),
            "expected a row's statistics to be used in that row alone");
  EXPECT_EQ(refusalOf("x: 4x3xf32", R"(
    %a = tcc.reduce_sum %x axes [1] : tensor<4x3xf32> -> tensor<4x1xf32>
    %p = tcc.pad %a [0, 0], [0, 2] : tensor<4x1xf32> -> tensor<4x3xf32>)",
                      "%p : 4x3xf32"),
            "expected no row reduction below a pad or concat");
  EXPECT_EQ(refusalOf("x: 3x4xf32, y: 5x1xf32", R"(
    %a = tcc.neg %x : tensor<3x4xf32>
    %b = tcc.neg %y : tensor<5x1xf32>)",
                      "%a : 3x4xf32, %b : 5x1xf32"),
            "expected every result to have one element for each row or each element of the iteration space");
  EXPECT_EQ(refusalOf("x: 2x6xf32", R"(
    %p = tcc.pad %x [0, 0], [0, 1] : tensor<2x6xf32> -> tensor<2x7xf32>
    %s = tcc.slice %p [0, 1] to [-1, -1] : tensor<2x7xf32> -> tensor<2x6xf32>
    %v = tcc.reshape %s : tensor<2x6xf32> -> tensor<3x4xf32>)",
                      "%v : 3x4xf32"),
            "accepted");
  EXPECT_EQ(refusalOf("w: 7x4xf32, i: 7xi32", R"(
    %e = tcc.exp %w : tensor<7x4xf32>
    %r = tcc.gather %e at %i : tensor<7x4xf32>, tensor<7xi32> -> tensor<7x4xf32>)",
                      "%r : 7x4xf32"),
            "expected the table of a gather to be in memory");
  EXPECT_EQ(refusalOf("w: 7x4xf32, i: 3xi32, y: 3x4xf32", R"(
    %z = tcc.neg %w : tensor<7x4xf32>
    %r = tcc.scatter_add %z at %i, %y : tensor<7x4xf32>, tensor<3xi32>, tensor<3x4xf32>)",
                      "%r : 7x4xf32"),
            "expected the base of a scatter to be in memory");
  EXPECT_EQ(refusalOf("w: 7x4xf32, i: 3xi32, y: 3x4xf32", R"(
    %s = tcc.scatter_add %w at %i, %y : tensor<7x4xf32>, tensor<3xi32>, tensor<3x4xf32>
    %r = tcc.neg %s : tensor<7x4xf32>)",
                      "%r : 7x4xf32"),
            "expected every result to have one element for each row or each element of the iteration space");
  EXPECT_EQ(refusalOf("x: 2x2xf32", R"(
    %c = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %r = tcc.add %x, %c : tensor<2x2xf32>)",
                      "%r : 2x2xf32"),
            "expected literals inside a kernel to be splats");
  EXPECT_EQ(refusalOf("x: 2x2xf32", "%r = tcc.matmul %x, %x : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>",
                      "%r : 2x2xf32"),
            "expected a computation of primitives, found tcc.matmul");
  EXPECT_EQ(refusalOf("x: ?x2xf32", "%r = tcc.neg %x : tensor<?x2xf32>", "%r : ?x2xf32"), "expected static shapes");
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
