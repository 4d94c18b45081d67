// Random graphs: forward and all gradients, compiled, against the fp64 interpreter and against -O0. TCC_RANDOM_GRAPHS
// sets how many (300), TCC_RANDOM_SEED the first seed. A failure reduces itself and prints .graph text.
#include "mlir/IR/Verifier.h"
#include "tests/codegen/eager_padding.h"
#include "tests/environment.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/generate_control.h"
#include "tests/random_graphs/graph_check.h"
#include "tests/random_graphs/reduce.h"
#include <chrono>
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

/// Seeds whose graphs have attention written by hand, and are compiled with match-attention. They are few, since its
/// kernels take long to compile.
bool hasAttention(uint64_t seed) {
  return seed % 20 == 3;
}

/// Seeds whose graphs have branches and loops.
bool hasControl(uint64_t seed) {
  return seed % 6 == 1;
}

/// What a seed checks beside -O0: the level, the target, sizes that are padded, the interpreter after each pass.
CheckOptions optionsOf(uint64_t seed) {
  CheckOptions options;
  options.level = 1 + static_cast<int>(seed % 3);
  options.verifyEach = seed % 4 == 0;
  options.threads = 1 + static_cast<int>(seed % 2);
  options.matchAttention = hasAttention(seed);
  if (seed % 5 == 2)
    options.padding = seed % 2 == 0 ? 64 : 8;
  if (seed % 7 == 5)
    options.target = {"x86-64-v3", "", 0};
  if (seed % 7 == 6)
    options.target = {"x86-64", "", 0};
  return options;
}

GenerateOptions shapeOf(uint64_t seed) {
  GenerateOptions options;
  options.ops = 4 + static_cast<int>(seed % 13);
  options.bf16 = seed % 3 == 0;
  options.attention = hasAttention(seed);
  options.sums = seed % 4 == 2;
  return options;
}

/// Empty, or what went wrong, its kind first.
std::string checkGraph(ModuleOp module, uint64_t seed, const CheckOptions &options, int64_t *excluded = nullptr) {
  std::string error;
  PipelineOptions pipeline;
  pipeline.passes["match-attention"] = options.matchAttention;
  auto reference = Reference::make(module, generateInputs(onlyFunction(module), seed), pipeline);
  if (!reference)
    return "refused: " + reference.error().message();
  CheckOptions plain;
  plain.level = 0;
  std::vector<RefTensor> unfused; // the results at -O0, where each op rounds for itself
  for (const CheckOptions &how : {plain, options}) {
    std::string level = "-O" + std::to_string(how.level);
    std::unique_ptr<CompiledGraph> graph = CompiledGraph::compile(module, how, error);
    if (!graph)
      return "not compiled: " + error;
    std::optional<std::vector<RefTensor>> results = graph->run(reference->arguments(), error);
    if (!results)
      return "not run: " + level + ": " + error;
    std::string mismatch = reference->checkChain(*results);
    if (mismatch.empty() && !unfused.empty())
      mismatch = reference->checkRounding(*results, unfused);
    if (!mismatch.empty())
      return "mismatch: " + level + ": " + mismatch;
    if (unfused.empty())
      unfused = std::move(*results);
  }
  if (excluded)
    *excluded += reference->excluded();
  return {};
}

std::string reduced(ModuleOp module, uint64_t seed, const CheckOptions &options, const std::string &failure) {
  std::string kind = failure.substr(0, failure.find(':'));
  OwningOpRef<ModuleOp> small = reduceGraph(module, [&](ModuleOp candidate) {
    return StringRef(checkGraph(candidate, seed, options)).starts_with(kind + ":");
  });
  return "seed " + std::to_string(seed) + ": " + failure + "\nreduced to " + std::to_string(countOps(*small)) +
         " ops (" + checkGraph(*small, seed, options) + "), -O" + std::to_string(options.level) + "\n" + textOf(*small);
}

/// The joint step with its matmuls in bf16, as autocast leaves it.
OwningOpRef<ModuleOp> withNarrowProducts(ModuleOp module) {
  OwningOpRef<ModuleOp> joint = module.clone();
  PipelineOptions options;
  options.products = ProductType::bf16;
  options.stopAfter = Phase::shaped;
  PipelineReport report;
  return succeeded(runPipeline(*joint, options, report)) ? std::move(joint) : nullptr;
}

