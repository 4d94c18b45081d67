// match-attention against what it replaces: each spelling is interpreted as it is written and as it is matched, results
// and gradients; compiled too; programs that are near to attention stay as they are, with the reason; and faults
// planted in what was matched are seen.
#include "codegen/compile_session.h"
#include "codegen/graph_reference.h"
#include "codegen/graph_runner.h"
#include "frontend/capture.h"
#include "mlir/IR/Verifier.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "tests/passes/random_attention.h"
#include "tests/passes/relative_difference.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

using tcc::Shape;

func::FuncOp functionOf(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

/// A weight for each element, so that no gradient cancels.
Tensor lossOf(const Tensor &x) {
  int64_t count = 1;
  for (int64_t d = 0; d < x.rank(); ++d)
    count *= x.dim(d);
  return sum(reshape(cast(x, DType::f32), {count}) * sin(iota(0, {count}, DType::f32) + 0.5));
}

using Traced = std::function<std::vector<Tensor>(const AttentionInputs &)>;

/// The module of a program over the inputs.
OwningOpRef<ModuleOp> moduleOf(const AttentionShape &shape, const Traced &program) {
  Tracer tracer;
  const std::vector<ValueType> types = {{shape.dtype, {shape.batch, shape.heads, shape.queries, shape.width}},
                                        {shape.dtype, {shape.batch, shape.keyHeads, shape.keys, shape.width}},
                                        {shape.dtype, {shape.batch, shape.keyHeads, shape.keys, shape.width}},
                                        {DType::f32, {shape.queries, shape.keys}},
                                        {DType::f32, {shape.heads, 1, 1}},
                                        {DType::i32, {}}};
  const std::vector<std::string> names = {"q", "k", "v", "bias", "factor", "seed"};
  auto traced = [&](std::span<const Tensor> in) { return program({shape, in[0], in[1], in[2], in[3], in[4], in[5]}); };
  const Recorded recorded = tracer.record(traced, types, names);
  OwningOpRef<ModuleOp> module = buildModule(*recorded.record, "main", {}, threadContext());
  EXPECT_TRUE(succeeded(verify(*module)));
  return module;
}

/// The spelling's result and its gradients.
OwningOpRef<ModuleOp> moduleOf(const Spelling &spelling) {
  return moduleOf(spelling.shape, [&](const AttentionInputs &in) {
    const Tensor out = spelling.write(in);
    std::vector<Tensor> results = gradient(lossOf(out), std::vector<Tensor>{in.q, in.k, in.v});
    results.push_back(out);
    return results;
  });
}

std::vector<RefTensor> inputsOf(func::FuncOp function) {
  std::vector<RefTensor> inputs;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    inputs.push_back(randomTensor(cast<RankedTensorType>(type), 11 + i, -2, 2));
  return inputs;
}

std::vector<RefTensor> evaluate(ModuleOp module, RefMode mode = RefMode::exact) {
  func::FuncOp function = functionOf(module);
  auto results = interpret(function, inputsOf(function), mode);
  EXPECT_TRUE(results) << results.error().message();
  return results ? std::move(*results) : std::vector<RefTensor>();
}

struct Outcome {
  OwningOpRef<ModuleOp> module;
  std::vector<FlashAttentionOp> matched;
  Remarks remarks;
};

PipelineOptions withMatching(bool matching) {
  PipelineOptions options;
  options.passes["match-attention"] = matching;
  return options;
}

/// A copy of the module after the pipeline as far as `phase`.
Outcome runTo(Phase phase, ModuleOp module, bool matching) {
  Outcome result;
  result.module = OwningOpRef<ModuleOp>(cast<ModuleOp>(module->clone()));
  PipelineOptions options = withMatching(matching);
  options.stopAfter = phase;
  options.remarks = &result.remarks;
  PipelineReport report;
  EXPECT_TRUE(succeeded(runPipeline(*result.module, options, report)));
  result.module->walk([&](FlashAttentionOp op) { result.matched.push_back(op); });
  return result;
}

std::string textOf(const Remarks &remarks) {
  std::string text;
  for (const Remark &remark : remarks)
    text += (remark.kind == Remark::Kind::passed ? "passed: " : "missed: ") + remark.text + "\n";
  return text;
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false));
  return text;
}

