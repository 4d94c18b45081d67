// Every pass of flash attention, run from its kernel text in the emulator over a pairwise cover of cases: no finding,
// equal bits over all schedules, and errors at most three times those of an unfused 16-bit run against doubles.
#include "cover.h"
#include "emulated_case.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace tcc;
using namespace tcc::attention_test;
using namespace tcc::cuda;

namespace {

void overlapped(AttentionTiles &tiles) {
  tiles.overlap = true;
}

struct TestCase {
  Problem problem;
  bool packed;
};

// What is compiled in: these eight hold every pair of element, head dimension, causal and dropout.
struct Variant {
  Element element;
  int headDim;
  bool causal;
  double dropout;
};
const Variant variants[] = {
    {Element::Bf16, 64, true, 0},  {Element::F16, 64, false, 0.1}, {Element::Bf16, 128, false, 0.25},
    {Element::F16, 128, true, 0},  {Element::Bf16, 32, true, 0.1}, {Element::F16, 32, false, 0},
    {Element::Bf16, 96, false, 0}, {Element::F16, 96, true, 0.5},
};
const int lengths[] = {1, 63, 64, 65, 200, 256};
const int groups[] = {1, 2, 3};
// Keys beside the queries: as many; more, so that the first query sees several; fewer, so that the first queries see
// none when causal.
enum KeyLength { Same, More, Fewer };

void setVariant(Problem &problem, const Variant &variant) {
  problem.element = variant.element;
  problem.headDim = variant.headDim;
  problem.causal = variant.causal;
  problem.dropout = variant.dropout;
}

std::vector<TestCase> cover() {
  std::vector<TestCase> cases;
  // Factors: element, head dimension, causal, dropout (all four set by the variant), length, group, keys, layout.
  auto variantOf = [](const std::vector<int> &values) -> const Variant * {
    for (const Variant &variant : variants)
      if (int(variant.element) == values[0] && variant.headDim == 32 * (values[1] + 1) &&
          variant.causal == (values[2] != 0) && (variant.dropout > 0) == (values[3] != 0))
        return &variant;
    return nullptr;
  };
  for (const std::vector<int> &values :
       pairwiseCover({2, 4, 2, 2, 6, 3, 3, 2}, [&](const std::vector<int> &v) { return variantOf(v) != nullptr; })) {
    const Variant &variant = *variantOf(values);
    TestCase test;
    Problem &problem = test.problem;
    setVariant(problem, variant);
    problem.queries = lengths[values[4]];
    problem.group = groups[values[5]];
    problem.heads = problem.group * (problem.queries < 200 ? 2 : 1);
    problem.batch = 2;
    problem.keys = values[6] == Same   ? problem.queries
                   : values[6] == More ? problem.queries + 37
                                       : problem.queries * 2 / 3;
    problem.diagonal = problem.keys - problem.queries;
    problem.scale = 1 / std::sqrt(double(problem.headDim));
    problem.seed[0] = 11 + values[4];
    problem.seed[1] = 5;
    problem.first = 3 * values[4];
    problem.stream = 3;
    test.packed = values[7] != 0;
    cases.push_back(test);
  }
  return cases;
}

std::vector<char> bytesOf(const emulator::DeviceBuffer &buffer) {
  const char *begin = static_cast<const char *>(buffer.data());
  return {begin, begin + buffer.bytes()};
}

bool isStatistic(const Memory &memory, const emulator::DeviceBuffer *buffer) {
  return buffer == memory.logSumExp.get() || buffer == memory.rowShift.get() || buffer == memory.rowDelta.get();
}

/// Runs one pass under every schedule; the outputs must be written exactly once and have equal bits.
void runKernel(Memory &memory, const AttentionKernel &kernel, const std::vector<emulator::DeviceBuffer *> &outputs) {
  ASSERT_EQ(checkAttention(kernel.of, memory.arguments), "");
  if (attentionGrid(kernel, memory.arguments, memory.problem.batch)[0] == 0)
    return;
  // Only this pass's outputs must be written, each element once.
  for (emulator::DeviceBuffer *output : outputs)
    output->writeOnce(isStatistic(memory, output) ? 4 : 2);
  std::vector<std::vector<char>> first;
  int number = 0;
  for (const emulator::Schedule &schedule : emulator::testSchedules()) {
    for (emulator::DeviceBuffer *output : outputs)
      output->poison();
    emulator::LaunchResult result = launchOnce(memory, kernel, schedule);
    ASSERT_TRUE(result.ok()) << kernel.name << ", schedule " << number << "\n" << result.text();
    std::vector<std::vector<char>> bytes;
    for (emulator::DeviceBuffer *output : outputs)
      bytes.push_back(bytesOf(*output));
    if (first.empty())
      first = bytes;
    ASSERT_TRUE(first == bytes) << kernel.name << ": schedule " << number << " gives other bits than schedule 0";
    ++number;
  }
  for (emulator::DeviceBuffer *output : outputs)
    output->writeOnce(0);
}

/// What a case's runs are compared with.
struct Expected {
  Expected(const Problem &problem, const Inputs &inputs)
      : element(problem.element), exact(attentionReference(problem, inputs, false)),
        rounded(attentionReference(problem, inputs, true)) {}
  Element element;
  Results exact, rounded;
};

void expectClose(const char *name, Memory &memory, Tensor tensor, std::vector<double> Results::*values,
                 const Expected &expected) {
  std::vector<double> got = memory.read(tensor);
  Deviation result =
      deviation(got, expected.exact.*values, expected.rounded.*values, expected.element, expected.exact.largestTerm);
  EXPECT_LE(result.error, result.allowed) << name << " at " << result.worst << ": " << got[result.worst] << " for "
                                          << (expected.exact.*values)[result.worst];
}

void runForward(Memory &memory, const AttentionKernel &kernel, const Expected &expected) {
  ASSERT_NO_FATAL_FAILURE(runKernel(memory, kernel, {&memory.at(Tensor::Output), memory.logSumExp.get()}));
  expectClose("output", memory, Tensor::Output, &Results::output, expected);
  for (std::size_t i = 0; i < expected.exact.logSumExp.size(); ++i) {
    float got = memory.logSumExp->as<float>()[i];
    double want = expected.exact.logSumExp[i];
    if (std::isinf(want))
      ASSERT_EQ(got, want) << i;
    else
      ASSERT_NEAR(got, want, 1e-5 * (1 + std::abs(want))) << i;
  }
}

/// All three passes with the tiles chosen for `architecture`; Hopper's forward both ways, which must give the same
/// bits.
void runCase(const TestCase &test, const char *architecture) {
  const Problem &problem = test.problem;
  SCOPED_TRACE(describe(problem, test.packed));
  Inputs inputs = randomInputs(problem, 7);
  Expected expected(problem, inputs);
  Memory memory(test.problem, test.packed, inputs);
  auto kernel = [&](AttentionPass pass) { return kernelOf(problem, pass, architecture); };
  AttentionKernel forward = kernel(AttentionPass::Forward);
  bool both = forward.tiles.path == AttentionPath::Hopper;
  if (both) {
    ASSERT_NO_FATAL_FAILURE(
        runForward(memory, kernelOf(problem, AttentionPass::Forward, architecture, overlapped), expected));
  }
  std::vector<char> overlappedOutput = bytesOf(memory.at(Tensor::Output));
  ASSERT_NO_FATAL_FAILURE(runForward(memory, forward, expected));
  if (both) {
    EXPECT_EQ(bytesOf(memory.at(Tensor::Output)), overlappedOutput) << "overlap changes bits";
  }

  ASSERT_NO_FATAL_FAILURE(runKernel(memory, kernel(AttentionPass::BackwardQuery),
                                    {&memory.at(Tensor::QueryGradient), memory.rowShift.get(), memory.rowDelta.get()}));
  expectClose("query gradient", memory, Tensor::QueryGradient, &Results::queryGradient, expected);

  ASSERT_NO_FATAL_FAILURE(runKernel(memory, kernel(AttentionPass::BackwardKeys),
                                    {&memory.at(Tensor::KeyGradient), &memory.at(Tensor::ValueGradient)}));
  expectClose("key gradient", memory, Tensor::KeyGradient, &Results::keyGradient, expected);
  expectClose("value gradient", memory, Tensor::ValueGradient, &Results::valueGradient, expected);
}

TEST(AttentionCover, HoldsEveryPair) {
  std::vector<TestCase> cases = cover();
  EXPECT_LT(cases.size(), 45u);
  for (int length : lengths)
    for (int headDim : {32, 64, 96, 128})
      EXPECT_TRUE(std::any_of(
          cases.begin(), cases.end(),
          [&](const TestCase &test) { return test.problem.queries == length && test.problem.headDim == headDim; }))
          << length << ", " << headDim;
}

// All texts at once, so that two compilers run.
TEST(AttentionEmulated, AllTextsCompile) {
  std::vector<std::string> texts;
  for (const Variant &variant : variants)
    for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::BackwardQuery, AttentionPass::BackwardKeys}) {
      Problem problem;
      setVariant(problem, variant);
      texts.push_back(kernelOf(problem, pass, "sm_80").text);
      Problem biased = problem;
      biased.bias = Bias::Each;
      texts.push_back(kernelOf(biased, pass, "sm_80").text);
      biased.window = biased.causal ? 48 : 0;
      if (biased.causal)
        texts.push_back(kernelOf(biased, pass, "sm_80").text);
      if (problem.headDim % 64)
        continue;
      texts.push_back(kernelOf(problem, pass, "sm_90a").text);
      if (pass == AttentionPass::Forward)
        texts.push_back(kernelOf(problem, pass, "sm_90a", overlapped).text);
    }
  EXPECT_EQ(emulator::Module::compileAll(texts).size(), texts.size());
}

