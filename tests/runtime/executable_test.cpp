// Whole steps: values against plain loops, any thread count, refusal of wrong tensors, the checks of checked mode, and
// planned bytes against the counted peak.
#include "runtime/cpu.h"
#include "runtime/executable.h"
#include "runtime/profiler.h"
#include "test_plans.h"
#include <cmath>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tcc::runtime {
namespace {

using test::kernelCall;
using test::stepArtefact;
using test::testKernels;

// The tensors of one plan, from the counted allocator.
struct Tensors {
  std::vector<TensorStorage> inputs, outputs, states;

  explicit Tensors(const Plan &plan) {
    uint32_t seed = 1;
    for (auto [specs, storages] :
         {std::pair{&plan.inputs, &inputs}, {&plan.outputs, &outputs}, {&plan.states, &states}})
      for (const TensorSpec &spec : *specs) {
        storages->push_back(*TensorStorage::zeros(spec));
        for (float &value : storages->back().as<float>()) {
          seed = seed * 1664525u + 1013904223u;
          value = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
        }
      }
  }
  static std::vector<TensorRef> refs(const std::vector<TensorStorage> &storages) {
    std::vector<TensorRef> list;
    for (const TensorStorage &storage : storages)
      list.push_back(storage.ref());
    return list;
  }
  std::vector<ConstTensorRef> inputRefs() const {
    const auto list = refs(inputs);
    return {list.begin(), list.end()};
  }
  Error run(Executable &executable, Profiler *profiler = nullptr) const {
    return executable.run(inputRefs(), refs(outputs), refs(states), profiler);
  }
};

std::vector<float> copyOf(const TensorStorage &storage) {
  const auto values = storage.as<float>();
  return {values.begin(), values.end()};
}

std::unique_ptr<Executable> loaded(Artefact artefact, ExecutableOptions options = {}) {
  auto executable = Executable::load(std::move(artefact), options);
  EXPECT_TRUE(executable) << executable.error().message();
  return executable ? std::move(*executable) : nullptr;
}

// A plan of one kernel that fills `count` floats of the arena, which are then copied out.
Artefact fillArtefact(const char *symbol, int64_t count, int64_t granularity = 1) {
  Plan plan;
  plan.name = symbol;
  plan.outputs = {{"out", DType::f32, {count}}};
  plan.arenaBytes = count * 4;
  plan.buffers = {{Space::arena, 0, 0, count * 4}, {Space::output, 0, 0, count * 4}};
  plan.kernels = {{symbol, 1, 1, ""}};
  plan.instructions = {kernelCall(0, {{{0}, count}}, granularity, symbol), test::instruction(CopyCall{0, 1}, "copy")};
  return cpuArtefact(plan, testKernels());
}

TEST(Executable, stepGivesWhatPlainLoopsGive) {
  for (bool checked : {false, true}) {
    auto executable = loaded(stepArtefact(), {2, checked});
    Tensors tensors(executable->plan());
    const auto x = copyOf(tensors.inputs[0]), bias = copyOf(tensors.states[1]);
    auto w = copyOf(tensors.states[0]);
    for (int step = 0; step < 3; ++step) {
      const Error error = tensors.run(*executable);
      ASSERT_FALSE(error) << error.message();
      std::vector<double> y(320);
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 40; ++j) {
          double sum = bias[j];
          for (int k = 0; k < 24; ++k)
            sum += static_cast<double>(x[i * 24 + k]) * w[k * 40 + j];
          y[i * 40 + j] = std::max(sum, 0.0);
          ASSERT_NEAR(tensors.outputs[0].as<float>()[i * 40 + j], 3 * y[i * 40 + j], 1e-4 * (1 + std::fabs(sum)));
        }
      EXPECT_EQ(copyOf(tensors.outputs[0]), copyOf(tensors.outputs[1]));
      for (int k = 0; k < 24; ++k)
        for (int j = 0; j < 40; ++j) {
          double gradient = 0;
          for (int i = 0; i < 8; ++i)
            gradient += x[i * 24 + k] * y[i * 40 + j];
          ASSERT_NEAR(tensors.states[0].as<float>()[k * 40 + j], w[k * 40 + j] - 0.5 * gradient, 1e-3);
        }
      w = copyOf(tensors.states[0]); // the step that follows starts from the updated state
    }
  }
}