//===- matched ---------------------------------------------------------------------------------------------------===//

TEST(MatchAttention, EverySpellingIsMatchedAndMeansTheSame) {
  for (const Spelling &spelling : attentionSpellings()) {
    SCOPED_TRACE(spelling.name);
    OwningOpRef<ModuleOp> module = moduleOf(spelling);
    Outcome plain = runTo(Phase::joint, *module, false), matched = runTo(Phase::joint, *module, true);
    EXPECT_TRUE(plain.matched.empty());
    ASSERT_EQ(matched.matched.size(), 1u) << textOf(matched.remarks);
    EXPECT_EQ(textOf(matched.remarks).substr(0, 8), "passed: ");
    FlashAttentionOp op = matched.matched[0];
    AttentionMask mask = attentionMask(op);
    EXPECT_EQ(mask.diagonal, spelling.mask.diagonal);
    EXPECT_EQ(mask.window, spelling.mask.window);
    EXPECT_EQ(op.getRate().value_or(llvm::APFloat(0.0)).convertToDouble(), spelling.rate);
    AttentionSizes sizes = attentionSizes(op);
    EXPECT_EQ(sizes.keyHeads, spelling.keyHeads ? spelling.keyHeads : sizes.heads);
    EXPECT_EQ(std::distance(functionOf(*matched.module).getOps<FlashAttentionBackwardOp>().begin(),
                            functionOf(*matched.module).getOps<FlashAttentionBackwardOp>().end()),
              1);
    EXPECT_TRUE(functionOf(*matched.module).getOps<MatmulOp>().empty());
    std::vector<RefTensor> expected = evaluate(*plain.module);
    // A computed scale is rounded to f32, as the compiled program's is and the fp64 interpreter's is not.
    EXPECT_LE(difference(expected, evaluate(*matched.module)), 1e-7);
    Outcome planned = runTo(Phase::planned, *module, true); // expanded, since nothing says that there are kernels
    EXPECT_LE(difference(expected, evaluate(*planned.module)), 1e-6);
  }
}

TEST(MatchAttention, MatchedSpellingsCompile) {
  for (const Spelling &spelling : attentionSpellings()) {
    SCOPED_TRACE(spelling.name);
    OwningOpRef<ModuleOp> module = moduleOf(spelling);
    CompileOptions options;
    options.threads = 1;
    options.pipeline.passes["match-attention"] = true;
    auto artefact = compileArtefact(module->clone(), options);
    ASSERT_TRUE(artefact) << artefact.error().message();
    func::FuncOp function = functionOf(*module);
    auto runner = GraphRunner::load(std::move(*artefact), function, {.threads = 1, .checked = true});
    ASSERT_TRUE(runner) << runner.error().message();
    auto reference = Reference::make(*module, inputsOf(function), withMatching(false));
    ASSERT_TRUE(reference) << reference.error().message();
    auto results = (*runner)->run(reference->arguments());
    ASSERT_TRUE(results) << results.error().message();
    EXPECT_EQ(reference->checkChain(*results), "");
  }
}

/// Without a word to the contrary, only what the target has kernels for is matched; the module is as it was.
TEST(MatchAttention, WithoutKernelsNothingChanges) {
  class NoKernels : public TargetQueries {
    int64_t scratchBytes(Operation *) const override { return 0; }
  };
  NoKernels queries;
  for (const TargetQueries *target :
       {static_cast<const TargetQueries *>(nullptr), static_cast<const TargetQueries *>(&queries)}) {
    OwningOpRef<ModuleOp> module = moduleOf(attentionSpellings()[0]), other(cast<ModuleOp>((*module)->clone()));
    PipelineOptions options;
    Remarks remarks;
    options.remarks = &remarks;
    options.queries = target;
    options.stopAfter = Phase::joint;
    PipelineReport report;
    ASSERT_TRUE(succeeded(runPipeline(*module, options, report)));
    EXPECT_NE(textOf(remarks).find("target 'cpu' has no kernels for this case"), std::string::npos) << textOf(remarks);
    PipelineOptions off = options;
    off.passes["match-attention"] = false;
    ASSERT_TRUE(succeeded(runPipeline(*other, off, report)));
    EXPECT_EQ(textOf(*module), textOf(*other));
  }
}

