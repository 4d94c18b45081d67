// Validation of a plan: every id, range, size and operand, before anything relies on it.
#include "runtime/plan.h"
#include <algorithm>
#include <array>
#include <set>

namespace tcc::runtime {
namespace {

constexpr std::array<std::string_view, 5> spaceNames{"arena", "input", "output", "state", "constant"};

std::string number(int64_t value) {
  return std::to_string(value);
}

// Elements, or -1 when a dim is negative or the bytes exceed the limit.
int64_t checkedElements(const TensorSpec &spec) {
  __int128 elements = 1;
  for (int64_t dim : spec.shape) {
    if (dim < 0 || dim > maxPlanBytes)
      return -1;
    elements *= dim;
    if (elements > maxPlanBytes)
      return -1;
  }
  return elements * byteSize(spec.dtype) > maxPlanBytes ? -1 : static_cast<int64_t>(elements);
}

class Validator {
public:
  explicit Validator(const Plan &plan) : plan(plan) {}

  Error run() {
    const std::array<std::pair<const char *, size_t>, 7> sizes{{{"inputs", plan.inputs.size()},
                                                                {"outputs", plan.outputs.size()},
                                                                {"states", plan.states.size()},
                                                                {"constants", plan.constants.size()},
                                                                {"buffers", plan.buffers.size()},
                                                                {"kernels", plan.kernels.size()},
                                                                {"instructions", plan.instructions.size()}}};
    for (auto [what, size] : sizes)
      if (size > static_cast<size_t>(maxPlanItems))
        return Error("plan has " + std::to_string(size) + " " + what + "; 2^20 at most");
    if (plan.arenaBytes < 0 || plan.arenaBytes > maxPlanBytes)
      return Error("plan has an arena of " + number(plan.arenaBytes) + " bytes; 0 to 2^46 are possible");
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
    if (Error error = checkKernels())
      return error;
    for (size_t i = 0; i < plan.instructions.size(); ++i)
      if (std::string problem = checkInstruction(plan.instructions[i]); !problem.empty())
        return Error("instruction " + std::to_string(i) + " `" + plan.instructions[i].label + "`: " + problem);
    return Error::success();
  }

private:
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
    if (constants > maxConstantBytes)
      return Error("plan has " + number(constants) + " bytes of constants; " + number(maxConstantBytes) + " at most");
    return Error::success();
  }

  Error checkBuffer(size_t id) {
    const Buffer &buffer = plan.buffers[id];
    const std::string place = "buffer " + std::to_string(id);
    if (static_cast<size_t>(buffer.space) >= spaceNames.size())
      return Error(place + " is in an unknown space");
    const size_t tensors = countIn(buffer.space);
    const std::string space(spaceNames[static_cast<size_t>(buffer.space)]);
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

  // Problems of one instruction as text; empty when there is none.
  std::string checkInstruction(const Instruction &instruction) {
    if (instruction.flops < 0 || instruction.bytes < 0)
      return "flops or bytes are negative";
    return std::visit([this](const auto &call) { return check(call); }, instruction.call);
  }

  std::string checkUse(BufferId id, bool written) {
    if (id >= plan.buffers.size())
      return "buffer " + number(id) + " does not exist; there are " + std::to_string(plan.buffers.size());
    const Space space = plan.buffers[id].space;
    if (written && (space == Space::input || space == Space::constant))
      return "buffer " + number(id) + " is written but lies in an input or constant";
    return {};
  }

  bool overlap(BufferId left, BufferId right) const {
    if (left == noBuffer || right == noBuffer)
      return false;
    const Buffer &a = plan.buffers[left], &b = plan.buffers[right];
    return a.space == b.space && a.index == b.index && a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
           b.offset < a.offset + a.bytes;
  }

  std::string check(const KernelCall &call) {
    if (call.kernel >= plan.kernels.size())
      return "kernel " + number(call.kernel) + " does not exist; there are " + std::to_string(plan.kernels.size());
    if (call.granularity < 1 || call.granularity > maxPlanBytes)
      return "granularity is " + number(call.granularity) + "; 1 to 2^46 are possible";
    const KernelCode &kernel = plan.kernels[call.kernel];
    int64_t total = 0;
    for (const Segment &segment : call.segments) {
      if (segment.extent < 0 || segment.extent > maxPlanBytes || (total += segment.extent) > maxPlanBytes)
        return "extent is " + number(segment.extent) + "; 0 to 2^46 in all segments together are possible";
      if (segment.args.size() != kernel.arguments)
        return "a segment has " + std::to_string(segment.args.size()) + " arguments; kernel `" + kernel.symbol +
               "` takes " + number(kernel.arguments);
      for (size_t i = 0; i < segment.args.size(); ++i)
        if (std::string problem = checkUse(segment.args[i], i >= kernel.arguments - kernel.results); !problem.empty())
          return problem;
    }
    return {};
  }

  std::string check(const MatmulCall &call) {
    auto extents = gemmExtents(call.desc);
    if (!extents)
      return extents.error().message();
    if ((call.bias != noBuffer) != call.desc.bias.has_value())
      return "a bias buffer is given exactly when the product has a bias";
    struct Operand {
      const char *name;
      BufferId id;
      int64_t bytes;
      bool optional, written;
    };
    for (auto [operand, id, bytes, optional, written] :
         {Operand{"a", call.a, extents->a, false, false}, Operand{"b", call.b, extents->b, false, false},
          Operand{"c", call.c, extents->c, false, true}, Operand{"bias", call.bias, extents->bias, true, false},
          Operand{"scratch", call.scratch, 0, true, true}}) {
      if (id == noBuffer && optional)
        continue;
      if (std::string problem = checkUse(id, written); !problem.empty())
        return problem;
      if (plan.buffers[id].bytes < bytes)
        return std::string(operand) + " has " + number(plan.buffers[id].bytes) + " bytes; the product " +
               describe(call.desc) + " needs " + number(bytes);
    }
    if (call.scratch != noBuffer && plan.buffers[call.scratch].space != Space::arena)
      return "scratch lies outside the arena";
    for (BufferId other : {call.a, call.b, call.bias})
      for (BufferId written : {call.c, call.scratch})
        if (overlap(written, other))
          return "c or scratch overlaps another operand of the product";
    if (overlap(call.c, call.scratch))
      return "c and scratch of the product overlap";
    return {};
  }

  std::string check(const CopyCall &call) {
    if (std::string problem = checkUse(call.source, false); !problem.empty())
      return problem;
    if (std::string problem = checkUse(call.target, true); !problem.empty())
      return problem;
    if (plan.buffers[call.source].bytes != plan.buffers[call.target].bytes)
      return "copies " + number(plan.buffers[call.source].bytes) + " bytes to " +
             number(plan.buffers[call.target].bytes) + "; the sizes are equal";
    if (overlap(call.source, call.target))
      return "source and target of a copy overlap";
    return {};
  }

  const Plan &plan;
};

} // namespace

int64_t TensorSpec::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

int64_t Plan::plannedBytes() const {
  int64_t total = arenaBytes;
  for (const auto *specs : {&inputs, &outputs, &states})
    for (const TensorSpec &spec : *specs)
      total += spec.bytes();
  for (const std::string &constant : constants)
    total += static_cast<int64_t>(constant.size());
  return total;
}

Error validatePlan(const Plan &plan) {
  return Validator(plan).run();
}

} // namespace tcc::runtime
