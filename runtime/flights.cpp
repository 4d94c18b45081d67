#include "runtime/flights.h"
#include "runtime/plan_uses.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

struct Flight {
  size_t start = 0, list = 0; ///< its instruction, and how deep the list is nested in which that stands
  const CollectiveCall *call = nullptr;
};

class Flights {
public:
  explicit Flights(const Plan &plan) : plan(plan), lists(plan.lists()) {}

  FlightProblem run() {
    std::vector<size_t> ends{plan.instructions.size()}; // of the lists that are open, innermost last
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      for (; ends.size() > 1 && ends.back() == i; ends.pop_back())
        if (const Flight *open = openIn(ends.size()))
          return notWaitedFor(*open);
      if (std::string problem = check(i, ends.size()); !problem.empty())
        return {i, problem};
      std::vector<size_t> own;
      visitParts(plan.instructions[i],
                 [&](uint32_t part) { own.push_back((own.empty() ? i + 1 : own.back()) + part); });
      ends.insert(ends.end(), own.rbegin(), own.rend());
    }
    return open.empty() ? FlightProblem() : notWaitedFor(open.back());
  }

private:
  const Plan &plan;
  const PlanLists lists;
  std::vector<Flight> open;
  int64_t lastOrder = 0; ///< of the collective that started last

  const Flight *openIn(size_t list) const {
    const auto found = std::ranges::find_if(open, [&](const Flight &flight) { return flight.list >= list; });
    return found == open.end() ? nullptr : &*found;
  }
  static FlightProblem notWaitedFor(const Flight &flight) {
    return {flight.start, "it is in flight as number " + std::to_string(flight.call->flight) +
                              ", and no wait for it follows in its list of instructions"};
  }

  std::string check(size_t index, size_t list) {
    const Instruction &instruction = plan.instructions[index];
    if (const auto *wait = std::get_if<WaitCall>(&instruction.call))
      return end(*wait, list);
    if (std::string problem = touched(instruction); !problem.empty())
      return problem;
    const auto *call = std::get_if<CollectiveCall>(&instruction.call);
    if (call && call->order > 0) {
      if (call->order <= lastOrder)
        return "it has place " + std::to_string(call->order) + " in the order of the ranks, and starts after place " +
               std::to_string(lastOrder);
      lastOrder = call->order;
    }
    if (!call || call->flight == 0)
      return {};
    if (std::ranges::any_of(open, [&](const Flight &other) { return other.call->flight == call->flight; }))
      return "flight " + std::to_string(call->flight) + " is under way already";
    if (open.size() == mostOpenFlights)
      return "more than " + std::to_string(mostOpenFlights) + " flights are under way";
    open.push_back({index, list, call});
    return {};
  }

  std::string end(const WaitCall &wait, size_t list) {
    const auto found = std::ranges::find_if(
        open, [&](const Flight &flight) { return flight.call->flight == wait.flight && flight.list == list; });
    if (found == open.end())
      return "no collective of its list of instructions is in flight as number " + std::to_string(wait.flight);
    if (found->call->sources != wait.sources || found->call->targets != wait.targets ||
        found->call->scratch != wait.scratch)
      return "it names other buffers than the collective that it waits for";
    open.erase(found);
    return {};
  }

  /// Whether the instruction uses bytes of a flight in a way that it must not.
  std::string touched(const Instruction &instruction) const {
    std::string problem;
    if (open.empty())
      return problem;
    forEachUse(plan, instruction, [&](BufferId id, const BufferUse &use) {
      for (const Flight &flight : open) {
        const auto meets = [&](BufferId other) { return lists.overlap(id, other); };
        const bool isWritten = std::ranges::any_of(flight.call->targets, meets) || meets(flight.call->scratch);
        if (problem.empty() && (isWritten || (use.written && std::ranges::any_of(flight.call->sources, meets))))
          problem = std::string(use.written ? "it writes" : "it reads") + " what `" +
                    plan.instructions[flight.start].label + "`, in flight as number " +
                    std::to_string(flight.call->flight) + ", " + (isWritten ? "writes" : "reads");
      }
    });
    return problem;
  }
};

} // namespace

FlightProblem problemOfFlights(const Plan &plan) {
  return Flights(plan).run();
}

std::string exchangesOf(const Plan &plan) {
  std::string text;
  for (const Instruction &instruction : plan.instructions)
    if (const auto *call = std::get_if<CollectiveCall>(&instruction.call); call && call->kind() != Exchange::shard)
      text += std::to_string(call->order) + ": " + call->exchange + " of " + std::to_string(call->ranks) + " ranks, " +
              std::to_string(plan.buffers[call->targets[0]].bytes) + " bytes\n";
  return text;
}

} // namespace tcc::runtime
