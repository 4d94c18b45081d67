// The pipeline as a whole: it keeps the meaning at every pass, its gradients are those of an independent sweep and of
// finite differences, and its words are exact.
#include "codegen/messages.h"
#include "ir/fingerprint.h"
#include "ir/reference/compare.h"
#include "ir/strided_view.h"
#include "passes/pipeline.h"
#include "passes/switches.h"
#include "passes/verify_each.h"
#include "tests/ops/differentiate.h"
#include "tests/ops/op_table.h"
#include "tests/passes/pipeline_fixture.h"
#include "tests/passes/training_steps.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

class Pipeline : public PipelineTest {
protected:
  static std::vector<RefTensor> inputsOf(func::FuncOp function) {
    std::vector<RefTensor> inputs;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto tensor = cast<RankedTensorType>(type);
      auto name = function.getArgAttrOfType<StringAttr>(i, nameAttr);
      bool positive = tensor.getRank() == 0 || (name && name.getValue().ends_with(".v"));
      inputs.push_back(tensor.getElementType().isInteger() ? randomTensor(tensor, i, 0, 9)
                                                           : randomTensor(tensor, i, positive ? 0.01 : -1, 1));
    }
    return inputs;
  }

  static std::vector<RefTensor> evaluate(func::FuncOp function, ArrayRef<RefTensor> inputs) {
    auto results = interpret(function, inputs, RefMode::exact);
    EXPECT_TRUE(results) << results.error().message();
    return results ? std::move(*results) : std::vector<RefTensor>();
  }

  static GradientOp gradientOf(func::FuncOp function) {
    return *function.getBody().front().getOps<GradientOp>().begin();
  }

  /// Makes `values` the function's results and removes what they do not need.
  static void returnOnly(func::FuncOp function, ValueRange values) {
    Block &block = function.getBody().front();
    Operation *exit = block.getTerminator();
    exit->setOperands(values);
    function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(), values.getTypes()));
    function.setResAttrsAttr(nullptr);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (&op != exit && op.use_empty())
        op.erase();
  }

  /// The step's loss as a function of its arguments.
  OwningOpRef<ModuleOp> lossOf(const TrainingStep &step) {
    OwningOpRef<ModuleOp> module = parse(step.text);
    func::FuncOp function = mainOf(*module);
    returnOnly(function, gradientOf(function).getLoss());
    return module;
  }

  /// Numbers of the arguments that the step differentiates by.
  static std::vector<unsigned> wrtOf(func::FuncOp function) {
    std::vector<unsigned> numbers;
    for (Value wrt : gradientOf(function).getWrt())
      numbers.push_back(cast<BlockArgument>(wrt).getArgNumber());
    return numbers;
  }

  /// The step's gradients as the pipeline computes them, in the planned phase.
  std::vector<RefTensor> gradientsOf(const TrainingStep &step, int level, ArrayRef<RefTensor> inputs) {
    OwningOpRef<ModuleOp> module = parse(step.text);
    func::FuncOp function = mainOf(*module);
    returnOnly(function, gradientOf(function).getResults());
    EXPECT_TRUE(run(*module, atLevel(level))) << messages;
    return evaluate(mainOf(*module), inputs);
  }
};

//===- meaning ---------------------------------------------------------------------------------------------------===//

/// Whether a pass runs with these options.
bool runs(const PassInfo &pass, const PipelineOptions &options) {
  const auto given = options.passes.find(pass.name);
  return pass.required() || (given == options.passes.end() ? pass.wanted(options) : given->second);
}

TEST_F(Pipeline, everyPassKeepsTheMeaningOfEveryStep) {
  for (const TrainingStep &step : trainingSteps())
    for (int level : {0, 1, 2})
      for (bool simplified : {true, false}) {
        OwningOpRef<ModuleOp> module = parse(step.text);
        PipelineOptions options = atLevel(level);
        options.verifyEach = true;
        options.passes["simplify"] = simplified;
        EXPECT_TRUE(run(*module, options)) << step.name << " at -O" << level << ": " << messages;
        EXPECT_TRUE(succeeded(verifyPhase(mainOf(*module), Phase::planned))) << step.name;
        EXPECT_EQ(report.passes.size(),
                  llvm::count_if(pipelineTable(), [&](const PassInfo &pass) { return runs(pass, options); }));
      }
}

