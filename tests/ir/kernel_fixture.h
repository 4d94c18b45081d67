// Kernels: a fixture that makes kernel forms of ops written as text, and compares each form with the interpreter.
#pragma once
#include "ir/reference/compare.h"
#include "ir/scalar_form.h"
#include "passes/pipeline.h"
#include "tests/ir/kernel_evaluator.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

namespace tcc::test {

using namespace mlir;

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

} // namespace tcc::test