// The gradient, x^T y, is added to the old w, which stays until the next instruction but one.
TEST(Executable, aProductAddsATensorThatLiesElsewhere) {
  const auto after = [](bool elsewhere) {
    Plan plan = test::stepPlan();
    MatmulCall &product = std::get<MatmulCall>(plan.instructions[2].call);
    product.desc.accumulate = elsewhere;
    product.addend = elsewhere ? 1 : noBuffer;
    auto executable = loaded(cpuArtefact(plan, testKernels()), {2, true});
    Tensors tensors(executable->plan());
    const auto before = copyOf(tensors.states[0]);
    EXPECT_FALSE(tensors.run(*executable));
    return std::pair(before, copyOf(tensors.states[0]));
  };
  const auto [w, plain] = after(false);
  const auto added = after(true).second;
  for (size_t i = 0; i < w.size(); ++i) // w - 0.5 (w + gradient)
    ASSERT_NEAR(added[i], plain[i] - 0.5 * w[i], 1e-4) << i;
}

TEST(Executable, anAddendElsewhereNeedsADenseResult) {
  Plan plan = test::stepPlan();
  MatmulCall &product = std::get<MatmulCall>(plan.instructions[2].call);
  product.desc.accumulate = true;
  product.addend = 1;
  product.desc.n = 20;
  const auto executable = Executable::load(cpuArtefact(plan, testKernels()), {2, false});
  ASSERT_FALSE(executable);
  EXPECT_NE(executable.error().message().find("whose elements lie side by side"), std::string::npos)
      << executable.error().message();
}

TEST(Executable, sameBitsFromRunToRunAndFromBytesOrStruct) {
  const Artefact artefact = stepArtefact();
  std::vector<std::vector<float>> results;
  for (int round = 0; round < 2; ++round) {
    auto executable = round ? *Executable::load(*serializeArtefact(artefact)) : loaded(artefact);
    Tensors tensors(executable->plan());
    for (int step = 0; step < 3; ++step)
      ASSERT_FALSE(tensors.run(*executable));
    results.push_back(copyOf(tensors.states[0]));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Executable, everyIndexOnceAtAnyThreadCountAndGranularity) {
  for (int threads : {1, 2, 3, 7})
    for (int64_t granularity : {1, 64, 5000})
      for (int64_t count : {1, 63, 1000}) {
        auto executable = loaded(fillArtefact("mark", count, granularity), {threads, true});
        EXPECT_EQ(executable->threads(), threads);
        Tensors tensors(executable->plan());
        ASSERT_FALSE(tensors.run(*executable));
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(tensors.outputs[0].as<float>()[i], static_cast<float>(i + 1));
      }
}

TEST(Executable, segmentsShareOnePoolOfWork) {
  const std::vector<int64_t> extents{5, 0, 130, 1};
  Plan plan;
  plan.kernels = {{"mark", 1, 1, ""}};
  std::vector<Segment> segments;
  for (size_t i = 0; i < extents.size(); ++i) {
    plan.states.push_back({"s" + std::to_string(i), DType::f32, {extents[i]}});
    plan.buffers.push_back({Space::state, static_cast<uint32_t>(i), 0, extents[i] * 4});
    segments.push_back({{static_cast<BufferId>(i)}, extents[i]});
  }
  plan.instructions = {kernelCall(0, segments, 8, "mark all")};
  auto executable = loaded(cpuArtefact(plan, testKernels()), {3, false});
  Tensors tensors(plan);
  ASSERT_FALSE(tensors.run(*executable));
  for (size_t s = 0; s < extents.size(); ++s)
    for (int64_t i = 0; i < extents[s]; ++i)
      ASSERT_EQ(tensors.states[s].as<float>()[i], static_cast<float>(i + 1));
}

TEST(Executable, moreThreadsThanPlannedGetTheirOwnScratch) {
  Artefact artefact = stepArtefact();
  for (auto &instruction : artefact.targets[0].plan.instructions)
    if (auto *call = std::get_if<MatmulCall>(&instruction.call))
      call->scratch = noBuffer;
  auto executable = loaded(artefact, {4, false});
  auto reference = loaded(stepArtefact(), {4, false});
  Tensors tensors(executable->plan()), expected(executable->plan());
  ASSERT_FALSE(tensors.run(*executable));
  ASSERT_FALSE(expected.run(*reference));
  EXPECT_EQ(copyOf(tensors.states[0]), copyOf(expected.states[0]));
}

TEST(Executable, followsTensorsThatMove) {
  auto executable = loaded(fillArtefact("mark", 100));
  Tensors first(executable->plan()), second(executable->plan());
  ASSERT_FALSE(first.run(*executable));
  ASSERT_FALSE(second.run(*executable));
  EXPECT_EQ(copyOf(first.outputs[0]), copyOf(second.outputs[0]));
}

TEST(Executable, tensorsComeAndGoAtStops) {
  for (bool checked : {false, true}) {
    auto executable = loaded(stepArtefact(), {2, checked});
    Tensors whole(executable->plan()), parts(executable->plan());
    ASSERT_FALSE(whole.run(*executable));
    auto inputs = parts.inputRefs();
    auto outputs = Tensors::refs(parts.outputs);
    for (TensorRef &output : outputs)
      output.data = nullptr;
    // x is read by instructions 0 and 2; `out` is written by 3 and read by 5, which writes `copy`.
    std::vector<size_t> stopped;
    const auto change = [&](size_t stop) {
      stopped.push_back(stop);
      if (stop == 0) {
        inputs[0].data = nullptr;
        std::fill_n(parts.inputs[0].as<float>().begin(), 8 * 24, NAN);
      }
      outputs[stop].data = parts.outputs[stop].data();
      return Error::success();
    };
    const Error error = executable->run(inputs, outputs, Tensors::refs(parts.states), {{3, 5}, change});
    ASSERT_FALSE(error) << error.message();
    EXPECT_EQ(stopped, (std::vector<size_t>{0, 1}));
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(copyOf(parts.outputs[i]), copyOf(whole.outputs[i]));
      EXPECT_EQ(copyOf(parts.states[i]), copyOf(whole.states[i]));
    }
  }
}

