// Runs a training step of several ranks whose kernels and matmuls are replaced by waits of the time that they take: so
// a machine with few CPUs shows how exchanges of many ranks overlap with what is computed, as a cluster would.
// Collectives are the real ones: the same instructions, the same engine, the same bytes.
//   rank_waits FILE.tcc --measure=TIMES [--threads=N] [--steps=N]      in one process: how long each instruction takes
//   mpirun -n N rank_waits FILE.tcc --times=TIMES [--steps=N]          in N processes: the step with waits in their
//   place
// FILE.tcc is `tcc GRAPH --ranks=N -o FILE.tcc`; N is its number of ranks, which must all do the same. TIMES has the
// nanoseconds of each instruction, a line each: the least of all measured steps. The last line of the output is JSON,
// for the first rank, with medians over steps: what a step takes, what of it are waits for computing, and what for
// exchanges.
#include "runtime/custom_call.h"
#include "runtime/executable.h"
#include "runtime/files.h"
#include "runtime/profiler.h"
#include "runtime/ranks/ranks.h"
#include "tests/bench/median.h"
#include "tests/bench/or_fail.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <sys/prctl.h>
#include <time.h>

using namespace tcc::runtime;
using namespace tcc::bench;

namespace {

struct Options {
  std::string file, measure, times;
  int threads = 1, steps = 8;
};

/// The first of several ranks, without the others: what it would receive is what lies there.
class FirstRankAlone final : public Ranks {
public:
  explicit FirstRankAlone(int64_t count) : all(count) {}
  int64_t rank() const override { return 0; }
  int64_t count() const override { return all; }
  std::string engine() const override { return "none"; }
  Expected<RankWork> allToAll(const void *, std::span<const int64_t>, void *, std::span<const int64_t>) override {
    return RankWork{0};
  }
  Expected<RankWork> allGather(const void *, void *, int64_t) override { return RankWork{0}; }
  Expected<RankWork> allReduce(float *, int64_t) override { return RankWork{0}; }
  Expected<RankWork> broadcast(void *, int64_t, int64_t) override { return RankWork{0}; }
  Expected<RankWork> barrier() override { return RankWork{0}; }
  Error wait(RankWork) override { return Error::success(); }
  Expected<bool> isOver(RankWork) override { return true; }
  void abort(int status) override { std::_Exit(status); }
  void finish() override {}

private:
  int64_t all;
};

bool isExchange(const Instruction &instruction) {
  return std::holds_alternative<CollectiveCall>(instruction.call) || std::holds_alternative<WaitCall>(instruction.call);
}

/// The numbers of the instructions that a step runs one after another, of which a profile has an event each.
void appendRun(const Plan &plan, size_t begin, size_t end, std::vector<size_t> &order) {
  for (size_t i = begin; i < end; ++i) {
    if (const auto *loop = std::get_if<LoopCall>(&plan.instructions[i].call)) {
      for (int64_t turn = 0; turn < loop->count; ++turn)
        appendRun(plan, i + 1, i + 1 + loop->body, order);
      i += loop->body;
    } else if (std::holds_alternative<BranchCall>(plan.instructions[i].call)) {
      fail("the step has a branch; which part runs is not known");
    } else {
      order.push_back(i);
    }
  }
}

std::vector<size_t> runOf(const Plan &plan) {
  std::vector<size_t> order;
  appendRun(plan, 0, plan.instructions.size(), order);
  return order;
}

int64_t ranksOf(const Plan &plan) {
  for (const Instruction &instruction : plan.instructions)
    if (const auto *call = std::get_if<CollectiveCall>(&instruction.call))
      return call->ranks;
  fail("the step has no collective; it is not one of several ranks");
}

/// A step's tensors. Floats are small and not zero, as in training; integers are small and not negative.
class Tensors {
public:
  explicit Tensors(const std::vector<TensorSpec> &specs) {
    for (const TensorSpec &spec : specs) {
      storage.push_back(orFail(TensorStorage::zeros(spec)));
      auto *floats = static_cast<float *>(storage.back().data());
      auto *integers = static_cast<int32_t *>(storage.back().data());
      for (int64_t i = 0; i < spec.elements(); ++i)
        if (spec.dtype == DType::f32)
          floats[i] = 1e-4F * static_cast<float>(1 + i * 7919 % 200);
        else if (spec.dtype == DType::i32)
          integers[i] = static_cast<int32_t>(i * 7919 % 200);
    }
  }
  std::vector<ConstTensorRef> inputs() const { return refs<ConstTensorRef>(); }
  std::vector<TensorRef> outputs() const { return refs<TensorRef>(); }

private:
  std::vector<TensorStorage> storage;

