// Collectives of a plan on GPUs of stand-ins: every kind of exchange, in flight beside copies, call by call and in a
// graph. A wait that is dropped and buckets that are swapped are found.
#include "runtime/device/cuda/step_device.h"
#include "runtime/executable.h"
#include "tests/cuda_machine/nccl/gpu_ranks.h"
#include "tests/runtime/made_instruction.h"

#include <algorithm>
#include <numeric>

namespace tcc::nccl {
namespace {

using namespace runtime;
using runtime::test::instruction;
using runtime::test::onRanks;

CollectiveCall collective(std::string exchange, BufferId source, BufferId target, int64_t flight = 0) {
  CollectiveCall call;
  call.exchange = std::move(exchange);
  call.ranks = 2;
  call.sources = {source};
  call.targets = {target};
  call.flight = flight;
  return call;
}

enum : BufferId { input, other, first, second, parts, received, packed, all, sums, shard, out, sumOut, shardOut, kept };

/// x [6] and y [6] of each rank. `out`: the first three numbers of each rank's two pieces; `sum`: x and x over the
/// ranks; `shard`: this rank's half of x; state `kept`: all ranks' y.
Plan exchangingPlan() {
  Plan plan;
  plan.name = "exchanging";
  plan.alignment = 256;
  plan.inputs = {{"x", DType::f32, {6}}, {"y", DType::f32, {6}}};
  plan.outputs = {{"out", DType::f32, {4, 3}}, {"sum", DType::f32, {6}}, {"shard", DType::f32, {3}}};
  plan.states = {{"kept", DType::f32, {12}}};
  plan.arenaBytes = 2048;
  plan.buffers = {{Space::input, 0, 0, 24},    {Space::input, 1, 0, 24},    {Space::arena, 0, 0, 24},
                  {Space::arena, 0, 256, 24},  {Space::arena, 0, 512, 24},  {Space::arena, 0, 768, 48},
                  {Space::arena, 0, 1024, 48}, {Space::arena, 0, 1280, 48}, {Space::arena, 0, 1536, 24},
                  {Space::arena, 0, 1792, 12}, {Space::output, 0, 0, 48},   {Space::output, 1, 0, 24},
                  {Space::output, 2, 0, 12},   {Space::state, 0, 0, 48}};
  CollectiveCall toAll = collective("all_to_all", first, received, 1); // two pieces of six numbers, in two parts each
  toAll.pieces = {2, 2};
  toAll.own = 2;
  toAll.sources = {first, second};
  toAll.scratch = packed;
  CollectiveCall half = collective("shard", input, shard);
  half.rows = 2;
  plan.instructions = {
      instruction(CopyCall{input, first}, "first"),
      instruction(CopyCall{input, second}, "second"),
      instruction(toAll, "exchange"),
      instruction(FillCall{parts, 0}, "zeros"), // so that a gather that comes too early has something to miss
      instruction(FillCall{parts, 1}, "ones"),
      instruction(FillCall{parts, 2}, "twos"),
      instruction(CopyCall{other, parts}, "parts"),
      instruction(collective("all_gather", parts, all, 2), "gather"),
      instruction(half, "half"),
      instruction(CopyCall{shard, shardOut}, "shard"),
      instruction(WaitCall{1, {first, second}, {received}, packed}, "end of exchange"),
      instruction(CopyCall{received, out}, "out"),
      instruction(WaitCall{2, {parts}, {all}}, "end of gather"),
      instruction(CopyCall{all, kept}, "keep"),
      instruction(collective("all_reduce", input, sums), "sum"),
      instruction(CopyCall{sums, sumOut}, "sum out")};
  return plan;
}

Instruction &labelled(Plan &plan, std::string_view label) {
  return *std::ranges::find(plan.instructions, label, &Instruction::label);
}

std::vector<float> inputOf(int64_t rank, int step, float first = 0) {
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), first + 100.0f * float(rank) + 10.0f * float(step));
  return values;
}

/// What a step must give: out, sum, shard, kept, one after another.
std::vector<float> expectedOf(int64_t rank, int step) {
  std::vector<float> expected;
  const auto append = [&](const std::vector<float> &from, size_t begin, size_t count) {
    expected.insert(expected.end(), from.begin() + std::ptrdiff_t(begin), from.begin() + std::ptrdiff_t(begin + count));
  };
  const std::vector<float> zero = inputOf(0, step), one = inputOf(1, step);
  for (const auto &each : {zero, zero, one, one}) // two pieces of each rank, their part for this rank
    append(each, size_t(3 * rank), 3);
  for (size_t i = 0; i < 6; ++i)
    expected.push_back(zero[i] + one[i]);
  append(rank == 0 ? zero : one, size_t(3 * rank), 3);
  for (const int64_t each : {0, 1})
    append(inputOf(each, step, 1000), 0, 6);
  return expected;
}