TEST(AttentionEmulated, PortableCover) {
  for (const TestCase &test : cover()) {
    runCase(test, "sm_80");
    if (::testing::Test::HasFatalFailure())
      return;
  }
}

// The path that sm_90a takes instead, over the cases of the same cover that it serves.
TEST(AttentionEmulated, HopperCover) {
  int count = 0;
  for (const TestCase &test : cover()) {
    if (kernelOf(test.problem, AttentionPass::Forward, "sm_90a").tiles.path != AttentionPath::Hopper)
      continue;
    ++count;
    runCase(test, "sm_90a");
    if (::testing::Test::HasFatalFailure())
      return;
  }
  EXPECT_GT(count, 12);
}

/// Cases with a bias: two for each variant, of each length and kind of bias.
std::vector<TestCase> biasedCases() {
  std::vector<TestCase> cases;
  for (const Variant &variant : variants)
    for (int turn : {0, 1}) {
      const int number = int(cases.size());
      TestCase test;
      Problem &problem = test.problem;
      setVariant(problem, variant);
      problem.bias = Bias(1 + (number + turn) % 3);
      problem.queries = lengths[(number + turn) % 5];
      problem.keys = problem.queries + (number % 3 == 0 ? 37 : 0);
      problem.diagonal = problem.keys - problem.queries;
      problem.window = variant.causal && turn ? 48 : 0;
      problem.group = groups[number % 3];
      problem.heads = 2 * problem.group;
      problem.batch = problem.queries < 200 ? 2 : 1;
      problem.scale = 1 / std::sqrt(double(problem.headDim));
      test.packed = turn != 0;
      cases.push_back(test);
    }
  return cases;
}

