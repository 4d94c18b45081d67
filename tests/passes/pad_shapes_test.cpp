// pad-shapes against what it replaces: the same values, interpreted and compiled, of odd sizes in every place that a
// matmul has; indices between a size and its padding are out of range; parameters, results and plans keep their
// shapes; and faults planted in what was padded are seen.
#include "codegen/compile_session.h"
#include "codegen/graph_runner.h"
#include "codegen/messages.h"
#include "ir/emit.h"
#include "passes/pipeline.h"
#include "tests/codegen/eager_padding.h"
#include "tests/ops/op_table.h"
#include "tests/passes/relative_difference.h"
#include "tests/passes/training_steps.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace mlir;

namespace tcc::test {
namespace {

/// A table that is embedding and head, its gradient with the norm, an update; logits that the caller gets where asked.
std::string stepText(int64_t vocabulary, int64_t width, bool returnsLogits = false) {
  std::string text = R"(func.func @main(%table: tensor<VxWxf32> {tcc.name = "table", tcc.state},
    %tokens: tensor<2x6xi32> {tcc.name = "tokens"}, %targets: tensor<2x6xi32> {tcc.name = "targets"},
    %bias: tensor<Vxf32> {tcc.name = "bias"})
    -> (tensor<f32>, tensor<1x1xf32>, tensor<Vxf32>, LOGITSTYPE tensor<VxWxf32> {tcc.updates = "table"}) {
  %e = tcc.gather %table at %tokens : tensor<VxWxf32>, tensor<2x6xi32> -> tensor<2x6xWxf32>
  %x = tcc.gelu %e : tensor<2x6xWxf32>
  %h = tcc.matmul %x, %table transposed : tensor<2x6xWxf32>, tensor<VxWxf32> -> tensor<2x6xVxf32>
  %b = tcc.broadcast %bias : tensor<Vxf32> -> tensor<2x6xVxf32>
  %logits = tcc.add %h, %b : tensor<2x6xVxf32>
  %loss = tcc.cross_entropy %logits, %targets : tensor<2x6xVxf32>, tensor<2x6xi32> -> tensor<f32>
  %g, %gb = tcc.gradient %loss wrt %table, %bias : tensor<f32>, tensor<VxWxf32>, tensor<Vxf32>
  %square = tcc.mul %g, %g : tensor<VxWxf32>
  %norm = tcc.reduce_sum %square axes [0, 1] : tensor<VxWxf32> -> tensor<1x1xf32>
  %rate = tcc.constant dense<0.1> : tensor<VxWxf32>
  %change = tcc.mul %g, %rate : tensor<VxWxf32>
  %next = tcc.sub %table, %change : tensor<VxWxf32>
  return %loss, %norm, %gb, LOGITSVALUE %next : tensor<f32>, tensor<1x1xf32>, tensor<Vxf32>, LOGITSKIND tensor<VxWxf32>
})";
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  std::string v = std::to_string(vocabulary), logits = returnsLogits ? "tensor<2x6x" + v + "xf32>," : "";
  replace("LOGITSTYPE", logits);
  replace("LOGITSKIND", logits);
  replace("LOGITSVALUE", returnsLogits ? "%logits," : "");
  replace("tensor<Vx", "tensor<" + v + "x");
  replace("xVxf32", "x" + v + "xf32");
  replace("xWxf32", "x" + std::to_string(width) + "xf32");
  return text;
}