/// A target with a kernel for the forward op alone is asked for the gradient's too, where there is one.
TEST(MatchAttention, TheGradientNeedsKernelsToo) {
  class ForwardAlone : public TargetQueries {
    bool hasKernel(Operation *op) const override { return isa<FlashAttentionOp>(op); }
    int64_t scratchBytes(Operation *) const override { return 0; }
  };
  ForwardAlone queries;
  Spelling spelling = attentionSpellings()[0];
  for (bool differentiated : {false, true}) {
    OwningOpRef<ModuleOp> module =
        differentiated ? moduleOf(spelling) : moduleOf(spelling.shape, [&](const AttentionInputs &in) {
          return std::vector<Tensor>{spelling.write(in)};
        });
    PipelineOptions options;
    options.queries = &queries;
    options.stopAfter = Phase::joint;
    PipelineReport report;
    ASSERT_TRUE(succeeded(runPipeline(*module, options, report)));
    EXPECT_EQ(functionOf(*module).getOps<FlashAttentionOp>().empty(), differentiated);
  }
}

/// Random programs of which some are attention: whatever is matched means the same, not-a-numbers included. Another run
/// takes TCC_RANDOM_GRAPHS=N programs from TCC_RANDOM_SEED=S on; 4425 is one where an infinite score was multiplied by
/// 0.
TEST(MatchAttention, RandomProgramsMeanTheSame) {
  const char *count = std::getenv("TCC_RANDOM_GRAPHS"), *first = std::getenv("TCC_RANDOM_SEED");
  const uint64_t programs = count ? std::stoull(count) : 400, start = first ? std::stoull(first) : 1;
  uint64_t matches = 0;
  for (uint64_t seed = start; seed < start + programs; ++seed) {
    OwningOpRef<ModuleOp> module = moduleOf(randomAttentionShape(seed), [&](const AttentionInputs &in) {
      RandomAttention program = randomAttention(seed, in);
      std::vector<Tensor> results = gradient(lossOf(program.out), program.wrt);
      results.push_back(program.out);
      results.insert(results.end(), program.more.begin(), program.more.end());
      return results;
    });
    Outcome plain = runTo(Phase::joint, *module, false), matched = runTo(Phase::joint, *module, true);
    matches += matched.matched.size();
    ASSERT_LE(matched.matched.size() + matched.remarks.size(), 2u);
    ASSERT_LE(difference(evaluate(*plain.module), evaluate(*matched.module)), 1e-7)
        << "TCC_RANDOM_SEED=" << seed << "\n"
        << textOf(matched.remarks) << textOf(*module);
  }
  std::cout << matches << " of " << programs << " random programs matched\n";
  if (!count) {
    EXPECT_GE(matches, programs / 5);
    EXPECT_LE(matches, programs * 4 / 5);
  }
}

//===- left alone ------------------------------------------------------------------------------------------------===//

/// The program stays as it is, to the letter, and one remark at this file's line says why.
void expectRefusal(ModuleOp module, const std::string &reason) {
  Outcome plain = runTo(Phase::joint, module, false), tried = runTo(Phase::joint, module, true);
  EXPECT_TRUE(tried.matched.empty());
  EXPECT_EQ(textOf(*plain.module), textOf(*tried.module));
  ASSERT_EQ(tried.remarks.size(), 1u) << textOf(tried.remarks);
  EXPECT_EQ(tried.remarks[0].kind, Remark::Kind::missed);
  EXPECT_NE(tried.remarks[0].text.find(reason), std::string::npos) << tried.remarks[0].text;
  std::string place;
  llvm::raw_string_ostream stream(place);
  tried.remarks[0].loc.print(stream);
  EXPECT_NE(place.find("attention"), std::string::npos) << place;
}

TEST(MatchAttention, WhatIsNearStaysAsItIs) {
  for (const Spelling &spelling : nearAttentionSpellings()) {
    SCOPED_TRACE(spelling.name);
    expectRefusal(*moduleOf(spelling), spelling.refusal);
  }
}

