// 1. Compile, and remember the element types that the plan does not have: of kernels' results and of structured ops'.
// 2. Let the arena be a state, which this file owns, so that it can be looked at; matmuls' scratch stays an arena.
// 3. Run one instruction at a time. Before it, see which of its operands hold what is not finite; after it, look at its
//    results.
// 4. From the first output that is not finite go back: to the operand that was not, until all of them were.
#include "codegen/find_nan.h"
#include "codegen/check_values.h"
#include "codegen/cpu/kind.h"
#include "codegen/cpu/target.h"
#include "codegen/product.h"
#include "runtime/executable.h"
#include "runtime/plan_uses.h"
#include "runtime/printed.h"
#include "runtime/threads.h"
#include "llvm/Support/Format.h"
#include <cmath>
#include <cstring>
#include <utility>

using namespace mlir;

namespace tcc {
namespace {

using runtime::BufferId;
using runtime::DType;
using runtime::Space;

/// A buffer that an instruction writes, and what it holds.
struct Written {
  BufferId buffer;
  DType dtype;
};

/// The CPU as a target that remembers element types.
class TypedTarget final : public cpu::CpuTarget {
public:
  using CpuTarget::CpuTarget;

  runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const override {
    const size_t first = plan.instructions.size();
    if (runtime::Error error = CpuTarget::lower(call, plan, kernels))
      return error;
    Op made{first, plan.instructions.size(), {}};
    for (auto [buffer, result] : llvm::zip(call.results, call.op->getResults()))
      if (std::optional<DType> dtype = runtimeDType(tensorType(result).getElementType()))
        made.results.push_back({buffer, *dtype});
    ops.push_back(std::move(made));
    return {};
  }

  runtime::Expected<std::vector<std::string>> emit(ArrayRef<KernelSource> kernels) const override {
    sources = kernels.vec();
    return CpuTarget::emit(kernels);
  }

  /// What instruction `index` of the plan writes, as far as it has element types.
  std::vector<Written> writtenBy(const runtime::Plan &plan, size_t index) const {
    std::vector<Written> written;
    for (const Op &op : ops)
      if (op.first <= index && index < op.last)
        return op.results;
    const auto *call = std::get_if<runtime::KernelCall>(&plan.instructions[index].call);
    if (!call)
      return written;
    const auto *kernel = std::get_if<FormKernel>(&sources[call->kernel]);
    if (!kernel)
      return written;
    const KernelInfo &form = kernel->form;
    for (const runtime::Segment &segment : call->segments)
      for (size_t r = 0; r < form.results.size(); ++r)
        written.push_back({segment.args[form.arguments.size() + r], static_cast<DType>(form.results[r].type)});
    return written;
  }

private:
  struct Op {
    size_t first, last;
    std::vector<Written> results;
  };
  mutable std::vector<Op> ops; // structured ones
  mutable std::vector<KernelSource> sources;
};

/// How far values are from finite, the worst last: a mask has infinities and leads to no NaN.
enum class Kind : uint8_t { finite, negativeInfinity, infinity, nan };

struct Contents {
  Kind kind = Kind::finite;
  int64_t count = 0, elements = 0; // that are not finite, of all
  int64_t first = 0;               // of them
  double value = 0;                // of the first
};

Contents look(const char *data, int64_t bytes, DType dtype) {
  Contents seen;
  if (!runtime::isFloat(dtype) || runtime::byteSize(dtype) < 2)
    return seen;
  const std::string values(data, static_cast<size_t>(bytes));
  seen.elements = bytes / runtime::byteSize(dtype);
  for (int64_t i = 0; i < seen.elements; ++i) {
    const double value = elementAt(values, dtype, i);
    if (std::isfinite(value))
      continue;
    if (seen.count++ == 0)
      seen.first = i, seen.value = value;
    seen.kind = std::max(seen.kind, std::isnan(value) ? Kind::nan
                                    : value > 0       ? Kind::infinity
                                                      : Kind::negativeInfinity);
  }
  return seen;
}

/// What lies in a range of bytes, and who wrote it.
struct KeptValue {
  Space space;
  uint32_t index;
  int64_t begin, end;
  std::optional<size_t> writer; ///< an instruction; nothing: what the step was given
  Contents contents;
};

class Search {
public:
  Search(const TypedTarget &target, runtime::Plan plan) : target(target), plan(std::move(plan)) {}