TEST_F(Pipeline, whatARootIsTakenOfIsDrawnPositive) {
  OwningOpRef<ModuleOp> module = parse(R"(
func.func @main(%x: tensor<64xf32>, %second: tensor<64xf32>, %g: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %square = tcc.mul %g, %g : tensor<64xf32>
  %sum = tcc.add %second, %square : tensor<64xf32>
  %root = tcc.sqrt %sum : tensor<64xf32>
  %y = tcc.div %x, %root : tensor<64xf32>
  return %y, %sum : tensor<64xf32>, tensor<64xf32>
})");
  const auto smallest = [](const RefTensor &tensor) { return *llvm::min_element(tensor.data); };
  for (Phase phase : {Phase::captured, Phase::planned}) { // in a kernel's region as well
    for (VerifyInputs kind : {VerifyInputs::random, VerifyInputs::adversarial}) {
      const std::vector<RefTensor> inputs = verifyInputs(mainOf(*module), kind);
      EXPECT_LT(smallest(inputs[0]), 0);
      EXPECT_GT(smallest(inputs[1]), 0);
      EXPECT_LT(smallest(inputs[2]), 0);
    }
    if (phase == Phase::captured) {
      ASSERT_TRUE(run(*module, atLevel(2))) << messages;
    }
  }
}

TEST_F(Pipeline, longChainsStayWithinBounds) {
  const int length = 3000;
  std::string text = "func.func @main(%v0: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {\n",
              type = "tensor<8x8xf32>";
  for (int i = 1; i <= length; ++i) {
    std::string from = std::to_string(i - 1), to = std::to_string(i);
    text += "  %v" + to + " = tcc.exp %v" + from + " : " + type + "\n  %t" + to + " = tcc.transpose %" +
            (i == 1 ? "v0" : "t" + from) + " [1, 0] : " + type + " -> " + type + "\n";
  }
  std::string last = std::to_string(length);
  text += "  %p = tcc.matmul %t" + last + ", %t" + last + " : " + type + ", " + type + " -> " + type + "\n";
  text += "  return %v" + last + ", %t" + last + ", %p : " + type + ", " + type + ", " + type + "\n}\n";
  for (int level : {0, 1, 2}) {
    OwningOpRef<ModuleOp> module = parse(text);
    PipelineOptions options = atLevel(level);
    options.products = ProductType::bf16;
    ASSERT_TRUE(run(*module, options)) << messages;
    mainOf(*module).walk([&](KernelOp kernel) {
      EXPECT_LE(std::distance(kernel.getBody().front().begin(), kernel.getBody().front().end()), 300);
    });
  }
}

/// In fp64 casts are the identity, so that a matmul of the wrong value, or a value stored in another's place, would
/// show.
TEST_F(Pipeline, narrowTypesKeepTheMeaningAndLeaveNoWideMatmul) {
  for (const TrainingStep &step : trainingSteps())
    for (int level : {0, 2})
      for (bool isF16 : {false, true})
        for (bool activations : {false, true}) {
          OwningOpRef<ModuleOp> module = parse(step.text);
          PipelineOptions options = atLevel(level);
          options.verifyEach = true;
          options.products = isF16 ? ProductType::f16 : ProductType::bf16;
          options.target.multipliesF16 = true;
          options.target.narrowActivations = activations;
          EXPECT_TRUE(run(*module, options)) << step.name << " at -O" << level << ": " << messages;
          mainOf(*module).walk([&](MatmulOp matmul) {
            for (Value operand : {matmul.getA(), matmul.getB()})
              EXPECT_EQ(tensorType(operand).getElementTypeBitWidth(), 16u) << step.name;
          });
        }
}