TEST(MatchAttention, ProbabilitiesThatAreWantedStay) {
  using Wanted = std::function<std::vector<Tensor>(const AttentionInputs &, const Tensor &shares, const Tensor &out)>;
  auto program = [](const Wanted &wanted) {
    return [=](const AttentionInputs &in) {
      const Tensor shares = softmax(hidden(in, causalMask(in)));
      return wanted(in, shares, mix(shares, in));
    };
  };
  const std::pair<const char *, Wanted> cases[] = {
      {"are returned", [](auto &, auto &shares, auto &out) { return std::vector<Tensor>{shares, out}; }},
      {"are used by several ops",
       [](auto &, auto &shares, auto &out) { return std::vector<Tensor>{sum(shares * shares), out}; }},
      {"with respect to the probabilities",
       [](auto &, auto &shares, auto &out) { return std::vector<Tensor>{gradient(lossOf(out), shares), out}; }}};
  for (const auto &[reason, wanted] : cases)
    expectRefusal(*moduleOf({}, program(wanted)), reason);
}

TEST(MatchAttention, ScoresThatAreWantedStay) {
  auto program = [](bool differentiate, bool ofMask) {
    return [=](const AttentionInputs &in) {
      const Tensor scores = scoresOf(in), bias = triu(full(-1e30, in.square()), 1);
      const Tensor out = mix(softmax(scores + bias), in);
      return std::vector<Tensor>{out, differentiate ? gradient(lossOf(out), ofMask ? bias : scores) : max(scores)};
    };
  };
  expectRefusal(*moduleOf({}, program(false, false)), "is used by 'tcc.reduce_max' too");
  expectRefusal(*moduleOf({}, program(true, false)), "a gradient with respect to the result of");
  expectRefusal(*moduleOf({}, program(true, true)), "a gradient with respect to the mask");
}

TEST(MatchAttention, SecondDerivativesTakeTheUnmatchedForm) {
  OwningOpRef<ModuleOp> module = moduleOf({}, [](const AttentionInputs &in) {
    const Tensor first = gradient(lossOf(attention(in.q, in.k, in.v, true)), in.q);
    return std::vector<Tensor>{gradient(lossOf(first * first), in.k)};
  });
  expectRefusal(*module, "differentiated twice");
}

/// Values that a gradient is asked for are kept where factors and repetitions are passed over.
TEST(MatchAttention, OperandsThatAreWantedStayOnTheWay) {
  AttentionShape shape;
  shape.keyHeads = 2;
  OwningOpRef<ModuleOp> module = moduleOf(shape, [](const AttentionInputs &in) {
    const auto repeated = [](const Tensor &x) {
      const Tensor apart = reshape(x, {2, 2, 1, 6, 8});
      return reshape(broadcast(apart, {2, 2, 2, 6, 8}), {2, 4, 6, 8});
    };
    const Tensor q = in.q * 0.5, k = repeated(in.k), v = repeated(in.v);
    const Tensor out = matmul(softmax(matmul(q, k, {.transposeB = true})), v);
    return gradient(lossOf(out), std::vector<Tensor>{q, k, v, in.q, in.k, in.v});
  });
  Outcome plain = runTo(Phase::joint, *module, false), matched = runTo(Phase::joint, *module, true);
  ASSERT_EQ(matched.matched.size(), 1u) << textOf(matched.remarks);
  EXPECT_EQ(attentionSizes(matched.matched[0]).keyHeads, 4);
  EXPECT_LE(difference(evaluate(*plain.module), evaluate(*matched.module)), 1e-9);
}

/// A softmax that is no attention's is not spoken of.
TEST(MatchAttention, OtherSoftmaxesHaveNoRemark) {
  OwningOpRef<ModuleOp> module = moduleOf({}, [](const AttentionInputs &in) {
    return std::vector<Tensor>{softmax(in.q), sum(softmax(scoresOf(in)) * 2.0), crossEntropy(in.bias, iota(0, {6}))};
  });
  EXPECT_EQ(textOf(runTo(Phase::joint, *module, true).remarks), "");
}

//===- faults ----------------------------------------------------------------------------------------------------===//

/// What the spelling gives where `fault` changes the matched op, before its gradient is made of it.
std::vector<RefTensor> withFault(const Spelling &spelling, llvm::function_ref<void(FlashAttentionOp)> fault) {
  OwningOpRef<ModuleOp> module = moduleOf(spelling);
  func::FuncOp function = functionOf(*module);
  PipelineOptions options = withMatching(true);
  EXPECT_TRUE(succeeded(specializeShapes(function, options)) && succeeded(decompose(function, options)) &&
              succeeded(matchAttention(function, options)));
  function.walk(fault);
  EXPECT_TRUE(succeeded(autodiff(function, options)) && succeeded(verify(*module)));
  return evaluate(*module);
}

