// Validation of a plan: every id, range, size and operand, before anything relies on it.
#include "runtime/plan.h"
#include "runtime/flights.h"
#include <algorithm>
#include <array>
#include <set>

namespace tcc::runtime {
namespace {

std::string number(int64_t value) {
  return std::to_string(value);
}

class Validator {
public:
  explicit Validator(const Plan &plan) : plan(plan), lists(plan.lists()) {}

  Error run() {
    const std::array<std::pair<const char *, size_t>, 8> sizes{{{"inputs", plan.inputs.size()},
                                                                {"outputs", plan.outputs.size()},
                                                                {"states", plan.states.size()},
                                                                {"constants", plan.constants.size()},
                                                                {"tables", plan.tables.size()},
                                                                {"buffers", plan.buffers.size()},
                                                                {"kernels", plan.kernels.size()},
                                                                {"instructions", plan.instructions.size()}}};
    for (auto [what, size] : sizes)
      if (size > static_cast<size_t>(maxPlanItems))
        return Error("plan has " + std::to_string(size) + " " + what + "; 2^20 at most");
    if (plan.arenaBytes < 0 || plan.arenaBytes > maxPlanBytes)
      return Error("plan has an arena of " + number(plan.arenaBytes) + " bytes; 0 to 2^46 are possible");
    if (plan.alignment < arenaAlignment || plan.alignment > 4096 || (plan.alignment & (plan.alignment - 1)))
      return Error("plan has an alignment of " + number(plan.alignment) + " bytes; powers of two from 64 to 4096 are " +
                   "possible");
    if (plan.threads < 1 || plan.threads > 4096)
      return Error("plan is for " + number(plan.threads) + " threads; 1 to 4096 are possible");
    if (Error error = checkSpecs("input", plan.inputs))
      return error;
    if (Error error = checkSpecs("output", plan.outputs))
      return error;
    if (Error error = checkSpecs("state", plan.states))
      return error;
    if (Error error = checkTotal())
      return error;
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      if (Error error = checkBuffer(i))
        return error;
    for (size_t i = 0; i < plan.tables.size(); ++i)
      if (std::string problem = checkTable(plan.tables[i]); !problem.empty())
        return Error("table " + std::to_string(i) + ": " + problem);
    if (Error error = checkKernels())
      return error;
    return checkInstructions();
  }

private:
  Error checkInstructions() {
    std::vector<size_t> ends{plan.instructions.size()}; // of the parts that are open, innermost last
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction &instruction = plan.instructions[i];
      std::string problem = problemOfCall(instruction);
      if (instruction.flops < 0 || instruction.bytes < 0)
        problem = "flops or bytes are negative";
      if (problem.empty())
        problem = checkNesting(i, ends);
      if (!problem.empty())
        return problemAt(i, problem);
    }
    const FlightProblem flights = problemOfFlights(plan);
    return flights.text.empty() ? Error::success() : problemAt(flights.instruction, flights.text);
  }

  Error problemAt(size_t index, const std::string &problem) const {
    return Error("instruction " + std::to_string(index) + " `" + plan.instructions[index].label + "`: " + problem);
  }

  // The parts of a branch and of a loop end inside the part that they stand in.
  std::string checkNesting(size_t index, std::vector<size_t> &ends) const {
    while (ends.size() > 1 && ends.back() == index)
      ends.pop_back();
    std::vector<size_t> own; // ends of the instruction's parts
    visitParts(plan.instructions[index],
               [&](uint32_t part) { own.push_back((own.empty() ? index + 1 : own.back()) + part); });
    if (own.empty())
      return {};
    if (own.back() > ends.back() || ends.size() > maxNesting)
      return "it has " + std::to_string(own.back() - (index + 1)) + " parts of " +
             std::to_string(ends.back() - (index + 1)) + " instructions after it, at depth " +
             std::to_string(ends.size()) + "; parts nest, up to 64 deep";
    ends.insert(ends.end(), own.rbegin(), own.rend());
    return {};
  }

  Error checkSpecs(const std::string &what, const std::vector<TensorSpec> &specs) {
    std::set<std::string_view> names;
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::string place = what + " " + std::to_string(i) + " `" + specs[i].name + "`";
      if (specs[i].name.empty() || !names.insert(specs[i].name).second)
        return Error(place + " has no name of its own; names are unique and not empty");
      if (static_cast<size_t>(specs[i].dtype) >= dtypeTable.size())
        return Error(place + " has an unknown dtype");
      if (specs[i].shape.size() > static_cast<size_t>(maxRank))
        return Error(place + " has rank " + std::to_string(specs[i].shape.size()) + "; 8 at most");
      if (checkedElements(specs[i]) < 0)
        return Error(place + " has a negative dim or more than 2^46 bytes");
    }
    return Error::success();
  }

  Error checkTotal() {
    __int128 total = plan.arenaBytes;
    for (const auto *specs : {&plan.inputs, &plan.outputs, &plan.states})
      for (const TensorSpec &spec : *specs)
        total += spec.bytes();
    if (total > maxPlanBytes)
      return Error("plan needs more than 2^46 bytes in all");
    int64_t constants = 0;
    for (const std::string &constant : plan.constants)
      constants += static_cast<int64_t>(constant.size());
    for (const PointerTable &table : plan.tables)
      constants += static_cast<int64_t>(table.bytes.size());
    if (constants > maxConstantBytes)
      return Error("plan has " + number(constants) + " bytes of constants and tables; " + number(maxConstantBytes) +
                   " at most");
    return Error::success();
  }

