// 1. Compile for the device; on the way, keep each kernel call as it was before it became launches, and compile the
//    same kernel forms for the CPU.
// 2. Give inputs, outputs, states, constants and the arena memory of the device that this file owns.
// 3. For each instruction of the step in order: read its operands back, run what it became on the device as a step of
//    its own, read its results back, compute them on the CPU, compare.
#include "codegen/check_device.h"
#include "codegen/check_lowered.h"
#include "codegen/cpu/kind.h"
#include "codegen/cpu/target.h"
#include "codegen/partial_plan.h"
#include "codegen/targets.h"
#include "runtime/executable.h"
#include "runtime/threads.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include <map>

using namespace mlir;

namespace tcc {
namespace {

using runtime::BufferId;
using runtime::Space;

/// The symbol of a kernel's form with its roundings moved.
std::string movedSymbol(const std::string &symbol, unsigned variant) {
  return symbol + "_moved" + std::to_string(variant);
}

/// Compiles as the device's target does. It keeps what that target made of each instruction, and the same kernels
/// compiled for the CPU.
class CheckTarget final : public Target {
public:
  CheckTarget(const Target &target, const cpu::CpuTarget &cpu) : cpu(cpu), target(target) {}

  const TargetModel &model() const override { return target.model(); }
  bool supports(StringRef op) const override { return target.supports(op); }
  KernelLaunch launch(const KernelInfo &form) const override { return target.launch(form); }
  bool hasKernel(Operation *op) const override { return target.hasKernel(op); }
  int64_t scratchBytes(Operation *op) const override { return target.scratchBytes(op); }
  FastProducts fastProducts() const override { return target.fastProducts(); }
  std::string codeName() const override { return target.codeName(); }
  runtime::Expected<std::string> needs() const override { return target.needs(); }

  /// Instructions [first, last) of the final plan, which the target made of a single one. That was instruction `number`
  /// before lowerKernels(); if it was a kernel call, `call` is a copy of it.
  struct Group {
    size_t first = 0, last = 0;
    std::optional<runtime::KernelCall> call;
    size_t number = 0;
  };

  runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const override {
    const size_t first = plan.instructions.size();
    if (runtime::Error error = target.lower(call, plan, kernels))
      return error;
    const auto isLaunch = [](const runtime::Instruction &made) {
      return std::holds_alternative<runtime::LaunchCall>(made.call);
    };
    if (llvm::any_of(llvm::drop_begin(plan.instructions, first), isLaunch)) {
      auto alone = std::make_shared<OwningOpRef<func::FuncOp>>(functionAround(call.op));
      lowered.push_back({first, plan.instructions.size(), std::move(alone), call});
    }
    return {};
  }

  runtime::Error lowerKernels(ArrayRef<KernelSource> kernels, runtime::Plan &plan) const override {
    std::vector<std::optional<runtime::KernelCall>> calls; // by Origin::number; nothing for other instructions
    for (const runtime::Instruction &instruction : plan.instructions) {
      const auto *call = std::get_if<runtime::KernelCall>(&instruction.call);
      calls.push_back(call ? std::optional(*call) : std::nullopt);
    }
    if (runtime::Error error = target.lowerKernels(kernels, plan))
      return error;
    groups.clear();
    size_t previous = calls.size();
    for (auto [i, instruction] : llvm::enumerate(plan.instructions)) {
      const size_t number = instruction.origin.number;
      if (number != previous)
        groups.push_back({i, i, calls[number], number});
      groups.back().last = i + 1;
      previous = number;
    }
    return {};
  }

  runtime::Expected<std::vector<std::string>> emit(ArrayRef<KernelSource> kernels) const override {
    sources = kernels.vec();
    std::vector<KernelSource> forms; // the others are texts for the device
    for (const KernelSource &source : kernels)
      if (const auto *form = std::get_if<FormKernel>(&source)) {
        forms.push_back(source);
        for (unsigned variant = 0; variant < roundingVariants; ++variant)
          if (auto moved = withRoundingsMoved(form->form, variant)) {
            FormKernel other = *form;
            other.symbol = movedSymbol(form->symbol, variant);
            other.form = std::move(*moved);
            forms.push_back(std::move(other));
          }
      }
    runtime::Expected<std::vector<std::string>> code = cpu.emit(forms);
    if (!code)
      return code.error();
    cpuCode = code->empty() ? "" : std::move(code->front());
    return target.emit(kernels);
  }