TEST(RandomGraphs, equalTheInterpreterAndO0) {
  int64_t count = fromEnvironment("TCC_RANDOM_GRAPHS", 300), first = fromEnvironment("TCC_RANDOM_SEED", 1);
  auto start = std::chrono::steady_clock::now();
  auto context = makeContext();
  int64_t failures = 0, ops = 0, results = 0, elements = 0, excluded = 0;
  for (int64_t seed = first; seed < first + count && failures < 5; ++seed) {
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, shapeOf(seed));
    ASSERT_TRUE(module) << "the generator made an invalid graph from seed " << seed;
    if (hasControl(seed)) {
      outlineControl(*module, seed);
      ASSERT_TRUE(succeeded(verify(*module))) << "an invalid graph from seed " << seed;
    }
    if (seed % 5 == 4) {
      module = withNarrowProducts(*module);
      ASSERT_TRUE(module) << "the pipeline refuses the graph of seed " << seed;
    }
    ops += countOps(*module);
    results += onlyFunction(*module).getNumResults();
    for (Type type : onlyFunction(*module).getResultTypes())
      elements += cast<RankedTensorType>(type).getNumElements();
    std::string failure = checkGraph(*module, seed, optionsOf(seed), &excluded);
    if (failure.empty())
      continue;
    ++failures;
    ADD_FAILURE() << reduced(*module, seed, optionsOf(seed), failure);
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << "seeds " << first << " to " << first + count - 1 << ": " << ops << " ops, " << results << " results of "
            << elements << " elements compared, " << excluded << " excluded, " << seconds << " s\n";
  if (count >= 100) { // one graph may be all jumps
    EXPECT_LE(excluded, elements / 10) << "so many jumps are an error of the generator";
  }
}

/// The generator writes attention that is matched, and what is near to it and stays as it is.
TEST(RandomGraphs, haveAttentionOfBothKinds) {
  auto context = makeContext();
  PipelineOptions options;
  options.passes["match-attention"] = true;
  options.stopAfter = Phase::joint;
  int64_t graphs = 0, matched = 0, dropped = 0;
  for (uint64_t seed = 3; seed < 1203; seed += 20, ++graphs) {
    ASSERT_TRUE(hasAttention(seed));
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, shapeOf(seed));
    PipelineReport report;
    ASSERT_TRUE(module && succeeded(runPipeline(*module, options, report))) << "seed " << seed;
    bool any = false, anyDropped = false;
    module->walk([&](FlashAttentionOp op) {
      any = true;
      anyDropped |= op.getRate().has_value();
    });
    matched += any;
    dropped += anyDropped;
  }
  EXPECT_GE(matched, graphs / 4);
  EXPECT_LE(matched, graphs * 9 / 10);
  EXPECT_GE(dropped, graphs / 20);
}

TEST(RandomGraphs, haveBranchesAndLoops) {
  auto context = makeContext();
  int64_t graphs = 0, branches = 0, loops = 0, nested = 0;
  for (uint64_t seed = 1; seed < 301; seed += 6, ++graphs) {
    ASSERT_TRUE(hasControl(seed));
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, shapeOf(seed));
    outlineControl(*module, seed);
    module->walk([&](BodyOpInterface op) {
      branches += isa<CondOp>(op.getOperation());
      loops += isa<RepeatOp>(op.getOperation());
      nested += isa<BodyOpInterface>(op->getParentOp());
    });
  }
  EXPECT_GE(branches, graphs / 2);
  EXPECT_GE(loops, graphs / 2);
  EXPECT_GE(nested, graphs / 10);
}

/// pad-shapes finds sizes that grow in them.
TEST(RandomGraphs, haveSizesThatArePadded) {
  auto context = makeContext();
  int64_t graphs = 0, padded = 0;
  for (uint64_t seed = 2; seed < 302; seed += 5, ++graphs) {
    PipelineOptions options;
    const int64_t multiple = optionsOf(seed).padding;
    ASSERT_GT(multiple, 0);
    options.padding = multiple;
    options.target = EagerPadding({1e6, 1e6}, multiple).model();
    options.stopAfter = Phase::shaped;
    options.findChanges = true;
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, shapeOf(seed));
    PipelineReport report;
    ASSERT_TRUE(module && succeeded(runPipeline(*module, options, report))) << "seed " << seed;
    padded +=
        llvm::any_of(report.passes, [](const PassReport &pass) { return pass.name == "pad-shapes" && pass.changed; });
  }
  EXPECT_GE(padded, graphs / 4) << graphs;
}

