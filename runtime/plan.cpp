// Validation of a plan: every id, range, size and operand, before anything relies on it.
#include "runtime/plan.h"
#include <algorithm>
#include <array>
#include <set>

namespace tcc::runtime {
namespace {

constexpr std::array<std::string_view, 6> spaceNames{"arena", "input", "output", "state", "constant", "table"};

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
      if (std::string problem = checkSlots(plan.tables[i].slots, static_cast<int64_t>(plan.tables[i].bytes.size()));
          !problem.empty())
        return Error("table " + std::to_string(i) + ": " + problem);
    if (Error error = checkKernels())
      return error;
    for (size_t i = 0; i < plan.instructions.size(); ++i)
      if (std::string problem = checkInstruction(plan.instructions[i]); !problem.empty())
        return Error("instruction " + std::to_string(i) + " `" + plan.instructions[i].label + "`: " + problem);
    return checkNesting();
  }

private:
  // The parts of a branch and of a loop end inside the part that they stand in.
  Error checkNesting() {
    std::vector<size_t> ends{plan.instructions.size()}; // of the parts that are open, innermost last
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      while (ends.size() > 1 && ends.back() == i)
        ends.pop_back();
      const size_t parts = partsOf(plan.instructions[i]);
      if (parts > ends.back() - (i + 1) || ends.size() > maxNesting)
        return Error("instruction " + std::to_string(i) + " `" + plan.instructions[i].label + "`: it has " +
                     std::to_string(parts) + " parts of " + std::to_string(ends.back() - (i + 1)) +
                     " instructions behind it, at depth " + std::to_string(ends.size()) +
                     "; parts nest, up to 64 deep");
      if (const auto *branch = std::get_if<BranchCall>(&plan.instructions[i].call)) {
        ends.push_back(i + 1 + parts);
        ends.push_back(i + 1 + branch->then);
      } else if (parts > 0) {
        ends.push_back(i + 1 + parts);
      }
    }
    return Error::success();
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
    if (written && (space == Space::input || space == Space::constant || space == Space::table))
      return "buffer " + number(id) + " is written but lies in an input or constant or table";
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
    if (call.addend != noBuffer && !call.desc.accumulate)
      return "an addend is given to a product that does not accumulate";
    if ((call.aux != noBuffer) != call.desc.geluGradient)
      return "an aux buffer is given exactly when the product has slopes of GELU";
    struct Operand {
      const char *name;
      BufferId id;
      int64_t bytes;
      bool optional, written;
    };
    for (auto [operand, id, bytes, optional, written] :
         {Operand{"a", call.a, extents->a, false, false}, Operand{"b", call.b, extents->b, false, false},
          Operand{"c", call.c, extents->c, false, true}, Operand{"bias", call.bias, extents->bias, true, false},
          Operand{"addend", call.addend, extents->c, true, false}, Operand{"aux", call.aux, extents->c, true, false},
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
    for (BufferId other : {call.a, call.b, call.bias, call.addend, call.aux})
      for (BufferId written : {call.c, call.scratch})
        if (overlap(written, other))
          return "c or scratch overlaps another operand of the product";
    if (overlap(call.c, call.scratch))
      return "c and scratch of the product overlap";
    return {};
  }

  // Slots of eight bytes lie inside `bytes`, at multiples of eight, one after another.
  std::string checkSlots(const std::vector<PointerSlot> &slots, int64_t bytes) {
    int64_t end = 0;
    for (const PointerSlot &slot : slots) {
      if (slot.offset < end || slot.offset % 8 || slot.offset > bytes - 8)
        return "a pointer slot is at byte " + number(slot.offset) + " of " + number(bytes) +
               "; slots are eight bytes, in order, inside, at multiples of eight";
      end = slot.offset + 8;
      if (!slot.read && !slot.written)
        return "the pointer slot at byte " + number(slot.offset) + " is neither read nor written";
      if (std::string problem = checkUse(slot.buffer, slot.written); !problem.empty())
        return problem;
    }
    return {};
  }

  std::string check(const MapSlot &slot, int64_t parameterBytes) {
    constexpr int64_t mapBytes = 128;
    if (slot.offset < 0 || slot.offset % 64 || slot.offset > parameterBytes - mapBytes)
      return "a map slot is at byte " + number(slot.offset) + " of " + number(parameterBytes) +
             "; slots are 128 bytes, inside, at multiples of 64";
    if (std::string problem = checkUse(slot.buffer, slot.written); !problem.empty())
      return problem;
    const size_t rank = slot.sizes.size();
    if (rank < 1 || rank > static_cast<size_t>(maxMapRank) || slot.box.size() != rank ||
        slot.strides.size() != rank - 1)
      return "a tensor map has " + std::to_string(rank) + " sizes, " + std::to_string(slot.strides.size()) +
             " strides and " + std::to_string(slot.box.size()) + " box sizes; n, n - 1 and n, n from 1 to 5";
    if (slot.elementBytes < 1 || slot.elementBytes > 8 || (slot.elementBytes & (slot.elementBytes - 1)))
      return "a tensor map has elements of " + number(slot.elementBytes) + " bytes; 1, 2, 4 or 8 are possible";
    if (slot.swizzleBytes != 0 && slot.swizzleBytes != 32 && slot.swizzleBytes != 64 && slot.swizzleBytes != 128)
      return "a tensor map swizzles " + number(slot.swizzleBytes) + " bytes; 0, 32, 64 or 128 are possible";
    __int128 last = 0;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t stride = i == 0 ? slot.elementBytes : slot.strides[i - 1];
      if (slot.sizes[i] < 1 || slot.sizes[i] > int64_t{1} << 32 || slot.box[i] < 1 || slot.box[i] > 256 || stride < 1 ||
          stride >= int64_t{1} << 40 || (i > 0 && stride % 16))
        return "dimension " + std::to_string(i) + " of a tensor map has size " + number(slot.sizes[i]) + ", stride " +
               number(stride) + " and box " + number(slot.box[i]) +
               "; sizes to 2^32, outer strides multiples of 16 below 2^40, boxes to 256";
      last += static_cast<__int128>(slot.sizes[i] - 1) * stride;
    }
    if (last + slot.elementBytes > plan.buffers[slot.buffer].bytes)
      return "a tensor map reaches beyond the " + number(plan.buffers[slot.buffer].bytes) + " bytes of buffer " +
             number(slot.buffer);
    return {};
  }