TEST_F(Pipeline, gradientsEqualAnIndependentSweep) {
  for (const TrainingStep &step : trainingSteps()) {
    OwningOpRef<ModuleOp> module = parse(step.text);
    std::vector<unsigned> wrt = wrtOf(mainOf(*module));
    std::vector<RefTensor> inputs = inputsOf(mainOf(*module));

    OwningOpRef<ModuleOp> sweep = lossOf(step);
    func::FuncOp function = mainOf(*sweep);
    decomposeAll(function);
    differentiate(function);
    std::vector<RefTensor> withShare = inputs;
    withShare.push_back(splatTensor(cast<RankedTensorType>(function.getArgumentTypes().back()), 1));
    std::vector<RefTensor> all = evaluate(function, withShare); // one for each float argument

    for (int level : {0, 2}) {
      std::vector<RefTensor> gradients = gradientsOf(step, level, inputs);
      ASSERT_EQ(gradients.size(), wrt.size()) << step.name;
      for (auto [gradient, number] : llvm::zip_equal(gradients, wrt)) {
        unsigned position = 0;
        for (unsigned i = 0; i < number; ++i)
          position += isa<FloatType>(inputs[i].element());
        EXPECT_TRUE(allClose(gradient.data, all[position].data, 1e-9, 1e-12))
            << step.name << " at -O" << level << ", argument " << number << ": "
            << largestDifference(gradient.data, all[position].data);
      }
    }
  }
}

TEST_F(Pipeline, gradientsEqualFiniteDifferences) {
  constexpr double epsilon = 1e-6;
  constexpr int64_t mostElements = 40; // of a step; each costs two runs
  for (const TrainingStep &step : trainingSteps()) {
    OwningOpRef<ModuleOp> module = parse(step.text), loss = lossOf(step);
    std::vector<unsigned> wrt = wrtOf(mainOf(*module));
    std::vector<RefTensor> inputs = inputsOf(mainOf(*module));
    std::vector<RefTensor> gradients = gradientsOf(step, 2, inputs);
    auto lossAt = [&] { return evaluate(mainOf(*loss), inputs)[0].data[0]; };
    for (auto [gradient, number] : llvm::zip_equal(gradients, wrt)) {
      int64_t stride = std::max<int64_t>(1, gradient.size() * static_cast<int64_t>(wrt.size()) / mostElements);
      for (int64_t i = 0; i < gradient.size(); i += stride) {
        double &x = inputs[number].data[i], middle = x;
        x = middle + epsilon;
        double above = lossAt();
        x = middle - epsilon;
        double below = lossAt();
        x = middle;
        double numeric = (above - below) / (2 * epsilon);
        EXPECT_NEAR(gradient.data[i], numeric, 1e-5 + 1e-3 * std::abs(numeric))
            << step.name << ", argument " << number << ", element " << i;
      }
    }
  }
}

TEST_F(Pipeline, verifyEachNamesThePassThatChangesTheMeaning) {
  OwningOpRef<ModuleOp> module = parse(R"(func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %a = tcc.neg %x : tensor<3xf32>
    %b = tcc.exp %x : tensor<3xf32>
    return %a, %b : tensor<3xf32>, tensor<3xf32>
  })");
  PipelineOptions options;
  options.verifyEach = true;
  func::FuncOp function = mainOf(*module);
  VerifyEach check(function, options);
  Operation *exit = function.getBody().front().getTerminator();
  exit->setOperand(1, exit->getOperand(0)); // as a wrong pass would
  Messages said(context.get());
  EXPECT_TRUE(failed(check.compare("simplify")));
  EXPECT_NE(said.text.find("pass 'simplify' changed the meaning of result 1 (tcc.neg): relative difference"),
            std::string::npos)
      << said.text;
}

//===- what fusion makes -----------------------------------------------------------------------------------------===//