class PadShapes : public testing::Test {
protected:
  std::unique_ptr<MLIRContext> context = makeContext();
  std::string messages;

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseText(*context, text, messages);
    EXPECT_TRUE(module) << messages << text;
    return module;
  }

  /// The module after the pipeline as far as phase shaped. Padding 0: none.
  OwningOpRef<ModuleOp> shaped(const std::string &text, int64_t padding, ProductType products = ProductType::asWritten,
                               const EagerPadding &target = EagerPadding(), Remarks *remarks = nullptr) {
    OwningOpRef<ModuleOp> module = parse(text);
    PipelineOptions options;
    options.target = target.model();
    options.padding = padding;
    options.products = products;
    options.stopAfter = Phase::shaped;
    options.remarks = remarks;
    Messages said(context.get());
    PipelineReport report;
    EXPECT_TRUE(succeeded(runPipeline(*module, options, report))) << said.text;
    return module;
  }

  std::vector<RefTensor> inputs(func::FuncOp function, int64_t vocabulary) {
    std::vector<RefTensor> list;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto tensor = cast<RankedTensorType>(type);
      bool isIndex = tensor.getElementType().isInteger();
      list.push_back(randomTensor(tensor, 7 + i, isIndex ? 0 : -1, isIndex ? static_cast<double>(vocabulary) : 1));
    }
    return list;
  }

  std::vector<RefTensor> evaluate(ModuleOp module, ArrayRef<RefTensor> arguments, RefMode mode = RefMode::exact) {
    auto results = interpret(functionOf(module), arguments, mode);
    EXPECT_TRUE(results) << results.error().message();
    return results ? std::move(*results) : std::vector<RefTensor>();
  }

  /// The results of the compiled graph, states and outputs fresh NaNs; the plan is given to `look`.
  std::vector<RefTensor> compileAndRun(const std::string &text, int64_t padding, ArrayRef<RefTensor> arguments,
                                       llvm::function_ref<void(const runtime::Plan &)> look) {
    OwningOpRef<ModuleOp> module = parse(text);
    const EagerPadding target;
    CompileOptions options;
    options.target = &target;
    options.threads = 1;
    options.pipeline.padding = padding;
    auto artefact = compileArtefact(module->clone(), options);
    EXPECT_TRUE(artefact) << artefact.error().message();
    look(artefact->targets[0].plan);
    runtime::ExecutableOptions run;
    run.threads = 1;
    run.checked = true;
    auto runner = GraphRunner::load(std::move(*artefact), functionOf(*module), run);
    EXPECT_TRUE(runner) << runner.error().message();
    auto results = (*runner)->run(arguments);
    EXPECT_TRUE(results) << results.error().message();
    return results ? std::move(*results) : std::vector<RefTensor>();
  }
};

int64_t productsOf(ModuleOp module, int64_t multiple) {
  int64_t count = 0;
  module.walk([&](MatmulOp op) {
    ArrayRef<int64_t> a = tensorType(op.getA()).getShape(), c = tensorType(op.getResult()).getShape();
    count += a.back() % multiple == 0 && c.back() % multiple == 0;
  });
  return count;
}

//===- meaning ---------------------------------------------------------------------------------------------------===//

TEST_F(PadShapes, EveryResultIsThatOfTheUnpaddedStep) {
  for (auto [vocabulary, width] : {std::pair{13, 16}, {1000, 8}, {97, 64}, {50, 13}, {63, 65}})
    for (int64_t multiple : {8, 64})
      for (bool returnsLogits : {false, true})
        for (ProductType products : {ProductType::asWritten, ProductType::bf16}) {
          SCOPED_TRACE(std::to_string(vocabulary) + " x " + std::to_string(width) + ", " + std::to_string(multiple));
          std::string text = stepText(vocabulary, width, returnsLogits);
          OwningOpRef<ModuleOp> plain = shaped(text, 0, products), padded = shaped(text, multiple, products);
          EXPECT_EQ(productsOf(*padded, multiple), 3);
          EXPECT_EQ(functionOf(*plain).getFunctionType(), functionOf(*padded).getFunctionType());
          std::vector<RefTensor> arguments = inputs(functionOf(*plain), vocabulary);
          EXPECT_LE(difference(evaluate(*plain, arguments), evaluate(*padded, arguments)), 1e-12);
        }
}