  // Grid, block, cluster and shared memory within CUDA's own limits; a device may have narrower ones.
  std::string checkShape(const LaunchCall &call) {
    constexpr std::array<int64_t, 3> mostBlocks{INT32_MAX, 65535, 65535}, mostThreads{1024, 1024, 64};
    int64_t threads = 1, clusterBlocks = 1;
    for (size_t i = 0; i < 3; ++i) {
      if (call.grid[i] < 0 || call.grid[i] > mostBlocks[i])
        return "the grid has " + number(call.grid[i]) + " blocks along an axis; 2^31 - 1, 65535, 65535 at most";
      if (call.block[i] < 1 || call.block[i] > mostThreads[i] || (threads *= call.block[i]) > 1024)
        return "a block has " + number(call.block[i]) +
               " threads along an axis; 1024, 1024, 64 and 1024 in all at most";
      if (call.cluster[i] < 1 || call.cluster[i] > 16 || (clusterBlocks *= call.cluster[i]) > 16 ||
          call.grid[i] % call.cluster[i])
        return "a cluster has " + number(call.cluster[i]) + " blocks along an axis; it divides the grid and has 16 " +
               "blocks at most";
    }
    if (call.sharedBytes < 0 || call.sharedBytes > int64_t{1} << 20)
      return number(call.sharedBytes) + " bytes of shared memory are asked for; 0 to 2^20 are possible";
    return {};
  }