TEST_F(Pipeline, fusionSavesHalfOfTheKernelsAtLeast) {
  for (const TrainingStep &step : trainingSteps()) {
    std::vector<int64_t> kernels;
    for (int level : {0, 1, 2}) {
      OwningOpRef<ModuleOp> module = parse(step.text);
      ASSERT_TRUE(run(*module, atLevel(level))) << messages;
      kernels.push_back(report.kernels);
    }
    EXPECT_LT(2 * kernels[1], kernels[0]) << step.name;
    EXPECT_LT(2 * kernels[2], kernels[0]) << step.name;
  }
}

TEST_F(Pipeline, recomputedValuesAreNotStored) {
  for (const char *name : {"mlp", "gpt", "cross_entropy"}) {
    OwningOpRef<ModuleOp> module = parse(trainingStep(name).text);
    PipelineOptions options;
    options.stopAfter = Phase::fused;
    ASSERT_TRUE(run(*module, options)) << messages;
    int exponentials = 0;
    module->walk([&](YieldOp yield) {
      for (Value value : yield.getValues()) {
        EXPECT_FALSE((isa_and_nonnull<TanhOp, ExpOp>(value.getDefiningOp()))) << name;
      }
    });
    module->walk([&](Operation *op) { exponentials += isa<ExpOp, GeluGradientOp>(op); });
    if (std::string(name) == "mlp") {
      EXPECT_GE(exponentials, 1);
    }
  }
}

//===- phases, stops, dumps --------------------------------------------------------------------------------------===//

TEST_F(Pipeline, stopsWhereItIsTold) {
  for (Phase phase : {Phase::captured, Phase::joint, Phase::shaped, Phase::fused, Phase::planned}) {
    OwningOpRef<ModuleOp> module = parse(trainingStep("mlp").text);
    PipelineOptions options;
    options.stopAfter = phase;
    ASSERT_TRUE(run(*module, options)) << messages;
    EXPECT_TRUE(succeeded(verifyPhase(mainOf(*module), phase)));
    ScopedDiagnosticHandler handler(context.get(), [](Diagnostic &) { return success(); });
    EXPECT_EQ(failed(verifyPhase(mainOf(*module), Phase::fused)), phase < Phase::fused) << phaseName(phase).str();
    EXPECT_EQ(parsePhase(phaseName(phase)), phase);
  }
  EXPECT_FALSE(parsePhase("finished"));
}

TEST_F(Pipeline, phasesSayWhatDoesNotBelong) {
  struct Case {
    std::string text, why;
    Phase phase;
  };
  std::string head = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n",
              tail = "\n return %r : tensor<4xf32>\n}";
  for (const Case &sample :
       {Case{head + "%r = tcc.relu %x : tensor<4xf32>" + tail,
             "'tcc.relu' op may not stand in phase 'joint': composite ops are expanded by 'decompose'\n", Phase::joint},
        Case{head +
                 "%s = tcc.reduce_sum %x axes [0] : tensor<4xf32> -> tensor<1xf32>\n"
                 "%l = tcc.reshape %s : tensor<1xf32> -> tensor<f32>\n"
                 "%r = tcc.gradient %l wrt %x : tensor<f32>, tensor<4xf32>" +
                 tail,
             "'tcc.gradient' op may not stand in phase 'joint': gradients are expanded by 'autodiff'\n", Phase::joint},
        Case{head + "%r = tcc.neg %x : tensor<4xf32>" + tail,
             "'tcc.neg' op may not stand in phase 'fused': computations stand in kernels made by 'fuse-kernels'\n",
             Phase::fused},
        Case{head + "%r = tcc.constant dense<1.0> : tensor<4xf32>" + tail,
             "'tcc.constant' op may not stand in phase 'fused': computations stand in kernels made by 'fuse-kernels'\n",
             Phase::fused},
        Case{head +
                 "%r = tcc.kernel (%a = %x : tensor<4xf32>) -> tensor<4xf32> {\n"
                 "%m = tcc.reduce_max %a axes [0] : tensor<4xf32> -> tensor<1xf32>\n"
                 "%w = tcc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
                 "%y = tcc.add %a, %w : tensor<4xf32>\n"
                 "tcc.yield %y : tensor<4xf32>\n}" +
                 tail,
             "'tcc.kernel' op is no legal kernel: expected literals inside a kernel to be splats\n", Phase::fused}}) {
    OwningOpRef<ModuleOp> module = parse(sample.text);
    Messages said(context.get());
    EXPECT_TRUE(failed(verifyPhase(mainOf(*module), sample.phase)));
    EXPECT_EQ(said.text, sample.why);
  }
}