  runtime::Expected<std::string> run(std::vector<std::string> code, const StepValue &valueOf) {
    runtime::silencePrints(plan);
    if (runtime::Error error = allocate(valueOf))
      return error;
    auto executable = runtime::Executable::load(runtime::Artefact{{{"cpu", "", ownArena(), std::move(code)}}, {}},
                                                {.threads = plan.threads});
    if (!executable)
      return executable.error();
    runtime::PartialStep step;
    operands.resize(plan.instructions.size());
    for (size_t i = 0; i < plan.instructions.size();) {
      const size_t end = i + 1 + runtime::partsOf(plan.instructions[i]); // a branch or a loop is one
      for (size_t part = i; part < end; ++part)
        readBy(i, part);
      auto done = (*executable)->runPart(inputs, outputs, states, step, end);
      if (!done)
        return done.error();
      for (size_t part = i; part < end; ++part)
        writtenBy(i, part);
      i = end;
    }
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const std::vector<KeptValue> found =
          valuesIn(Space::output, static_cast<uint32_t>(i), 0, plan.outputs[i].bytes());
      if (!found.empty())
        return origin(found);
    }
    return std::string();
  }

private:
  const TypedTarget &target;
  runtime::Plan plan;
  std::vector<runtime::TensorStorage> memory;
  std::vector<runtime::ConstTensorRef> inputs;
  std::vector<runtime::TensorRef> outputs, states; // the last state is the arena
  std::vector<KeptValue> values;                   // newest last; those that are finite hide older ones
  std::vector<std::vector<KeptValue>> operands;    // of each instruction: those that were not finite

  runtime::Expected<runtime::TensorRef> allocate(int64_t bytes, const std::string &contents) {
    auto storage = runtime::TensorStorage::zeros(std::max<int64_t>(bytes, 1));
    if (!storage)
      return storage.error();
    memory.push_back(std::move(*storage));
    std::memcpy(memory.back().data(), contents.data(), contents.size());
    return runtime::TensorRef{memory.back().data(), bytes};
  }

  /// Memory with what the step is given for `spec`, which is remembered as a value that nothing wrote.
  runtime::Expected<runtime::TensorRef> allocate(Space space, size_t index, const runtime::TensorSpec &spec,
                                                 const StepValue &valueOf) {
    const std::string value = valueOf(spec, space == Space::state);
    if (static_cast<int64_t>(value.size()) != spec.bytes())
      return runtime::Error("'" + spec.name + "' has " + std::to_string(value.size()) + " bytes; the step takes " +
                            std::to_string(spec.bytes()));
    auto tensor = allocate(spec.bytes(), value);
    if (tensor)
      values.push_back({space, static_cast<uint32_t>(index), 0, spec.bytes(), std::nullopt,
                        look(static_cast<const char *>(tensor->data), spec.bytes(), spec.dtype)});
    return tensor;
  }

  runtime::Error allocate(const StepValue &valueOf) {
    for (auto [i, spec] : llvm::enumerate(plan.inputs)) {
      auto input = allocate(Space::input, i, spec, valueOf);
      if (!input)
        return input.error();
      inputs.push_back({input->data, input->bytes});
    }
    for (const runtime::TensorSpec &spec : plan.outputs) {
      auto output = allocate(spec.bytes(), {});
      if (!output)
        return output.error();
      outputs.push_back(*output);
    }
    for (auto [i, spec] : llvm::enumerate(plan.states)) {
      auto state = allocate(Space::state, i, spec, valueOf);
      if (!state)
        return state.error();
      states.push_back(*state);
    }
    auto arena = allocate(std::max<int64_t>(plan.arenaBytes, 1), {});
    if (!arena)
      return arena.error();
    states.push_back(*arena);
    return {};
  }

  /// The plan with its arena as one more state.
  runtime::Plan ownArena() const {
    runtime::Plan own = plan;
    const auto arena = static_cast<uint32_t>(own.states.size());
    own.states.push_back({"the step's memory", DType::i1, {states.back().bytes}});
    own.arenaBytes = 0;
    for (runtime::Buffer &buffer : own.buffers)
      if (buffer.space == Space::arena)
        buffer = {Space::state, arena, buffer.offset, buffer.bytes};
    for (runtime::Instruction &instruction : own.instructions)
      runtime::visitBuffers(instruction, plan.lists(), [&](BufferId &id, const runtime::BufferUse &use) {
        if (!use.scratch)
          return;
        const int64_t bytes = own.buffers[id].bytes;
        own.arenaBytes = std::max(own.arenaBytes, bytes);
        id = static_cast<BufferId>(own.buffers.size());
        own.buffers.push_back({Space::arena, 0, 0, bytes});
      });
    return own;
  }