TEST(Executable, aTensorThatIsNotThereInTimeIsRefused) {
  auto executable = loaded(stepArtefact(), {2, false});
  const Tensors tensors(executable->plan());
  const auto outputs = Tensors::refs(tensors.outputs), states = Tensors::refs(tensors.states);
  const auto nothing = [](size_t) { return Error::success(); };
  auto inputs = tensors.inputRefs();
  EXPECT_EQ(executable->run(inputs, outputs, states, {{5, 3}, nothing}).message(), "a step's stops are not in order");
  Error error = executable->run(inputs, outputs, states, {{2}, [&](size_t) {
                                                            inputs[0].data = nullptr; // instruction 2 reads it
                                                            return Error::success();
                                                          }});
  EXPECT_EQ(error.message(), "input `x` is null; it needs 768 bytes");
  auto late = outputs;
  late[0].data = nullptr;
  error = executable->run(tensors.inputRefs(), late, states, {{4}, nothing}); // instruction 3 writes it
  EXPECT_EQ(error.message(), "output `out` is null; it needs 1280 bytes");
  error = executable->run(tensors.inputRefs(), outputs, states, {{1}, [](size_t) { return Error("no memory"); }});
  EXPECT_EQ(error.message(), "no memory");
  // A tensor that comes lies apart from the others.
  late = outputs;
  late[1].data = nullptr;
  error = executable->run(tensors.inputRefs(), late, states, {{3}, [&](size_t) {
                                                                late[1].data = states[0].data;
                                                                return Error::success();
                                                              }});
  EXPECT_NE(error.message().find("overlap in memory"), std::string::npos) << error.message();
}

TEST(Executable, severalLibrariesLiveSideBySide) {
  auto mark = loaded(fillArtefact("mark", 8));
  auto half = loaded(fillArtefact("half", 8));
  mark.reset(); // its descriptor's number may now come back under another library
  auto again = loaded(fillArtefact("mark", 8), {1, true});
  Tensors tensors(again->plan());
  ASSERT_FALSE(tensors.run(*again));
  EXPECT_EQ(tensors.outputs[0].as<float>()[7], 8.0f);
  Tensors other(half->plan());
  ASSERT_FALSE(other.run(*half));
}