  const cpu::CpuTarget &cpu;
  mutable std::vector<Group> groups;
  mutable std::vector<LoweredOp> lowered; // ops that became launches; their instructions count as Group::number does
  mutable std::vector<KernelSource> sources;
  mutable std::string cpuCode;

private:
  const Target &target;
};

class StepCheck {
public:
  StepCheck(const CheckTarget &target, const runtime::TargetCode &part, std::shared_ptr<runtime::Device> device,
            CompileOptions cpuOptions)
      : target(target), plan(part.plan), part(part), device(std::move(device)), loweredCheck(std::move(cpuOptions)) {}

  runtime::Expected<DeviceCheck> run(const StepValue &valueOf) {
    if (runtime::Error error = allocate(valueOf))
      return error;
    for (const Group &group : target.groups) {
      const LoweredOp *op = group.call ? nullptr : loweredAt(group.number);
      runtime::Error error =
          group.call ? checkKernel(group)
          : op ? checkLowered(group, *op)
               : std::visit([&](const auto &call) { return check(group, call); }, plan.instructions[group.first].call);
      if (error)
        return error;
      if (!found.difference.empty())
        break;
    }
    return std::move(found);
  }

private:
  using Group = CheckTarget::Group;

  const CheckTarget &target;
  const runtime::Plan &plan;
  const runtime::TargetCode &part;
  std::shared_ptr<runtime::Device> device;
  std::vector<runtime::DeviceMemory> blocks; // arena, inputs, outputs, states, constants
  DeviceCheck found;
  LoweredCheck loweredCheck;
  std::vector<RefTensor> operands; // of the op of several instructions that is under way

  const LoweredOp *loweredAt(size_t number) const {
    const auto op = llvm::find_if(target.lowered,
                                  [&](const LoweredOp &each) { return each.first <= number && number < each.last; });
    return op == target.lowered.end() ? nullptr : &*op;
  }

  size_t blockOf(const runtime::Buffer &buffer) const {
    const size_t inputs = 1, outputs = inputs + plan.inputs.size(), states = outputs + plan.outputs.size(),
                 constants = states + plan.states.size();
    const size_t first[] = {0, inputs, outputs, states, constants};
    return first[static_cast<size_t>(buffer.space)] + buffer.index;
  }

  runtime::Error addBlock(const std::string &bytes) {
    auto block = device->allocate(std::max<int64_t>(static_cast<int64_t>(bytes.size()), 1));
    if (!block)
      return block.error();
    blocks.push_back(std::move(*block));
    if (bytes.empty())
      return {};
    return device->copyIn(blocks.back().address, bytes.data(), static_cast<int64_t>(bytes.size()));
  }

  runtime::Error allocate(const StepValue &valueOf) {
    const auto unwritten = [](int64_t bytes) { return std::string(static_cast<size_t>(bytes), '\xff'); };
    runtime::Error error = addBlock(unwritten(plan.arenaBytes));
    const auto addBlocks = [&](const auto &values, auto &&bytesOf) {
      for (const auto &value : values)
        if (!error)
          error = addBlock(bytesOf(value));
    };
    addBlocks(plan.inputs, [&](const runtime::TensorSpec &spec) { return valueOf(spec, false); });
    addBlocks(plan.outputs, [&](const runtime::TensorSpec &spec) { return unwritten(spec.bytes()); });
    addBlocks(plan.states, [&](const runtime::TensorSpec &spec) { return valueOf(spec, true); });
    addBlocks(plan.constants, [](const std::string &constant) { return constant; });
    return error;
  }

  /// The bytes of buffers; none where there is no buffer.
  runtime::Expected<std::vector<std::string>> readBack(ArrayRef<BufferId> ids) const {
    std::vector<std::string> values;
    for (BufferId id : ids) {
      values.emplace_back();
      if (id == runtime::noBuffer || plan.buffers[id].bytes == 0)
        continue;
      const runtime::Buffer &buffer = plan.buffers[id];
      values.back().resize(static_cast<size_t>(buffer.bytes));
      if (runtime::Error error =
              device->copyOut(values.back().data(), blocks[blockOf(buffer)].address + buffer.offset, buffer.bytes))
        return error;
    }
    return values;
  }
  runtime::Expected<std::string> readBack(BufferId id) const {
    auto values = readBack(ArrayRef(id));
    if (!values)
      return values.error();
    return std::move(values->front());
  }

  runtime::Error runOnDevice(const Group &group);
  runtime::Error checkKernel(const Group &group);
  runtime::Expected<std::vector<std::string>>
  runOnCpu(const runtime::KernelCall &call, const std::vector<std::string> &arguments, const std::string &symbol) const;
  runtime::Error checkLowered(const Group &group, const LoweredOp &op);