// On Hopper too these are the portable kernels: no other adds a bias.
TEST(AttentionEmulated, Bias) {
  for (const TestCase &test : biasedCases()) {
    ASSERT_EQ(kernelOf(test.problem, AttentionPass::Forward, "sm_90a").tiles.path, AttentionPath::Portable);
    runCase(test, "sm_90a");
    if (::testing::Test::HasFatalFailure())
      return;
  }
}

// Long enough that every stage is used three times, with two and with three consumers, whose last tiles differ.
TEST(AttentionEmulated, OverlapOverManyTiles) {
  for (AttentionTiles tiles : {AttentionTiles{AttentionPath::Hopper, 8, 1, 128, 1, 2, true},
                               AttentionTiles{AttentionPath::Hopper, 12, 1, 64, 1, 3, true}})
    for (bool causal : {true, false}) {
      Problem problem;
      problem.queries = causal ? 630 : 70;
      problem.keys = 630;
      problem.causal = causal;
      problem.scale = 0.125;
      Inputs inputs = randomInputs(problem, 9);
      Memory memory(problem, false, inputs);
      AttentionKernel kernel = *attentionKernel(caseOf(problem, AttentionPass::Forward), tiles);
      ASSERT_NO_FATAL_FAILURE(runForward(memory, kernel, Expected(problem, inputs)));
    }
}