/// A kernel that was found legal is looked at again once anything in it has changed.
TEST_F(Pipeline, aChangedKernelIsVerifiedAgain) {
  OwningOpRef<ModuleOp> module = parse("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                                       "%r = tcc.kernel (%a = %x : tensor<4xf32>) -> tensor<4xf32> {\n"
                                       "%w = tcc.constant dense<1.0> : tensor<4xf32>\n"
                                       "%y = tcc.add %a, %w : tensor<4xf32>\n"
                                       "tcc.yield %y : tensor<4xf32>\n}\n return %r : tensor<4xf32>\n}");
  EXPECT_TRUE(succeeded(verifyPhase(mainOf(*module), Phase::fused)));
  Fingerprint before = fingerprintOf(mainOf(*module));
  EXPECT_EQ(fingerprintOf(mainOf(*module)), before);
  mainOf(*module).walk([&](ConstantOp literal) {
    literal.setValueAttr(DenseElementsAttr::get(tensorType(literal.getResult()), ArrayRef<float>{1, 2, 3, 4}));
  });
  EXPECT_NE(fingerprintOf(mainOf(*module)), before);
  ScopedDiagnosticHandler handler(context.get(), [](Diagnostic &) { return success(); });
  EXPECT_TRUE(failed(verifyPhase(mainOf(*module), Phase::fused)));
}

TEST_F(Pipeline, dumpsAreOfTheNamedPasses) {
  auto dumps = [&](const std::string &which) {
    OwningOpRef<ModuleOp> module = parse(trainingStep("mlp").text);
    std::string text;
    llvm::raw_string_ostream stream(text);
    PipelineOptions options;
    options.dump = which;
    options.dumpStream = &stream;
    EXPECT_TRUE(run(*module, options)) << messages;
    std::string names;
    for (StringRef line : llvm::split(StringRef(text), '\n'))
      if (line.consume_front("// -----// IR Dump After "))
        names += line.split(' ').first.str() + " ";
    return names;
  };
  std::string all;
  for (const PassInfo &pass : pipelineTable())
    all += runs(pass, PipelineOptions()) ? std::string(pass.name) + " " : "";
  EXPECT_EQ(dumps("all"), all);
  EXPECT_EQ(dumps("autodiff"), "autodiff ");
  std::string changed = dumps("changed"); // static sizes, no long reduction: two passes have nothing to do
  EXPECT_EQ(changed.find("specialize-shapes"), std::string::npos);
  EXPECT_EQ(changed.find("split-reductions"), std::string::npos);
  EXPECT_NE(changed.find("autodiff simplify fuse-kernels"), std::string::npos) << changed;
}

//===- words -----------------------------------------------------------------------------------------------------===//

TEST_F(Pipeline, wrongOptionsAreRefusedInWords) {
  std::string text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n return %x : tensor<4xf32>\n}";
  auto refusal = [&](llvm::function_ref<void(PipelineOptions &)> set) {
    OwningOpRef<ModuleOp> module = parse(text);
    PipelineOptions options;
    set(options);
    EXPECT_FALSE(run(*module, options));
    return messages;
  };
  EXPECT_EQ(refusal([](PipelineOptions &o) { o.passes["simplif"] = false; }),
            "unknown pass 'simplif'; did you mean 'simplify'?\n");
  EXPECT_EQ(refusal([](PipelineOptions &o) { o.passes["vectorise"] = true; }), "unknown pass 'vectorise'\n");
  EXPECT_EQ(refusal([](PipelineOptions &o) { o.passes["autodiff"] = false; }),
            "pass 'autodiff' cannot be left out; no code can be made without it\n");
  EXPECT_EQ(refusal([](PipelineOptions &o) { o.dump = "autodif"; }),
            "unknown pass 'autodif' to dump after; 'all', 'changed' or a pass of --print-pipeline is expected\n");
  EXPECT_EQ(refusal([](PipelineOptions &o) { o.shapes["y"] = {4}; }),
            "--shape names 'y', which is no argument's tcc.name\n");
  EXPECT_EQ(nearestPass("fuse-kernel"), "fuse-kernels");
  EXPECT_EQ(nearestPass("x"), "");
}