struct Fault {
  const char *name;
  std::function<void(FlashAttentionOp)> plant;
};

/// Each fault in what the spelling of that name is matched with changes its results.
void expectSeen(StringRef name, ArrayRef<Fault> faults) {
  std::vector<Spelling> all = attentionSpellings();
  Spelling spelling = *llvm::find_if(all, [&](const Spelling &s) { return s.name == name; });
  std::vector<RefTensor> expected = evaluate(*runTo(Phase::joint, *moduleOf(spelling), false).module);
  EXPECT_LE(difference(expected, withFault(spelling, [](FlashAttentionOp) {})), 1e-7);
  for (const Fault &fault : faults)
    EXPECT_GE(difference(expected, withFault(spelling, fault.plant)), 1e-3) << fault.name;
}

TEST(MatchAttention, PlantedFaultsAreSeen) {
  auto i64 = [](FlashAttentionOp op, int64_t value) { return OpBuilder(op).getI64IntegerAttr(value); };
  const Fault faults[] = {
      {"scale wrong",
       [](auto op) { op.setScaleAttr(OpBuilder(op).getF64FloatAttr(op.getScale().convertToDouble() * 1.01)); }},
      {"scale of another width", [](auto op) { op.setScaleAttr(OpBuilder(op).getF64FloatAttr(0.25)); }},
      {"mask one to the right", [&](auto op) { op.setDiagonalAttr(i64(op, *op.getDiagonal() + 1)); }},
      {"mask one to the left",
       [&](auto op) { op.setDiagonalAttr(i64(op, static_cast<int64_t>(*op.getDiagonal()) - 1)); }},
      {"window too long", [&](auto op) { op.setWindowAttr(i64(op, 4)); }},
      {"window lost", [](auto op) { op.removeWindowAttr(); }},
      {"mask lost", [](auto op) { op.removeWindowAttr(), op.removeDiagonalAttr(); }},
      {"keys for values", [](auto op) { op.getVMutable().assign(op.getK()); }},
      {"queries for keys", [](auto op) { op.getKMutable().assign(op.getQ()); }}};
  expectSeen("window", faults);
}

TEST(MatchAttention, PlantedFaultsOfDropoutAreSeen) {
  const Fault faults[] = {
      {"bits of another op", [](auto op) { op.setStream(*op.getStream() + 1); }},
      {"another rate", [](auto op) { op.setRateAttr(OpBuilder(op).getF64FloatAttr(0.3)); }},
      {"the place in the batch lost", [](auto op) { op.getFirstMutable().clear(); }},
      {"dropout lost",
       [](auto op) {
         op.getFirstMutable().clear(), op.getSeedMutable().clear();
         op.removeRateAttr(), op.removeStreamAttr();
       }},
  };
  expectSeen("dropout of a part of a batch", faults);
}

/// A match that is none: what a refused program computes is not what its neighbour's flash_attention does.
TEST(MatchAttention, AWrongMatchWouldBeSeen) {
  const Spelling plain = {"plain", {}, [](const AttentionInputs &in) { return mix(softmax(scoresOf(in)), in); }};
  std::vector<RefTensor> matched = evaluate(*runTo(Phase::joint, *moduleOf(plain), true).module);
  for (const Spelling &spelling : nearAttentionSpellings()) {
    std::vector<RefTensor> own = evaluate(*runTo(Phase::joint, *moduleOf(spelling), false).module);
    bool sameMeaning = spelling.name == "no maximum" || spelling.name == "another maximum" ||
                       spelling.name == "rounded and widened probabilities" || spelling.name == "softmax in 16 bits" ||
                       spelling.name == "wide result" || spelling.name == "softmax by the logarithm of its sum" ||
                       spelling.name == "divided after the values" || own[3].size() != matched[3].size();
    EXPECT_TRUE(sameMeaning || difference(own, matched) >= 1e-4) << spelling.name;
  }
}

} // namespace
} // namespace tcc::test