/// What random graphs have found, reduced by themselves.
const char *const kept[] = {
    // A reshape that has no index map after a concat and a slice: its operand must be stored.
    R"(func.func @main(%a: tensor<16x7xf32>, %b: tensor<103xf32>) -> (tensor<22xf32>) {
  %0 = tcc.reshape %a : tensor<16x7xf32> -> tensor<112xf32>
  %1 = tcc.concat %b, %0 axis 0 : tensor<103xf32>, tensor<112xf32> -> tensor<215xf32>
  %2 = tcc.slice %1 [149] to [171] : tensor<215xf32> -> tensor<22xf32>
  return %2 : tensor<22xf32>
})",
    // A gradient that is 0 but for noise: -fverify-each must not compare the noise.
    R"(func.func @main(%a: tensor<7x1xf32>, %b: tensor<7xf32>, %c: tensor<7xf32>, %d: tensor<7x7xf32>)
    -> (tensor<7x1xf32>) {
  %0 = tcc.broadcast %a : tensor<7x1xf32> -> tensor<7x7xf32>
  %1 = tcc.layer_norm %0, %b, %c {eps = 1.000000e-02 : f64} : tensor<7x7xf32>, tensor<7xf32>, tensor<7xf32>
  %2 = tcc.mul %1, %d : tensor<7x7xf32>
  %3 = tcc.reduce_sum %2 axes [0, 1] : tensor<7x7xf32> -> tensor<1x1xf32>
  %4 = tcc.reshape %3 : tensor<1x1xf32> -> tensor<f32>
  %5 = tcc.gradient %4 wrt %a : tensor<f32>, tensor<7x1xf32>
  return %5 : tensor<7x1xf32>
})",
    // A reshape of nothing takes its operand's memory.
    R"(func.func @main(%a: tensor<0x3xf32>) -> (tensor<3x0xf32>) {
  %0 = tcc.exp %a : tensor<0x3xf32>
  %1 = tcc.reshape %0 : tensor<0x3xf32> -> tensor<3x0xf32>
  return %1 : tensor<3x0xf32>
})",
    // A folded literal is rounded to its type: no change of meaning for -fverify-each.
    R"(func.func @main() -> (tensor<1xf32>) {
  %0 = tcc.constant dense<-1.500000e+00> : tensor<1xf32>
  %1 = tcc.constant dense<1.000000e-01> : tensor<1xf32>
  %2 = tcc.mul %0, %1 : tensor<1xf32>
  return %2 : tensor<1xf32>
})",
    // The same slice of tensors of different widths lies at different offsets: no shared kernel.
    R"(func.func @main(%x: tensor<2x64xf32>, %p: tensor<8x32xf32>, %y: tensor<4x64xf32>, %q: tensor<8x48xf32>)
    -> (tensor<2x64xf32>, tensor<4x64xf32>) {
  %0 = tcc.slice %p [3, 0] to [4, 1] : tensor<8x32xf32> -> tensor<1x1xf32>
  %1 = tcc.broadcast %0 : tensor<1x1xf32> -> tensor<2x64xf32>
  %2 = tcc.add %x, %1 : tensor<2x64xf32>
  %3 = tcc.slice %q [3, 0] to [4, 1] : tensor<8x48xf32> -> tensor<1x1xf32>
  %4 = tcc.broadcast %3 : tensor<1x1xf32> -> tensor<4x64xf32>
  %5 = tcc.add %y, %4 : tensor<4x64xf32>
  return %2, %5 : tensor<2x64xf32>, tensor<4x64xf32>
})",
    // Likewise, where the first one's offset lies far outside of the second tensor.
    R"(func.func @main(%x: tensor<2x64xf32>, %p: tensor<4x90000xf32>, %y: tensor<4x64xf32>, %q: tensor<4x2xf32>)
    -> (tensor<2x64xf32>, tensor<4x64xf32>) {
  %0 = tcc.slice %p [3, 0] to [4, 1] : tensor<4x90000xf32> -> tensor<1x1xf32>
  %1 = tcc.broadcast %0 : tensor<1x1xf32> -> tensor<2x64xf32>
  %2 = tcc.add %x, %1 : tensor<2x64xf32>
  %3 = tcc.slice %q [3, 0] to [4, 1] : tensor<4x2xf32> -> tensor<1x1xf32>
  %4 = tcc.broadcast %3 : tensor<1x1xf32> -> tensor<4x64xf32>
  %5 = tcc.add %y, %4 : tensor<4x64xf32>
  return %2, %5 : tensor<2x64xf32>, tensor<4x64xf32>
})",
};