  Error checkBuffer(size_t id) {
    const Buffer &buffer = plan.buffers[id];
    const std::string place = "buffer " + std::to_string(id);
    if (buffer.space > Space::table)
      return Error(place + " is in an unknown space");
    const size_t tensors = countIn(buffer.space);
    const std::string space(name(buffer.space));
    if (buffer.index >= tensors)
      return Error(place + " names " + space + " " + number(buffer.index) + "; there are " + std::to_string(tensors));
    const int64_t size = bytesIn(buffer.space, buffer.index);
    if (buffer.offset < 0 || buffer.bytes < 0 || buffer.offset > size || buffer.bytes > size - buffer.offset)
      return Error(place + " covers bytes " + number(buffer.offset) + " + " + number(buffer.bytes) + " of " + space +
                   " " + number(buffer.index) + ", which has " + number(size));
    return Error::success();
  }

  size_t countIn(Space space) const {
    switch (space) {
    case Space::arena:
      return 1;
    case Space::input:
      return plan.inputs.size();
    case Space::output:
      return plan.outputs.size();
    case Space::state:
      return plan.states.size();
    case Space::constant:
      return plan.constants.size();
    case Space::table:
      return plan.tables.size();
    }
    return 0;
  }

  int64_t bytesIn(Space space, uint32_t index) const {
    switch (space) {
    case Space::arena:
      return plan.arenaBytes;
    case Space::input:
      return plan.inputs[index].bytes();
    case Space::output:
      return plan.outputs[index].bytes();
    case Space::state:
      return plan.states[index].bytes();
    case Space::constant:
      return static_cast<int64_t>(plan.constants[index].size());
    case Space::table:
      return static_cast<int64_t>(plan.tables[index].bytes.size());
    }
    return 0;
  }

  Error checkKernels() {
    std::set<std::string_view> symbols;
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      const KernelCode &kernel = plan.kernels[i];
      const std::string place = "kernel " + std::to_string(i) + " `" + kernel.symbol + "`";
      const bool identifier =
          !kernel.symbol.empty() && std::all_of(kernel.symbol.begin(), kernel.symbol.end(), [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
          });
      if (!identifier || !symbols.insert(kernel.symbol).second)
        return Error(place + " has no symbol of its own; symbols are unique and of letters, digits, `_` and `.`");
      if (kernel.results > kernel.arguments)
        return Error(place + " has " + number(kernel.results) + " results among " + number(kernel.arguments) +
                     " arguments; the results are the last of the arguments");
    }
    return Error::success();
  }

  // The problem of a call as text; empty when there is none. What a kind checks itself relies on its buffers and
  // kernels.
  std::string problemOfCall(const Instruction &instruction) const {
    std::string problem;
    visitBuffers(instruction, lists, [&](BufferId id, const BufferUse &use) {
      if (!isUsable(id, use.written) && problem.empty())
        problem = problemOfUse(id);
    });
    visitKernels(instruction, [&](uint32_t kernel) {
      if (kernel >= plan.kernels.size() && problem.empty())
        problem = "kernel " + number(kernel) + " does not exist; there are " + std::to_string(plan.kernels.size());
    });
    if (!problem.empty())
      return problem;
    return std::visit([&](const auto &call) { return call.validate(lists); }, instruction.call);
  }

  static bool isReadOnly(Space space) {
    return space == Space::input || space == Space::constant || space == Space::table;
  }
  bool isUsable(BufferId id, bool written) const {
    return id < plan.buffers.size() && !(written && isReadOnly(plan.buffers[id].space));
  }
  /// Why a use is not possible.
  std::string problemOfUse(BufferId id) const {
    if (id >= plan.buffers.size())
      return "buffer " + number(id) + " does not exist; there are " + std::to_string(plan.buffers.size());
    return "buffer " + number(id) + " is written but lies in an input or constant or table";
  }

  std::string checkTable(const PointerTable &table) {
    if (std::string problem = problemOf(table.slots, static_cast<int64_t>(table.bytes.size())); !problem.empty())
      return problem;
    for (const PointerSlot &slot : table.slots)
      if (!isUsable(slot.buffer, slot.written))
        return problemOfUse(slot.buffer);
    return {};
  }

  const Plan &plan;
  const PlanLists lists;
};

} // namespace

int64_t Plan::plannedBytes() const {
  int64_t total = arenaBytes;
  for (const auto *specs : {&inputs, &outputs, &states})
    total += totalBytes(*specs);
  for (const std::string &constant : constants)
    total += static_cast<int64_t>(constant.size());
  for (const PointerTable &table : tables)
    total += static_cast<int64_t>(table.bytes.size());
  return total;
}

std::string unsavableCall(const Plan &plan) {
  for (const Instruction &instruction : plan.instructions)
    if (const auto *call = std::get_if<CustomCall>(&instruction.call); call && call->host)
      return call->name;
  return {};
}

Error validatePlan(const Plan &plan) {
  return Validator(plan).run();
}

} // namespace tcc::runtime