  std::string check(const LaunchCall &call) {
    if (call.kernel >= plan.kernels.size())
      return "kernel " + number(call.kernel) + " does not exist; there are " + std::to_string(plan.kernels.size());
    if (std::string problem = checkShape(call); !problem.empty())
      return problem;
    const KernelCode &kernel = plan.kernels[call.kernel];
    const int64_t bytes = static_cast<int64_t>(call.parameters.size());
    if (bytes > maxParameterBytes)
      return number(bytes) + " bytes of parameters; " + number(maxParameterBytes) + " at most";
    if (call.parameterOffsets.size() != kernel.arguments)
      return std::to_string(call.parameterOffsets.size()) + " parameters are passed; kernel `" + kernel.symbol +
             "` takes " + number(kernel.arguments);
    int64_t last = -1;
    for (int64_t offset : call.parameterOffsets) {
      if (offset <= last || offset >= bytes)
        return "a parameter starts at byte " + number(offset) + " of " + number(bytes) +
               "; parameters are in order and inside";
      last = offset;
    }
    if (std::string problem = checkSlots(call.pointerSlots, bytes); !problem.empty())
      return problem;
    if (call.mapSlots.size() > 64)
      return std::to_string(call.mapSlots.size()) + " tensor maps; 64 at most";
    for (const MapSlot &slot : call.mapSlots)
      if (std::string problem = check(slot, bytes); !problem.empty())
        return problem;
    return {};
  }

  std::string check(const FillCall &call) { return checkUse(call.target, true); }

  std::string check(const CustomTensor &tensor, bool written) {
    if (std::string problem = checkUse(tensor.buffer, written); !problem.empty())
      return problem;
    const TensorSpec spec{"", tensor.dtype, tensor.shape};
    if (static_cast<size_t>(tensor.dtype) >= dtypeTable.size() || tensor.shape.size() > static_cast<size_t>(maxRank) ||
        checkedElements(spec) < 0 || spec.bytes() != plan.buffers[tensor.buffer].bytes)
      return "a custom op's tensor is not all of buffer " + number(tensor.buffer) + ", which has " +
             number(plan.buffers[tensor.buffer].bytes) + " bytes";
    return {};
  }

  std::string check(const CustomCall &call) {
    if (call.name.empty())
      return "a custom op has no name";
    if (call.host < 0 || (call.host == 0) == call.library.empty() || call.library.empty() != call.symbol.empty())
      return "custom op `" + call.name + "` names no function; it has a library and a symbol, or is of this process";
    if (!call.library.empty() && call.library.front() != '/')
      return "custom op `" + call.name + "` names the library '" + call.library + "'; an absolute path is expected";
    for (const CustomTensor &tensor : call.inputs)
      if (std::string problem = check(tensor, false); !problem.empty())
        return problem;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const BufferId result = call.outputs[i].buffer;
      if (std::string problem = check(call.outputs[i], true); !problem.empty())
        return problem;
      for (const CustomTensor &tensor : call.inputs)
        if (overlap(result, tensor.buffer))
          return "a result of custom op `" + call.name + "` overlaps an operand";
      for (size_t j = 0; j < i; ++j)
        if (overlap(result, call.outputs[j].buffer))
          return "two results of custom op `" + call.name + "` overlap";
    }
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

  std::string check(const BranchCall &call) {
    if (std::string problem = checkUse(call.predicate, false); !problem.empty())
      return problem;
    if (plan.buffers[call.predicate].bytes != 1)
      return "the predicate has " + number(plan.buffers[call.predicate].bytes) + " bytes; it has one";
    return {};
  }

  std::string check(const LoopCall &call) {
    if (call.count < 1 || call.count > maxTurns)
      return "it has " + number(call.count) + " turns; 1 to 2^31 are possible";
    for (const LoopSlice &slice : call.slices) {
      if (std::string problem = checkUse(slice.source, false); !problem.empty())
        return problem;
      if (std::string problem = checkUse(slice.target, true); !problem.empty())
        return problem;
      const int64_t whole = plan.buffers[slice.source].bytes, part = plan.buffers[slice.target].bytes;
      if (whole % call.count != 0 || whole / call.count != part)
        return "a slice has " + number(part) + " of " + number(whole) + " bytes; it is one of " + number(call.count) +
               " equal parts";
      if (overlap(slice.source, slice.target))
        return "source and target of a slice overlap";
    }
    return {};
  }

  const Plan &plan;
};

} // namespace

size_t partsOf(const Instruction &instruction) {
  if (const auto *branch = std::get_if<BranchCall>(&instruction.call))
    return size_t{branch->then} + branch->otherwise;
  const auto *loop = std::get_if<LoopCall>(&instruction.call);
  return loop ? loop->body : 0;
}

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
  for (const PointerTable &table : tables)
    total += static_cast<int64_t>(table.bytes.size());
  return total;
}

std::string_view name(Space space) {
  return spaceNames[static_cast<size_t>(space)];
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