  // How each kind of instruction is checked that is neither a kernel of a form nor of a structured op.
  runtime::Error check(const Group &group, const runtime::MatmulCall &product);
  runtime::Error check(const Group &group, const runtime::LoopCall &loop);
  runtime::Error check(const Group &group, const runtime::CopyCall &copy);
  runtime::Error check(const Group &group, const runtime::FillCall &fill);
  runtime::Error check(const Group &group, const runtime::KernelCall &) { return runUnchecked(group); }
  runtime::Error check(const Group &group, const runtime::LaunchCall &) { return runUnchecked(group); }
  runtime::Error check(const Group &group, const runtime::CustomCall &) { return runUnchecked(group); }
  runtime::Error check(const Group &group, const runtime::CollectiveCall &) { return runUnchecked(group); }
  runtime::Error check(const Group &group, const runtime::WaitCall &) { return runUnchecked(group); }
  runtime::Error check(const Group &group, const runtime::BranchCall &) { return runUnchecked(group); }
  /// Runs instructions that have no counterpart on the CPU, and says that they are not checked.
  runtime::Error runUnchecked(const Group &group) {
    found.unchecked.push_back(plan.instructions[group.first].label);
    return runOnDevice(group);
  }
  /// Checks an instruction that moves bytes to `target`.
  runtime::Error checkMoved(const Group &group, BufferId target, const std::string &expected);