void expectRefused(const Expected<std::unique_ptr<Executable>> &result, const char *expected) {
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find(expected), std::string::npos) << result.error().message();
}

TEST(Executable, refusesWhatItCannotLoad) {
  Artefact artefact = stepArtefact();
  artefact.targets[0].code[0] = "not an ELF file";
  expectRefused(Executable::load(artefact), "cannot load");
  artefact.targets[0].code[0].clear();
  expectRefused(Executable::load(artefact), "cannot load");
  artefact = stepArtefact();
  artefact.targets[0].code[0].resize(artefact.targets[0].code[0].size() / 3);
  expectRefused(Executable::load(artefact), "cannot load");
  artefact = stepArtefact();
  artefact.targets[0].plan.kernels[0].symbol = "absent";
  expectRefused(Executable::load(artefact), "no symbol `absent`");
  artefact = stepArtefact();
  artefact.targets[0].needs = "avx,flux_capacitor";
  expectRefused(Executable::load(artefact), "flux_capacitor");
  artefact = stepArtefact();
  artefact.targets[0].plan.arenaBytes = maxPlanBytes / 2;
  expectRefused(Executable::load(artefact), "arena");
  expectRefused(Executable::load(stepArtefact(), {-1, false}), "threads");
  expectRefused(Executable::load("garbage"), "not an artefact");
}

TEST(Executable, theFirstPartThatTheDeviceAcceptsIsLoaded) {
  Artefact artefact = stepArtefact();
  TargetCode better = artefact.targets[0], other = better;
  better.target = "cpu:newer";
  better.needs = "flux_capacitor";
  other.target = "cuda:sm_90a";
  artefact.targets[0].target = "cpu:plain";
  artefact.targets.insert(artefact.targets.begin(), {other, better});
  EXPECT_EQ(loaded(artefact)->target(), "cpu:plain");
  artefact.targets.pop_back();
  const auto none = Executable::load(artefact);
  expectRefused(none, "nothing that runs on cpu\n  cuda:sm_90a: it is for another kind of device\n  cpu:newer: ");
  expectRefused(none, "flux_capacitor");
}

TEST(Executable, aPlanOfAGpuIsRefusedByTheCpu) {
  Artefact artefact = cpuArtefact(test::launchPlan(), testKernels());
  artefact.targets[0].code.push_back(testKernels());
  expectRefused(Executable::load(artefact), "instruction 1 `tiles`: it launches a kernel of a GPU");
}

TEST(Executable, fillsAndTablesWorkInPlace) {
  Plan plan;
  plan.outputs = {{"a", DType::f32, {20}}, {"b", DType::f32, {4}}};
  plan.tables = {{std::string("header..........", 16), {{8, 1, false}}}};
  plan.buffers = {
      {Space::output, 0, 0, 80}, {Space::output, 0, 16, 4}, {Space::output, 1, 0, 16}, {Space::table, 0, 0, 16}};
  plan.instructions.resize(2);
  plan.instructions[0].call = FillCall{0, 0x41};
  plan.instructions[1].call = CopyCall{3, 2};
  auto executable = loaded(cpuArtefact(plan, ""), {1, true});
  for (int round = 0; round < 2; ++round) { // the table follows tensors that move
    Tensors tensors(plan);
    ASSERT_FALSE(tensors.run(*executable));
    EXPECT_EQ(tensors.outputs[0].as<char>()[79], 0x41);
    EXPECT_EQ(std::memcmp(tensors.outputs[1].data(), "header..", 8), 0);
    EXPECT_EQ(tensors.outputs[1].as<char *>()[1], tensors.outputs[0].as<char>().data() + 16);
  }
}