// No bank is asked for two words at once, and every sector of global memory that is touched is used whole.
TEST(AttentionEmulated, MemoryTrafficIsWhole) {
  emulator::Schedule counting;
  counting.countAccesses = true;
  emulator::CompileOptions counted;
  counted.counts = true;
  for (auto [architecture, headDim] : {std::pair("sm_80", 64), {"sm_80", 96}, {"sm_90a", 128}}) {
    Problem problem;
    problem.headDim = headDim;
    problem.queries = problem.keys = 256;
    problem.heads = problem.group = 2;
    problem.causal = true;
    problem.scale = 0.125;
    Memory memory(problem, true, randomInputs(problem, 1));
    for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::BackwardQuery, AttentionPass::BackwardKeys}) {
      AttentionKernel kernel = kernelOf(problem, pass, architecture);
      emulator::Module module = emulator::Module::compile(kernel.text, counted);
      emulator::LaunchResult result = launchOnce(memory, kernel, counting, &module);
      ASSERT_TRUE(result.ok()) << result.text();
      EXPECT_EQ(result.bankConflicts, 0u) << kernel.name;
      EXPECT_EQ(result.traffic.sharedConflicts, 0u) << kernel.name;
      EXPECT_GT(result.traffic.globalSectors, 1000u) << kernel.name;
      EXPECT_GT(result.traffic.sectorUse(), 0.999) << kernel.name;
    }
  }
}

// The mask is a function of element coordinates alone: other tiles keep and drop the same.
TEST(AttentionEmulated, DropoutIsIndependentOfTiles) {
  TestCase test;
  Problem &problem = test.problem;
  problem.queries = problem.keys = 130;
  problem.headDim = 32;
  problem.causal = true;
  problem.dropout = 0.5;
  problem.scale = 0.2;
  test.packed = false;
  Inputs inputs = randomInputs(problem, 3);
  std::vector<double> firstOutput;
  for (AttentionTiles tiles :
       {AttentionTiles{AttentionPath::Portable, 4, 2, 64, 1}, AttentionTiles{AttentionPath::Portable, 2, 1, 32, 1}}) {
    Memory memory(test.problem, test.packed, inputs);
    AttentionKernel kernel = *attentionKernel(caseOf(problem, AttentionPass::Forward), tiles);
    emulator::LaunchResult result = launchOnce(memory, kernel, {});
    ASSERT_TRUE(result.ok()) << result.text();
    std::vector<double> output = memory.read(Tensor::Output);
    for (std::size_t i = 0; i < firstOutput.size(); ++i)
      ASSERT_NEAR(output[i], firstOutput[i], 0.02) << i;
    firstOutput = output;
  }
}

} // namespace