TEST_F(PadShapes, EveryTrainingStepKeepsItsMeaning) {
  for (const TrainingStep &step : trainingSteps()) {
    OwningOpRef<ModuleOp> plain = shaped(step.text, 0), padded = shaped(step.text, 64);
    std::vector<RefTensor> arguments = inputs(functionOf(*plain), 4);
    EXPECT_LE(difference(evaluate(*plain, arguments), evaluate(*padded, arguments)), 1e-10) << step.name;
  }
}

/// The repeated matmul is read along both of its dims, longer along one and along the other. Found by random graphs.
TEST_F(PadShapes, BothDimsOfAValueGrow) {
  const std::string text = R"(func.func @main(%x: tensor<2x1xf32>, %y: tensor<2x2xf32>, %k: tensor<2x2xf32>)
    -> tensor<2x2xf32> {
  %p = tcc.matmul %x transposed, %y : tensor<2x1xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %q = tcc.broadcast %p : tensor<1x2xf32> -> tensor<2x2xf32>
  %a = tcc.attention %q, %k, %q causal scale 2.5e-01 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
  return %a : tensor<2x2xf32>
})";
  OwningOpRef<ModuleOp> plain = shaped(text, 0), padded = shaped(text, 64);
  std::vector<RefTensor> arguments = inputs(functionOf(*plain), 0);
  EXPECT_LE(difference(evaluate(*plain, arguments), evaluate(*padded, arguments)), 1e-12);
}

/// Rows 13 to 15 are there where 13 is padded to 16, and nobody can tell.
TEST_F(PadShapes, IndicesInTheGapAreOutOfRange) {
  std::string text = stepText(13, 16, true);
  OwningOpRef<ModuleOp> plain = shaped(text, 0), padded = shaped(text, 8);
  for (double index : {-1.0, 12.0, 13.0, 15.0, 16.0})
    for (unsigned argument : {1u, 2u}) {
      std::vector<RefTensor> arguments = inputs(functionOf(*plain), 13);
      arguments[argument].data[3] = index;
      std::vector<RefTensor> expected = evaluate(*plain, arguments);
      bool isKnown = index == 12 || (argument == 2 && index < 0); // a target below 0 is left out
      EXPECT_EQ(std::isnan(expected[0].data[0]), !isKnown) << argument << ": " << index;
      EXPECT_LE(difference(expected, evaluate(*padded, arguments)), 1e-12) << argument << ": " << index;
      if (index == 15) {
        EXPECT_LE(difference(expected, compileAndRun(text, 8, arguments, [](const runtime::Plan &) {})), 1e-5)
            << argument << ": " << index;
      }
    }
}

//===- compiled --------------------------------------------------------------------------------------------------===//

TEST_F(PadShapes, CompiledStepsAgreeAndShowNoPadding) {
  for (auto [vocabulary, width] : {std::pair{13, 16}, {1000, 8}, {513, 33}}) {
    std::string text = stepText(vocabulary, width, true);
    std::vector<runtime::Plan> plans;
    std::vector<std::vector<RefTensor>> results;
    std::vector<RefTensor> arguments = inputs(functionOf(*parse(text)), vocabulary);
    for (int64_t padding : {0, 8, 64})
      results.push_back(
          compileAndRun(text, padding, arguments, [&](const runtime::Plan &plan) { plans.push_back(plan); }));
    for (size_t i : {1, 2}) {
      EXPECT_LE(difference(results[0], results[i]), 1e-5) << vocabulary;
      for (auto list : {&runtime::Plan::inputs, &runtime::Plan::states, &runtime::Plan::outputs})
        for (auto [one, other] : llvm::zip_equal(plans[0].*list, plans[i].*list))
          EXPECT_EQ(one.shape, other.shape) << one.name;
      EXPECT_EQ(plans[0].arenaBytes == plans[i].arenaBytes, vocabulary == 1000 && i == 1) << "1000 is a multiple of 8";
    }
  }
}