TEST(RandomGraphs, whatTheyFoundStaysFixed) {
  auto context = makeContext();
  for (const char *text : kept) {
    std::string messages;
    OwningOpRef<ModuleOp> module = parseText(*context, text, messages);
    ASSERT_TRUE(module) << messages;
    for (int level : {1, 2, 3}) {
      CheckOptions options;
      options.level = level;
      options.verifyEach = true;
      EXPECT_EQ(checkGraph(*module, 1, options), "") << "-O" << level << "\n" << text;
    }
  }
}

/// The reducer on a check that is easy to follow: one op fails whatever surrounds it.
TEST(Reducer, leavesLittleBesideTheCause) {
  auto context = makeContext();
  int reducedGraphs = 0;
  for (uint64_t seed = 3001; seed < 3021; ++seed) {
    GenerateOptions shape;
    shape.ops = 16;
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, shape);
    ASSERT_TRUE(module);
    auto hasCause = [](ModuleOp candidate) { // a transpose that a result depends on
      SmallVector<Operation *> needed = {onlyFunction(candidate).getBody().front().getTerminator()};
      for (size_t i = 0; i < needed.size(); ++i) // grows as it goes
        for (Value operand : needed[i]->getOperands())
          if (Operation *op = operand.getDefiningOp(); op && !llvm::is_contained(needed, op))
            needed.push_back(op);
      return llvm::any_of(needed, [](Operation *op) { return isa<TransposeOp>(op); });
    };
    if (!hasCause(*module))
      continue;
    ++reducedGraphs;
    OwningOpRef<ModuleOp> small = reduceGraph(*module, hasCause, 2000);
    EXPECT_TRUE(hasCause(*small));
    EXPECT_LE(countOps(*small), 10) << "seed " << seed << "\n" << textOf(*small);
  }
  EXPECT_GT(reducedGraphs, 3);
}

/// Same bits: from two compilations, from two runs, from one and two threads, and where values share no memory.
TEST(SameBits, acrossCompilationsRunsAndThreads) {
  auto context = makeContext();
  for (uint64_t seed = 1001; seed < 1013; ++seed) {
    GenerateOptions shape = shapeOf(seed);
    shape.elements = 6000; // more than one thread's least share
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, shape);
    ASSERT_TRUE(module);
    std::vector<RefTensor> inputs = generateInputs(onlyFunction(*module), seed);
    std::string error;
    CheckOptions options;
    options.level = static_cast<int>(seed % 4);
    std::optional<std::vector<RefTensor>> first;
    std::optional<runtime::Artefact> artefact;
    for (const auto &[threads, separate] : {std::pair{1, false}, {2, false}, {1, false}, {1, true}}) {
      options.threads = threads;
      options.separate = separate;
      if (!separate)
        artefact = compileGraph(*module, options, error);
      ASSERT_TRUE(artefact) << error;
      std::unique_ptr<CompiledGraph> graph = CompiledGraph::load(*artefact, onlyFunction(*module), options, error);
      ASSERT_TRUE(graph) << error;
      for (int run = 0; run < 2; ++run) {
        std::optional<std::vector<RefTensor>> results = graph->run(inputs, error);
        ASSERT_TRUE(results) << error;
        if (!first)
          first = results;
        EXPECT_TRUE(sameBits(*first, *results)) << "seed " << seed << ", " << threads << " threads, run " << run
                                                << (separate ? ", separate values\n" : "\n") << textOf(*module);
      }
    }
  }
}

/// The artefact itself is the same, byte for byte: nothing of it depends on addresses or on thread timing.
TEST(SameBits, ofTheArtefact) {
  auto context = makeContext();
  for (uint64_t seed : {2001, 2002, 2003}) {
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, shapeOf(seed));
    ASSERT_TRUE(module);
    std::string error;
    CheckOptions options;
    std::optional<runtime::Artefact> a = compileGraph(*module, options, error),
                                     b = compileGraph(*module, options, error);
    ASSERT_TRUE(a && b) << error;
    EXPECT_EQ(a->targets, b->targets) << "seed " << seed;
  }
}

} // namespace
} // namespace tcc::test
