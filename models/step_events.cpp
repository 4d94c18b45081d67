#include "models/step_events.h"

#include <map>
#include <numeric>
#include <utility>

namespace tcc::models {

namespace {

Exchanged exchangedBy(const runtime::CollectiveCall &call, const runtime::Plan &plan) {
  const auto bytesOf = [&](const std::vector<runtime::BufferId> &buffers) {
    double bytes = 0;
    for (runtime::BufferId buffer : buffers)
      bytes += double(plan.buffers[buffer].bytes);
    return bytes;
  };
  if (call.kind() != runtime::Exchange::allToAll)
    return {call.kind(), bytesOf(call.targets)};
  // A row of the target for each piece of every rank: a part of the piece for one rank.
  const int64_t rows = std::accumulate(call.pieces.begin(), call.pieces.end(), int64_t{0});
  return {call.kind(), bytesOf(call.targets) / double(rows) * double(call.ranks * call.own)};
}

class Events {
public:
  Events(const runtime::Plan &plan, const runtime::MachineLimits &limits) : plan(plan), limits(limits) {}

  StepEvents run() {
    runList(0, plan.instructions.size());
    return std::move(made);
  }

private:
  const runtime::Plan &plan;
  const runtime::MachineLimits &limits;
  StepEvents made;
  std::map<int64_t, int64_t> open; // the plan's number of a flight, and ours
  double sinceLast = 0;
  int64_t last = 0;

  void runList(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const runtime::Instruction &instruction = plan.instructions[i];
      if (const auto *loop = std::get_if<runtime::LoopCall>(&instruction.call)) {
        runTurns(i + 1, i + 1 + loop->body, loop->count);
      } else if (const auto *branch = std::get_if<runtime::BranchCall>(&instruction.call)) {
        runList(i + 1, i + 1 + branch->then);
      } else if (const auto *call = std::get_if<runtime::CollectiveCall>(&instruction.call)) {
        start(*call);
      } else if (const auto *wait = std::get_if<runtime::WaitCall>(&instruction.call)) {
        add({.flight = open.at(wait->flight), .exchange = {}});
      } else {
        compute(limits.boundOf(instruction).seconds);
      }
      i += runtime::partsOf(instruction);
    }
  }

  void runTurns(size_t begin, size_t end, int64_t count) {
    const double before = made.computedSeconds;
    const size_t events = made.events.size();
    runList(begin, end);
    if (made.events.size() == events)
      return compute(double(count - 1) * (made.computedSeconds - before));
    for (int64_t turn = 1; turn < count; ++turn)
      runList(begin, end);
  }

  void compute(double seconds) {
    sinceLast += seconds;
    made.computedSeconds += seconds;
  }

  void start(const runtime::CollectiveCall &call) {
    if (call.kind() == runtime::Exchange::shard)
      return;
    add({.flight = ++last, .starts = true, .exchange = exchangedBy(call, plan)});
    if (call.flight == 0)
      add({.flight = last, .exchange = {}});
    else
      open[call.flight] = last;
  }

  void add(StepEvent event) {
    event.computedSeconds = std::exchange(sinceLast, 0);
    made.events.push_back(event);
  }
};

} // namespace

StepEvents eventsOf(const runtime::Plan &plan, const runtime::MachineLimits &limits) {
  return Events(plan, limits).run();
}

} // namespace tcc::models
