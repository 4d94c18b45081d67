// Kernels are analysed once for all regions that look alike. Here each region that is known is analysed afresh, for
// random graphs, for training steps, and for the steps of all presets; and regions that differ in one thing have
// different words.
#include "ir/known_kernels.h"
#include "models/model_config.h"
#include "passes/pipeline.h"
#include "tests/files.h"
#include "tests/ops/op_table.h"
#include "tests/passes/training_steps.h"
#include "tests/random_graphs/generate.h"
#include "llvm/ADT/StringExtras.h"
#include <cstddef>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

/// What KernelForms says of each kernel is what analyzeKernel says; how many kernels there are.
int compareKernels(ModuleOp fused, const std::string &name) {
  int kernels = 0;
  fused.walk([&](KernelOp kernel) {
    ++kernels;
    Block &block = kernel.getBody().front();
    SmallVector<Value> results(block.getTerminator()->getOperands()), arguments(block.getArguments());
    std::string refusal;
    std::vector<Operation *> origins, expected;
    const std::shared_ptr<const KnownKernel> known = KernelForms::of(kernel, &origins);
    EXPECT_EQ(known->form, analyzeKernel(KernelView{results, arguments}, refusal, &expected)) << name;
    EXPECT_EQ(origins, expected) << name;
  });
  return kernels;
}

/// Up to the planned phase, where the fuser and all later readers of kernels compare what they know.
int compareAll(ModuleOp module, int level, const std::string &name) {
  PipelineOptions options;
  options.level = level;
  options.checkForms = true;
  PipelineReport report;
  EXPECT_TRUE(succeeded(runPipeline(module, options, report))) << name;
  return compareKernels(module, name);
}

TEST(KnownKernels, areWhatAnalysisFindsInRandomGraphs) {
  std::unique_ptr<MLIRContext> context = makeContext();
  int kernels = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    GenerateOptions options;
    options.ops = 4 + static_cast<int>(seed % 23);
    options.sums = seed % 4 == 2;
    kernels += compareAll(*generateGraph(*context, seed, options), 1 + static_cast<int>(seed % 2),
                          "seed " + std::to_string(seed));
  }
  EXPECT_GT(kernels, 1000);
}

TEST(KnownKernels, areWhatAnalysisFindsInTrainingSteps) {
  std::unique_ptr<MLIRContext> context = makeContext();
  for (const TrainingStep &step : trainingSteps())
    for (int level = 0; level < 3; ++level) {
      std::string messages;
      OwningOpRef<ModuleOp> module = parseText(*context, step.text, messages);
      ASSERT_TRUE(module) << messages;
      EXPECT_GT(compareAll(*module, level, step.name), 0);
    }
}

TEST(KnownKernels, areWhatAnalysisFindsInAllPresets) {
  TemporaryFolder folder;
  std::string numbers;
  for (int i = 0; i < 2000; ++i)
    numbers += std::to_string(i) + "\n";
  const std::string data = folder.write("numbers.txt", numbers), graph = folder.path("step.graph");
  std::vector<std::string> runs = models::modelPresetNames();
  runs.insert(runs.end(), {"baby --dropout=0.1", "llama-baby --dropout=0.1"});
  for (const std::string &run : runs) {
    const std::string command = std::string(TRAIN_GPT_PROGRAM) + " -q --layers 3 --seq 32 --batch 2 --steps 0 --data " +
                                data + " --emit-graph=" + graph + " --model " + run;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    std::unique_ptr<MLIRContext> context = makeContext();
    std::string messages;
    OwningOpRef<ModuleOp> module = parseText(*context, readAll(graph), messages);
    ASSERT_TRUE(module) << messages;
    EXPECT_GT(compareAll(*module, 2, run), 40);
  }
}

std::vector<uint64_t> wordsOf(ModuleOp module) {
  Block &block = functionOf(module).getBody().front();
  SmallVector<Value> results(block.getTerminator()->getOperands()), given(block.getArguments());
  static RegionWords region; // one that has read others before
  EXPECT_TRUE(region.read(KernelView{results, given}));
  return region.words();
}

/// The words of the region that computes `%r`, from all arguments of the function.
std::vector<uint64_t> wordsOf(MLIRContext &context, const std::string &arguments, const std::string &body,
                              const std::string &type, std::vector<OwningOpRef<ModuleOp>> &modules) {
  std::string messages;
  modules.push_back(parseText(
      context, "func.func @main(" + arguments + ") -> " + type + " {\n" + body + "\nreturn %r : " + type + "\n}",
      messages));
  EXPECT_TRUE(modules.back()) << messages << body;
  return modules.back() ? wordsOf(*modules.back()) : std::vector<uint64_t>();
}