TEST(Executable, executablesOfOneDeviceShareTheLargestArena) {
  auto device = makeCpuDevice();
  auto small = loaded(fillArtefact("mark", 100), {1, true, device});
  EXPECT_EQ(device->allocatedBytes(), 400);
  auto large = loaded(fillArtefact("mark", 5000), {1, true, device});
  EXPECT_EQ(device->allocatedBytes(), 20000);
  EXPECT_LT(large->ownBytes() - small->ownBytes(), 5000) << "the arena is not the executable's";
  for (Executable *executable : {small.get(), large.get(), small.get()}) { // each where the other has been
    Tensors tensors(executable->plan());
    ASSERT_FALSE(tensors.run(*executable));
    const auto out = tensors.outputs[0].as<float>();
    EXPECT_EQ(out.back(), static_cast<float>(out.size()));
  }
  EXPECT_EQ(small->memory().arenaTouched, 400);
}

TEST(Executable, ownFeaturesAreAccepted) {
  Artefact artefact = stepArtefact();
  artefact.targets[0].needs = cpuFeatures();
  EXPECT_TRUE(Executable::load(artefact));
}

TEST(Executable, refusesWrongTensorsBeforeRunning) {
  auto executable = loaded(stepArtefact());
  Tensors tensors(executable->plan());
  const auto inputs = tensors.inputRefs();
  const auto outputs = Tensors::refs(tensors.outputs), states = Tensors::refs(tensors.states);
  const auto before = copyOf(tensors.states[0]);
  auto expect = [&](Error error, const char *expected) {
    ASSERT_TRUE(error) << expected;
    EXPECT_NE(error.message().find(expected), std::string::npos) << error.message();
  };
  expect(executable->run({}, outputs, states), "0 inputs were given; the step takes 1");
  auto longer = inputs;
  longer[0].bytes += 4;
  expect(executable->run(longer, outputs, states), "input `x` has 772 bytes; the step takes 768");
  auto null = inputs;
  null[0].data = nullptr;
  expect(executable->run(null, outputs, states), "input `x` is null");
  auto shifted = inputs;
  shifted[0].data = static_cast<const char *>(shifted[0].data) + 4;
  expect(executable->run(shifted, outputs, states), "not aligned");
  auto doubled = outputs;
  doubled[1] = doubled[0];
  expect(executable->run(inputs, doubled, states), "overlap in memory");
  auto aliased = inputs;
  aliased[0].data = static_cast<const char *>(states[0].data) + 64;
  expect(executable->run(aliased, outputs, states), "overlap in memory");
  EXPECT_EQ(copyOf(tensors.states[0]), before);
  EXPECT_FALSE(executable->run(inputs, outputs, states));
}

TEST(CheckedMode, aLostTailShowsAsNan) {
  auto executable = loaded(fillArtefact("half", 64), {1, true});
  Tensors tensors(executable->plan());
  ASSERT_FALSE(tensors.run(*executable));
  EXPECT_EQ(tensors.outputs[0].as<float>()[31], 1.0f);
  EXPECT_TRUE(std::isnan(tensors.outputs[0].as<float>()[32]));
}

TEST(CheckedMode, outputsAreNanUntilWritten) {
  Artefact artefact = fillArtefact("mark", 64);
  artefact.targets[0].plan.instructions.pop_back(); // the copy to the output
  auto executable = loaded(artefact, {1, true});
  Tensors tensors(executable->plan());
  ASSERT_FALSE(tensors.run(*executable));
  EXPECT_TRUE(std::isnan(tensors.outputs[0].as<float>()[5]));
}

TEST(CheckedMode, aChangedFloatEnvironmentIsReported) {
  for (int threads : {1, 2}) {
    auto executable = loaded(fillArtefact("flush_to_zero", 64), {threads, true});
    Tensors tensors(executable->plan());
    const unsigned before = __builtin_ia32_stmxcsr();
    const Error error = tensors.run(*executable);
    __builtin_ia32_ldmxcsr(before);
    ASSERT_TRUE(error);
    EXPECT_NE(error.message().find("MXCSR"), std::string::npos);
  }
}

TEST(CheckedMode, aWriteIntoAnInputIsReported) {
  Artefact artefact = fillArtefact("write_operand", 64);
  artefact.targets[0].plan.inputs = {{"x", DType::f32, {64}}};
  artefact.targets[0].plan.buffers.push_back({Space::input, 0, 0, 256});
  artefact.targets[0].plan.kernels[0].arguments = 2;
  std::get<KernelCall>(artefact.targets[0].plan.instructions[0].call).segments[0].args = {2, 0};
  auto executable = loaded(artefact, {1, true});
  Tensors tensors(executable->plan());
  const Error error = tensors.run(*executable);
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("wrote into an input"), std::string::npos);
}