/// The added rows of a matmul change no other row's sum.
TEST_F(PadShapes, RowsThatAreOnlyAddedLeaveTheBits) {
  const std::string text = R"(func.func @main(%x: tensor<24x77xf32>, %y: tensor<24x32xf32>) -> tensor<77x32xf32> {
  %e = tcc.tanh %x : tensor<24x77xf32>
  %p = tcc.matmul %e transposed, %y : tensor<24x77xf32>, tensor<24x32xf32> -> tensor<77x32xf32>
  %r = tcc.neg %p : tensor<77x32xf32>
  return %r : tensor<77x32xf32>
})";
  std::vector<RefTensor> arguments = inputs(functionOf(*parse(text)), 0);
  auto ignore = [](const runtime::Plan &) {};
  OwningOpRef<ModuleOp> padded = shaped(text, 16);
  padded->walk([](MatmulOp op) { EXPECT_EQ(tensorType(op.getResult()).getShape(), ArrayRef<int64_t>({80, 32})); });
  EXPECT_EQ(difference(compileAndRun(text, 0, arguments, ignore), compileAndRun(text, 16, arguments, ignore)), 0);
}

//===- what is said ----------------------------------------------------------------------------------------------===//

TEST_F(PadShapes, SaysWhatIsPaddedAndWhyNot) {
  auto said = [&](int64_t vocabulary, const EagerPadding &target, ProductType products = ProductType::asWritten) {
    Remarks remarks;
    shaped(stepText(vocabulary, 64), 64, products, target, &remarks);
    std::string text;
    for (const Remark &remark : remarks)
      if (remark.pass == "pad-shapes")
        text += (remark.kind == Remark::Kind::passed ? "passed: " : "missed: ") + remark.text + "\n";
    return text;
  };
  const std::string head = "size 1001 of matmul and 2 more products is ";
  EXPECT_EQ(said(1001, EagerPadding()),
            "passed: " + head +
                "computed as 1024: saves the time of 4612.608 GFLOP of 0.005, adds 0.000, copies "
                "0.5 MB\n");
  EXPECT_EQ(said(1001, EagerPadding({0.5, 0.5})),
            "missed: " + head +
                "kept: 1024 would not pay: saves the time of 0.002 GFLOP of 0.005, adds "
                "0.000, copies 0.5 MB\n");
  EXPECT_EQ(said(1001, EagerPadding({0.5, 0.5}), ProductType::bf16),
            "passed: " + head +
                "computed as 1024: saves the time of 0.002 GFLOP of 0.005, adds 0.000, copies 0.0 MB\n");
  EXPECT_EQ(said(1001, EagerPadding({0, 0})),
            "missed: " + head + "kept: products like these gain nothing from multiples of 64 on target 'cpu'\n");
  EXPECT_EQ(
      said(1000, EagerPadding({1e6, 1e6}, 8)),
      "missed: size 1000 of matmul and 2 more products is kept: multiples of 8 are enough for the products of target "
      "'cpu'\n");
  EXPECT_EQ(said(1024, EagerPadding()), "");
}

//===- steady code ------------------------------------------------------------------------------------------------===//

/// EagerPadding's model with another share for steady code.
class SteadyPadding : public EagerPadding {
public:
  explicit SteadyPadding(double share) : data(EagerPadding::model()) { data.padding.steadyShare = share; }
  const TargetModel &model() const override { return data; }

private:
  TargetModel data;
};

TEST_F(PadShapes, SizesOfSteadyCodeGrowByThemselvesAlone) {
  std::string text = stepText(1000, 40), header = "{tcc.updates = \"table\"}) {";
  text.replace(text.find(header), header.size(), "{tcc.updates = \"table\"}) attributes {tcc.steady} {");
  auto grown = [&](double share, std::initializer_list<int64_t> sizes) {
    OwningOpRef<ModuleOp> module = shaped(text, 64, ProductType::asWritten, SteadyPadding(share));
    int64_t found = 0;
    module->walk([&](MatmulOp op) {
      for (int64_t size : sizes)
        found += llvm::is_contained(tensorType(op.getResult()).getShape(), size);
    });
    return found;
  };
  EXPECT_EQ(grown(0, {1024, 64}), 0); // not on a CPU, whatever it would save
  EXPECT_GT(grown(0.05, {1024}), 0);  // 1000 grows by 2.4 %
  EXPECT_EQ(grown(0.05, {64}), 0);    // and 40 would by 60 %
  EXPECT_GT(grown(0.7, {64}), 0);
}