  /// What lies there and is not finite.
  std::vector<KeptValue> valuesIn(Space space, uint32_t index, int64_t begin, int64_t end) const {
    std::vector<KeptValue> found;
    for (const KeptValue &value : llvm::reverse(values)) {
      if (value.space != space || value.index != index || value.end <= begin || value.begin >= end)
        continue;
      if (value.contents.kind != Kind::finite)
        found.push_back(value);
      if (value.begin <= begin && end <= value.end)
        break;
    }
    return found;
  }
  std::vector<KeptValue> valuesIn(BufferId id) const {
    const runtime::Buffer &buffer = plan.buffers[id];
    return valuesIn(buffer.space, buffer.index, buffer.offset, buffer.offset + buffer.bytes);
  }

  void readBy(size_t number, size_t part) {
    runtime::forEachUse(plan, plan.instructions[part], [&](BufferId id, const runtime::BufferUse &use) {
      if (use.read)
        llvm::append_range(operands[number], valuesIn(id));
    });
  }

  const char *addressOf(const runtime::Buffer &buffer) const {
    const char *base = buffer.space == Space::arena    ? static_cast<const char *>(states.back().data)
                       : buffer.space == Space::output ? static_cast<const char *>(outputs[buffer.index].data)
                                                       : static_cast<const char *>(states[buffer.index].data);
    return base + buffer.offset;
  }

  void writtenBy(size_t number, size_t part) {
    const auto add = [&](BufferId id, const Contents &contents) {
      const runtime::Buffer &buffer = plan.buffers[id];
      values.push_back({buffer.space, buffer.index, buffer.offset, buffer.offset + buffer.bytes, number, contents});
    };
    const std::vector<Written> typed = target.writtenBy(plan, part);
    for (const Written &each : typed)
      add(each.buffer, look(addressOf(plan.buffers[each.buffer]), plan.buffers[each.buffer].bytes, each.dtype));
    if (!typed.empty())
      return;
    // Bytes without a type are moved: what is not finite among what was read goes on.
    Contents moved;
    runtime::forEachUse(plan, plan.instructions[part], [&](BufferId id, const runtime::BufferUse &use) {
      for (const KeptValue &value : use.read ? valuesIn(id) : std::vector<KeptValue>())
        if (value.contents.kind > moved.kind)
          moved = value.contents;
    });
    runtime::forEachUse(plan, plan.instructions[part], [&](BufferId id, const runtime::BufferUse &use) {
      if (use.written)
        add(id, moved);
    });
  }

  /// Back from values that are not finite to the instruction that made the first of them, in words.
  std::string origin(std::vector<KeptValue> found) const {
    for (;;) {
      const KeptValue &worst = *std::ranges::max_element(found, [](const KeptValue &a, const KeptValue &b) {
        const auto order = [](const KeptValue &value) { // of several kinds NaN; of several writers the first
          return std::pair(value.contents.kind, -static_cast<int64_t>(value.writer ? *value.writer + 1 : 0));
        };
        return order(a) < order(b);
      });
      if (!worst.writer)
        return (worst.space == Space::state ? "state `" + plan.states[worst.index].name
                                            : "input `" + plan.inputs[worst.index].name) +
               "`, before the step: " + wordsOf(worst.contents);
      if (operands[*worst.writer].empty()) {
        const runtime::Instruction &instruction = plan.instructions[*worst.writer];
        const std::string source = runtime::firstSource(instruction);
        return "`" + instruction.label + "`" + (source.empty() ? "" : " (" + source + ")") + ": " +
               wordsOf(worst.contents);
      }
      found = operands[*worst.writer];
    }
  }

  /// "3 of 4096 values are not finite, the first of them, value 17, is inf".
  static std::string wordsOf(const Contents &contents) {
    return std::to_string(contents.count) + " of " + std::to_string(contents.elements) +
           " values are not finite, the first of them, value " + std::to_string(contents.first) + ", is " +
           (std::isnan(contents.value) ? "NaN"
            : contents.value > 0       ? "inf"
                                       : "-inf");
  }
};

} // namespace

runtime::Expected<std::string> findNonFinite(OwningOpRef<ModuleOp> module, const CompileOptions &given,
                                             const StepValue &valueOf) {
  CompileOptions options = given;
  options.threads = options.threads > 0 ? options.threads : runtime::availableThreads();
  const TypedTarget target(cpu::hostOptions(options.targetName, options.code), options.threads);
  options.target = &target;
  auto artefact = compileArtefact(std::move(module), std::move(options));
  if (!artefact)
    return artefact.error();
  runtime::TargetCode &part = artefact->targets.front();
  return Search(target, std::move(part.plan)).run(std::move(part.code), valueOf);
}

} // namespace tcc