// Padding has whatever the memory had before.
TEST(KnownKernels, paddingOfPropertiesIsInNoWord) {
  using Properties = RandomBitsOp::Properties;
  constexpr size_t end = offsetof(Properties, operandSegmentSizes) + sizeof(Properties::operandSegmentSizes);
  static_assert(end < sizeof(Properties), "another op has to be taken, one with an odd number of segments");
  std::unique_ptr<MLIRContext> context = makeContext();
  std::vector<OwningOpRef<ModuleOp>> modules;
  const std::vector<uint64_t> words =
      wordsOf(*context, "%s: tensor<i32>", "%r = tcc.random_bits %s stream 1 : tensor<i32> -> tensor<4x6xi32>",
              "tensor<4x6xi32>", modules);
  modules.back()->walk([&](RandomBitsOp op) {
    for (unsigned char byte : {0x00, 0xff}) {
      std::fill_n(op->getPropertiesStorage().as<unsigned char *>() + end, sizeof(Properties) - end, byte);
      EXPECT_EQ(wordsOf(*modules.back()), words);
    }
  });
}

TEST(KnownKernels, wordsTellRegionsApart) {
  std::unique_ptr<MLIRContext> context = makeContext();
  std::vector<OwningOpRef<ModuleOp>> modules; // properties hold addresses of what lives
  const std::string arguments = "%x: tensor<4x6xf32>, %y: tensor<4x6xf32>", seeds = "%s: tensor<i32>",
                    square = "tensor<4x6xf32>", wide = "tensor<8x6xf32>", bits = "tensor<4x6xi32>";
  struct Sample {
    std::string arguments, body, type;
  };
  const std::vector<Sample> samples{
      {arguments, "%r = tcc.add %x, %y : " + square, square},
      {arguments, "%r = tcc.add %y, %x : " + square, square},
      {arguments, "%r = tcc.add %x, %x : " + square, square},
      {arguments, "%r = tcc.sub %x, %y : " + square, square},
      {"%x: tensor<8x3xf32>, %y: tensor<8x3xf32>", "%r = tcc.add %x, %y : tensor<8x3xf32>", "tensor<8x3xf32>"},
      {"%x: tensor<4x6xbf16>, %y: tensor<4x6xbf16>", "%r = tcc.add %x, %y : tensor<4x6xbf16>", "tensor<4x6xbf16>"},
      // One exp that is read twice, and two of them.
      {arguments, "%e = tcc.exp %x : " + square + "\n%r = tcc.add %e, %e : " + square, square},
      {arguments, "%e = tcc.exp %x : " + square + "\n%f = tcc.exp %x : " + square + "\n%r = tcc.add %e, %f : " + square,
       square},
      {arguments, "%c = tcc.constant dense<1.0> : " + square + "\n%r = tcc.add %x, %c : " + square, square},
      {arguments, "%c = tcc.constant dense<2.0> : " + square + "\n%r = tcc.add %x, %c : " + square, square},
      {arguments, "%c = tcc.constant dense<-0.0> : " + square + "\n%r = tcc.add %x, %c : " + square, square},
      {arguments, "%c = tcc.constant dense<0.0> : " + square + "\n%r = tcc.add %x, %c : " + square, square},
      {arguments, "%r = tcc.reduce_sum %x axes [0] : " + square + " -> tensor<1x6xf32>", "tensor<1x6xf32>"},
      {arguments, "%r = tcc.reduce_max %x axes [0] : " + square + " -> tensor<1x6xf32>", "tensor<1x6xf32>"},
      {arguments, "%r = tcc.concat %x, %y axis 0 : " + square + ", " + square + " -> " + wide, wide},
      {arguments, "%r = tcc.concat %y, %x axis 0 : " + square + ", " + square + " -> " + wide, wide},
      {seeds, "%r = tcc.random_bits %s stream 1 : tensor<i32> -> " + bits, bits},
      {seeds, "%r = tcc.random_bits %s stream 2 : tensor<i32> -> " + bits, bits},
      {arguments, "%r = tcc.slice %x [0, 0] to [2, 6] : " + square + " -> tensor<2x6xf32>", "tensor<2x6xf32>"},
      {arguments, "%r = tcc.slice %x [1, 0] to [3, 6] : " + square + " -> tensor<2x6xf32>", "tensor<2x6xf32>"},
  };
  std::vector<std::vector<uint64_t>> words;
  for (const Sample &sample : samples) {
    words.push_back(wordsOf(*context, sample.arguments, sample.body, sample.type, modules));
    EXPECT_EQ(words.back(), wordsOf(*context, sample.arguments, "\n\n" + sample.body, sample.type, modules))
        << sample.body;
  }
  for (size_t a = 0; a < words.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      EXPECT_NE(words[a], words[b]) << samples[a].body << "\n" << samples[b].body;
}

TEST(KnownKernels, equalRegionsAreAnalysedOnce) {
  std::unique_ptr<MLIRContext> context = makeContext();
  std::string messages;
  const std::string type = "tensor<4x6xf32>";
  OwningOpRef<ModuleOp> module = parseText(*context,
                                           "func.func @main(%x: " + type + ", %y: " + type + ") -> (" + type + ", " +
                                               type + ") {\n%a = tcc.exp %x : " + type + "\n%b = tcc.exp %y : " + type +
                                               "\nreturn %a, %b : " + type + ", " + type + "\n}",
                                           messages);
  ASSERT_TRUE(module) << messages;
  Block &block = functionOf(*module).getBody().front();
  KnownKernels kernels;
  std::vector<std::shared_ptr<const KnownKernel>> found;
  for (unsigned i = 0; i < 2; ++i) {
    Value result = block.getTerminator()->getOperand(i), argument = block.getArgument(i);
    found.push_back(kernels.of(KernelView{result, argument}, nullptr, /*checks=*/true));
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(kernels.hits(), 1);
}

/// What an argument is a view of may decide, so such a region has no words.
TEST(KnownKernels, viewsAsArgumentsAreAnalysedEachTime) {
  std::unique_ptr<MLIRContext> context = makeContext();
  std::string messages;
  OwningOpRef<ModuleOp> module =
      parseText(*context,
                "func.func @main(%x: tensor<4x6xf32>) -> tensor<6x4xf32> {\n%t = tcc.transpose %x [1, 0] : "
                "tensor<4x6xf32> -> tensor<6x4xf32>\n%r = tcc.exp %t : tensor<6x4xf32>\nreturn %r : tensor<6x4xf32>\n}",
                messages);
  ASSERT_TRUE(module) << messages;
  Value result = functionOf(*module).getBody().front().getTerminator()->getOperand(0);
  Value view = result.getDefiningOp()->getOperand(0);
  EXPECT_FALSE(RegionWords().read(KernelView{result, view}));
  EXPECT_TRUE(KnownKernels().of(KernelView{result, view})->form);
}

/// Kernels of exp(x) + 1, which tests spoil.
struct KernelsToSpoil {
  std::unique_ptr<MLIRContext> context = makeContext();
  std::vector<OwningOpRef<ModuleOp>> modules; // all of one context, which remembers what was valid
  KernelOp kernel;
  Operation *exp, *literal, *sum; // of `kernel`
  Type otherType;

  KernelsToSpoil() : kernel(another()) {
    exp = &kernel.getBody().front().front();
    literal = exp->getNextNode();
    sum = literal->getNextNode();
    otherType = functionOf(*modules.back()).getArgument(1).getType();
  }

  KernelOp another() {
    const std::string type = "tensor<4x6xf32>";
    std::string messages;
    modules.push_back(parseText(
        *context,
        "func.func @main(%x: " + type + ", %w: tensor<8x6xf32>) -> " + type + " {\n%k = tcc.kernel (%a = %x : " + type +
            ") -> (" + type + ") {\n%e = tcc.exp %a : " + type + "\n%c = tcc.constant dense<1.0> : " + type +
            "\n%s = tcc.add %e, %c : " + type + "\ntcc.yield %s : " + type + "\n}\nreturn %k : " + type + "\n}",
        messages));
    EXPECT_TRUE(modules.back()) << messages;
    KernelOp found;
    modules.back()->walk([&](KernelOp kernel) { found = kernel; });
    return found;
  }

  /// `kernel` is refused although one was valid that it was like before.
  void expectRefused(const std::string &expected) {
    EXPECT_TRUE(succeeded(KernelForms::verify(another())));
    std::string said;
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) { said += diagnostic.str() + "\n"; });
    EXPECT_TRUE(failed(KernelForms::verify(kernel)));
    EXPECT_NE(said.find(expected), std::string::npos) << said;
  }
};

TEST(KnownKernels, orderOfOpsIsVerifiedInEachKernel) {
  KernelsToSpoil kernels;
  kernels.exp->moveAfter(kernels.sum);
  kernels.expectRefused("does not dominate this use");
}

TEST(KnownKernels, opsThatNoResultNeedsAreVerified) {
  KernelsToSpoil kernels;
  OpBuilder(kernels.sum).clone(*kernels.exp)->getResult(0).setType(kernels.otherType);
  kernels.expectRefused("tcc.exp");
}

TEST(KnownKernels, kernelsOfOtherTypesAreVerified) {
  KernelsToSpoil kernels;
  kernels.exp->getResult(0).setType(kernels.otherType);
  kernels.expectRefused("tcc.exp");
}

// The literal outside takes the place of the one inside in the words, which no result needs any more.
TEST(KnownKernels, kernelsThatReadWhatStandsOutsideAreVerified) {
  KernelsToSpoil kernels;
  Operation *outside = OpBuilder(kernels.kernel).clone(*kernels.literal);
  kernels.literal->replaceAllUsesWith(outside);
  kernels.literal->getResult(0).setType(kernels.otherType);
  kernels.expectRefused("tcc.constant");
}

} // namespace
} // namespace tcc::test