//===- faults ----------------------------------------------------------------------------------------------------===//

/// Each shows what is after a size: planted in the padded step, which gives the right results without it.
TEST_F(PadShapes, PlantedFaultsAreSeen) {
  struct Fault {
    const char *name;
    std::function<bool(Operation *)> plant;
  };
  auto isMask = [](Operation *op) {
    auto compare = dyn_cast_or_null<CompareOp>(op);
    return compare && compare.getPredicate() == Predicate::lt && compare.getLhs().getDefiningOp<IotaOp>();
  };
  auto maskedFor = [&](Operation *op, auto isReader) {
    auto select = dyn_cast<SelectOp>(op);
    if (!select || !isMask(select.getCondition().getDefiningOp()) ||
        llvm::none_of(select->getUsers(), [&](Operation *user) { return isReader(user); }))
      return false;
    select.getResult().replaceAllUsesWith(select.getOnTrue());
    return true;
  };
  const Fault faults[] = {
      {"visible padding in a sum",
       [&](Operation *op) { return maskedFor(op, [](Operation *user) { return isa<ReduceSumOp>(user); }); }},
      {"visible padding in a maximum",
       [&](Operation *op) { return maskedFor(op, [](Operation *user) { return isa<ReduceMaxOp>(user); }); }},
      {"padding of the contracted dim",
       [&](Operation *op) { // of both sides: one alone is multiplied by zeros
         if (auto pad = dyn_cast<PadOp>(op); pad && tensorType(pad.getResult()).getRank() == 2) {
           OpBuilder builder(pad);
           ArrayRef<int64_t> shape = tensorType(pad.getX()).getShape();
           Value rows = Emit(builder, pad.getLoc()).slice(pad.getX(), {shape[0] - pad.getHigh()[0], 0}, shape);
           Value parts[] = {pad.getX(), rows};
           pad.getResult().replaceAllUsesWith(ConcatOp::create(builder, pad.getLoc(), parts, 0));
           return true;
         }
         return maskedFor(op, [](Operation *user) { return isa<MatmulOp, ReshapeOp>(user); });
       }},
      {"one row too far", [](Operation *op) {
         auto slice = dyn_cast<SliceOp>(op);
         if (!slice || !slice.getX().getDefiningOp<ScatterAddOp>())
           return false;
         SmallVector<int64_t> starts(slice.getStarts()), limits(slice.getLimits());
         ++starts[0], ++limits[0];
         slice.setStarts(starts), slice.setLimits(limits);
         return true;
       }}};
  OwningOpRef<ModuleOp> plain = shaped(stepText(13, 16), 0);
  std::vector<RefTensor> arguments = inputs(functionOf(*plain), 13);
  for (double &bias : arguments[3].data)
    bias -= 2000; // what is after the logits is larger than they are, beyond what exp gives
  std::vector<RefTensor> expected = evaluate(*plain, arguments);
  for (const Fault &fault : faults) {
    OwningOpRef<ModuleOp> padded = shaped(stepText(13, 16), 8);
    EXPECT_LE(difference(expected, evaluate(*padded, arguments)), 1e-12);
    int planted = 0;
    SmallVector<Operation *> ops;
    functionOf(*padded).walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops)
      planted += fault.plant(op);
    EXPECT_GT(planted, 0) << fault.name;
    EXPECT_GE(difference(expected, evaluate(*padded, arguments)), 1e-3) << fault.name;
  }
}

} // namespace
} // namespace tcc::test