TEST(ArenaDeathTest, anOverrunOfTheArenaDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto executable = loaded(fillArtefact("overrun", 64), {1, false});
        Tensors tensors(executable->plan());
        (void)tensors.run(*executable);
      },
      "");
}

TEST(MemoryReport, plannedBytesEqualTheCountedPeak) {
  const int64_t live = countedLiveBytes();
  for (bool checked : {false, true}) {
    Artefact artefact = fillArtefact("mark", 100000);
    artefact.targets[0].plan.constants = {std::string(100, 'c')};
    auto executable = loaded(artefact, {2, checked});
    Tensors tensors(executable->plan());
    ASSERT_EQ(executable->peakBytes(), 0); // nothing has run
    for (int step = 0; step < 2; ++step)
      ASSERT_FALSE(tensors.run(*executable));
    EXPECT_EQ(executable->peakBytes() - live, executable->plannedBytes());
    EXPECT_EQ(executable->plannedBytes(), 800100);
  }
}

TEST(MemoryReport, unusedArenaBytesShow) {
  const int64_t live = countedLiveBytes(), unused = 5 * ::sysconf(_SC_PAGESIZE);
  for (bool checked : {false, true}) {
    Artefact artefact = fillArtefact("mark", 100000);
    artefact.targets[0].plan.arenaBytes += unused;
    artefact.targets[0].plan.buffers[0].offset = unused;
    auto executable = loaded(artefact, {2, checked});
    Tensors tensors(executable->plan());
    ASSERT_FALSE(tensors.run(*executable));
    // Unchecked counting sees pages: the first used byte's page may reach into the unused part.
    EXPECT_NEAR(static_cast<double>(executable->plannedBytes() - (executable->peakBytes() - live)),
                static_cast<double>(unused), checked ? 0 : static_cast<double>(::sysconf(_SC_PAGESIZE)));
  }
}

TEST(MemoryReport, extraTensorsAndForeignTensorsShow) {
  const int64_t live = countedLiveBytes();
  auto executable = loaded(fillArtefact("mark", 1000), {1, false});
  Tensors tensors(executable->plan());
  auto extra = *TensorStorage::allocate(12345);
  ASSERT_FALSE(tensors.run(*executable));
  EXPECT_EQ(executable->peakBytes() - live, executable->plannedBytes() + 12345);

  auto second = loaded(fillArtefact("mark", 1000), {1, false});
  alignas(64) static float foreign[1000];
  const TensorRef output{foreign, sizeof foreign};
  ASSERT_FALSE(second->run({}, {&output, 1}, {}));
  EXPECT_EQ(second->memory().handed, 4000);
}

TEST(Executable, profileHasOneEventAnInstruction) {
  auto executable = loaded(stepArtefact());
  Tensors tensors(executable->plan());
  Profiler profiler;
  ASSERT_FALSE(tensors.run(*executable, &profiler));
  ASSERT_EQ(profiler.all().size(), executable->plan().instructions.size() + 1);
  EXPECT_EQ(profiler.all()[0].category, "matmul");
  EXPECT_EQ(profiler.all()[0].flops, 2 * 8 * 40 * 24);
  EXPECT_EQ(profiler.all()[1].label, "bias relu");
  EXPECT_EQ(profiler.all()[1].source, "model.cpp:41");
  EXPECT_EQ(profiler.all().back().category, "step");
  int64_t end = 0;
  for (size_t i = 0; i + 1 < profiler.all().size(); ++i) { // in order, not overlapping
    EXPECT_GE(profiler.all()[i].startNs, end);
    end = profiler.all()[i].startNs + profiler.all()[i].durationNs;
  }
}

TEST(Executable, emptyPlanRuns) {
  auto executable = loaded(cpuArtefact(Plan{}, ""));
  EXPECT_FALSE(executable->run({}, {}, {}));
  EXPECT_EQ(executable->ownBytes(), 0);
}

} // namespace
} // namespace tcc::runtime