/// The steps of a rank; true where all are as expected. Findings and errors go to `problem`.
bool runSteps(const Host &host, const Plan &plan, std::string &problem, int steps = 5) {
  auto device = runtime::cuda::openStepDevice({.ordinal = static_cast<int>(host->rank())});
  EXPECT_TRUE(device) << device.error().message();
  Artefact artefact;
  TargetCode &part = artefact.targets.emplace_back();
  part.target = (*device)->codeTarget();
  part.plan = plan;
  ExecutableOptions options;
  options.device = *device;
  options.ranks = host;
  auto executable = Executable::load(std::move(artefact), options);
  if (!executable) {
    problem = executable.error().message();
    return false;
  }
  constexpr size_t places[] = {0, 12, 18, 21, 33}; // of the results in expectedOf()
  alignas(64) float given[2][16], results[4][16];
  bool isRight = true;
  for (int step = 0; step < steps && problem.empty(); ++step) {
    std::ranges::copy(inputOf(host->rank(), step), given[0]);
    std::ranges::copy(inputOf(host->rank(), step, 1000), given[1]);
    const ConstTensorRef inputs[] = {{given[0], 24}, {given[1], 24}};
    const TensorRef outputs[] = {{results[0], 48}, {results[1], 24}, {results[2], 12}}, states[] = {{results[3], 48}};
    problem = (*executable)->run(inputs, outputs, states, nullptr).message();
    const std::vector<float> expected = expectedOf(host->rank(), step);
    for (size_t i = 0; i < 4; ++i)
      isRight = isRight && std::equal(&expected[places[i]], &expected[0] + places[i + 1], results[i]);
  }
  return isRight;
}

TEST(NcclPlans, runCallByCallAndInAGraph) {
  for (const char *streams : {"late", "early", "random,seed=5"})
    onRanks(2, [&](const Host &host) {
      useStandIns(streams);
      std::string problem;
      EXPECT_TRUE(runSteps(host, exchangingPlan(), problem));
      EXPECT_EQ(problem, "");
      EXPECT_EQ(tccMachineCounters()->graphLaunches, 4u);
      EXPECT_STREQ(tccMachineReport(), "");
    });
}

/// By what a fault shows on some rank.
struct Caught {
  std::atomic<bool> byValues, byMachine, byError;
  explicit operator bool() const { return byValues || byMachine || byError; }
};

std::shared_ptr<Caught> caughtOf(const std::string &words, const std::function<Plan(int64_t rank)> &planOf) {
  void *memory = mmap(nullptr, sizeof(Caught), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::shared_ptr<Caught> caught(new (memory) Caught{}, [](Caught *held) { munmap(held, sizeof *held); });
  onRanks(2, [&](const Host &host) {
    useStandIns(words, "seconds=2");
    std::string problem;
    const bool isRight = runSteps(host, planOf(host->rank()), problem, 3);
    caught->byMachine = caught->byMachine || *tccMachineReport();
    caught->byError = caught->byError || (!problem.empty() && !*tccMachineReport());
    caught->byValues = caught->byValues || (problem.empty() && !isRight);
    if (!problem.empty())
      host->end(); // the other one may wait for this rank
  });
  return caught;
}

TEST(NcclPlans, withADroppedWaitAreCaught) {
  const auto same = [](int64_t) { return exchangingPlan(); };
  EXPECT_FALSE(*caughtOf("random,seed=1", same)) << "no fault";
  // Two waits for each of three exchanges, of the first step and of the one that is captured.
  for (int wait = 1; wait <= 12; ++wait) {
    const std::string lost = ",lost-wait=" + std::to_string(wait);
    bool caught(*caughtOf("late" + lost, same));
    for (int seed = 1; seed <= 40 && !caught; ++seed)
      caught = bool(*caughtOf("random,seed=" + std::to_string(seed) + lost, same));
    EXPECT_TRUE(caught) << "wait " << wait;
  }
}

TEST(NcclPlans, withSwappedBucketsAreCaught) {
  const auto swapped = [](int64_t rank, bool onAll) {
    Plan plan = exchangingPlan();
    auto &exchange = std::get<CollectiveCall>(labelled(plan, "exchange").call).sources;
    auto &gather = std::get<CollectiveCall>(labelled(plan, "gather").call).sources;
    if (rank == 1 || onAll) {
      std::swap(exchange[0], gather[0]);
      std::get<WaitCall>(labelled(plan, "end of exchange").call).sources = exchange;
      std::get<WaitCall>(labelled(plan, "end of gather").call).sources = gather;
      std::swap(labelled(plan, "exchange"), labelled(plan, "gather")); // to where their sources are there
    }
    return plan;
  };
  const auto onOne = caughtOf("late", [&](int64_t rank) { return swapped(rank, false); });
  EXPECT_TRUE(onOne->byMachine) << "ranks come to them in another order";
  const auto onAll = caughtOf("late", [&](int64_t rank) { return swapped(rank, true); });
  EXPECT_TRUE(onAll->byValues && !onAll->byError && !onAll->byMachine);
}

} // namespace
} // namespace tcc::nccl