  template <typename Ref>
  std::vector<Ref> refs() const {
    std::vector<Ref> list;
    for (const TensorStorage &tensor : storage)
      list.push_back({tensor.data(), tensor.bytes()});
    return list;
  }
};

/// The events of so many steps, after two that warm up.
std::vector<std::vector<Profiler::Event>> profiled(Executable &executable, int steps) {
  const Plan &plan = executable.plan();
  const Tensors inputs(plan.inputs), outputs(plan.outputs), states(plan.states);
  std::vector<std::vector<Profiler::Event>> all;
  for (int step = -2; step < steps; ++step) {
    Profiler profiler;
    orFail(executable.run(inputs.inputs(), outputs.outputs(), states.outputs(), &profiler));
    if (step >= 0)
      all.push_back(profiler.all());
  }
  return all;
}

/// The events of a step's instructions, in order; the step has one for itself too.
std::vector<Profiler::Event> instructionEvents(const std::vector<Profiler::Event> &events, size_t expected) {
  std::vector<Profiler::Event> kept;
  std::ranges::copy_if(events, std::back_inserter(kept), [](const auto &event) { return event.category != "step"; });
  if (kept.size() != expected)
    fail("the profile has " + std::to_string(kept.size()) + " events of " + std::to_string(expected) + " instructions");
  return kept;
}

/// The time of what stands after the loss, up to the last matmul; and the share of bytes that ranks exchange in buckets
/// which are complete no earlier than that.
std::pair<int64_t, double> backwardOf(const Plan &plan, const std::vector<int64_t> &times) {
  size_t loss = 0, end = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const Instruction &instruction = plan.instructions[i];
    if (instruction.label.find("cross_entropy") != std::string::npos)
      loss = i;
    if (std::holds_alternative<MatmulCall>(instruction.call))
      end = i + 1;
  }
  int64_t backward = 0;
  double bytes = 0, late = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const Instruction &instruction = plan.instructions[i];
    if (i > loss && i < end && !isExchange(instruction) && !isControl(instruction))
      backward += times[i];
    const auto *call = std::get_if<CollectiveCall>(&instruction.call);
    if (!call || call->kind() != Exchange::allToAll)
      continue;
    const auto sent = double(call->sentBytes(plan.lists()));
    bytes += sent;
    late += i >= end ? sent : 0;
  }
  return {backward, bytes > 0 ? late / bytes : 0};
}

void measure(const Options &options) {
  Artefact artefact = orFail(readArtefact(options.file));
  const int64_t ranks = ranksOf(artefact.targets.front().plan);
  auto executable = orFail(Executable::load(
      std::move(artefact), {.threads = options.threads, .ranks = std::make_shared<FirstRankAlone>(ranks)}));
  const Plan &plan = executable->plan();
  const std::vector<size_t> order = runOf(plan);
  std::vector<int64_t> least(plan.instructions.size(), -1);
  for (const auto &events : profiled(*executable, options.steps)) {
    const std::vector<Profiler::Event> own = instructionEvents(events, order.size());
    for (size_t i = 0; i < order.size(); ++i)
      if (int64_t &time = least[order[i]]; time < 0 || own[i].durationNs < time)
        time = own[i].durationNs;
  }
  std::string text;
  int64_t sum = 0;
  for (size_t i = 0; i < least.size(); ++i) {
    const int64_t time = isExchange(plan.instructions[i]) ? 0 : std::max<int64_t>(0, least[i]);
    text += std::to_string(time) + "\n";
    sum += std::ranges::count(order, i) * time;
  }
  orFail(writeFileAtomically(options.measure, text));
  const auto [backward, late] = backwardOf(plan, least);
  std::printf("{\"ranks\":%ld,\"computed_ms\":%.3f,\"backward_ms\":%.3f,\"late_share\":%.4f}\n", long(ranks),
              1e-6 * double(sum), 1e-6 * double(backward), late);
}