  void report(const runtime::Instruction &instruction, const std::string &where, const ValueDifference &difference);
};

runtime::Error StepCheck::runOnDevice(const Group &group) {
  PartialPlan partial(plan, blocks);
  for (size_t i = group.first; i < group.last; ++i)
    partial.add(plan.instructions[i], [&](const runtime::Buffer &buffer) { return blockOf(buffer); });
  std::vector<std::string> code;
  for (uint32_t module : partial.modules)
    code.push_back(part.code[module]);
  std::vector<runtime::TensorRef> states;
  for (const runtime::DeviceMemory &block : blocks)
    states.push_back({block.address, block.bytes});
  auto executable = runtime::Executable::load(
      runtime::Artefact{{{part.target, part.needs, std::move(partial.plan), std::move(code)}}, {}}, {.device = device});
  runtime::Error error = executable ? (*executable)->start({}, states).error() : executable.error();
  if (!error)
    error = (*executable)->finish();
  if (!error)
    return {};
  return runtime::Error("instruction " + std::to_string(group.first) + " `" + plan.instructions[group.first].label +
                        "` alone: " + error.message());
}

/// "kernel `gelu` (model.graph:7), instruction 12, result 0".
void StepCheck::report(const runtime::Instruction &instruction, const std::string &where,
                       const ValueDifference &difference) {
  if (!difference)
    return;
  const std::string source = runtime::firstSource(instruction);
  const auto number = [](double value) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%.9g", value);
    return text;
  };
  found.difference = std::string(runtime::wordsOf(instruction).category) + " `" + instruction.label + "`" +
                     (source.empty() ? "" : " (" + source + ")") + where + ": value " +
                     std::to_string(difference.index) + " is " + number(difference.device) + " on " + device->name() +
                     " and " + number(difference.cpu) +
                     " on the CPU, from the device's own operands; rounding explains " + number(difference.allowed);
}

/// The results of the call from these arguments (of all segments, results last), which hold what was there before.
/// `symbol` is the kernel's, or that of its form with moved roundings.
runtime::Expected<std::vector<std::string>> StepCheck::runOnCpu(const runtime::KernelCall &call,
                                                                const std::vector<std::string> &arguments,
                                                                const std::string &symbol) const {
  const auto &source = std::get<FormKernel>(target.sources[call.kernel]);
  const KernelLaunch launch = target.cpu.launch(source.form);
  const size_t results = source.form.results.size(), all = source.form.arguments.size() + results;
  runtime::Plan cpuPlan;
  cpuPlan.name = "check";
  cpuPlan.threads = runtime::availableThreads();
  cpuPlan.kernels = {{symbol, static_cast<uint32_t>(all), static_cast<uint32_t>(results), "", 0}};
  runtime::KernelCall made;
  made.granularity = launch.granularity;
  std::vector<runtime::TensorStorage> memory;
  std::vector<runtime::TensorRef> states;
  for (size_t s = 0; s < call.segments.size(); ++s) {
    // A form that is shared by tensors of several sizes has one of them; each segment has its result's.
    const auto elements = static_cast<int64_t>(arguments[(s + 1) * all - 1].size()) /
                          runtime::byteSize(static_cast<runtime::DType>(source.form.results.back().type));
    runtime::Segment segment;
    segment.extent = source.form.isSegment() ? elements : launch.extent;
    for (size_t i = 0; i < all; ++i) {
      const std::string &bytes = arguments[s * all + i];
      const auto size = static_cast<int64_t>(bytes.size()), stored = std::max<int64_t>(size, 1);
      auto storage = runtime::TensorStorage::zeros(stored);
      if (!storage)
        return storage.error();
      memory.push_back(std::move(*storage));
      std::memcpy(memory.back().data(), bytes.data(), bytes.size());
      states.push_back(memory.back().ref());
      const auto number = static_cast<uint32_t>(cpuPlan.states.size());
      cpuPlan.states.push_back({std::to_string(number), runtime::DType::i1, {stored}});
      cpuPlan.buffers.push_back({Space::state, number, 0, size});
      segment.args.push_back(number);
    }
    made.segments.push_back(std::move(segment));
  }
  runtime::Instruction instruction;
  instruction.call = std::move(made);
  cpuPlan.instructions = {std::move(instruction)};
  auto executable = runtime::Executable::load(runtime::cpuArtefact(std::move(cpuPlan), target.cpuCode));
  if (!executable)
    return executable.error();
  if (runtime::Error error = (*executable)->run({}, {}, states))
    return error;
  std::vector<std::string> values;
  for (size_t s = 0; s < call.segments.size(); ++s)
    for (size_t r = 0; r < results; ++r) {
      const size_t i = (s + 1) * all - results + r;
      values.emplace_back(static_cast<const char *>(memory[i].data()), arguments[i].size());
    }
  return values;
}

runtime::Error StepCheck::checkKernel(const Group &group) {
  constexpr uint32_t nudges = 2;
  const runtime::KernelCall &call = *group.call;
  const auto &source = std::get<FormKernel>(target.sources[call.kernel]);
  const std::string &symbol = source.symbol;
  const KernelInfo &form = source.form;
  const size_t inputs = form.arguments.size(), results = form.results.size(), all = inputs + results;
  SmallVector<BufferId> buffers;
  for (const runtime::Segment &segment : call.segments)
    llvm::append_range(buffers, segment.args);
  const auto before = readBack(buffers);
  if (!before)
    return before.error();
  if (runtime::Error error = runOnDevice(group))
    return error;
  const auto after = readBack(buffers);
  const auto cpu = after ? runOnCpu(call, *before, symbol) : after.error();
  if (!cpu)
    return cpu.error();
  std::vector<std::vector<std::string>> operands, roundings; // results from what was moved
  for (uint32_t seed = 1; seed <= nudges; ++seed) {
    std::vector<std::string> arguments = *before;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (i % all < inputs)
        arguments[i] = nudged(std::move(arguments[i]), static_cast<runtime::DType>(form.arguments[i % all].type),
                              seed * 77u + static_cast<uint32_t>(i));
    auto values = runOnCpu(call, arguments, symbol);
    if (!values)
      return values.error();
    operands.push_back(std::move(*values));
  }
  for (unsigned variant = 0; variant < roundingVariants; ++variant)
    if (withRoundingsMoved(form, variant)) {
      auto values = runOnCpu(call, *before, movedSymbol(symbol, variant));
      if (!values)
        return values.error();
      roundings.push_back(std::move(*values));
    }
  for (size_t s = 0; s < call.segments.size(); ++s)
    for (size_t r = 0; r < results; ++r) {
      const size_t at = s * results + r;
      NearbyResults nearby;
      for (const std::vector<std::string> &values : operands)
        nearby.operands.push_back(values[at]);
      for (const std::vector<std::string> &values : roundings)
        nearby.roundings.push_back(values[at]);
      const ValueDifference difference =
          compareResult((*after)[s * all + inputs + r], (*cpu)[at], nearby,
                        static_cast<runtime::DType>(form.results[r].type), longestSum(form));
      const size_t instruction = std::min(group.first + s, group.last - 1);
      report(plan.instructions[instruction],
             ", instruction " + std::to_string(instruction) + ", result " + std::to_string(r) +
                 (call.segments.size() > 1 ? " of segment " + std::to_string(s) : ""),
             difference);
      if (difference)
        return {};
    }
  ++found.kernels;
  return {};
}

runtime::Error StepCheck::checkLowered(const Group &group, const LoweredOp &op) {
  if (group.number == op.first) {
    const auto bytes = readBack(op.call.operands);
    if (!bytes)
      return bytes.error();
    operands = loweredCheck.operandsOf(op, *bytes);
  }
  if (runtime::Error error = runOnDevice(group))
    return error;
  if (group.number + 1 != op.last)
    return {};
  const auto results = readBack(op.call.results);
  if (!results)
    return results.error();
  const runtime::Instruction &instruction = plan.instructions[group.first];
  const auto compared = loweredCheck.compare(op, operands, *results);
  if (!compared) {
    found.unchecked.push_back(instruction.label);
    return {};
  }
  ++found.kernels;
  report(instruction,
         ", instruction " + std::to_string(group.first) + ", result " + std::to_string(compared->first) + " of the op",
         compared->second);
  return {};
}

runtime::Error StepCheck::check(const Group &group, const runtime::MatmulCall &product) {
  const BufferId addend = product.addend == runtime::noBuffer ? product.c : product.addend;
  auto before = readBack({product.a, product.b, product.bias, addend, product.aux});
  if (!before)
    return before.error();
  if (runtime::Error error = runOnDevice(group))
    return error;
  auto after = readBack(product.c);
  if (!after)
    return after.error();
  const auto part = [&](size_t i) { return std::move((*before)[i]); };
  const runtime::Expected<ValueDifference> difference =
      compareProduct(product.desc, {part(0), part(1), part(2), part(3), std::move(*after), part(4)});
  const runtime::Instruction &instruction = plan.instructions[group.first];
  if (!difference) {
    found.unchecked.push_back(instruction.label);
    return {};
  }
  ++found.products;
  report(instruction, ", instruction " + std::to_string(group.first), *difference);
  return {};
}

/// A loop's first turn stands for all turns; its slices are what that turn reads.
runtime::Error StepCheck::check(const Group &, const runtime::LoopCall &loop) {
  for (const runtime::LoopSlice &slice : loop.slices) {
    const runtime::Buffer &part = plan.buffers[slice.target];
    const auto source = readBack(slice.source);
    if (!source)
      return source.error();
    if (runtime::Error error = device->copyIn(blocks[blockOf(part)].address + part.offset, source->data(), part.bytes))
      return error;
  }
  return {};
}

runtime::Error StepCheck::check(const Group &group, const runtime::CopyCall &copy) {
  const auto source = readBack(copy.source);
  return source ? checkMoved(group, copy.target, *source) : source.error();
}

runtime::Error StepCheck::check(const Group &group, const runtime::FillCall &fill) {
  const auto bytes = static_cast<size_t>(plan.buffers[fill.target].bytes);
  return checkMoved(group, fill.target, std::string(bytes, static_cast<char>(fill.value)));
}

runtime::Error StepCheck::checkMoved(const Group &group, BufferId target, const std::string &expected) {
  if (runtime::Error error = runOnDevice(group))
    return error;
  const auto seen = readBack(target);
  if (!seen)
    return seen.error();
  ++found.copies;
  for (size_t i = 0; i < seen->size(); ++i)
    if ((*seen)[i] != expected[i]) {
      report(plan.instructions[group.first], ", instruction " + std::to_string(group.first) + ", in bytes",
             {static_cast<int64_t>(i), double(uint8_t((*seen)[i])), double(uint8_t(expected[i])), 0});
      break;
    }
  return {};
}

} // namespace