TEST_F(Pipeline, wrongModulesAreRefusedInWords) {
  struct Case {
    std::string text, why;
  };
  std::string one = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n return %x : tensor<4xf32>\n}\n";
  auto updating = [](const std::string &arguments, const std::string &results) {
    return "func.func @main(" + arguments + ") -> " + results +
           " {\n %y = tcc.neg %x : tensor<4xf32>\n return %y : " + "tensor<4xf32>\n}\n";
  };
  for (const Case &sample :
       {Case{one + "func.func @other() {\n return\n}\n", "a module holds one function; this is a second one\n"},
        Case{"module {}", "a module holds one function with a body\n"},
        Case{updating("%x: tensor<4xf32> {tcc.name = \"x\"}", "(tensor<4xf32> {tcc.updates = \"x\"})"),
             "result 0 updates 'x', which is no state argument (result_c2)\n"},
        Case{updating("%x: tensor<4xf32>, %s: tensor<2xf32> {tcc.name = \"s\", tcc.state}",
                      "(tensor<4xf32> {tcc.updates = \"s\"})"),
             "result 0 updates 's' with another type than the state's (result_c3)\n"},
        Case{
            "func.func @main(%x: tensor<4xf32> {tcc.name = \"s\", tcc.state}) -> (tensor<4xf32> {tcc.updates = \"s\"}, "
            "tensor<4xf32> {tcc.updates = \"s\"}) {\n return %x, %x : tensor<4xf32>, tensor<4xf32>\n}\n",
            "state 's' is updated twice (result_c4)\n"}}) {
    OwningOpRef<ModuleOp> module = parse(sample.text);
    EXPECT_FALSE(run(*module, PipelineOptions())) << sample.text;
    EXPECT_EQ(messages, sample.why);
  }
}

TEST_F(Pipeline, printsItsTable) {
  auto print = [](const PipelineOptions &options) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    printPipeline(stream, options);
    return text;
  };
  const PipelineOptions usual;
  const std::string printed = print(usual);
  std::string rows;
  for (const auto &[i, pass] : llvm::enumerate(pipelineTable()))
    rows += llvm::formatv("{0,2}  {1,-20} {2,-9} {3,-4} {4}\n", i + 1, pass.name, phaseName(pass.reaches),
                          runs(pass, usual) ? "on" : "off", pass.reason);
  EXPECT_EQ(printed, rows);
  EXPECT_TRUE(StringRef(printed).starts_with(
      " 1  specialize-shapes    captured  on   first: every later pass sees static sizes\n"));
  EXPECT_NE(printed.find("  autocast             shaped    off  before expand-unsupported: "), std::string::npos);
  EXPECT_NE(print(atLevel(0)).find("  simplify             shaped    off"), std::string::npos);
  PipelineOptions on = atLevel(0);
  for (const PassInfo *pass : optionalPasses(usual))
    on.passes[pass->name] = true;
  EXPECT_EQ(print(on), printed);
}

} // namespace
} // namespace tcc::test