/// Sleeps for as long as calls of this process have asked for altogether: what one call sleeps too long, later ones
/// sleep less.
void sleepFor(int64_t nanoseconds) {
  static int64_t owed = 0;
  owed += nanoseconds;
  constexpr int64_t least = 50'000;
  if (owed < least)
    return;
  const int64_t begin = Profiler::now();
  const timespec time{owed / 1'000'000'000, owed % 1'000'000'000};
  nanosleep(&time, nullptr);
  owed -= Profiler::now() - begin;
}

/// The plan with a call that waits in place of each instruction that is no exchange.
Plan withWaits(Plan plan, const std::string &file) {
  std::istringstream text(orFail(readFile(file)));
  for (Instruction &instruction : plan.instructions) {
    int64_t time = 0;
    if (!(text >> time))
      fail("`" + file + "` has fewer lines than the step has instructions");
    if (isExchange(instruction) || isControl(instruction))
      continue;
    CustomCall call;
    call.name = "wait";
    call.host = addHostFunction([time](const CustomArguments &) { sleepFor(time); });
    instruction.call = call;
  }
  plan.kernels.clear();
  return plan;
}

void runWithWaits(const Options &options) {
  const std::shared_ptr<Ranks> ranks = orFail(joinRanks());
  Artefact artefact = orFail(readArtefact(options.file));
  Plan plan = withWaits(std::move(artefact.targets.front().plan), options.times);
  if (!ranks || ranks->count() != ranksOf(plan))
    fail("`" + options.file + "` is of " + std::to_string(ranksOf(plan)) + " ranks, which mpirun must start");
  prctl(PR_SET_TIMERSLACK, 1000UL);
  auto executable = orFail(Executable::load(cpuArtefact(std::move(plan), ""), {.threads = 1, .ranks = ranks}));
  std::vector<double> steps, computed, exchanged;
  for (const auto &events : profiled(*executable, options.steps)) {
    double waits = 0, exchanges = 0, step = 0;
    for (const Profiler::Event &event : events)
      (event.category == "step"     ? step
       : event.category == "custom" ? waits
                                    : exchanges) += 1e-6 * double(event.durationNs);
    steps.push_back(step);
    computed.push_back(waits);
    exchanged.push_back(exchanges);
  }
  if (ranks->rank() == 0)
    std::printf("{\"ranks\":%ld,\"step_ms\":%.3f,\"computed_ms\":%.3f,\"exchange_ms\":%.3f}\n", long(ranks->count()),
                median(steps), median(computed), median(exchanged));
  executable.reset();
  ranks->finish();
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("A step of several ranks whose kernels and matmuls are waits, beside real exchanges.");
  Options options;
  app.add_option("file", options.file, "the artefact of a step of several ranks")->required();
  CLI::Option_group *what = app.add_option_group("what");
  what->add_option("--measure", options.measure, "write how long each instruction takes to this file");
  what->add_option("--times", options.times, "wait for as long as this file says");
  what->require_option(1);
  app.add_option("--threads", options.threads, "of --measure (1)")->check(CLI::Range(1, 1024));
  app.add_option("--steps", options.steps, "that are measured (8)")->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, argc, argv);
  if (options.measure.empty())
    runWithWaits(options);
  else
    measure(options);
}