std::string DeviceCheck::text(const std::string &device) const {
  std::string words = "checked " + std::to_string(kernels) + " kernels, " + std::to_string(products) +
                      " products and " + std::to_string(copies) + " copies on " + device + " beside the CPU: ";
  words += difference.empty() ? "no value differs beyond rounding" : difference;
  if (!unchecked.empty())
    words += "; not checked, since the CPU has nothing like them: " + std::to_string(unchecked.size()) + ", such as `" +
             unchecked.front() + "`";
  return words;
}

runtime::Expected<DeviceCheck> checkDevice(OwningOpRef<ModuleOp> module, const CompileOptions &options,
                                           const std::shared_ptr<runtime::Device> &device, const StepValue &valueOf) {
  if (device->sharesHostMemory())
    return runtime::Error("a check of " + device->name() + " beside the CPU; a GPU can be checked");
  const int threads = options.threads > 0 ? options.threads : runtime::availableThreads();
  const cpu::CpuTarget cpu(cpu::hostOptions(options.targetName, options.code), threads);
  const auto own = makeTarget(device->codeTarget(), options.code, threads);
  if (!own)
    return own.error();
  const CheckTarget target(**own, cpu);
  CompileOptions checked = options;
  checked.target = &target;
  checked.device = nullptr; // custom ops are compared like the others
  checked.pipeline.verifyEach = false;
  const auto artefact = compileArtefact(std::move(module), std::move(checked));
  if (!artefact)
    return artefact.error();
  CompileOptions alone;
  alone.code = options.code;
  alone.threads = options.threads;
  return StepCheck(target, artefact->targets.front(), device, std::move(alone)).run(valueOf);
}

} // namespace tcc
